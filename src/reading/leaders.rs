//! Leaders: whether a topology had any master that could have served the lock.
//!
//! Nodes report their role changes. Nodes that replicated each other at any time are one group;
//! only the group that holds the lock's key counts. Without reports nothing is known.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::time::Instant;

use crate::history::{History, Seen, Sighting};
use crate::reading::history::Reading;
use crate::reading::moment::Moment;

/// Which nodes were masters when: the roles that nodes reported, and their deaths.
pub struct Leaders<'a> {
    groups: BTreeMap<&'a str, &'a str>,
    /// The nodes that become master, or cease to be one, in order.
    changes: Vec<(Moment, &'a str, bool)>,
}

impl<'a> Leaders<'a> {
    /// The leaders that a history shows.
    pub fn of(history: &'a History) -> Leaders<'a> {
        let groups = names(history);
        let mut changes: Vec<(Moment, &str, bool)> = Vec::new();
        for sighting in &history.sightings {
            if let Seen::Leads | Seen::Follows | Seen::Exited = sighting.what {
                let leads = sighting.what == Seen::Leads;
                changes.push((sighting.at.into(), &sighting.by, leads));
            }
        }
        // A restarted node reports its role again; until then it is no master.
        for death in history.conditions.iter().filter(|condition| condition.verb.kills()) {
            let hosts = death.target.hosts().into_iter();
            changes.extend(hosts.map(|host| (death.from.into(), host, false)));
        }
        changes.retain(|(_, node, _)| groups.contains_key(node));
        changes.sort_by_key(|(at, ..)| *at);
        Leaders { groups, changes }
    }

    /// The name of a node's group: its own name if it reported no role.
    pub fn group(&self, node: &'a str) -> &'a str {
        self.groups.get(node).copied().unwrap_or(node)
    }

    /// The nodes of a group that reported a role.
    pub fn members(&self, group: &str) -> impl Iterator<Item = &'a str> {
        self.groups.iter().filter(move |(_, name)| **name == group).map(|(node, _)| *node)
    }

    /// The nodes of a group that are masters at a moment.
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

    /// Whether a node is one that serves clients at a moment: it leads its group, or nobody does.
    pub fn would_serve(&self, node: &'a str, at: Moment) -> bool {
        let leading = self.leading(self.group(node), at);
        leading.is_empty() || leading.contains(node)
    }
}

/// The disjoint stretches, in order, in which fewer groups than a quorum had a master, among the
/// groups that could have the lock's key. The last may end with the run. Empty if no node reported
/// a role. If a single node decides, only the group that holds the key counts; otherwise all do.
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

/// The name of the group of each node that reported a role. Nodes that replicated one another at
/// any time are one group and have the same keys.
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

/// Each group of nodes of which one followed another at any time. Nodes without a role are in none.
pub fn groups<'a>(reading: &Reading<'a>) -> Vec<BTreeSet<&'a str>> {
    let mut groups: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (node, name) in names(reading.history) {
        groups.entry(name).or_default().insert(node);
    }
    groups.into_values().collect()
}

/// The intervals in which a node was a master, in order: from its report until it follows another
/// node, exits or is killed. A node that never reported a role counts while its process runs.
pub fn reigns(reading: &Reading, node: &str) -> Vec<(Moment, Moment)> {
    let own = reading.history.sightings.iter().filter(|sighting| sighting.by == node);
    let roles = own.filter_map(|sighting| match sighting.what {
        Seen::Leads => Some((Moment::from(sighting.at), true)),
        Seen::Follows | Seen::Exited => Some((sighting.at.into(), false)),
        Seen::Watched(_) | Seen::Unreplicated | Seen::Tilted => None,
    });
    let mut changes: Vec<(Moment, bool)> = roles.collect();
    let is_silent = changes.is_empty();
    let downs = downs(reading.history, node);
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

/// When a node was killed, and when it was started again.
fn downs(history: &History, node: &str) -> Vec<(Moment, Option<Moment>)> {
    let conditions = history.conditions.iter();
    let downs = conditions.filter(|condition| condition.verb.kills() && condition.strikes(node));
    downs.map(|down| (Moment::from(down.from), down.to.map(Moment::from))).collect()
}

/// Whether a process is down at a moment, by these intervals.
fn is_down(downs: &[(Moment, Option<Moment>)], at: Moment) -> bool {
    downs.iter().any(|(from, to)| *from <= at && to.is_none_or(|to| at < to))
}

/// Whether a node's process does not run at a moment: it was killed, or it exited.
pub fn is_dead(history: &History, node: &str, at: Moment) -> bool {
    let mut reports = history.sightings.iter().rev();
    let last = reports.find(|seen| seen.by == node && Moment::from(seen.at) <= at);
    is_down(&downs(history, node), at) || last.is_some_and(|seen| seen.what == Seen::Exited)
}

/// Each promotion of a node from replica to master, among the nodes that could have the lock's key.
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

/// Whether the last role that a node had reported by an instant is that of a replica.
pub fn follows(history: &History, node: &str, at: Instant) -> bool {
    let own = history.sightings.iter().rev().filter(|role| role.by == node && role.at <= at);
    let mut roles = own.map(|sighting| sighting.what);
    roles.find(|what| matches!(what, Seen::Leads | Seen::Follows)) == Some(Seen::Follows)
}
