//! Small random histories: any operation with any outcome, keys and accesses that match or not,
//! clocks that step, run fast or slow, or stop. Times are whole milliseconds.

use lockstorm::check::terms::{Invariant, Terms};
use lockstorm::history::{
    Access, AccessKind, ClockPiece, FaultInterval, History, Key, Legs, Op, OpKind, Outcome, Request,
};
use lockstorm::ledger::site::Site;
use lockstorm::promise::Model;
use lockstorm_platform::fault::{Target, Verb};
use lockstorm_platform::time::{
    Clock, EPOCH, Instant, Line, MILLISECOND, Nanos, Readings, SECOND, Stamp,
};
use lockstorm_platform::trace::{KeyChange, Leg};

/// Callers; the part before the slash is the process.
const CALLERS: [&str; 4] = ["c1", "c2", "c2/b", "probe"];
const NODES: [&str; 4] = ["n1", "n1", "n2", "n3"];
/// Rates that reach whole readings at half milliseconds.
const RATES: [i32; 5] = [0, 0, 1_000_000, -500_000, -1_000_000];

/// SplitMix64.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// What a random history mostly contains.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Taste {
    /// Acquires, releases, faults and clocks.
    Holds,
    /// Keys and requests.
    Keys,
    /// Accesses to the resource.
    Accesses,
    /// Keys and accesses.
    Both,
}

/// A history and its terms.
pub fn history(seed: u64, taste: Taste) -> (History, Terms) {
    history_of(seed, taste, false)
}

/// The same with callers that are mostly granted the lock, and re-enter it.
pub fn history_again(seed: u64, taste: Taste) -> (History, Terms) {
    let (history, terms) = history_of(seed, taste, true);
    let quorum = if seed.is_multiple_of(3) { terms.site.quorum } else { 1 };
    let queried = if seed.is_multiple_of(3) { terms.site.queried } else { 1 };
    let invariant = if seed.is_multiple_of(3) { terms.invariant } else { Invariant::AppendLog };
    let site = Site { quorum, queried, ..terms.site };
    (history, Terms { reenters: true, invariant, site, ..terms })
}

/// A history in which callers acquire groups of the keys `a` and `b`.
pub fn grouped(seed: u64) -> (History, Terms) {
    let (mut history, terms) = history_of(seed, Taste::Keys, false);
    let mut dice = Dice(seed ^ 0x4752_4f55);
    for op in history.ops.iter_mut().filter(|op| op.kind == OpKind::Acquire) {
        op.shared = false;
        op.keys = dice
            .pick(&[vec!["a"], vec!["b"], vec!["a", "b"]])
            .iter()
            .map(|k| (*k).into())
            .collect();
    }
    for key in &mut history.keys {
        (key.key, key.of) = (dice.pick(&["a", "b"]).into(), None);
    }
    let keys = vec!["a".to_owned(), "b".to_owned()];
    (history, Terms { holders: 1, invariant: Invariant::None, keys, ..terms })
}

/// A history in which waiters stand in a queue, and no key has a time to live.
pub fn queued(seed: u64) -> (History, Terms) {
    let (mut history, terms) = history_of(seed, Taste::Keys, false);
    let mut dice = Dice(seed ^ 0x5155_4555);
    history.ops.iter_mut().for_each(|op| op.shared = false);
    for key in &mut history.keys {
        let is_place = dice.one_in(2);
        (key.key, key.of) =
            if is_place { ("a".into(), Some("queue".to_owned())) } else { ("lock".into(), None) };
        if let (true, Some(by)) = (is_place, key.by) {
            key.key = ["a", "b", "c", "d", "e"][by as usize % 5].into();
        }
        (key.node, key.until_ms) = ("n1".into(), None);
        key.change = if dice.one_in(4) { KeyChange::Deleted } else { KeyChange::Set };
    }
    for request in &mut history.requests {
        (request.to, request.declined) = ("n1".into(), dice.one_in(4));
    }
    (history, Terms { holders: 1, queue: Some("queue".to_owned()), ..terms })
}

