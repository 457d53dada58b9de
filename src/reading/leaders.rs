//! Who leads: whether a topology had a node at all that could have served the lock.
//!
//! Nodes tell what they become. Those that followed each other at any time are one group; the
//! group that holds the lock's key is the one that counts. Where nobody tells, nothing is known.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_sim::time::Instant;

use crate::history::{History, Seen, Sighting};
use crate::reading::Reading;
use crate::reading::moment::Moment;

/// Who led when: what nodes told of their roles, and when they died.
pub struct Leaders<'a> {
    groups: BTreeMap<&'a str, &'a str>,
    /// Who leads from then on, or no more, in order.
    changes: Vec<(Moment, &'a str, bool)>,
}

impl<'a> Leaders<'a> {
    /// As a history has it.
    pub fn of(history: &'a History) -> Leaders<'a> {
        let groups = groups(history);
        let mut changes: Vec<(Moment, &str, bool)> = Vec::new();
        for sighting in &history.sightings {
            if let Seen::Leads | Seen::Follows | Seen::Exited = sighting.what {
                let leads = sighting.what == Seen::Leads;
                changes.push((sighting.at.into(), &sighting.by, leads));
            }
        }
        // A node that is started again tells anew; until then it leads nobody.
        for death in history.conditions.iter().filter(|condition| condition.verb.kills()) {
            let hosts = death.target.hosts().into_iter();
            changes.extend(hosts.map(|host| (death.from.into(), host, false)));
        }
        changes.retain(|(_, node, _)| groups.contains_key(node));
        changes.sort_by_key(|(at, ..)| *at);
        Leaders { groups, changes }
    }

    /// The name of a node's group: its own, where it told of no role.
    pub fn group(&self, node: &'a str) -> &'a str {
        self.groups.get(node).copied().unwrap_or(node)
    }

    /// The nodes of a group that told of a role.
    pub fn members(&self, group: &str) -> impl Iterator<Item = &'a str> {
        self.groups.iter().filter(move |(_, name)| **name == group).map(|(node, _)| *node)
    }

    /// The nodes of a group that lead at a moment.
    pub fn leading(&self, group: &str, at: Moment) -> BTreeSet<&'a str> {
        let mut leading = BTreeSet::new();
        let until = self.changes.partition_point(|(from, ..)| *from <= at);
        for (_, node, leads) in &self.changes[..until] {
            if !leads {
                leading.remove(node);
            } else if self.groups[node] == group {
                leading.insert(*node);
            }
        }
        leading
    }
}

/// The stretches in which fewer groups than a quorum had a node that led, of those that could have
/// the lock's key, in order, apart; the last may end with the run. Empty where nobody told of a
/// role. Where one node decides, the group that holds the key counts; else all do.
pub fn leaderless(reading: &Reading, quorum: u32) -> Vec<(Moment, Moment)> {
    let leaders = Leaders::of(reading.history);
    let group = group(reading);
    let counts = |node: &&str| quorum > 1 || group.contains(*node);
    let mut leading: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let (mut open, mut had, mut gaps) = (None, false, Vec::new());
    for (at, node, leads) in leaders.changes.iter().filter(|(_, node, _)| counts(node)) {
        let of_group = leading.entry(leaders.group(node)).or_default();
        if *leads {
            of_group.insert(node);
        } else {
            of_group.remove(node);
        }
        let led = leading.values().filter(|nodes| !nodes.is_empty()).count();
        let has = led >= quorum.max(1) as usize;
        match (had, has) {
            (true, false) => open = Some(*at),
            (false, true) => gaps.extend(open.take().map(|from| (from, *at))),
            _ => {}
        }
        had = has;
    }
    gaps.extend(open.map(|from| (from, Moment::from(reading.history.end))));
    gaps
}

/// The name of each node's group, of those that told of a role: nodes that followed one another at
/// any time are one, and have the same keys.
fn groups(history: &History) -> BTreeMap<&str, &str> {
    let mut group_of: BTreeMap<&str, &str> = BTreeMap::new();
    for sighting in &history.sightings {
        let (by, master) = match sighting.what {
            Seen::Leads => (sighting.by.as_str(), sighting.by.as_str()),
            Seen::Follows => (sighting.by.as_str(), sighting.master.as_str()),
            Seen::Watched(_) | Seen::Unreplicated | Seen::Exited => continue,
        };
        let one = *group_of.entry(by).or_insert(by);
        let other = *group_of.entry(master).or_insert(master);
        for name in group_of.values_mut().filter(|name| **name == other) {
            *name = one;
        }
    }
    group_of
}

/// The nodes of the groups that ever held the lock's key.
fn group<'a>(reading: &Reading<'a>) -> BTreeSet<&'a str> {
    let group_of = groups(reading.history);
    let keys = reading.history.keys.iter().filter(|key| key.key == reading.lock_key);
    let holding: BTreeSet<&str> =
        keys.filter_map(|key| group_of.get(key.node.as_str()).copied()).collect();
    group_of.into_iter().filter(|(_, name)| holding.contains(name)).map(|(node, _)| node).collect()
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
