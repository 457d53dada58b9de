//! A history with indexes for repeated lookups: callers, the operations of a grant, the requests of
//! an operation, roles of nodes, clock readings, halts and deaths of processes.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::fault::{Target, Verb};
use lockstorm_platform::time::{Clock, Instant, Nanos, STILL};
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::history::{
    ClockPiece, FaultInterval, History, Key, Op, OpId, OpKind, Outcome, Request, Seen, Sighting,
};
use crate::name::Name;
use crate::reading::clocks::Clocks;
use crate::reading::key_life::{KeyLife, Lives};
use crate::reading::moment::Moment;

/// See the module documentation.
#[derive(Clone, Debug)]
pub struct HistoryIndex<'a> {
    /// The history.
    pub history: &'a History,
    /// The lock's key.
    pub lock_key: &'a str,
    /// The clocks of every host.
    pub clocks: Clocks<'a>,
    /// The places in the lock's queues, in the order of joining: members of its other keys.
    pub places: Vec<KeyLife<'a>>,
    callers: Vec<usize>,
    by_grant: Vec<Vec<OpId>>,
    deaths: BTreeMap<&'a str, Vec<Death>>,
    /// Each role that a node reported, in order: since when, and whether it is that of a replica.
    roles: BTreeMap<&'a str, Vec<(Instant, bool)>>,
    /// The requests, sorted by their operation, and where those of each operation begin.
    requests: (Vec<&'a Request>, Vec<usize>),
}

/// The death of a process, with its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Death {
    /// The moment.
    pub at: Moment,
    /// Index of the fault interval; `None` where the process's own lock ended it.
    pub interval: Option<usize>,
}

/// A fault interval in which a process was halted as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halt<'a> {
    /// The fault interval.
    pub interval: &'a FaultInterval,
    /// The beginning.
    pub from: Moment,
    /// When the process ran again or died.
    pub to: Moment,
}

/// How much of the time between two moments these halts of one process cover, in order of their
/// beginning; overlaps count once.
pub fn standing(halts: &[Halt], (from, to): (Moment, Moment)) -> Nanos {
    let (mut sum, mut done) = (0, from);
    for halt in halts {
        let (begin, end) = (halt.from.max(done), halt.to.min(to));
        if begin < end {
            sum += end.at - begin.at;
            done = end;
        }
    }
    sum
}