/// A history in which many commands that set the lock's key take a waiter or two out of a queue.
pub fn handed_on(seed: u64, taste: Taste) -> (History, Terms) {
    let (mut history, terms) = history_of(seed, taste, false);
    let mut dice = Dice(seed ^ 0x4841_4e44);
    let mut keys: Vec<Key> = Vec::new();
    for key in &history.keys {
        let sets = matches!(key.change, KeyChange::Set | KeyChange::Changed) && key.of.is_none();
        let removes = sets && key.key == "lock" && !dice.one_in(3);
        let count = if removes { 1 + dice.below(2) } else { 0 };
        for _ in 0..count {
            let waiter = dice.below(history.ops.len() as u64) as u32;
            let (name, of) = (format!("w{}", keys.len()), Some("queue".to_owned()));
            let at = history.ops[waiter as usize].call.instant();
            let by = Some(waiter);
            let (change, until_ms) = (KeyChange::Set, None);
            let place = Key { key: name.as_str().into(), of, change, until_ms, ..key.clone() };
            let first = keys.partition_point(|other| other.at < at);
            keys.insert(first, Key { at: at.min(key.at), by, ..place.clone() });
            keys.push(Key { change: KeyChange::Deleted, ..place });
        }
        keys.push(key.clone());
    }
    history.keys = keys;
    (history, terms)
}

fn history_of(seed: u64, taste: Taste, again: bool) -> (History, Terms) {
    let mut maker = Maker {
        dice: Dice(seed),
        history: History::default(),
        now: Instant { seq: 0, at: 0 },
        pending: [None; CALLERS.len()],
        traced: true,
        taste,
        again,
    };
    maker.clocks();
    maker.traced = !maker.dice.one_in(if again { 2 } else { 4 });
    let keyed = if matches!(taste, Taste::Keys | Taste::Both) { 14 } else { 0 };
    let more = if again && taste != Taste::Holds { 30 } else { 0 };
    let steps = 8 + keyed + more + maker.dice.below(28);
    for _ in 0..steps {
        maker.step();
    }
    for caller in 0..CALLERS.len() {
        if !maker.dice.one_in(3) {
            maker.go_on(caller);
        }
    }
    maker.history.end = maker.tick();
    if maker.dice.one_in(4) {
        // A run that lasts as long as the probe may take.
        maker.history.end.at += 5 * SECOND + maker.dice.below(12) * MILLISECOND;
    }
    let terms = terms(&mut maker.dice);
    let shares = maker.dice.one_in(5);
    if shares {
        maker.share();
    }
    if (terms.holders > 1 || shares) && !maker.dice.one_in(3) {
        maker.name_members();
    }
    (maker.history, terms)
}

pub fn terms(dice: &mut Dice) -> Terms {
    let invariants = [
        Invariant::Counter,
        Invariant::Stock { items: 2 },
        Invariant::AppendLog,
        Invariant::None,
        Invariant::Within { least: Some(0), most: None },
        Invariant::Taken { items: 1 },
        Invariant::Passed { most: 2, ends: Some(6 * MILLISECOND) },
    ];
    let quorum = 1 + dice.below(3) as u32;
    Terms {
        segments: Vec::new(),
        lock_key: "lock".to_owned(),
        holders: 1 + u32::from(dice.one_in(4)),
        reports_loss: true,
        model: dice.pick(&[Model::Mutex, Model::Lease]),
        ttl: Some((2 + dice.below(12)) * MILLISECOND),
        longest_ttl: dice.below(8) * MILLISECOND,
        kept: 0,
        invariant: dice.pick(&invariants),
        contends: true,
        reenters: false,
        site: Site {
            nodes: NODES.map(str::to_owned).to_vec(),
            quorum,
            queried: if quorum == 1 && !dice.one_in(4) { 1 } else { 3 },
            ..Site::default()
        },
        grants_without_faults: None,
        faults: (0..dice.below(4) as u32).collect(),
        is_drawn: dice.one_in(3),
        queue: None,
        keys: Vec::new(),
        fences: false,
    }
}

struct Maker {
    dice: Dice,
    history: History,
    now: Instant,
    pending: [Option<u32>; CALLERS.len()],
    /// Whether requests are recorded.
    traced: bool,
    taste: Taste,
    /// Whether callers re-enter the lock.
    again: bool,
}

impl Maker {
    fn tick(&mut self) -> Instant {
        self.now.seq += 1;
        self.now.at += self.dice.below(3) * MILLISECOND;
        self.now
    }

    fn stamp(&mut self) -> Stamp {
        Stamp::new(self.tick(), Readings::default())
    }

    fn clocks(&mut self) {
        for host in ["c1", "c2", "probe", "n1", "n2", "n3"] {
            for clock in [Clock::Wall, Clock::Monotonic, Clock::Boot] {
                let line = Line { since: 0, reading: base(clock), rate_ppm: 0 };
                let from = Instant::default();
                self.history.clocks.push(ClockPiece { host: host.to_owned(), clock, from, line });
            }
        }
    }

