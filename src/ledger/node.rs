//! Nodes: restarts that lost keys, masters that were replaced, keys that were removed.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::fault::Verb;
use lockstorm_platform::time::Nanos;
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::history::{FaultInterval, Key, PROBE_MARGIN, Request, Seen};
use crate::ledger::breach::{Breach, Ledger, above};
use crate::ledger::part::Part;
use crate::ledger::site::bound_of;
use crate::ledger::strike;
use crate::promise::Bounded;
use crate::reading::leaders;
use crate::reading::leaders::Leaders;
use crate::reading::moment::Moment;

/// The breaches of assumptions about nodes.
pub fn breaches(ledger: &Ledger) -> Vec<Breach> {
    let mut found = amnesia(ledger);
    found.extend(failovers(ledger));
    found.extend(removals(ledger));
    found.extend(leaderless(ledger));
    found.extend(unreplicated(ledger));
    found
}

/// Time after the heal in which the topology could serve no client: no lock can be granted by a
/// topology without a master, or whose nodes all report that they cannot serve, or whose master no
/// Sentinel reports. Only a time beyond the margin that the probe has in any case is a breach.
fn leaderless(ledger: &Ledger) -> Option<Breach> {
    let healed = Moment::from(ledger.reading.history.healed?);
    let gaps = leaders::leaderless(ledger.reading, ledger.site.quorum).into_iter();
    let within = gaps.map(|(from, to)| to.at.saturating_sub(from.at.max(healed.at)));
    let led_by_nobody = within.sum::<Nanos>();
    let unnamed = unnamed_until(ledger, healed).map_or(0, |until| until.at - healed.at);
    let actual = led_by_nobody.max(declined(ledger, healed)).max(unnamed);
    let (what, bound) = (Bounded::Leaderless, PROBE_MARGIN);
    (actual > bound).then_some(Breach { what, parts: Vec::new(), bound, actual })
}

/// The errors of a node that serves no client: a cluster without a majority, a node that is reading
/// its file. <https://redis.io/docs/latest/operate/oss_and_stack/management/scaling/>
pub const SERVES_NOBODY: [&str; 2] = ["CLUSTERDOWN", "LOADING"];

/// For how long after the heal so many nodes reported that they serve no client that no quorum was
/// left. The time between two such reports of a group counts unless one of its nodes served in
/// between. Nodes that would not serve in any case do not count: others lead in their place.
fn declined(ledger: &Ledger, healed: Moment) -> Nanos {
    let leaders = Leaders::of(ledger.reading.history);
    let requests = ledger.reading.history.requests.iter();
    let mut replies: Vec<(Moment, &Request)> = requests
        .filter_map(|request| Some((request.at(Leg::Applied)?.into(), request)))
        .filter(|(at, _)| *at > healed)
        .collect();
    replies.sort_by_key(|(at, _)| *at);
    // By group: the total so far; the last report, at first the heal, unless a served request
    // followed.
    let mut shut: BTreeMap<&str, (Nanos, Option<Moment>)> = BTreeMap::new();
    for (at, request) in replies {
        // If one node is queried at a time, all nodes count as one group.
        let group = if ledger.site.queried > 1 { leaders.group(&request.to) } else { "" };
        let (length, since) = shut.entry(group).or_insert((0, Some(healed)));
        let says = request.answer.as_deref().is_some_and(|word| SERVES_NOBODY.contains(&word));
        if says && leaders.would_serve(&request.to, at) {
            *length += at.at - since.replace(at).unwrap_or(at).at;
        } else if request.answer.is_none() && !request.declined {
            *since = None;
        }
    }
    let mut lengths: Vec<Nanos> = shut.into_values().map(|(length, _)| length).collect();
    lengths.sort_unstable();
    let spare = ledger.site.queried.saturating_sub(ledger.site.quorum) as usize;
    lengths.into_iter().rev().nth(spare).unwrap_or(0)
}

/// The moment until which no Sentinel was up to report the master, if none was at the heal.
fn unnamed_until(ledger: &Ledger, healed: Moment) -> Option<Moment> {
    let back = |sentinel: &String| {
        let down = deaths_of(ledger, sentinel).map(|death| ledger.reading.lasts(death));
        let down = down.filter(|(from, to)| *from <= healed && healed < *to);
        down.map(|(_, to)| to).max()
    };
    let backs: Option<Vec<Moment>> = ledger.site.sentinels.iter().map(back).collect();
    backs?.into_iter().min()
}

