//! Leaders: whether a topology had any master that could have served the lock.
//!
//! Nodes report their role changes. Nodes that replicated each other at any time are one group;
//! only the group that holds the lock's key counts. Without reports nothing is known.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{History, OpKind, Request, Seen, Sighting};
use crate::reading::history::Reading;
use crate::reading::moment::Moment;
use crate::reading::tries::KEYLESS;

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
        for death in history.fault_intervals.iter().filter(|interval| interval.verb.kills()) {
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

    /// Whether a node should serve clients at a moment: it leads its group, or no node of it leads.
    pub fn would_serve(&self, node: &'a str, at: Moment) -> bool {
        let leading = self.leading(self.group(node), at);
        leading.is_empty() || leading.contains(node)
    }
}

/// The disjoint stretches, in order, in which fewer groups than a quorum had a master, among the
/// groups that could have the lock's key. The first may begin with the run and the last may end
/// with it. Empty if fewer nodes than a quorum are known. If a single node decides, only the groups
/// of [`deciding`] nodes count; otherwise all do.
pub fn leaderless(reading: &Reading, quorum: u32) -> Vec<(Moment, Moment)> {
    let (group_of, quorum) = (names(reading.history), quorum.max(1) as usize);
    let counting = if quorum > 1 { known(reading, &group_of) } else { deciding(reading) };
    if counting.len() < quorum {
        return Vec::new();
    }
    let end = Moment::from(reading.history.end);
    let mut changes: Vec<(Moment, bool, &str)> = Vec::new();
    for node in counting {
        let group = group_of.get(node).copied().unwrap_or(node);
        for (from, to) in reigns(reading, node).into_iter().filter(|(from, to)| from < to) {
            changes.extend([(from, true, group), (to, false, group)]);
        }
    }
    // A master that ends as another begins leaves no gap.
    changes.sort_by_key(|(at, leads, _)| (*at, !leads));
    let mut leading: BTreeMap<&str, u32> = BTreeMap::new();
    let (mut open, mut gaps) = (Some(Moment::default()), Vec::new());
    for (at, leads, group) in changes.into_iter().filter(|(at, ..)| *at < end) {
        let masters = leading.entry(group).or_default();
        *masters = if leads { *masters + 1 } else { masters.saturating_sub(1) };
        let led = leading.values().filter(|masters| **masters > 0).count();
        match (open, led >= quorum) {
            (None, false) => open = Some(at),
            (Some(from), true) => {
                gaps.extend((from < at).then_some((from, at)));
                open = None;
            }
            _ => {}
        }
    }
    gaps.extend(open.map(|from| (from, end)));
    gaps
}

/// The nodes that could have the lock's key: those of the groups that ever had it; if none ever
/// did, those to which the lock sent requests; without requests, all that reported a role.
fn deciding<'a>(reading: &Reading<'a>) -> BTreeSet<&'a str> {
    let group_of = names(reading.history);
    let group = |node: &'a str| group_of.get(node).copied().unwrap_or(node);
    let keys = reading.history.keys.iter().filter(|key| key.key == reading.lock_key);
    let holding: BTreeSet<&str> = keys.map(|key| group(&key.node)).collect();
    let chosen = match holding.is_empty() {
        true => queried(reading).into_iter().map(group).collect(),
        false => holding,
    };
    let nodes = known(reading, &group_of).into_iter();
    nodes.filter(|node| chosen.is_empty() || chosen.contains(group(node))).collect()
}

/// The nodes that reported a role, held the lock's key, or were queried by the lock.
fn known<'a>(reading: &Reading<'a>, group_of: &BTreeMap<&'a str, &'a str>) -> BTreeSet<&'a str> {
    let keys = reading.history.keys.iter().filter(|key| key.key == reading.lock_key);
    let holding = keys.map(|key| key.node.as_str());
    group_of.keys().copied().chain(holding).chain(queried(reading)).collect()
}

/// The nodes to which the lock sent requests. A request without a key, which may look for the node,
/// does not count, nor does an access to the resource.
fn queried<'a>(reading: &Reading<'a>) -> BTreeSet<&'a str> {
    let of_lock = |request: &Request| {
        let op = reading.op(request.op);
        op.is_some_and(|op| {
            matches!(op.kind, OpKind::Acquire | OpKind::Extend { .. } | OpKind::Release { .. })
        })
    };
    let has_key = |request: &Request| !KEYLESS.contains(&request.command.as_str());
    reading.nodes_of(|request| has_key(request) && of_lock(request))
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

/// Each group of nodes of which one followed another at any time. Nodes without a known role are in
/// none.
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
    let fault_intervals = history.fault_intervals.iter();
    let downs = fault_intervals.filter(|interval| interval.verb.kills() && interval.strikes(node));
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
/// A replica that dies and is started as a master is not promoted.
pub fn promoted<'a>(reading: &Reading<'a>) -> Vec<&'a Sighting> {
    let mut follows: BTreeMap<&str, Moment> = BTreeMap::new();
    let mut promoted: Vec<&Sighting> = Vec::new();
    let sightings = &reading.history.sightings;
    if !sightings.iter().any(|sighting| sighting.what == Seen::Follows) {
        return promoted;
    }
    let deciding = deciding(reading);
    for sighting in sightings.iter().filter(|sighting| deciding.contains(sighting.by.as_str())) {
        match sighting.what {
            Seen::Follows => drop(follows.insert(&sighting.by, sighting.at.into())),
            Seen::Leads => {
                let since = follows.remove(&*sighting.by);
                let was_up = |since| !reading.ended_within(&sighting.by, since, sighting.at.into());
                promoted.extend(since.is_some_and(was_up).then_some(sighting));
            }
            _ => {}
        }
    }
    promoted
}
