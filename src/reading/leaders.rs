//! Who leads: whether a topology had a node at all that could have served the lock.
//!
//! Nodes tell what they become. Those that followed each other at any time are one group; the
//! group that holds the lock's key is the one that counts. Where nobody tells, nothing is known.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::time::Instant;

use crate::history::{History, Seen, Sighting};
use crate::reading::history::Reading;
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
        let groups = names(history);
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
fn names(history: &History) -> BTreeMap<&str, &str> {
    let mut group_of: BTreeMap<&str, &str> = BTreeMap::new();
    for sighting in &history.sightings {
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
    group_of
}

/// The nodes of the groups that ever held the lock's key.
fn group<'a>(reading: &Reading<'a>) -> BTreeSet<&'a str> {
    let group_of = names(reading.history);
    let keys = reading.history.keys.iter().filter(|key| key.key == reading.lock_key);
    let holding: BTreeSet<&str> =
        keys.filter_map(|key| group_of.get(key.node.as_str()).copied()).collect();
    group_of.into_iter().filter(|(_, name)| holding.contains(name)).map(|(node, _)| node).collect()
}

/// Each group of nodes of which one followed another at any time. Who told of no role is in none.
pub fn groups<'a>(reading: &Reading<'a>) -> Vec<BTreeSet<&'a str>> {
    let mut groups: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (node, name) in names(reading.history) {
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