/// How long after the heal a master reported to clients that too few replicas have their writes.
fn unreplicated(ledger: &Ledger) -> Option<Breach> {
    let (what, bound) = (Bounded::Unreplicated, PROBE_MARGIN);
    let healed = ledger.reading.history.healed?;
    let mut told = ledger.reading.history.sightings.iter();
    let last = told.rfind(|sighting| sighting.what == Seen::Unreplicated)?;
    let actual = last.at.at.saturating_sub(healed.at);
    (actual > bound).then_some(Breach { what, parts: Vec::new(), bound, actual })
}

/// Restarts, sooner than the lock tolerates, after which keys were lost or restored, or had an
/// earlier value or an earlier expiry. A change that no reply had acknowledged is not lost.
fn amnesia(ledger: &Ledger) -> Vec<Breach> {
    let what = Bounded::AmnesiacRestart;
    let Some(bound) = bound_of(&ledger.site.assumes, what) else { return Vec::new() };
    let forgotten = ledger.reading.history.keys.iter().enumerate();
    let forgotten = forgotten.filter(|(index, key)| {
        key.change == KeyChange::LostAtRestart || was_put_back(ledger, *index, key)
    });
    let forgotten = forgotten.filter(|(_, key)| !key.unacknowledged);
    let outages = forgotten.map(|(_, key)| outage(ledger, &key.node, key.at.into()));
    let short = outages.filter(|(down, _)| *down < bound);
    short.map(|(actual, parts)| Breach { what, parts, bound, actual }).collect()
}

/// Whether a change is the effect of a start on a key: the key is as it was before a forgotten
/// change. No operation has written to the node since it died; the key was set before that.
fn was_put_back(ledger: &Ledger, index: usize, key: &Key) -> bool {
    let deaths = deaths_of(ledger, &key.node).map(|death| Moment::from(death.from));
    let death = deaths.filter(|death| *death <= Moment::from(key.at)).max();
    let Some(death) = death.max(exit_before(ledger, &key.node, key.at.into())) else {
        return false;
    };
    let own = || ledger.reading.history.keys[..index].iter().filter(|e| e.node == key.node);
    let mut since = own().filter(|earlier| Moment::from(earlier.at) > death);
    // All changes that one start causes have one place in the trace.
    since.all(|earlier| earlier.by.is_none() || earlier.at == key.at)
        && match (key.change, key.by) {
            (KeyChange::Set, Some(by)) => {
                own().any(|e| e.by == Some(by) && e.key == key.key)
                    && !ledger.reading.is_by_command(key)
            }
            (change, by) => {
                use KeyChange::{Changed, Extended, Set};
                matches!(change, Set | Extended | Changed) && by.is_none()
            }
        }
        && !ledger.reading.follows(&key.node, key.at)
}

fn deaths_of<'a>(ledger: &Ledger<'a>, node: &str) -> impl Iterator<Item = &'a FaultInterval> {
    let fault_intervals = ledger.reading.history.fault_intervals.iter();
    fault_intervals.filter(move |c| c.verb.kills() && c.strikes(node))
}

/// When a node's process had last exited on its own.
fn exit_before(ledger: &Ledger, node: &str, moment: Moment) -> Option<Moment> {
    let sightings = ledger.reading.history.sightings.iter();
    let exits = sightings.filter(|role| role.by == node && role.what == Seen::Exited);
    exits.map(|exit| Moment::from(exit.at)).filter(|exit| *exit <= moment).max()
}

