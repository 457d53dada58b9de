//! Why a key that should have kept others out was gone when another caller acquired.

use lockstorm_platform::time::{Clock, MILLISECOND, Nanos};
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::check::verdict::Kind;
use crate::explain::evidence::Evidence;
use crate::explain::hold::op;
use crate::explain::life::StoryLife;
use crate::explain::mechanism::clock::{Known, disturbed, known};
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::mechanism::reclaim::{Reclaim, reclaimed};
use crate::explain::mechanism::renewal::lied;
use crate::explain::mechanism::theft::stolen;
use crate::explain::trial::is_clock_idle;
use crate::explain::witness::Witness;
use crate::history::{Key, Op, OpId, OpKind, Request, Seen};
use crate::quantity::{length, moment};
use crate::reading::key_life::Touch;
use crate::reading::moment::Moment;

/// How the key of a life ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyEnding {
    /// By something other than its expiry.
    Taken(Mechanism),
    /// By its expiry: the only question is why its holder continued.
    RanOut,
    /// It still existed.
    There,
}

/// How a key of `owner` had ended by a moment.
pub fn ending(witness: &Witness<'_>, life: &StoryLife, owner: OpId, by: Moment) -> KeyEnding {
    let reading = &witness.reading;
    let Some(whose) = witness.caller(owner) else { return KeyEnding::There };
    let node = &life.node;
    let mut evidence = vec![Evidence::Op(owner), Evidence::Key(life.born)];
    let ended = life.end.filter(|_| Moment::from(life.until) <= by);
    let Some((index, key)) = ended.and_then(|end| Some((end, witness.history().keys.get(end)?)))
    else {
        return if witness.passes(life) <= by {
            time(witness, life, owner, by)
        } else {
            KeyEnding::There
        };
    };
    evidence.push(Evidence::Key(index));
    // A replica only repeats the end of its master's key, so that key's end has the reason.
    if let Some(first) = obeyed(witness, life, owner, key) {
        return ending(witness, first, owner, by);
    }
    if was_due(witness, life, owner, key, by) {
        let by_time = time(witness, life, owner, by);
        // A wrong clock is to blame only if the key expired before it was removed.
        if by_time == KeyEnding::RanOut || witness.passes(life) <= key.at.into() {
            return by_time;
        }
    }
    let taken =
        |how, sentence: String, evidence| KeyEnding::Taken(Mechanism::new(how, sentence, evidence));
    match (key.change, key.by.and_then(|by| op(reading.history, by))) {
        (KeyChange::Expired, _) => time(witness, life, owner, by),
        // The lease was over, so nobody relied on the key when another caller took it over.
        (KeyChange::Changed, _) if is_over(witness, owner, key) => KeyEnding::RanOut,
        (_, Some(by)) if takes_over(witness, owner, key, by) => KeyEnding::RanOut,
        _ if let Some(found) = reclaimed(witness, index, owner) => match found {
            Reclaim::Due => KeyEnding::RanOut,
            Reclaim::Early(mechanism) => KeyEnding::Taken(mechanism),
        },
        (KeyChange::Changed, Some(by)) => {
            let text = format!(
                "{}'s {} at {} took over {whose}'s key on {node}, whose lease was not over.",
                by.caller,
                by.kind.noun(),
                moment(by.call.at)
            );
            evidence.push(Evidence::Op(by.id));
            let found = emptied(witness, life, owner).or_else(|| {
                let hold = witness.tenures.iter().find(|hold| witness.is_of(hold, owner))?;
                lied(witness, hold, (Moment::default(), key.at.into()))
            });
            let taken = || Mechanism::new(How::Overwritten, text, evidence);
            KeyEnding::Taken(found.unwrap_or_else(taken))
        }
        (KeyChange::LostAtRestart, _) => {
            let text = format!("{node} was started again without {whose}'s key.");
            taken(How::Forgotten, text, evidence)
        }
        (KeyChange::LostAtFailover, _) => {
            let text = format!(
                "{node} took over all that its master had, and {whose}'s key was not there."
            );
            taken(How::LostInResync, text, evidence)
        }
        (KeyChange::Evicted, _) | (_, None) => {
            taken(How::Removed, format!("{node} removed {whose}'s key."), evidence)
        }
        (_, Some(by)) => KeyEnding::Taken(by_hand(witness, life, (owner, whose), index, by)),
    }
}