impl<'a> HistoryIndex<'a> {
    /// Indexes a history for the lock with that key.
    pub fn of(history: &'a History, lock_key: &'a str) -> HistoryIndex<'a> {
        let is_place = |key: &Key| key.of.as_deref().is_some_and(|queue| queue != lock_key);
        HistoryIndex {
            history,
            lock_key,
            clocks: Clocks::of(history),
            places: Lives::of(history, is_place, |_, _| false, &BTreeMap::new()).lives,
            callers: number_callers(history),
            by_grant: sort_by_grant(history),
            deaths: deaths(history),
            roles: roles(history),
            requests: sort_by_op(history),
        }
    }

    /// The operation with that id.
    pub fn op(&self, id: OpId) -> Option<&'a Op> {
        let ops = &self.history.ops;
        let place = ops.get(id as usize).filter(|op| op.id == id);
        place.or_else(|| ops.binary_search_by_key(&id, |op| op.id).ok().map(|at| &ops[at]))
    }

    /// The number of an operation's caller, the same for all operations of one caller.
    pub fn caller(&self, id: OpId) -> usize {
        self.callers[id as usize]
    }

    /// The acquire to which a key belongs that an operation set or extended: the operation itself,
    /// or the acquire of an extend's grant. A key that a release sets belongs to none.
    pub fn owner(&self, by: OpId) -> Option<OpId> {
        let owner = match self.op(by)?.kind {
            OpKind::Acquire => by,
            OpKind::Extend { grant, .. } => grant,
            _ => return None,
        };
        self.op(owner).is_some_and(|op| op.kind == OpKind::Acquire).then_some(owner)
    }

    /// Every acquire of the lock.
    pub fn acquires(&self) -> impl Iterator<Item = &'a Op> + '_ {
        let ops = self.history.ops.iter();
        ops.filter(|op| op.kind == OpKind::Acquire && op.is_on(self.lock_key))
    }

    /// The extends, releases and losses of an acquire's grant, in order of their ids.
    pub fn ops_of(&self, grant: OpId) -> impl Iterator<Item = &'a Op> {
        let ops = self.by_grant.get(grant as usize).map_or(&[][..], Vec::as_slice);
        ops.iter().filter_map(|id| self.op(*id))
    }

    /// The requests of an operation, in order.
    pub fn requests_of(&self, op: OpId) -> &[&'a Request] {
        let (requests, starts) = &self.requests;
        let bound = |op: usize| starts.get(op).copied().unwrap_or(requests.len());
        &requests[bound(op as usize)..bound(op as usize + 1)]
    }

    /// The nodes that received a request which `counts`.
    pub fn nodes_of(&self, counts: impl Fn(&Request) -> bool) -> BTreeSet<&'a str> {
        let mut nodes: Vec<&Name> = Vec::new();
        for request in &self.history.requests {
            // Few nodes receive many requests: only the first that counts is looked at closely.
            let is_known = nodes.iter().any(|node| node.shares(&request.to));
            if !is_known && !nodes.contains(&&request.to) && counts(request) {
                nodes.push(&request.to);
            }
        }
        nodes.into_iter().map(Name::as_str).collect()
    }

    /// When a node executed the commands of an operation, except those that it declined.
    pub fn commands(&self, op: OpId, node: &str) -> impl Iterator<Item = Instant> {
        let own = self.requests_of(op).iter();
        let own = own.filter(move |request| request.to == node && !request.declined);
        own.filter_map(|request| request.at(Leg::Applied))
    }

    /// Whether a command that the node executed made a change, rather than its master, a start or
    /// the node itself.
    pub fn is_by_command(&self, key: &Key) -> bool {
        let made = |by: OpId| self.commands(by, &key.node).any(|at| at.at == key.at.at);
        key.by.is_some_and(made)
    }

    /// Whether a node's process was killed, or exited on its own, between two moments.
    pub fn ended_within(&self, node: &str, from: Moment, to: Moment) -> bool {
        let mut sightings = self.history.sightings.iter();
        let exited = sightings.any(|seen| {
            let at = Moment::from(seen.at);
            seen.by == node && seen.what == Seen::Exited && from < at && at <= to
        });
        exited || self.death_after(node, from).is_some_and(|death| death.at <= to)
    }

    /// The first death of the process after a moment.
    pub fn death_after(&self, process: &str, moment: Moment) -> Option<Death> {
        let deaths = self.deaths.get(process)?;
        deaths.get(deaths.partition_point(|death| death.at <= moment)).copied()
    }

    /// The intervals in which a process was halted, in order of their beginning. A death ends one:
    /// a process that is started again runs.
    pub fn halts(&self, process: &str) -> impl Iterator<Item = Halt<'a>> {
        let fault_intervals = self.history.fault_intervals.iter();
        let own = fault_intervals.filter(move |c| c.verb.halts() && c.strikes(process));
        own.map(|interval| {
            let (from, to) = self.lasts(interval);
            Halt { interval, from, to }
        })
    }

    /// Whether a process is halted at a moment.
    pub fn is_halted(&self, process: &str, at: Moment) -> bool {
        self.halts(process).any(|halt| halt.from <= at && at < halt.to)
    }

    /// Whether an access to the resource is the first of its caller since the start of its process,
    /// and has to connect.
    pub fn connects(&self, access: &Op) -> bool {
        let mut earlier = self.history.ops.iter().take_while(|op| op.id != access.id);
        !earlier.any(|op| {
            let died = || self.death_after(&op.process, op.call.into());
            let since = |access: &Op| died().is_none_or(|death| death.at > access.call.into());
            op.caller == access.caller && op.kind.access_grant().is_some() && since(access)
        })
    }

    /// The beginning and the end of a fault interval. The death of its process ends a halt.
    pub fn lasts(&self, interval: &FaultInterval) -> (Moment, Moment) {
        let from = Moment::from(interval.from);
        let to = Moment::from(interval.until(self.history.end));
        let death = match &interval.target {
            Target::Host(host) if interval.verb.halts() => self.death_after(host, from),
            _ => None,
        };
        (from, death.map_or(to, |death| death.at.min(to)))
    }

    /// When a fault was over for its target. A suspension is over once its machine loses power or
    /// its clocks run again, even if a process died meanwhile.
    pub fn is_over_at(&self, interval: &FaultInterval) -> Moment {
        let (from, over) = self.lasts(interval);
        let host = match &interval.target {
            Target::Host(host) if interval.verb == Verb::Suspend => host,
            _ => return over,
        };
        let own = self.history.fault_intervals.iter().filter(|c| c.strikes(host));
        let offs = own.filter(|c| c.verb == Verb::PowerLoss).map(|c| Moment::from(c.from));
        let off = offs.filter(|off| *off >= over).min();
        let runs =
            |piece: &&&ClockPiece| Moment::from(piece.from) > from && piece.line.rate_ppm > STILL;
        let mut pieces = self.clocks.pieces(host, Clock::Monotonic).iter();
        let resumed = pieces.find(runs).map(|piece| Moment::from(piece.from));
        let until = Moment::from(interval.until(self.history.end));
        [off, resumed].into_iter().flatten().min().map_or(over, |end| end.min(until))
    }

    /// When a fault acts: its interval, or from the first to the last effect of its command.
    pub fn acts(&self, interval: &FaultInterval) -> (Moment, Moment) {
        match interval.done[..] {
            [] => self.lasts(interval),
            [first, .., last] | [first @ last] => (first.into(), last.into()),
        }
    }

    /// The faults whose command removed a key: an eviction or a flush.
    pub fn removers(&self, key: &'a Key) -> impl Iterator<Item = &'a FaultInterval> + use<'a> {
        let is_gone = matches!(key.change, KeyChange::Evicted | KeyChange::Deleted);
        let own = self.history.fault_intervals.iter().filter(move |interval| {
            let removes = matches!(interval.verb, Verb::Evict { .. } | Verb::Flush);
            removes && interval.strikes(&key.node) && interval.done.contains(&key.at)
        });
        own.filter(move |_| is_gone && key.by.is_none())
    }

    /// The faults whose command caused the promotion that a node reported.
    pub fn promoters(
        &self,
        led: &'a Sighting,
    ) -> impl Iterator<Item = &'a FaultInterval> + use<'a> {
        self.history.fault_intervals.iter().filter(move |interval| {
            let promotes = interval.verb == Verb::Failover && interval.strikes(&led.by);
            promotes && interval.done.contains(&led.at)
        })
    }

    /// Whether a key began before a moment, or a start of its node restored it and the operation
    /// that had set it was over by then.
    pub fn is_from_before(&self, key: &Key, moment: Moment) -> bool {
        let is_over = |by: &OpId| {
            let ret = self.op(*by).and_then(|op| op.ret);
            ret.is_some_and(|ret| Moment::from(ret) < moment)
        };
        // Evaluated last: it reads the requests of the operation, and most keys are older.
        let is_restored = || key.by.as_ref().is_some_and(is_over) && !self.is_by_command(key);
        Moment::from(key.at) < moment || is_restored()
    }

    /// Whether the last role that a node had reported by an instant is that of a replica.
    pub fn follows(&self, node: &str, at: Instant) -> bool {
        let roles = self.roles.get(node).map_or(&[][..], Vec::as_slice);
        let reported = roles.partition_point(|(since, _)| *since <= at);
        reported.checked_sub(1).is_some_and(|last| roles[last].1)
    }

    /// Whether an acquire was granted.
    pub fn is_granted(&self, id: OpId) -> bool {
        self.op(id).is_some_and(|op| matches!(op.outcome, Outcome::Granted { .. }))
    }
}