/// For how long a node that had its keys back at a moment had been down, and what had stopped it: a
/// fault, an exit on its own, a full disk. Zero if no death or exit is recorded: the node may have
/// been back at once. A fault may strike a process that has already exited, and start it again.
fn outage(ledger: &Ledger, node: &str, back: Moment) -> (Nanos, Vec<Part>) {
    let earlier = deaths_of(ledger, node).filter(|death| Moment::from(death.from) <= back);
    let mut earlier: Vec<&FaultInterval> = earlier.collect();
    let last = earlier.pop();
    let exit = exit_before(ledger, node, back);
    let begins =
        |exit: &Moment| last.is_none_or(|last| !was_up(ledger, node, *exit, last.from.into()));
    if let Some(exit) = exit.filter(begins) {
        let fault_intervals = ledger.reading.history.fault_intervals.iter();
        let full = fault_intervals.filter(|c| c.verb == Verb::FullDisk && c.strikes(node));
        let full = full.filter(|c| strike::meets(c, ledger.reading, (exit, exit)));
        let starts = last.filter(|last| Moment::from(last.from) > exit);
        let parts = full.chain(starts).map(strike::part).collect();
        return (back.at.saturating_sub(exit.at), parts);
    }
    let Some(last) = last else { return (0, Vec::new()) };
    let (mut down, mut parts) = (Moment::from(last.from), vec![strike::part(last)]);
    // Overlapping outages are one; a restart ends the previous ones.
    for death in earlier.into_iter().rev() {
        let (from, to) = ledger.reading.lasts(death);
        if death.verb == Verb::Restart && from < down {
            break;
        }
        let is_one = to >= down || only_loaded(ledger, node, (to, down));
        if is_one && death.verb != Verb::Restart {
            (down, _) = (down.min(from), parts.push(strike::part(death)));
        }
    }
    (back.at.saturating_sub(down.at), parts)
}

/// Whether a node's process was up between an exit of its own and a later death.
fn was_up(ledger: &Ledger, node: &str, exit: Moment, death: Moment) -> bool {
    let mut roles = ledger.reading.history.sightings.iter().filter(|role| role.by == node);
    let has_started = roles.any(|role| {
        let at = Moment::from(role.at);
        matches!(role.what, Seen::Leads | Seen::Follows) && exit < at && at <= death
    });
    exit < death && has_started && !only_loaded(ledger, node, (exit, death))
}

/// Whether a node replied only that it was loading its file to every request that reached it
/// between two moments, and at least one did.
fn only_loaded(ledger: &Ledger, node: &str, (from, to): (Moment, Moment)) -> bool {
    let requests = ledger.reading.history.requests.iter().filter(|request| request.to == node);
    let met = requests.filter(|request| {
        let at = request.at(Leg::Applied).map(Moment::from);
        at.is_some_and(|at| from < at && at <= to)
    });
    let mut answers = met.map(|request| request.answer.as_deref()).peekable();
    answers.peek().is_some() && answers.all(|answer| answer == Some("LOADING"))
}

/// Replicas that became masters, among the nodes that could have the lock's key. If no node reports
/// roles, there is one failover if the first loss of a key was at a failover and not at a restart.
fn failovers(ledger: &Ledger) -> Option<Breach> {
    let promoted = leaders::promoted(ledger.reading);
    let mut count = promoted.len() as u64;
    let mut sightings = ledger.reading.history.sightings.iter();
    if !sightings.any(|sighting| matches!(sighting.what, Seen::Leads | Seen::Follows)) {
        let mut keys = ledger.reading.history.keys.iter();
        let first = keys
            .find(|key| matches!(key.change, KeyChange::LostAtFailover | KeyChange::LostAtRestart));
        count = u64::from(first.is_some_and(|key| key.change == KeyChange::LostAtFailover));
    }
    let by_hand = promoted.iter().flat_map(|led| ledger.reading.promoters(led));
    let parts: BTreeSet<Part> = by_hand.map(strike::part).collect();
    above(ledger, Bounded::Failover, count, parts.into_iter().collect())
}

/// Keys that were evicted, or removed by a fault's command. Other deletions without an operation
/// come from a connection of the lock's own.
fn removals(ledger: &Ledger) -> Option<Breach> {
    let (mut count, mut parts) = (0, BTreeSet::new());
    for key in &ledger.reading.history.keys {
        let own: Vec<Part> = ledger.reading.removers(key).map(strike::part).collect();
        // A replica's deletion without an operation repeats a deletion or an expiry on its master.
        let by_command = !own.is_empty() && !ledger.reading.follows(&key.node, key.at);
        if key.change == KeyChange::Evicted || by_command {
            count += 1;
            parts.extend(own);
        }
    }
    above(ledger, Bounded::KeyRemoval, count, parts.into_iter().collect())
}
