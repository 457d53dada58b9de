//! Nodes: restarts that forgot, masters that others took the place of, keys that were removed.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_sim::fault::Verb;
use lockstorm_sim::time::Nanos;
use lockstorm_sim::trace::KeyChange;

use crate::history::{Condition, Key, PROBE_MARGIN, Seen};
use crate::ledger::part::Part;
use crate::ledger::strike;
use crate::ledger::{Breach, Ledger, above, bound_of};
use crate::lock::Bounded;
use crate::reading::leaders;
use crate::reading::moment::Moment;

/// The breaches of what is assumed of nodes.
pub fn breaches(ledger: &Ledger) -> Vec<Breach> {
    let mut found = amnesia(ledger);
    found.extend(failovers(ledger));
    found.extend(removals(ledger));
    found.extend(leaderless(ledger));
    found.extend(unreplicated(ledger));
    found
}

/// Time after the heal in which no node led: no lock can be granted by a topology without a master.
fn leaderless(ledger: &Ledger) -> Option<Breach> {
    let healed = Moment::from(ledger.reading.history.healed?);
    let gaps = leaders::leaderless(ledger.reading).into_iter();
    let actual = gaps.map(|(from, to)| to.at.saturating_sub(from.at.max(healed.at))).sum();
    let what = Bounded::Leaderless;
    (actual > 0).then_some(Breach { what, parts: Vec::new(), bound: 0, actual })
}

/// Until when after the heal a master told clients that too few replicas have what they wrote.
fn unreplicated(ledger: &Ledger) -> Option<Breach> {
    let (what, bound) = (Bounded::Unreplicated, PROBE_MARGIN);
    let healed = ledger.reading.history.healed?;
    let mut told = ledger.reading.history.sightings.iter();
    let last = told.rfind(|sighting| sighting.what == Seen::Unreplicated)?;
    let actual = last.at.at.saturating_sub(healed.at);
    (actual > bound).then_some(Breach { what, parts: Vec::new(), bound, actual })
}

/// Restarts after which keys were gone, or there again, sooner than the lock withstands.
fn amnesia(ledger: &Ledger) -> Vec<Breach> {
    let what = Bounded::AmnesiacRestart;
    let Some(bound) = bound_of(&ledger.site.assumes, what) else { return Vec::new() };
    let forgotten = ledger.reading.history.keys.iter().enumerate();
    let forgotten = forgotten.filter(|(index, key)| {
        key.change == KeyChange::LostAtRestart || came_back(ledger, *index, key)
    });
    let outages = forgotten.map(|(_, key)| outage(ledger, &key.node, key.at.into()));
    let short = outages.filter(|(down, _)| *down < bound);
    short.map(|(actual, parts)| Breach { what, parts, bound, actual }).collect()
}

/// Whether a key stood there again after a restart though it had been deleted: nobody set it, and
/// nobody has written to the node since it died.
fn came_back(ledger: &Ledger, index: usize, key: &Key) -> bool {
    let before = &ledger.reading.history.keys[..index];
    let death = deaths_of(ledger, &key.node).map(|death| Moment::from(death.from));
    let death = death.filter(|death| *death <= Moment::from(key.at)).max();
    let own = before.iter().filter(|earlier| earlier.node == key.node);
    key.change == KeyChange::Set
        && key.by.is_none()
        && death.is_some_and(|death| {
            own.filter(|earlier| Moment::from(earlier.at) > death).all(|e| e.by.is_none())
        })
}

fn deaths_of<'a>(ledger: &Ledger<'a>, node: &str) -> impl Iterator<Item = &'a Condition> {
    let conditions = ledger.reading.history.conditions.iter();
    conditions.filter(move |c| c.verb.kills() && c.strikes(node))
}

/// For how long a node was down that held its keys again at a moment, and what had taken it down.
/// Nothing is known of a process that ended by itself: it may have been back at once.
fn outage(ledger: &Ledger, node: &str, back: Moment) -> (Nanos, Vec<Part>) {
    let earlier = deaths_of(ledger, node).filter(|death| Moment::from(death.from) <= back);
    let mut earlier: Vec<&Condition> = earlier.collect();
    let Some(last) = earlier.pop() else { return (0, Vec::new()) };
    let (mut down, mut parts) = (Moment::from(last.from), vec![strike::part(last)]);
    // Outages that overlap are one.
    for death in earlier.into_iter().rev() {
        let (from, to) = strike::lasts(death, ledger.reading.history.end);
        if to >= down && death.to != Some(death.from) {
            (down, _) = (down.min(from), parts.push(strike::part(death)));
        }
    }
    (back.at.saturating_sub(down.at), parts)
}

/// Nodes that followed and lead from then on; where nobody tells of roles, keys that were lost to a
/// master that had forgotten nothing by a restart.
fn failovers(ledger: &Ledger) -> Option<Breach> {
    let mut follows = BTreeSet::new();
    let mut count = 0;
    for sighting in &ledger.reading.history.sightings {
        match sighting.what {
            Seen::Follows => drop(follows.insert(&sighting.by)),
            Seen::Leads => count += u64::from(follows.remove(&sighting.by)),
            Seen::Watched(_) | Seen::Unreplicated => {}
        }
    }
    let mut sightings = ledger.reading.history.sightings.iter();
    if !sightings.any(|sighting| matches!(sighting.what, Seen::Leads | Seen::Follows)) {
        let mut keys = ledger.reading.history.keys.iter();
        let first = keys
            .find(|key| matches!(key.change, KeyChange::LostAtFailover | KeyChange::LostAtRestart));
        count = u64::from(first.is_some_and(|key| key.change == KeyChange::LostAtFailover));
    }
    let conditions = ledger.reading.history.conditions.iter().filter(|c| c.verb == Verb::Failover);
    above(ledger, Bounded::Failover, count, conditions.map(strike::part).collect())
}

/// Keys that were removed by no operation and had not ended.
fn removals(ledger: &Ledger) -> Option<Breach> {
    let mut roles = ledger.reading.history.sightings.iter().peekable();
    let mut follows: BTreeMap<&str, bool> = BTreeMap::new();
    let (mut count, mut parts) = (0, BTreeSet::new());
    for key in &ledger.reading.history.keys {
        while let Some(role) = roles.next_if(|role| role.at <= key.at) {
            if matches!(role.what, Seen::Leads | Seen::Follows) {
                follows.insert(&role.by, role.what == Seen::Follows);
            }
        }
        // What a replica deletes for nobody, its master has deleted or seen expire.
        let by_command = key.change == KeyChange::Deleted
            && key.by.is_none()
            && !follows.get(key.node.as_str()).is_some_and(|follows| *follows);
        if key.change == KeyChange::Evicted || by_command {
            count += 1;
            let conditions = ledger.reading.history.conditions.iter();
            let own = conditions.filter(|c| {
                strike::removes_keys(c)
                    && c.strikes(&key.node)
                    && Moment::from(c.from) <= Moment::from(key.at)
            });
            parts.extend(own.map(strike::part));
        }
    }
    above(ledger, Bounded::KeyRemoval, count, parts.into_iter().collect())
}