fn number_callers(history: &History) -> Vec<usize> {
    let mut numbers = BTreeMap::new();
    let mut callers = vec![0; ids(history)];
    for op in &history.ops {
        let next = numbers.len();
        callers[op.id as usize] = *numbers.entry(op.caller.as_str()).or_insert(next);
    }
    callers
}

/// The number of ids: a history from which parts were removed keeps the ids of the rest.
fn ids(history: &History) -> usize {
    history.ops.last().map_or(0, |last| last.id as usize + 1)
}

fn sort_by_grant(history: &History) -> Vec<Vec<OpId>> {
    let mut by_grant = vec![Vec::new(); ids(history)];
    for op in &history.ops {
        let (OpKind::Extend { grant, .. } | OpKind::Release { grant } | OpKind::Lost { grant }) =
            op.kind
        else {
            continue;
        };
        if let Some(ops) = by_grant.get_mut(grant as usize) {
            ops.push(op.id);
        }
    }
    by_grant
}

/// Counts instead of comparing, because every run of a hunt is indexed. A request without an
/// operation is left out.
fn sort_by_op(history: &History) -> (Vec<&Request>, Vec<usize>) {
    let ids = ids(history);
    let own = || history.requests.iter().filter(|request| (request.op as usize) < ids);
    let mut starts = vec![0; ids + 1];
    for request in own() {
        starts[request.op as usize + 1] += 1;
    }
    for op in 0..ids {
        starts[op + 1] += starts[op];
    }
    let mut next = starts.clone();
    let mut requests: Vec<&Request> = own().collect();
    for request in own() {
        let place = &mut next[request.op as usize];
        requests[*place] = request;
        *place += 1;
    }
    (requests, starts)
}