    fn step(&mut self) {
        let side = match self.taste {
            Taste::Holds => [0, 0, 0, 0, 0, 0, 1, 2],
            Taste::Keys => [0, 0, 0, 3, 3, 4, 4, 1],
            Taste::Accesses => [0, 0, 0, 0, 5, 5, 5, 1],
            Taste::Both => [0, 0, 0, 0, 3, 3, 5, 2],
        };
        match self.dice.pick(&side) {
            0 => {
                let callers = if self.again { 2 } else { CALLERS.len() };
                let caller = self.dice.below(callers as u64) as usize;
                self.go_on(caller);
            }
            1 => self.fault(),
            2 => self.clock(),
            3 => self.key(),
            4 => self.request(),
            _ => self.access(),
        }
        if self.history.healed.is_none() && self.dice.one_in(25) {
            let at = self.tick();
            self.history.healed = Some(at);
        }
    }

    /// A caller invokes an operation, or its pending operation returns.
    fn go_on(&mut self, caller: usize) {
        if let Some(id) = self.pending[caller].take() {
            let outcome = self.outcome(id, self.now.at);
            if matches!(outcome, Outcome::Refused { .. }) && !self.dice.one_in(3) {
                self.request_of(id);
            }
            let ret = self.stamp();
            let op = &mut self.history.ops[id as usize];
            (op.ret, op.outcome) = (Some(ret), outcome);
            return;
        }
        let name = CALLERS[caller];
        let kind = self.kind(name);
        let guards = kind.is_access();
        let call = self.stamp();
        let is_loss = matches!(kind, OpKind::Lost { .. });
        let id = self.history.ops.len() as u32;
        self.history.ops.push(Op {
            id,
            process: name.split('/').next().unwrap_or(name).to_owned(),
            caller: name.to_owned(),
            object: if guards { "resource" } else { "lock" }.to_owned(),
            call,
            ret: is_loss.then_some(call),
            kind,
            outcome: if is_loss { Outcome::Lost } else { Outcome::Pending },
            tried_with: None,
            shared: false,
            keys: Vec::new(),
        });
        if !is_loss {
            self.pending[caller] = Some(id);
        }
    }

    fn kind(&mut self, caller: &str) -> OpKind {
        let ops = self.history.ops.iter();
        let grants = ops.filter(|op| op.caller == caller && op.kind == OpKind::Acquire);
        let mut grants = grants.map(|op| op.id).collect::<Vec<_>>();
        if self.again {
            grants.drain(..grants.len().saturating_sub(2));
        }
        let Some(grant) = grants.last().map(|_| self.dice.pick(&grants)) else {
            return OpKind::Acquire;
        };
        let guards = matches!(self.taste, Taste::Accesses | Taste::Both);
        if guards && !self.dice.one_in(3) {
            let grant = (!self.dice.one_in(5)).then_some(grant);
            let value = self.dice.below(3) as i64;
            let by = self.dice.pick(&[-1, 1]);
            let kinds = [
                OpKind::Read { grant },
                OpKind::Write { grant, value },
                OpKind::Append { grant },
                OpKind::Add { grant, by },
                OpKind::Expire { grant },
            ];
            // Most of the time what most invariants are about.
            let most = if self.dice.one_in(3) { kinds.len() } else { 3 };
            return self.dice.pick(&kinds[..most]);
        }
        match self.dice.below(8) {
            0..=2 => OpKind::Acquire,
            3..=4 => OpKind::Release { grant },
            7 if self.again => OpKind::Extend { grant, background: true },
            5..=6 => OpKind::Extend { grant, background: self.dice.one_in(3) },
            _ => OpKind::Lost { grant },
        }
    }

    fn outcome(&mut self, id: u32, now: Nanos) -> Outcome {
        let clock = self.dice.pick(&[Clock::Wall, Clock::Monotonic]);
        let ahead = now / MILLISECOND * MILLISECOND + self.dice.below(9) * MILLISECOND;
        let deadline = (!self.dice.one_in(4)).then_some((clock, base(clock) + ahead));
        let fence = (!self.dice.one_in(4)).then(|| u64::from(id) / 2 + self.dice.below(3));
        let refused = Outcome::Refused { why: String::new() };
        let value = Outcome::Value { value: self.dice.below(3) as i64 };
        let token = ["", "a", "b"][id as usize % 3].to_owned();
        let granted = Outcome::Granted { token, fence, deadline };
        let outcomes = match self.history.ops[id as usize].kind {
            OpKind::Acquire if self.is_first(id) && !self.dice.one_in(5) => vec![granted],
            OpKind::Acquire => vec![granted.clone(), granted, refused, Outcome::Unknown],
            OpKind::Extend { .. } => {
                vec![Outcome::Kept { deadline }, Outcome::Lost, Outcome::Unknown]
            }
            OpKind::Release { .. } | OpKind::Lost { .. } => {
                vec![Outcome::Released, Outcome::NotMine, Outcome::Unknown]
            }
            OpKind::Read { .. } | OpKind::Add { .. } => {
                vec![value.clone(), value, refused, Outcome::Unknown]
            }
            _ => vec![Outcome::Accepted, refused, Outcome::Unknown],
        };
        self.dice.pick(&outcomes)
    }

