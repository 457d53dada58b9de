//! The nearest miss of a run, as an event: the write, and what kept it safe.

use lockstorm_platform::time::Nanos;
use lockstorm_platform::trace::KeyChange;

use crate::check::nearest_miss::NearestMiss;
use crate::explain::hold::StoryHold;
use crate::explain::life::StoryLife;
use crate::explain::story::{Beat, Evidence, Weight};
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
            format!("The nearest miss: {who} writes {by} before {end}, under its grant of {under}.")
        }
    };
    Some(Beat::new(Weight::Crux, access.at, text, evidence))
}

/// How a node became free for others.
enum Over {
    /// It ran again.
    Resumed,
    /// An older key than that of the tenure was over, or was removed before.
    Older { removed: bool },
    /// The time to live of the tenure's key was over.
    Due,
    /// This removed the key before.
    Removed(KeyChange),
    /// It led without the key, perhaps not for the first time.
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

/// When another could have been let in, ns.
fn free(wrote: &Access, nearest: &NearestMiss) -> Nanos {
    wrote.at.at.saturating_add_signed(nearest.by)
}

/// Whether a key is from before a grant, and not the tenure's own.
fn is_older(witness: &Witness<'_>, hold: &StoryHold<'_>, life: &StoryLife) -> bool {
    let is_others = life.owner.is_some_and(|owner| !witness.is_of(hold, owner));
    let set = &witness.history().keys[life.born];
    is_others && witness.reading.is_from_before(set, hold.from.into())
}

/// What removed a key as it let others in, before its lease was over.
fn removed(witness: &Witness<'_>, life: &StoryLife, free: Nanos) -> Option<KeyChange> {
    let change = witness.history().keys.get(life.end?)?.change;
    (life.until.at == free && change != KeyChange::Expired).then_some(change)
}

/// Whether a node had led before it did so from a moment on.
fn has_led(witness: &Witness<'_>, node: &str, free: Nanos) -> bool {
    let leads = |seen: &&Sighting| seen.what == Seen::Leads && seen.by == node;
    let mut led = witness.history().sightings.iter().filter(leads);
    led.next().is_none_or(|led| led.at.at < free)
}