fn deaths(history: &History) -> BTreeMap<&str, Vec<Death>> {
    let mut deaths: BTreeMap<_, Vec<Death>> = BTreeMap::new();
    for (index, interval) in history.fault_intervals.iter().enumerate() {
        if let (true, Target::Host(host)) = (interval.verb.kills(), &interval.target) {
            let death = Death { at: interval.from.into(), interval: Some(index) };
            deaths.entry(host.as_str()).or_default().push(death);
        }
    }
    for breach in history.breaches.iter().filter(|breach| breach.clause.is_fatal()) {
        let death = Death { at: breach.at.into(), interval: None };
        deaths.entry(breach.process.as_str()).or_default().push(death);
    }
    for deaths in deaths.values_mut() {
        deaths.sort();
    }
    deaths
}

fn roles(history: &History) -> BTreeMap<&str, Vec<(Instant, bool)>> {
    let mut roles: BTreeMap<_, Vec<(Instant, bool)>> = BTreeMap::new();
    for sighting in &history.sightings {
        if let Seen::Leads | Seen::Follows = sighting.what {
            let follows = sighting.what == Seen::Follows;
            roles.entry(sighting.by.as_str()).or_default().push((sighting.at, follows));
        }
    }
    debug_assert!(roles.values().all(|roles| roles.is_sorted()), "sightings are in order");
    roles
}

#[cfg(test)]
mod tests {
    use lockstorm_platform::fault::{Target, Verb};
    use lockstorm_platform::time::Instant;

    use super::{Halt, standing};
    use crate::history::FaultInterval;
    use crate::reading::moment::Moment;

    #[test]
    fn a_halt_counts_within_the_stretch_and_overlaps_count_once() {
        let at = |at| Instant { seq: at, at };
        let interval = FaultInterval {
            fault: 1,
            verb: Verb::Pause,
            target: Target::Host("c1".to_owned()),
            from: at(0),
            to: None,
            met: None,
            done: Vec::new(),
        };
        let sum = |halts: &[(u64, u64)]| {
            let halt = |(from, to): &(u64, u64)| {
                let (from, to) = (at(*from).into(), at(*to).into());
                Halt { interval: &interval, from, to }
            };
            let halts: Vec<Halt> = halts.iter().map(halt).collect();
            standing(&halts, (Moment::from(at(10)), Moment::from(at(20))))
        };
        assert_eq!(sum(&[(12, 15)]), 3);
        assert_eq!(sum(&[(0, 12), (18, 90)]), 4);
        assert_eq!(sum(&[(11, 15), (13, 16)]), 5);
        assert_eq!(sum(&[(0, 10), (20, 30)]), 0);
    }
}
