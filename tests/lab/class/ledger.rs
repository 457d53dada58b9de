//! A second assumption ledger, written from the rules (the docs of `Bounded`, the definitions of
//! "hold" and "assumption") and from nothing in `src/ledger`. It reads instants one by one.
//!
//! - A stretch of a client: from an acquire's call until its refusal, or the return of its release,
//!   or the notification of its loss (by a notice or by an extend of its own), or the death of its
//!   process; otherwise to the end of the run. A re-entry begins no stretch: it extends the current
//!   one until the re-entry is over too, which it is at once if it was not granted.
//! - Paused in a stretch: its true time during which a pause or suspend that held anything back
//!   acted on the client.
//! - Late in a stretch: the time of its accesses (until they returned, or arrived, whichever is
//!   later; without pauses) above two messages each and two to connect.
//! - `client-pause`: paused and late together, in one stretch with a pause; paused alone if what is
//!   late breaches `access-delay` by itself. `hold-pause`: the same, but paused from the return of
//!   the first grant of the stretch on. `access-delay`: late alone, or the worst single arrival
//!   above one message.
//! - `client-crash`: deaths inside a stretch. `node-clock-step`, `client-clock-step`: the shift of
//!   a wall clock between any two moments. `drift`: the maximum difference of rates at one moment,
//!   true time's being one of them.
//! - `amnesiac-restart`: the minimum time from a death to a start after which keys were lost,
//!   deleted ones were restored, or keys expired as before they were extended, unless they are as
//!   they were when the node last replied. Two deaths between which it only replied that it is
//!   loading are one. `failover`: replicas that became masters, of those that could have the key.
//!   `key-removal`: keys evicted, or deleted by a fault on a master. `leaderless`: time after the heal without a master, of the nodes that
//!   ever followed or led one that had the key, or with too few of several that are queried; or
//!   until which too many reported that they serve no client, or no Sentinel was up; above 5 s.
//!   `unreplicated`: how long after the heal a master last reported that too few replicas have a
//!   write, if more than 5 s.

use std::collections::{BTreeMap, BTreeSet};

use lockstorm::history::{FaultInterval, History, Key, Op, OpKind, Outcome, Request, Seen};
use lockstorm::plan::Plan;
use lockstorm::promise::{Bounded, Promise};
use lockstorm_platform::fault::{Target, Verb};
use lockstorm_platform::time::Clock;
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::class::unanswered::is_as_last_replied;

/// True time, then the position in the trace.
type Point = (u64, u64);

/// The input.
pub struct Book<'a> {
    pub history: &'a History,
    pub plan: &'a Plan,
    /// The maximum time of one message without disturbance, ns.
    pub message: u64,
}

/// The assumptions of a promise that a run breached, with the worst figure of each.
pub fn broken(book: &Book, promise: &Promise) -> BTreeMap<Bounded, u64> {
    let mut found = BTreeMap::new();
    let leaderless = book.leaderless();
    if leaderless > 5_000_000_000 {
        found.insert(Bounded::Leaderless, leaderless);
    }
    let short = book.unreplicated();
    if short > 5_000_000_000 {
        found.insert(Bounded::Unreplicated, short);
    }
    for assumption in &promise.assumes {
        let (what, bound) = (assumption.what, assumption.bound);
        if what == Bounded::AmnesiacRestart {
            let shortest = book.amnesias().into_iter().min();
            found.extend(shortest.filter(|down| *down < bound).map(|down| (what, down)));
            continue;
        }
        let delay = promise.assumes.iter().find(|a| a.what == Bounded::AccessDelay);
        let worst = book.worst(what, delay.map_or(u64::MAX, |delay| delay.bound));
        if worst > bound {
            found.insert(what, worst);
        }
    }
    found
}