    /// Whether an operation belongs to the caller that re-enters the lock.
    fn is_first(&self, id: u32) -> bool {
        self.again && self.history.ops[id as usize].caller == CALLERS[0]
    }

    fn fault(&mut self) {
        let delay = Verb::Delay { extra: MILLISECOND };
        let verbs =
            [Verb::Pause, Verb::Suspend, Verb::Crash, Verb::Restart, Verb::PowerLoss, delay];
        let verb = self.dice.pick(&verbs);
        let who = self.dice.pick(&["c1", "c2", "n1"]);
        let from = self.tick();
        let lasts = Instant { at: from.at + self.dice.below(12) * MILLISECOND, ..from };
        let to = (!self.dice.one_in(5)).then_some(lasts);
        let fault = self.dice.below(3) as u32;
        if matches!(verb, Verb::Crash | Verb::Restart | Verb::PowerLoss) {
            for (caller, pending) in CALLERS.iter().zip(&mut self.pending) {
                if caller.split('/').next() == Some(who) {
                    *pending = None;
                }
            }
        }
        let target = Target::Host(who.to_owned());
        let met = self.dice.pick(&[None, Some(0), Some(1)]);
        let done = Vec::new();
        self.history.fault_intervals.push(FaultInterval {
            fault,
            verb,
            target,
            from,
            to,
            met,
            done,
        });
    }

    fn clock(&mut self) {
        let host = self.dice.pick(&["c1", "c2", "n1", "n2"]).to_owned();
        let clock = self.dice.pick(&[Clock::Wall, Clock::Monotonic]);
        let from = self.tick();
        let near = (from.at / MILLISECOND + self.dice.below(13)).saturating_sub(6) * MILLISECOND;
        let line =
            Line { since: from.at, reading: base(clock) + near, rate_ppm: self.dice.pick(&RATES) };
        self.history.clocks.push(ClockPiece { host, clock, from, line });
    }

    fn key(&mut self) {
        let changes = [
            KeyChange::Set,
            KeyChange::Set,
            KeyChange::Set,
            KeyChange::Changed,
            KeyChange::Extended,
            KeyChange::Deleted,
            KeyChange::Expired,
            KeyChange::LostAtRestart,
        ];
        let change = self.dice.pick(&changes);
        let at = self.tick();
        let by = self.some_op().filter(|_| change != KeyChange::Expired);
        let until = EPOCH / MILLISECOND + at.at / MILLISECOND + self.dice.below(9);
        let until_ms = (!self.dice.one_in(3)).then_some(until);
        let node = if self.again { "n1" } else { self.dice.pick(&NODES) }.to_owned();
        if let (Some(op), true) = (by, self.traced && !self.dice.one_in(3)) {
            let from = self.history.ops[op as usize].process.as_str().into();
            let (to, command) = (node.as_str().into(), "EVAL".into());
            let legs = [(Leg::Sent, at), (Leg::Applied, self.tick())].into_iter().collect();
            let (declined, answer, other_keys) = (false, None, false);
            let request = Request { op, from, to, command, legs, declined, answer, other_keys };
            self.history.requests.push(request);
        }
        let key = if self.dice.one_in(9) { "other" } else { "lock" }.into();
        if change == KeyChange::Deleted && by.is_none() && at.seq.is_multiple_of(2) {
            self.flush(&node, at);
        }
        let (node, of, unacknowledged) = (node.into(), None, false);
        self.history.keys.push(Key { node, key, of, at, change, until_ms, by, unacknowledged });
    }

    /// Makes about half of the acquires those in shared mode.
    fn share(&mut self) {
        let acquires = self.history.ops.iter_mut().filter(|op| op.kind == OpKind::Acquire);
        for op in acquires {
            op.shared = self.dice.one_in(2);
        }
    }