/// The mechanism for a key that an operation overwrote or deleted.
fn by_hand(
    witness: &Witness<'_>,
    life: &StoryLife,
    (owner, whose): (OpId, &str),
    index: usize,
    by: &Op,
) -> Mechanism {
    let is_own = by.grant().is_some_and(|grant| witness.reading.are_one(grant, owner));
    let worn = witness.counted_down(life).filter(|_| by.caller == whose);
    let entries = entered_twice(witness, owner, by).filter(|_| is_own);
    let next = let_in_since(witness, life, by).filter(|_| is_own);
    let (how, text) = match (worn, entries, next) {
        (Some((_, old)), ..) => twice(old, by, life),
        (None, Some(entries), _) => one_of_two(entries, by, life),
        (None, None, Some(next)) => still_needed(next, by, life),
        (None, None, None) => hand(witness.history().keys[index].change, by, (is_own, life), whose),
    };
    let exact = (how == How::DeletedByAnother).then(|| stolen(witness, index, owner));
    let keys = [life.born, index].into_iter().chain(worn.map(|(change, _)| change));
    let ops = [owner, by.id].into_iter().chain(next.map(|next| next.id)).map(Evidence::Op);
    let evidence = || ops.chain(keys.map(Evidence::Key)).collect();
    exact.flatten().unwrap_or_else(|| Mechanism::new(how, text, evidence()))
}

/// Whether a key that was removed would have expired by a moment anyway. It would not if an extend
/// of its owner reached the node after the removal, since that could have extended the key.
fn was_due(witness: &Witness<'_>, life: &StoryLife, owner: OpId, end: &Key, by: Moment) -> bool {
    let is_removed = matches!(
        end.change,
        KeyChange::Deleted
            | KeyChange::Evicted
            | KeyChange::LostAtRestart
            | KeyChange::LostAtFailover
    );
    let reading = &witness.reading;
    let prolongs = |request: &&Request| {
        let of_owner = op(reading.history, request.op).filter(|op| {
            let is_extend = matches!(op.kind, OpKind::Extend { .. });
            is_extend && op.grant().is_some_and(|grant| reading.are_one(grant, owner))
        });
        let applied = request.at(Leg::Applied).map(Moment::from);
        let is_after = applied.is_some_and(|at| Moment::from(end.at) <= at && at <= by);
        of_owner.is_some() && request.to == life.node && is_after
    };
    let mut requests = reading.history.requests.iter();
    is_removed && witness.passes(life) <= by && !requests.any(|request| prolongs(&request))
}

/// Whether the lease of an acquire was over by its caller's clock when its key changed hands. A
/// release that the caller had requested before does not count as the end of the lease.
fn is_over(witness: &Witness<'_>, owner: OpId, end: &Key) -> bool {
    let hold = witness.tenures.iter().find(|hold| witness.is_of(hold, owner));
    let has_time = hold.is_some_and(|hold| hold.lease.is_none_or(|lease| end.at.at < lease));
    witness.reading.is_given_up(owner, end.at.into()) && !has_time
}

/// Whether another caller's acquire took over a key whose lease was over, as happens with a lock
/// that keeps its lease in the key's value.
fn takes_over(witness: &Witness<'_>, owner: OpId, end: &Key, by: &Op) -> bool {
    let is_other = by.kind == OpKind::Acquire && witness.caller(owner) != Some(&by.caller);
    is_other && is_over(witness, owner, end)
}

/// Another caller's release or extend that had changed a key in place before it was taken over.
fn emptied(witness: &Witness<'_>, life: &StoryLife, owner: OpId) -> Option<Mechanism> {
    let harms = [Kind::ForeignRelease, Kind::ForeignExtend].into_iter();
    let mut keys = harms.flat_map(|kind| witness.of_kind(kind)).flat_map(|harm| &harm.keys);
    let index = keys.find(|index| {
        let key = &witness.history().keys[**index];
        let is_there = life.from < key.at && key.at < life.until;
        key.change == KeyChange::Changed && key.node == life.node && is_there
    })?;
    stolen(witness, *index, owner)
}

/// The life of the key on the master, if its end made the replica delete its copy.
fn obeyed<'a>(
    witness: &'a Witness<'_>,
    life: &StoryLife,
    owner: OpId,
    end: &Key,
) -> Option<&'a StoryLife> {
    let is_from_master = end.by.is_none()
        && end.change == KeyChange::Deleted
        && witness.reading.follows(&life.node, end.at);
    let sightings = witness.history().sightings.iter();
    let mut followed = sightings.filter(|seen| is_from_master && seen.by == life.node);
    let master = followed.rfind(|seen| seen.at <= end.at && seen.what == Seen::Follows)?;
    let mut lives = witness.lives.iter();
    lives.rfind(|first| {
        first.node == master.master && first.owner == Some(owner) && first.until < life.until
    })
}