impl Book<'_> {
    fn worst(&self, what: Bounded, delay: u64) -> u64 {
        match what {
            Bounded::ClientPause => self.most(|own| self.taken(own, own.stretch.0, delay)),
            Bounded::HoldPause => self.most(|own| {
                let granted = self.granted(own);
                granted.map_or(0, |granted| self.taken(own, granted, delay))
            }),
            Bounded::AccessDelay => self.most(|own| {
                let (all, single) = self.late(own);
                all.max(single)
            }),
            Bounded::ClientCrash => self.deaths(),
            Bounded::NodeClockStep => {
                self.plan.nodes().iter().map(|node| self.astray(node)).max().unwrap_or(0)
            }
            Bounded::ClientClockStep => {
                self.callers().iter().map(|client| self.astray(client)).max().unwrap_or(0)
            }
            Bounded::Drift => self.drift(),
            // The plans draw only faults: their clocks start together.
            Bounded::Skew => 0,
            Bounded::Failover => self.failovers(),
            Bounded::KeyRemoval => self.removals(),
            // The plans draw only faults: their work fits.
            Bounded::Work => 0,
            Bounded::AmnesiacRestart => unreachable!("its figure is a least one"),
            Bounded::Leaderless | Bounded::Unreplicated | Bounded::Misuse => {
                unreachable!("no promise says it")
            }
        }
    }

    /// What pauses from a moment on, and late accesses, take from a stretch.
    fn taken(&self, own: &Own, from: Point, delay: u64) -> u64 {
        let paused = self.paused(&own.process, (from, own.stretch.1));
        let (all, single) = self.late(own);
        if paused > 0 && all.max(single) <= delay { paused + all } else { paused }
    }

    /// When the first grant of a stretch returned.
    fn granted(&self, own: &Own) -> Option<Point> {
        let granted = self.history.ops.iter().filter(|op| {
            own.acquires.contains(&op.id) && matches!(op.outcome, Outcome::Granted { .. })
        });
        granted.filter_map(|op| op.ret.map(|ret| (ret.at, ret.seq))).min()
    }

    fn callers(&self) -> BTreeSet<String> {
        self.history.ops.iter().map(|op| op.process.clone()).collect()
    }

    fn end(&self) -> Point {
        (self.history.end.at, self.history.end.seq)
    }

    /// The beginning and end of a fault.
    fn span(&self, interval: &FaultInterval) -> (Point, Point) {
        let to = interval.to.unwrap_or(self.history.end);
        ((interval.from.at, interval.from.seq), (to.at, to.seq))
    }

    fn on<'a>(&'a self, host: &'a str) -> impl Iterator<Item = &'a FaultInterval> {
        let is =
            move |c: &&FaultInterval| matches!(&c.target, Target::Host(target) if target == host);
        self.history.fault_intervals.iter().filter(is)
    }

    fn kills(interval: &FaultInterval) -> bool {
        matches!(interval.verb, Verb::Crash | Verb::PowerLoss | Verb::Restart)
    }

    fn owns(&self) -> Vec<Own> {
        let ops = self.history.ops.iter().filter(|op| {
            op.kind == OpKind::Acquire && op.object == self.plan.lock.key && op.process != "probe"
        });
        let mut owns: BTreeMap<u32, Vec<&Op>> = BTreeMap::new();
        for op in ops {
            owns.entry(self.begun_by(op)).or_default().push(op);
        }
        owns.into_values().map(|acquires| self.own(&acquires)).collect()
    }

    /// The acquire under which a client re-entered the lock, or the acquire itself.
    fn begun_by(&self, acquire: &Op) -> u32 {
        let granted = |op: &Op| matches!(op.outcome, Outcome::Granted { .. });
        let call = (acquire.call.at, acquire.call.seq);
        let back = acquire.ret.filter(|_| granted(acquire)).map(|ret| (ret.at, ret.seq));
        let outer = self.history.ops.iter().find(|op| {
            let had = op.ret.is_some_and(|ret| (ret.at, ret.seq) <= call);
            let kept = || self.let_go(op) > back.unwrap_or(call);
            let again = self.plan.workload.reenter && op.kind == OpKind::Acquire && granted(op);
            again && op.caller == acquire.caller && had && kept()
        });
        outer.map_or(acquire.id, |outer| self.begun_by(outer))
    }

    /// When the client of a grant began to release it, was notified of its loss or died.
    fn let_go(&self, acquire: &Op) -> Point {
        let ends = self.history.ops.iter().filter_map(|op| match op.kind {
            OpKind::Release { grant } | OpKind::Lost { grant } if grant == acquire.id => {
                Some((op.call.at, op.call.seq))
            }
            OpKind::Extend { grant, background: false } if grant == acquire.id => {
                op.ret.filter(|_| op.outcome == Outcome::Lost).map(|ret| (ret.at, ret.seq))
            }
            _ => None,
        });
        let had = acquire.ret.map(|ret| (ret.at, ret.seq));
        let deaths = self.on(&acquire.process).filter(|c| Book::kills(c));
        let deaths = deaths.map(|death| self.span(death).0).filter(|at| Some(*at) > had);
        ends.chain(deaths).min().unwrap_or(self.end())
    }

    /// One stretch: of an acquire and of those that were called under it.
    fn own(&self, acquires: &[&Op]) -> Own {
        let first = acquires[0];
        let from = (first.call.at, first.call.seq);
        let over = acquires.iter().map(|acquire| self.over(acquire, acquire.id != first.id));
        let mut to = over.max().unwrap_or(self.end());
        for interval in self.on(&first.process).filter(|c| Book::kills(c)) {
            let at = self.span(interval).0;
            to = if at > from { to.min(at) } else { to };
        }
        let acquires = acquires.iter().map(|acquire| acquire.id).collect();
        Own { acquires, process: first.process.clone(), stretch: (from, to) }
    }

    /// When the client had finished with an acquire and its grant.
    fn over(&self, acquire: &Op, is_again: bool) -> Point {
        let Some(ret) = acquire.ret.map(|ret| (ret.at, ret.seq)) else { return self.end() };
        if matches!(acquire.outcome, Outcome::Refused { .. }) {
            return ret;
        }
        let mut releases = Vec::new();
        let mut losses = Vec::new();
        for op in &self.history.ops {
            let back = op.ret.map(|ret| (ret.at, ret.seq));
            match op.kind {
                OpKind::Release { grant } if grant == acquire.id => releases.push(back),
                OpKind::Lost { grant } if grant == acquire.id => losses.extend(back),
                OpKind::Extend { grant, background: false } if grant == acquire.id => {
                    losses.extend(back.filter(|_| op.outcome == Outcome::Lost));
                }
                _ => {}
            }
        }
        if releases.iter().any(Option::is_none) {
            return self.end();
        }
        let none = is_again && !matches!(acquire.outcome, Outcome::Granted { .. });
        let released = releases.into_iter().flatten().max();
        released.or(losses.into_iter().min()).or(none.then_some(ret)).unwrap_or(self.end())
    }

    fn most(&self, of: impl Fn(&Own) -> u64) -> u64 {
        self.owns().iter().map(of).max().unwrap_or(0)
    }

    /// True time between two points in which the client was paused, edge by edge.
    fn paused(&self, client: &str, (from, to): (Point, Point)) -> u64 {
        let halts = self.on(client).filter(|c| matches!(c.verb, Verb::Pause | Verb::Suspend));
        let halts = halts.filter(|c| c.met != Some(0));
        let halts: Vec<(Point, Point)> = halts
            .map(|halt| {
                // A process that died in the meantime and was restarted runs.
                let (from, to) = self.span(halt);
                let deaths = self.on(client).filter(|c| Book::kills(c));
                let deaths = deaths.map(|death| self.span(death).0).filter(|death| *death > from);
                (from, deaths.min().map_or(to, |death| death.min(to)))
            })
            .collect();
        let mut edges: Vec<Point> = halts.iter().flat_map(|(a, b)| [*a, *b]).collect();
        edges.extend([from, to]);
        edges.retain(|edge| from <= *edge && *edge <= to);
        edges.sort_unstable();
        let stood = |at: Point| halts.iter().any(|(a, b)| *a <= at && at < *b);
        let pieces = edges.windows(2).filter(|pair| stood(pair[0]));
        pieces.map(|pair| pair[1].0 - pair[0].0).sum()
    }

    /// The total delay of the accesses of a stretch, and the worst arrival.
    fn late(&self, own: &Own) -> (u64, u64) {
        let (mut took, mut count, mut worst) = (0, 0, 0);
        for op in &self.history.ops {
            if !op.kind.access_grant().is_some_and(|grant| own.acquires.contains(&grant)) {
                continue;
            }
            let call = (op.call.at, op.call.seq);
            let running = |to: Point| to.0 - call.0 - self.paused(&own.process, (call, to));
            let arrival = self.history.accesses.iter().find(|access| access.op == op.id);
            let arrival = arrival.map(|access| (access.at.at, access.at.seq));
            let back = op.ret.map(|ret| (ret.at, ret.seq));
            if let Some(arrival) = arrival {
                let ways = if self.is_first(op) { 3 } else { 1 };
                worst = worst.max(running(arrival).saturating_sub(self.message * ways));
            }
            let Some(over) = [arrival, back].into_iter().flatten().max() else { continue };
            took += running(over);
            count += 1;
        }
        (took.saturating_sub(self.message * (2 + 2 * count)), worst)
    }

    /// Whether an access is the first since its process started.
    fn is_first(&self, access: &Op) -> bool {
        let call = (access.call.at, access.call.seq);
        let deaths = self.on(&access.process).filter(|c| Book::kills(c));
        let born = deaths.map(|death| self.span(death).0).filter(|at| *at <= call).max();
        let earlier = self.history.ops.iter().filter(|op| op.id < access.id);
        let mut earlier = earlier.filter(|op| op.process == access.process);
        !earlier.any(|op| {
            op.kind.access_grant().is_some()
                && born.is_none_or(|born| (op.call.at, op.call.seq) >= born)
        })
    }

    /// The nodes that ever had the key, and those that followed one of them or were followed.
    fn kin(&self) -> BTreeSet<&str> {
        let roles = || self.history.sightings.iter().filter(|role| role.what == Seen::Follows);
        let known: BTreeSet<&str> = self
            .history
            .sightings
            .iter()
            .filter(|role| matches!(role.what, Seen::Leads | Seen::Follows))
            .map(|role| role.by.as_str())
            .collect();
        let keys = self.history.keys.iter().filter(|key| key.key == self.plan.lock.key);
        let mut kin: BTreeSet<&str> = keys.map(|key| key.node.as_str()).collect();
        kin.retain(|node| known.contains(node));
        for _ in roles() {
            for role in roles() {
                if kin.contains(role.by.as_str()) || kin.contains(role.master.as_str()) {
                    kin.extend([role.by.as_str(), role.master.as_str()]);
                }
            }
        }
        kin
    }

    /// True time after the heal without a master among the nodes related to the key.
    fn leaderless(&self) -> u64 {
        let Some(healed) = self.history.healed else { return 0 };
        let roles: Vec<_> = self
            .history
            .sightings
            .iter()
            .filter(|s| matches!(s.what, Seen::Leads | Seen::Follows | Seen::Exited))
            .collect();
        let several = self.queries_several();
        let kin = match several {
            true => roles.iter().map(|role| role.by.as_str()).collect(),
            false => self.kin(),
        };
        let leads = |node: &str, at: Point| {
            let known = roles.iter().filter(|r| r.by == node && (r.at.at, r.at.seq) <= at);
            let Some(known) = known.max_by_key(|role| role.at.seq) else { return false };
            let since = (known.at.at, known.at.seq);
            let died = self.on(node).filter(|c| Book::kills(c)).map(|c| self.span(c).0);
            known.what == Seen::Leads && !died.into_iter().any(|died| since < died && died <= at)
        };
        let from = (healed.at, healed.seq);
        let mut edges: Vec<Point> = roles.iter().map(|role| (role.at.at, role.at.seq)).collect();
        edges.retain(|edge| from < *edge && *edge < self.end());
        edges.extend([from, self.end()]);
        edges.sort_unstable();
        let known = roles.iter().any(|role| kin.contains(role.by.as_str()));
        // A master has the number in its own name, or in that of its first master.
        let topology = &self.plan.topology;
        let set = |node: &str| {
            let nth: u32 = node[1..].parse().expect("n and a number");
            if several { topology.master_of(nth).unwrap_or(nth) } else { 0 }
        };
        let needed = if several { self.quorum() } else { 1 };
        let empty = |at: Point| {
            let led = kin.iter().filter(|node| leads(node, at)).map(|node| set(node));
            known && led.collect::<BTreeSet<_>>().len() < needed
        };
        let gone: u64 =
            edges.windows(2).filter(|pair| empty(pair[0])).map(|pair| pair[1].0 - pair[0].0).sum();
        gone.max(self.declined(from)).max(self.unnamed(from))
    }

    fn queries_several(&self) -> bool {
        self.plan.lock.algorithm.starts_with("redlock")
    }

    fn quorum(&self) -> usize {
        let masters = self.plan.topology.masters();
        self.plan.lock.quorum.unwrap_or(masters / 2 + 1) as usize
    }

    /// How long after the heal no quorum was left of the nodes that did not report that they serve
    /// no client.
    fn declined(&self, healed: Point) -> u64 {
        let mut last: BTreeMap<&str, u64> = BTreeMap::new();
        for request in &self.history.requests {
            if !matches!(request.answer.as_deref(), Some("CLUSTERDOWN" | "LOADING")) {
                continue;
            }
            let Some((_, at)) = request.legs.iter().find(|(leg, _)| *leg == Leg::Applied) else {
                continue;
            };
            let node = if self.queries_several() { request.to.as_str() } else { "all" };
            let until = last.entry(node).or_insert(0);
            *until = (*until).max(at.at.saturating_sub(healed.0));
        }
        let mut last: Vec<u64> = last.into_values().collect();
        last.sort_unstable_by(|a, b| b.cmp(a));
        let spare = match self.queries_several() {
            true => self.plan.topology.masters() as usize - self.quorum(),
            false => 0,
        };
        last.get(spare).copied().unwrap_or(0)
    }

    /// How long after the heal every Sentinel was down, if there are any.
    fn unnamed(&self, healed: Point) -> u64 {
        let down = |name: &String| {
            let kills = self.on(name).filter(|c| Book::kills(c)).map(|c| self.span(c));
            let kills = kills.filter(|(from, to)| *from <= healed && healed < *to);
            kills.map(|(_, to)| to.0 - healed.0).max().unwrap_or(0)
        };
        self.plan.sentinels().iter().map(down).min().unwrap_or(0)
    }

    fn unreplicated(&self) -> u64 {
        let Some(healed) = self.history.healed else { return 0 };
        let said = self.history.sightings.iter().filter(|s| s.what == Seen::Unreplicated);
        said.map(|said| said.at.at.saturating_sub(healed.at)).max().unwrap_or(0)
    }

    fn deaths(&self) -> u64 {
        let owns = self.owns();
        let deaths = self.history.fault_intervals.iter().filter(|interval| {
            let at = self.span(interval).0;
            let met = |own: &&Own| {
                matches!(&interval.target, Target::Host(host) if *host == own.process)
                    && own.stretch.0 < at
                    && at <= own.stretch.1
            };
            Book::kills(interval) && owns.iter().any(|own| met(&own))
        });
        deaths.count() as u64
    }

    /// The largest difference between two readings of a wall clock from its course, over all pairs
    /// of moments at which a step or a freeze begins or ends.
    fn astray(&self, host: &str) -> u64 {
        let own: Vec<&FaultInterval> = self.on(host).collect();
        let is_freeze = |interval: &&&FaultInterval| interval.verb == Verb::ClockFreeze;
        let freezes: Vec<(u64, u64)> = own
            .iter()
            .filter(is_freeze)
            .map(|interval| self.span(interval))
            .map(|(from, to)| (from.0, to.0))
            .collect();
        let steps: Vec<(u64, i64)> = own
            .iter()
            .filter_map(|interval| match interval.verb {
                Verb::ClockStep { by } => Some((self.span(interval).0.0, by)),
                _ => None,
            })
            .collect();
        let mut marks: Vec<u64> = freezes.iter().flat_map(|(from, to)| [*from, *to]).collect();
        marks.extend(steps.iter().map(|(at, _)| *at));
        marks.push(0);
        marks.sort_unstable();
        let stands = |at: u64| freezes.iter().any(|(from, to)| *from <= at && at < *to);
        let stood = |until: u64| -> u64 {
            let pieces = marks.windows(2).filter(|pair| pair[1] <= until && stands(pair[0]));
            pieces.map(|pair| pair[1] - pair[0]).sum()
        };
        let mut off = vec![0_i64];
        for mark in &marks {
            let done = steps.iter().filter(|(at, _)| at < mark).map(|(_, by)| by).sum::<i64>();
            let now: i64 = steps.iter().filter(|(at, _)| at == mark).map(|(_, by)| *by).sum();
            let stood = i64::try_from(stood(*mark)).unwrap_or(i64::MAX);
            off.extend([done - stood, done + now - stood]);
        }
        let most = off.iter().max().copied().unwrap_or(0);
        most.abs_diff(off.iter().min().copied().unwrap_or(0))
    }

    fn drift(&self) -> u64 {
        let mut hosts = self.callers();
        hosts.extend(self.plan.nodes());
        let rate = |host: &String, at: Point| {
            let pieces = self.history.clocks.iter().rev();
            let mut own = pieces.filter(|piece| {
                piece.host == *host
                    && piece.clock == Clock::Boot
                    && (piece.from.at, piece.from.seq) <= at
            });
            own.next().map_or(0, |piece| i64::from(piece.line.rate_ppm))
        };
        let moments = self.history.clocks.iter().map(|piece| (piece.from.at, u64::MAX));
        let apart = moments.map(|at| {
            let mut rates: Vec<i64> = hosts.iter().map(|host| rate(host, at)).collect();
            rates.push(0);
            rates.iter().max().unwrap_or(&0).abs_diff(*rates.iter().min().unwrap_or(&0))
        });
        apart.max().unwrap_or(0)
    }

    /// The down time before each start after which a node's keys differed from the previous ones.
    /// Whether a request of the key's operation was applied as the key changed.
    fn is_command(&self, key: &Key) -> bool {
        self.history.requests.iter().any(|request| {
            let mut legs = request.legs.iter();
            Some(request.op) == key.by
                && request.to == key.node
                && legs.any(|(leg, at)| *leg == Leg::Applied && at.at == key.at.at)
        })
    }

    fn amnesias(&self) -> Vec<u64> {
        let mut found = Vec::new();
        for (index, key) in self.history.keys.iter().enumerate() {
            let at = (key.at.at, key.at.seq);
            let deaths: Vec<&FaultInterval> =
                self.on(&key.node).filter(|c| Book::kills(c) && self.span(c).0 <= at).collect();
            let exits = self.history.sightings.iter().filter(|s| {
                s.by == key.node && s.what == Seen::Exited && (s.at.at, s.at.seq) <= at
            });
            let exit = exits.map(|s| (s.at.at, s.at.seq)).max();
            let died = deaths.iter().map(|death| self.span(death).0).max();
            let last = died.max(exit);
            let earlier = || self.history.keys[..index].iter().filter(|e| e.node == key.node);
            // An older state: without an operation, or of an operation of an earlier command.
            let older = match key.change {
                // A client may send the command of one operation again.
                KeyChange::Set if key.by.is_some() => {
                    earlier().any(|e| e.by == key.by && e.key == key.key) && !self.is_command(key)
                }
                KeyChange::Set | KeyChange::Extended => key.by.is_none(),
                _ => false,
            };
            let untouched = last.is_some_and(|last| {
                let mut since = earlier().filter(|e| (e.at.at, e.at.seq) > last);
                since.all(|e| e.by.is_none() || e.at.seq == key.at.seq)
            });
            let again = older && untouched && !self.follows(&key.node, at);
            if key.change != KeyChange::LostAtRestart && !again {
                continue;
            }
            if is_as_last_replied(self.history, key) {
                continue;
            }
            // A process that exited on its own may be struck, and started, by a later fault.
            let began =
                exit.filter(|exit| died.is_none_or(|died| !self.was_up(&key.node, *exit, died)));
            let mut down = began.or(last).unwrap_or(at);
            // Back through overlapping outages, and through those between which it only loaded.
            for death in deaths.iter().rev().filter(|_| began.is_none()) {
                let (from, to) = self.span(death);
                let restarts = death.verb == Verb::Restart;
                if restarts && from < down {
                    break;
                }
                let is_one = to >= down || self.only_loads(&key.node, to, down);
                if from < down && is_one && !restarts {
                    down = from;
                }
            }
            found.push(at.0 - down.0);
        }
        found
    }

    /// Whether all that a node replied between two moments is that it is loading.
    fn only_loads(&self, node: &str, from: Point, to: Point) -> bool {
        let mut served = self.history.requests.iter().filter(|request| {
            let mut legs = request.legs.iter().map(|(leg, at)| (*leg, (at.at, at.seq)));
            request.to == node && legs.any(|(leg, at)| leg == Leg::Applied && from < at && at <= to)
        });
        let first = served.next();
        let is_loading = |request: &Request| request.answer.as_deref() == Some("LOADING");
        first.is_some_and(|first| is_loading(first) && served.all(is_loading))
    }

    /// Whether a node that had exited on its own was started again before a fault killed it.
    fn was_up(&self, node: &str, exit: Point, died: Point) -> bool {
        let mut roles = self.history.sightings.iter().filter(|s| s.by == node);
        let starts = roles.any(|s| {
            let at = (s.at.at, s.at.seq);
            matches!(s.what, Seen::Leads | Seen::Follows) && exit < at && at <= died
        });
        starts && !self.only_loads(node, exit, died)
    }

    fn failovers(&self) -> u64 {
        let sightings = &self.history.sightings;
        let kin = self.kin();
        let role = |by: &str, before: usize| {
            let mut own = sightings[..before].iter().rev().filter(|s| s.by == by);
            own.find(|s| matches!(s.what, Seen::Leads | Seen::Follows)).map(|s| s.what)
        };
        let led = (0..sightings.len()).filter(|index| {
            let now = &sightings[*index];
            let counts = kin.is_empty() || kin.contains(now.by.as_str());
            counts && now.what == Seen::Leads && role(&now.by, *index) == Some(Seen::Follows)
        });
        let led = led.count() as u64;
        let lost = |change: KeyChange| {
            self.history.keys.iter().position(|key| key.change == change).unwrap_or(usize::MAX)
        };
        let silent = lost(KeyChange::LostAtFailover) < lost(KeyChange::LostAtRestart);
        let known = sightings.iter().any(|s| matches!(s.what, Seen::Leads | Seen::Follows));
        if !known && silent { 1 } else { led }
    }

    fn follows(&self, node: &str, at: Point) -> bool {
        let known = self
            .history
            .sightings
            .iter()
            .rev()
            .filter(|s| s.by == node && matches!(s.what, Seen::Leads | Seen::Follows));
        let mut known = known.filter(|s| (s.at.at, s.at.seq) <= at);
        known.next().is_some_and(|s| s.what == Seen::Follows)
    }

    fn removals(&self) -> u64 {
        let removed = self.history.keys.iter().filter(|key| {
            let at = (key.at.at, key.at.seq);
            let mut wiped = self.on(&key.node).filter(|c| {
                matches!(c.verb, Verb::Evict { .. } | Verb::Flush) && self.span(c).0 <= at
            });
            let by_nobody = key.change == KeyChange::Deleted
                && key.by.is_none()
                && wiped.next().is_some()
                && !self.follows(&key.node, at);
            key.change == KeyChange::Evicted || by_nobody
        });
        removed.count() as u64
    }
}

/// An acquire, and those called under it, with their stretch.
struct Own {
    acquires: Vec<u32>,
    process: String,
    stretch: (Point, Point),
}