    /// Makes the changes of keys those of members of the lock's key, named by the tokens of grants.
    fn name_members(&mut self) {
        for index in 0..self.history.keys.len() {
            let by = self.history.keys[index].by.map(|by| by as usize % 3);
            let own = by.map(|token| ["", "a", "b"][token]);
            let name = own.filter(|_| !self.dice.one_in(3));
            let name = name.unwrap_or_else(|| self.dice.pick(&["", "a", "b", "c"])).into();
            let key = &mut self.history.keys[index];
            key.of = Some(std::mem::replace(&mut key.key, name).to_string());
            key.until_ms = None;
        }
    }

    /// A flush of a node that removes a key.
    fn flush(&mut self, node: &str, at: Instant) {
        let (target, met, done) = (Target::Host(node.to_owned()), Some(1), vec![at]);
        let (fault, verb, from, to) = (1, Verb::Flush, at, Some(at));
        self.history.fault_intervals.push(FaultInterval {
            fault,
            verb,
            target,
            from,
            to,
            met,
            done,
        });
    }

    /// A random operation; an extend more often, since few extends would set keys otherwise.
    fn some_op(&mut self) -> Option<u32> {
        let extends = self.history.ops.iter();
        let extends = extends.filter(|op| matches!(op.kind, OpKind::Extend { .. }));
        let extends = extends.map(|op| op.id).collect::<Vec<_>>();
        if !extends.is_empty() && self.dice.one_in(5) {
            return Some(self.dice.pick(&extends));
        }
        let first = self.history.ops.iter().filter(|op| op.object == "lock");
        let first = first.map(|op| op.id).filter(|id| self.is_first(*id)).collect::<Vec<_>>();
        if !first.is_empty() && !self.dice.one_in(3) {
            return Some(self.dice.pick(&first));
        }
        let ops = self.history.ops.len() as u64;
        (ops > 0 && !self.dice.one_in(6)).then(|| self.dice.below(ops) as u32)
    }

    fn request(&mut self) {
        if let Some(op) = self.some_op() {
            self.request_of(op);
        }
    }

    fn request_of(&mut self, op: u32) {
        if !self.traced || self.taste == Taste::Holds || self.taste == Taste::Accesses {
            return;
        }
        let mut legs: Legs = [(Leg::Sent, self.tick())].into_iter().collect();
        if !self.dice.one_in(3) {
            legs.push((Leg::Applied, self.tick()));
            if self.dice.one_in(2) {
                legs.push((Leg::Replied, self.tick()));
            }
            if legs.len() == 3 && !self.dice.one_in(4) {
                legs.push((Leg::Delivered, self.tick()));
            }
        }
        let from = self.history.ops[op as usize].process.as_str().into();
        let to = self.dice.pick(&NODES).into();
        let command = self.dice.pick(&["SET", "EVAL", "DEL"]).into();
        let (declined, answer) = (self.dice.one_in(5), None);
        let other_keys = self.dice.one_in(5);
        let request = Request { op, from, to, command, legs, declined, answer, other_keys };
        self.history.requests.push(request);
    }

    fn access(&mut self) {
        let ops = self.history.ops.iter().filter(|op| op.object != "lock");
        let guards = ops.map(|op| op.id).collect::<Vec<_>>();
        let Some(id) = guards.last().map(|_| self.dice.pick(&guards)) else { return };
        let op = &self.history.ops[id as usize];
        let (kind, grant, drawn) = match op.kind {
            OpKind::Read { grant } => (AccessKind::Read, grant, 0),
            OpKind::Write { grant, value } => (AccessKind::Write, grant, value),
            OpKind::Append { grant } => (AccessKind::Append, grant, 0),
            OpKind::Add { grant, .. } => (AccessKind::Add, grant, 0),
            OpKind::Expire { grant } => (AccessKind::Expire, grant, 0),
            _ => return,
        };
        let drawn = match kind {
            AccessKind::Add => self.dice.below(5) as i64 - 1,
            _ => drawn,
        };
        let caller = op.caller.clone();
        let last = self
            .history
            .accesses
            .iter()
            .rev()
            .find(|access| access.accepted && access.kind == AccessKind::Write);
        let fits = last.map_or(0, |access| access.value) + 1;
        let value = if self.dice.one_in(2) { fits } else { drawn };
        let accepted = !self.dice.one_in(5);
        let at = self.tick();
        self.history.accesses.push(Access {
            at,
            op: id,
            caller,
            grant,
            kind,
            fence: None,
            value,
            accepted,
        });
    }
}

/// The initial reading of a clock that runs true.
pub fn base(clock: Clock) -> Nanos {
    if clock == Clock::Wall { EPOCH } else { 0 }
}
