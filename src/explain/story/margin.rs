//! The nearest miss of a run, as an event: the write, and what kept it safe.

use lockstorm_platform::time::Nanos;
use lockstorm_platform::trace::KeyChange;

use crate::check::nearest_miss::NearestMiss;
use crate::explain::evidence::Evidence;
use crate::explain::hold::StoryHold;
use crate::explain::life::StoryLife;
use crate::explain::story::{Beat, Weight};
use crate::explain::witness::Witness;
use crate::history::{Access, Seen, Sighting};
use crate::quantity::{moment, rounded};

/// The write that the checks measured; nothing if it is not in the history.
pub fn beat(witness: &Witness<'_>) -> Option<Beat> {
    let nearest = witness.finding.judgement.nearest.as_ref()?;
    let hold = witness.tenures.iter().find(|hold| hold.grant.id == nearest.grant)?;
    let access = witness.history().accesses.get(nearest.write)?;
    let who = &hold.grant.caller;
    let mut evidence = vec![Evidence::Op(hold.grant.id), Evidence::Access(nearest.write)];
    let by = rounded(nearest.by.unsigned_abs());
    if nearest.node.is_empty() {
        let text = format!(
            "The nearest miss: {who} writes {by} after its grant, and nothing would have kept \
             another out since; nobody came."
        );
        return Some(Beat::new(Weight::Crux, access.at, text, evidence));
    }
    let node = &nearest.node;
    let free = free(access, nearest);
    let ended = witness.lives.iter().find(|life| Some(life.born) == nearest.key);
    let own = || {
        let is_own = |life: &&StoryLife| life.owner.is_some_and(|owner| witness.is_of(hold, owner));
        let mut here =
            witness.lives.iter().filter(|life| life.node == *node && life.from.at <= free);
        here.rfind(is_own)
    };
    if let Some(life) = ended.or_else(own) {
        evidence.push(Evidence::Key(life.born));
    }
    let over = match ended {
        _ if nearest.resumed => Over::Resumed,
        Some(life) if is_older(witness, hold, life) => {
            Over::Older { removed: removed(witness, life, free).is_some() }
        }
        Some(life) => removed(witness, life, free).map_or(Over::Due, Over::Removed),
        None => Over::Led { again: has_led(witness, node, free) },
    };
    let text = match nearest.by < 0 {
        true => {
            let over = over.before_the_write(node);
            format!("The nearest miss: {who} writes {by} after {over}; nobody else was let in.")
        }
        false => {
            let (end, under) = (over.after_the_write(node), moment(hold.from.at));
            format!("The nearest miss: {who} writes {by} before {end}, under its grant at {under}.")
        }
    };
    Some(Beat::new(Weight::Crux, access.at, text, evidence))
}

/// How a node became free for others.
enum Over {
    /// It ran again without the tenure's key.
    Resumed,
    /// A key older than the tenure's expired or, if `removed`, was removed before it expired.
    Older { removed: bool },
    /// The tenure's key expired.
    Due,
    /// This change removed the tenure's key before the key expired.
    Removed(KeyChange),
    /// It became a master without the key; `again` if it had led before.
    Led { again: bool },
}

impl Over {
    fn before_the_write(&self, node: &str) -> String {
        match self {
            Over::Resumed => format!("{node} ran again without its key"),
            Over::Older { removed: false } => format!("an older key on {node} was over"),
            Over::Older { removed: true } => format!("an older key on {node} was gone"),
            Over::Due => format!("its key on {node} was over"),
            Over::Removed(_) => format!("its key on {node} was gone"),
            Over::Led { .. } => format!("{node} led without its key"),
        }
    }

    fn after_the_write(&self, node: &str) -> String {
        match self {
            Over::Resumed => format!("{node} runs again without its key"),
            Over::Older { removed: false } => format!("an older key on {node} is over"),
            Over::Older { removed: true } => format!("an older key on {node} is removed"),
            Over::Due => format!("its key on {node} would have been over"),
            Over::Removed(KeyChange::LostAtRestart | KeyChange::LostAtFailover) => {
                format!("{node} leads again without its key")
            }
            Over::Removed(KeyChange::Set | KeyChange::Changed) => {
                format!("its key on {node} is taken over")
            }
            Over::Removed(_) => format!("its key on {node} is removed"),
            Over::Led { again } => {
                let again = if *again { " again" } else { "" };
                format!("{node} leads{again} without its key")
            }
        }
    }
}

/// When another could have been granted the lock, ns.
fn free(wrote: &Access, nearest: &NearestMiss) -> Nanos {
    wrote.at.at.saturating_add_signed(nearest.by)
}

/// Whether a key is older than a grant and does not belong to the tenure of that grant.
fn is_older(witness: &Witness<'_>, hold: &StoryHold<'_>, life: &StoryLife) -> bool {
    let is_others = life.owner.is_some_and(|owner| !witness.is_of(hold, owner));
    let set = &witness.history().keys[life.born];
    is_others && witness.reading.is_from_before(set, hold.from.into())
}

/// What removed a key before it expired, if that removal is what let others in.
fn removed(witness: &Witness<'_>, life: &StoryLife, free: Nanos) -> Option<KeyChange> {
    let change = witness.history().keys.get(life.end?)?.change;
    (life.until.at == free && change != KeyChange::Expired).then_some(change)
}

/// Whether a node had led before the moment from which it led; true if it never reported a role.
fn has_led(witness: &Witness<'_>, node: &str, free: Nanos) -> bool {
    let leads = |seen: &&Sighting| seen.what == Seen::Leads && seen.by == node;
    let mut led = witness.history().sightings.iter().filter(leads);
    led.next().is_none_or(|led| led.at.at < free)
}