/// How a key ended by an operation, whether of the key's own acquire or of another, in words.
fn hand(
    change: KeyChange,
    by: &Op,
    (is_own, life): (bool, &StoryLife),
    whose: &str,
) -> (How, String) {
    let node = &life.node;
    let request = format!("{}'s {} at {}", by.caller, by.kind.noun(), moment(by.call.at));
    match change {
        KeyChange::Set => {
            (How::Overwritten, format!("{request} set the key on {node}, over {whose}'s."))
        }
        _ if !is_own && by.caller == whose && by.call.instant() < life.from => {
            (How::DeletedByOwner, format!("{request} deleted its own newer key on {node}."))
        }
        _ if is_own || by.caller == whose => {
            (How::DeletedByOwner, format!("{request} deleted its own key on {node}."))
        }
        _ => (How::DeletedByAnother, format!("{request} deleted {whose}'s key on {node}.")),
    }
}

/// The acquire that a release gave back, and another one of the same tenure that its caller had not
/// given back by then.
pub fn entered_twice<'a>(
    witness: &Witness<'a>,
    owner: OpId,
    release: &Op,
) -> Option<(&'a Op, &'a Op)> {
    let OpKind::Release { grant } = release.kind else { return None };
    let reading = &witness.reading;
    let is_left = |entry: &Op| {
        let own = OpKind::Release { grant: entry.id };
        reading
            .ops_of(entry.id)
            .any(|op| op.kind == own && op.call.instant() <= release.call.instant())
    };
    let mut others = reading.acquires().filter(|entry| {
        let has_entered = entry.ret.is_some_and(|ret| ret.instant() <= release.call.instant());
        let is_other = entry.id != grant && reading.are_one(entry.id, owner);
        is_other && reading.is_granted(entry.id) && has_entered && !is_left(entry)
    });
    Some((reading.op(grant)?, others.next()?))
}

/// How a release deleted a key that another entry of its caller still needed.
fn one_of_two((left, needed): (&Op, &Op), release: &Op, life: &StoryLife) -> (How, String) {
    let text = format!(
        "{}'s release at {} of its acquire at {} deleted the key on {}, which its acquire at {} \
         still needed.",
        release.caller,
        moment(release.call.at),
        moment(left.call.at),
        life.node,
        moment(needed.call.at)
    );
    (How::DeletedByOwner, text)
}

/// The granted acquire that a key had let in as its own after this operation was called by the same
/// caller.
fn let_in_since<'a>(witness: &Witness<'a>, life: &StoryLife, by: &Op) -> Option<&'a Op> {
    let is_of_life = |touch: &&Touch| witness.lives[touch.met].born == life.born;
    let touches = witness.reading.lives.touches.iter().filter(is_of_life);
    let mut ops =
        touches.filter_map(|touch| op(witness.history(), witness.history().keys[touch.change].by?));
    ops.find(|next| {
        let is_later = next.caller == by.caller && by.call.instant() < next.call.instant();
        is_later && witness.reading.is_granted(next.id)
    })
}

/// How a release that came late deleted a key by which its caller had been let in again.
fn still_needed(next: &Op, by: &Op, life: &StoryLife) -> (How, String) {
    let text = format!(
        "{}'s {} at {} deleted its own key on {}, by which its acquire at {} had been let in.",
        by.caller,
        by.kind.noun(),
        moment(by.call.at),
        life.node,
        moment(next.call.at)
    );
    (How::DeletedByOwner, text)
}

/// The same for a key that an older release of its owner had counted down before.
fn twice(old: &Op, by: &Op, life: &StoryLife) -> (How, String) {
    let text = format!(
        "{}'s release at {} counted down its own newer key on {}, and its {} at {} deleted it.",
        old.caller,
        moment(old.call.at),
        life.node,
        by.kind.noun(),
        moment(by.call.at)
    );
    (How::DeletedByOwner, text)
}

