//! The definitions of the verdict table, instant by instant. Shares nothing with the checks.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use lockstorm::check::terms::Terms;
use lockstorm::history::{History, Key, Op, OpKind, Outcome};
use lockstorm_platform::fault::{Target, Verb};
use lockstorm_platform::time::{Clock, Instant, MILLISECOND, Nanos, Stamp};
use lockstorm_platform::trace::KeyChange;

/// A point in time: true time, then position in the trace; 0 comes before everything at that time.
pub type Point = (Nanos, u64);

/// A history with every point at which anything could change.
pub struct Table<'a> {
    pub history: &'a History,
    pub terms: &'a Terms,
    pub points: Vec<Point>,
    /// For each acquire the one that began its tenure, by number.
    began: Vec<u32>,
    /// The member of the lock's key that this history shows as that key.
    pub member: Option<String>,
    /// The operations that joined a queue by that member's name.
    pub joined: BTreeSet<u32>,
    /// The changes of the key that handed it to a waiter, once they are known.
    pub handed_on: OnceCell<BTreeMap<Point, u32>>,
}

impl<'a> Table<'a> {
    pub fn new(history: &'a History, terms: &'a Terms) -> Table<'a> {
        let half = MILLISECOND / 2;
        // Changes without an event occur soon after an event.
        let last = (0..history.end.seq).rev().find_map(|seq| time_of(history, seq)).unwrap_or(0);
        let grid = 0..=(history.end.at.min(last + 200 * MILLISECOND) / half);
        let mut points = grid.map(|step| (step * half, 0)).collect::<Vec<_>>();
        points.extend((0..=history.end.seq).filter_map(|seq| Some((time_of(history, seq)?, seq))));
        points.sort_unstable();
        points.dedup();
        points.retain(|found| *found <= point(history.end));
        let (member, joined, handed_on) = (None, BTreeSet::new(), OnceCell::new());
        let began = Vec::new();
        let mut table = Table { history, terms, points, began, member, joined, handed_on };
        table.began = history.ops.iter().map(|op| table.first_of(op)).collect();
        table
    }

    /// Whether two callers may hold the lock at once.
    pub fn may_meet(&self) -> bool {
        self.terms.holders > 1 || self.history.ops.iter().any(|op| op.shared)
    }

    /// A history for each member of the lock's key, in which the member is that key.
    pub fn members(&self) -> Vec<(String, History)> {
        let is_member = |key: &&Key| key.of.as_deref() == Some(&self.terms.lock_key);
        let keys = self.history.keys.iter().filter(is_member);
        let names = keys.map(|key| key.key.to_string()).collect::<BTreeSet<_>>();
        let alone = |name: String| {
            let own = self.history.keys.iter().filter(is_member).filter(|key| key.key == name);
            let lock = self.terms.lock_key.clone();
            let own = own.map(|key| Key { key: lock.as_str().into(), of: None, ..key.clone() });
            let history = History { keys: own.collect(), ..self.history.clone() };
            (name, history)
        };
        names.into_iter().map(alone).collect()
    }

    /// The table of such a history.
    pub fn of_member<'b>(&self, history: &'b History, name: &str) -> Table<'b>
    where
        'a: 'b,
    {
        let joins = self.history.keys.iter().filter(|key| {
            let is_queue = key.of.as_ref().is_some_and(|of| **of != *self.terms.lock_key);
            is_queue && key.change == KeyChange::Set && key.key == *name
        });
        let joined = joins.filter_map(|key| key.by).collect();
        Table { member: Some(name.to_owned()), joined, ..Table::new(history, self.terms) }
    }

    /// The first grant of the chain in which each was called under the previous one; the acquire
    /// itself if its caller did not hold, or never re-enters the lock.
    fn first_of(&self, op: &Op) -> u32 {
        if !self.terms.reenters || self.terms.holders > 1 {
            return op.id;
        }
        let granted = matches!(op.outcome, Outcome::Granted { .. });
        let last = op.ret.filter(|_| granted).unwrap_or(op.call);
        let mut outer = self.grants();
        outer.retain(|other| {
            let both = self.holds(other, stamp(op.call)) && self.holds(other, stamp(last));
            other.id != op.id && other.caller == op.caller && both
        });
        outer.first().map_or(op.id, |outer| self.first_of(outer))
    }

    /// The tenure of an operation's effects: that of the acquire, or of its grant.
    pub fn owner(&self, op: &Op) -> Option<u32> {
        match op.kind {
            OpKind::Acquire => Some(self.began(op.id)),
            OpKind::Extend { grant, .. } => Some(self.began(grant)),
            _ => None,
        }
    }

    /// The acquire that began the tenure of an acquire.
    pub fn began(&self, acquire: u32) -> u32 {
        self.began[acquire as usize]
    }

    /// The grants of a tenure, the earliest first.
    pub fn tenure(&self, began: u32) -> Vec<&'a Op> {
        let mut grants = self.grants();
        grants.retain(|op| self.began(op.id) == began);
        grants.sort_by_key(|op| op.ret.map(stamp));
        grants
    }

    /// Every tenure, by the acquire that began it.
    pub fn tenures(&self) -> Vec<u32> {
        let grants = self.grants().into_iter().map(|op| op.id);
        grants.filter(|id| self.began(*id) == *id).collect()
    }

    /// Whether some grant of a tenure is held.
    pub fn has(&self, began: u32, at: Point) -> bool {
        self.tenure(began).iter().any(|op| self.holds(op, at))
    }

    /// Whether some grant of a tenure is held and covers.
    pub fn keeps(&self, began: u32, at: Point) -> bool {
        self.tenure(began).iter().any(|op| self.holds(op, at) && self.covers(op, at))
    }

    /// When no grant of a tenure is held any more; the first point of all without a grant.
    pub fn left(&self, began: u32) -> Point {
        let Some(start) = self.tenure(began).first().and_then(|op| op.ret).map(stamp) else {
            return (0, 0);
        };
        let mut points = self.points.iter().copied();
        points.find(|at| *at >= start && !self.has(began, *at)).expect("the end of the run")
    }

    /// The reading of a clock at a point.
    pub fn reading(&self, host: &str, clock: Clock, at: Point) -> i128 {
        let pieces = self.history.clocks.iter();
        let mut own = pieces.filter(|piece| piece.host == host && piece.clock == clock);
        let piece = own.rfind(|piece| point(piece.from) <= at).expect("clocks start at zero");
        let passed = i128::from(at.0 - piece.line.since);
        i128::from(piece.line.reading)
            + passed * (1_000_000 + i128::from(piece.line.rate_ppm)) / 1_000_000
    }

    pub fn grants(&self) -> Vec<&'a Op> {
        let ops = self.history.ops.iter();
        ops.filter(|op| matches!(op.outcome, Outcome::Granted { .. })).collect()
    }

    pub fn dies(&self, process: &str, after: Point, until: Point) -> bool {
        self.history.fault_intervals.iter().any(|interval| {
            matches!(interval.verb, Verb::Crash | Verb::PowerLoss | Verb::Restart)
                && interval.target == Target::Host(process.to_owned())
                && after < point(interval.from)
                && point(interval.from) <= until
        })
    }

    /// Whether the hold of an acquire was ended by something other than the end of the run.
    pub fn over(&self, op: &Op, at: Point) -> bool {
        let start = stamp(op.ret.expect("granted"));
        let ended = self.history.ops.iter().any(|other| match other.kind {
            OpKind::Release { grant } | OpKind::Lost { grant } => {
                grant == op.id && stamp(other.call) <= at
            }
            OpKind::Extend { grant, background: false } => {
                grant == op.id
                    && other.outcome == Outcome::Lost
                    && other.ret.is_some_and(|ret| stamp(ret) <= at)
            }
            _ => false,
        });
        ended || self.dies(&op.process, start, at)
    }

    pub fn holds(&self, op: &Op, at: Point) -> bool {
        let returned = op.ret.is_some_and(|ret| stamp(ret) <= at);
        returned && !self.over(op, at) && at < point(self.history.end)
    }

    /// Whether a grant's latest deadline is ahead of its clock.
    pub fn covers(&self, op: &Op, at: Point) -> bool {
        let Outcome::Granted { mut deadline, .. } = op.outcome else { return false };
        let mut kept = self.history.ops.iter().filter_map(|other| {
            match (&other.kind, &other.outcome, other.ret) {
                (OpKind::Extend { grant, .. }, Outcome::Kept { deadline }, Some(ret))
                    if *grant == op.id && stamp(ret) <= at =>
                {
                    Some((stamp(other.call), *deadline))
                }
                _ => None,
            }
        });
        let mut latest: Option<Point> = None;
        // Of the operations that have returned, the one that was called last counts.
        for (called, new) in kept.by_ref() {
            if latest.is_none_or(|latest| called > latest) {
                (latest, deadline) = (Some(called), new);
            }
        }
        deadline.is_none_or(|(clock, reading)| {
            self.reading(&op.process, clock, at) < i128::from(reading)
        })
    }

    pub fn op(&self, id: u32) -> &'a Op {
        &self.history.ops[id as usize]
    }
}

pub fn point(instant: Instant) -> Point {
    (instant.at, instant.seq)
}

pub fn stamp(stamp: Stamp) -> Point {
    (stamp.at, stamp.seq)
}

/// The true time of a position in the trace, if the history has a record there.
fn time_of(history: &History, seq: u64) -> Option<Nanos> {
    let mut all = Vec::new();
    for op in &history.ops {
        all.push(op.call.instant());
        all.extend(op.ret.map(|ret| ret.instant()));
    }
    all.extend(history.keys.iter().map(|key| key.at));
    all.extend(history.fault_intervals.iter().map(|interval| interval.from));
    all.extend(history.accesses.iter().map(|access| access.at));
    all.extend(history.clocks.iter().map(|piece| piece.from));
    all.extend(history.requests.iter().flat_map(|request| &request.legs).map(|(_, at)| *at));
    all.extend(history.healed);
    all.push(history.end);
    all.iter().find(|instant| instant.seq == seq).map(|instant| instant.at)
}
