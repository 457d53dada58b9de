//! When nodes carried out the commands that faults give them: a promotion, an eviction, a flush. A
//! node that is down or stands still does so later.

use lockstorm_platform::fault::Verb;
use lockstorm_platform::time::Instant;
use lockstorm_platform::trace::KeyChange;

use crate::history::{Condition, History, Seen};

/// When a node carried out the command of a fault: at the first change that shows it. `None` if
/// nothing shows it, or if the fault is no command.
pub fn carried_out(history: &History, condition: &Condition) -> Option<Instant> {
    let done = match condition.verb {
        Verb::Failover => promotion(history, condition),
        _ => removal(history, condition),
    }?;
    // What came after a later command that its node could carry out at once is that one's.
    let later = history.conditions.iter().filter(|other| {
        is_alike(condition, other) && condition.from < other.from && other.from <= done
    });
    let is_its = later.into_iter().all(|other| is_stopped(history, other));
    (condition.met != Some(0) && is_its).then_some(done)
}

/// Whether two faults are commands of one kind to one node that did something.
pub fn is_alike(one: &Condition, other: &Condition) -> bool {
    one.verb.word() == other.verb.word() && one.target == other.target && other.met != Some(0)
}

/// Whether the node of a command was down or stood still when the command was given.
pub fn is_stopped(history: &History, command: &Condition) -> bool {
    history.conditions.iter().any(|other| {
        let stops = other.verb.kills() || other.verb.halts();
        let lasts = other.to.is_none_or(|to| command.from < to);
        stops && other.target == command.target && other.from <= command.from && lasts
    })
}

/// How a command removes keys, if it does.
pub fn removes(verb: &Verb) -> Option<KeyChange> {
    match verb {
        Verb::Evict { .. } => Some(KeyChange::Evicted),
        Verb::Flush => Some(KeyChange::Deleted),
        _ => None,
    }
}

fn removal(history: &History, condition: &Condition) -> Option<Instant> {
    let removes = removes(&condition.verb)?;
    let mut changes = history.keys.iter();
    let own = changes.find(|key| {
        let is_it = key.change == removes && key.by.is_none();
        is_it && condition.strikes(&key.node) && condition.from <= key.at
    });
    own.map(|key| key.at)
}

/// The first report of a node that it leads after one that it follows: a start as a master is no
/// promotion.
fn promotion(history: &History, condition: &Condition) -> Option<Instant> {
    let roles = history.sightings.iter().filter(|seen| condition.strikes(&seen.by));
    let mut follows = false;
    for seen in roles {
        let leads = seen.what == Seen::Leads;
        if leads && follows && condition.from <= seen.at {
            return Some(seen.at);
        }
        follows = match seen.what {
            Seen::Follows => true,
            Seen::Leads => false,
            _ => follows,
        };
    }
    None
}