/// How a key that expired ended: at its own time, or early because of a clock's error.
fn time(witness: &Witness<'_>, life: &StoryLife, owner: OpId, by: Moment) -> KeyEnding {
    let Some(set) = last_set(witness, life) else { return KeyEnding::RanOut };
    // When a true clock would have ended its time to live, from the command that set it.
    let due = set.at.saturating_add(set.lasts);
    if due <= by.at {
        return KeyEnding::RanOut;
    }
    let (gone, node) = (witness.gone(life), &life.node);
    if outlived(witness, (owner, node), (gone, due, by)) {
        return KeyEnding::RanOut;
    }
    let whose = witness.caller(owner).unwrap_or("somebody");
    let early = length(due.saturating_sub(gone.at));
    let mut evidence = vec![Evidence::Op(owner), Evidence::Key(life.born)];
    evidence.extend(life.end.map(Evidence::Key));
    evidence.extend(disturbed(witness, node, (life.from.into(), gone)));
    let (how, text) = if set.on == *node {
        let text = format!("By {node}'s clock {whose}'s key was over {early} early.");
        (How::NodeClock, text)
    } else {
        let text = format!(
            "{whose}'s key was set by the clock of {}, and by that of {node} it was over {early} \
             early.",
            set.on
        );
        (How::ReplicaClock, text)
    };
    KeyEnding::Taken(Mechanism::new(how, text, evidence))
}

/// Whether the node's clock took nothing from the holder. Either the lease was over on the caller's
/// clock when the key was gone, and the overlap lasted until the key was due, or the lease would
/// have been over on a true clock, or on one with the rate of the node's. Or it was over when the
/// other caller was granted the lock, and trials found that the node's clock makes no difference.
fn outlived(
    witness: &Witness<'_>,
    (owner, node): (OpId, &str),
    (gone, due, by): (Moment, Nanos, Moment),
) -> bool {
    let Some(hold) = witness.tenures.iter().find(|hold| witness.is_of(hold, owner)) else {
        return false;
    };
    let line = witness.reading.clocks.line(node, Clock::Wall, gone);
    let is_due = |known: &Known| known.over() <= gone.at || known.is_over_beside(line, gone);
    let is_due = || known(witness, hold, (gone, gone)).is_some_and(|all| all.iter().all(is_due));
    let is_over = |at: Nanos| match hold.covered.iter().rfind(|(from, _)| *from <= at) {
        Some((_, to)) => *to <= at && *to < hold.until.at,
        None => hold.lease.is_some_and(|lease| lease <= at),
    };
    let lasts = witness.overlap().is_some_and(|(_, to)| to.at.min(hold.until.at) >= due);
    is_over(gone.at) && (lasts || is_due())
        || is_over(by.at) && is_clock_idle(witness.finding, node)
}

/// When the last expiry of a key was set, for how long, and by which node's clock.
pub struct ExpiryTerm {
    pub at: Nanos,
    pub lasts: Nanos,
    pub on: String,
}

/// The last command that gave a key of a life its expiry.
pub fn last_set(witness: &Witness<'_>, life: &StoryLife) -> Option<ExpiryTerm> {
    let history = witness.history();
    let keys = history.keys.get(life.born..)?.iter();
    let own = keys.take_while(|key| key.at < life.until || Some(key.at) == end_of(witness, life));
    let own = own.filter(|key| key.node == life.node && key.key == witness.reading.lock_key);
    let sets = own.filter(|key| matches!(key.change, KeyChange::Set | KeyChange::Extended));
    let last = sets.filter(|key| key.at < life.until).last()?;
    let until = last.until_ms?.saturating_add(1).saturating_mul(MILLISECOND);
    // A replica copies the expiry that its master set, and a start reads it from a file. The origin
    // is the change by the same operation on a node that this node followed, or else the last such
    // change by the key's acquire.
    let of_master = |node: &str| {
        let sightings = history.sightings.iter();
        node == last.node
            || sightings.filter(|seen| seen.by == last.node).any(|seen| seen.master == node)
    };
    let origins = || {
        history.keys.iter().filter(|key| {
            let is_same = key.until_ms == last.until_ms && key.key == last.key;
            is_same && key.by.is_some() && key.at <= last.at && of_master(&key.node)
        })
    };
    let is_own = |key: &&Key| key.by.and_then(|by| witness.reading.owner(by)) == life.owner;
    let of_acquire = || origins().rfind(is_own).filter(|_| !witness.reading.is_by_command(last));
    let origin = origins().find(|key| key.by == last.by).or_else(of_acquire).unwrap_or(last);
    let wall = witness.reading.clocks.line(&origin.node, Clock::Wall, origin.at.into())?;
    let lasts = until.saturating_sub(wall.at(origin.at.at));
    Some(ExpiryTerm { at: origin.at.at, lasts, on: origin.node.to_string() })
}

fn end_of(witness: &Witness<'_>, life: &StoryLife) -> Option<lockstorm_platform::time::Instant> {
    life.end.and_then(|end| witness.history().keys.get(end)).map(|key| key.at)
}
