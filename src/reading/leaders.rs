//! Who leads: whether a topology had a node at all that could have served the lock.
//!
//! Nodes tell what they become. Those that followed each other at any time are one group; the
//! group that holds the lock's key is the one that counts. Where nobody tells, nothing is known.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_sim::time::Instant;

use crate::history::{History, Seen, Sighting};
use crate::reading::Reading;
use crate::reading::moment::Moment;

/// The stretches in which no node of the lock's group led, in order, apart; the last may end with
/// the run. Empty where nobody told of a role.
pub fn leaderless(reading: &Reading) -> Vec<(Moment, Moment)> {
    let group = group(reading);
    let mut changes: Vec<(Moment, &str, bool)> = Vec::new();
    for sighting in &reading.history.sightings {
        if group.contains(sighting.by.as_str())
            && let Seen::Leads | Seen::Follows | Seen::Exited = sighting.what
        {
            let leads = sighting.what == Seen::Leads;
            changes.push((sighting.at.into(), &sighting.by, leads));
        }
    }
    // A node that is started again tells anew; until then it leads nobody.
    for death in reading.history.conditions.iter().filter(|condition| condition.verb.kills()) {
        let hosts = death.target.hosts().into_iter();
        changes.extend(hosts.map(|host| (death.from.into(), host, false)));
    }
    changes.sort_by_key(|(at, ..)| *at);
    gaps(changes, reading.history)
}

fn gaps(changes: Vec<(Moment, &str, bool)>, history: &History) -> Vec<(Moment, Moment)> {
    let (mut leading, mut open) = (BTreeSet::new(), None);
    let mut gaps = Vec::new();
    for (at, node, leads) in changes {
        let had = !leading.is_empty();
        if leads {
            leading.insert(node);
        } else {
            leading.remove(node);
        }
        match (had, leading.is_empty()) {
            (true, true) => open = Some(at),
            (false, false) => gaps.extend(open.take().map(|from| (from, at))),
            _ => {}
        }
    }
    gaps.extend(open.map(|from| (from, Moment::from(history.end))));
    gaps
}

/// The nodes that followed one another at any time, of the group that ever held the lock's key.
fn group<'a>(reading: &Reading<'a>) -> BTreeSet<&'a str> {
    let keys = reading.history.keys.iter().filter(|key| key.key == reading.lock_key);
    let holding: BTreeSet<&str> = keys.map(|key| key.node.as_str()).collect();
    let groups = groups(reading).into_iter();
    groups.filter(|group| !group.is_disjoint(&holding)).flatten().collect()
}

/// Each group of nodes of which one followed another at any time. Who told of no role is in none.
pub fn groups<'a>(reading: &Reading<'a>) -> Vec<BTreeSet<&'a str>> {
    let mut group_of: BTreeMap<&str, &str> = BTreeMap::new();
    for sighting in &reading.history.sightings {
        let (by, master) = match sighting.what {
            Seen::Leads => (sighting.by.as_str(), sighting.by.as_str()),
            Seen::Follows => (sighting.by.as_str(), sighting.master.as_str()),
            Seen::Watched(_) | Seen::Unreplicated | Seen::Exited | Seen::Tilted => continue,
        };
        let one = *group_of.entry(by).or_insert(by);
        let other = *group_of.entry(master).or_insert(master);
        for name in group_of.values_mut().filter(|name| **name == other) {
            *name = one;
        }
    }
    let mut groups: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (node, name) in group_of {
        groups.entry(name).or_default().insert(node);
    }
    groups.into_values().collect()
}

/// From when to when a node led, in order: from its word that it does until it follows, ends or is
/// killed. A node that never told of a role leads whenever its process runs.
pub fn reigns(reading: &Reading, node: &str) -> Vec<(Moment, Moment)> {
    let told = reading.history.sightings.iter().filter(|sighting| sighting.by == node);
    let roles = told.filter_map(|sighting| match sighting.what {
        Seen::Leads => Some((Moment::from(sighting.at), true)),
        Seen::Follows | Seen::Exited => Some((sighting.at.into(), false)),
        Seen::Watched(_) | Seen::Unreplicated | Seen::Tilted => None,
    });
    let mut changes: Vec<(Moment, bool)> = roles.collect();
    let is_silent = changes.is_empty();
    let downs = reading.history.conditions.iter();
    let downs = downs.filter(|condition| condition.verb.kills() && condition.strikes(node));
    let downs = downs.map(|down| (Moment::from(down.from), down.to.map(Moment::from)));
    let downs: Vec<(Moment, Option<Moment>)> = downs.collect();
    changes.extend(is_silent.then_some((Moment::default(), true)));
    changes.extend(downs.iter().map(|(from, _)| (*from, false)));
    let back = downs.iter().filter_map(|(_, to)| to.filter(|_| is_silent));
    changes.extend(back.filter(|to| !is_down(&downs, *to)).map(|to| (to, true)));
    changes.sort_by_key(|(at, _)| *at);
    let (mut reigns, mut since) = (Vec::new(), None);
    for (at, leads) in changes {
        if leads {
            since = since.or(Some(at));
        } else if let Some(from) = since.take() {
            reigns.push((from, at));
        }
    }
    reigns.extend(since.map(|from| (from, Moment::NEVER)));
    reigns
}

/// Whether a process is down at a moment for any of these times.
fn is_down(downs: &[(Moment, Option<Moment>)], at: Moment) -> bool {
    downs.iter().any(|(from, to)| *from <= at && to.is_none_or(|to| at < to))
}

/// Each time that a node which had followed led from then on, of those that could have the lock's
/// key.
pub fn promoted<'a>(reading: &Reading<'a>) -> Vec<&'a Sighting> {
    let mut follows = BTreeSet::new();
    let mut promoted: Vec<&Sighting> = Vec::new();
    let group = group(reading);
    let sightings = reading.history.sightings.iter();
    for sighting in sightings.filter(|s| group.is_empty() || group.contains(s.by.as_str())) {
        match sighting.what {
            Seen::Follows => drop(follows.insert(&sighting.by)),
            Seen::Leads if follows.remove(&sighting.by) => promoted.push(sighting),
            _ => {}
        }
    }
    promoted
}

/// Whether a node had last told, by an instant, that it follows another.
pub fn follows(history: &History, node: &str, at: Instant) -> bool {
    let told = history.sightings.iter().rev().filter(|role| role.by == node && role.at <= at);
    let mut roles = told.map(|told| told.what);
    roles.find(|what| matches!(what, Seen::Leads | Seen::Follows)) == Some(Seen::Follows)
}
