//! The facts of a history, derived independently: which caller held when, the readings of clocks,
//! whether a host was up, whose key existed on a node.

use lockstorm::check::verdict::Verdict;
use lockstorm::explain::finding::Finding;
use lockstorm::history::{FaultInterval, History, Key, Op, OpId, OpKind, Outcome, Seen};
use lockstorm_platform::fault::{Target, Verb};
use lockstorm_platform::time::{Clock, Instant, MILLISECOND, Nanos, SECOND};
use lockstorm_platform::trace::{KeyChange, Leg};

/// The result of a predicate: the error is why the sentence is false.
pub type Truth = Result<(), String>;

/// An error with the reason, unless it is so.
pub fn ensure(is_so: bool, why: &str) -> Truth {
    if is_so { Ok(()) } else { Err(why.to_owned()) }
}

/// A finding with its holds.
pub struct Facts<'a> {
    pub finding: &'a Finding,
    pub history: &'a History,
    pub holds: Vec<Held<'a>>,
}

/// A grant, from its return to the first thing that ended it for its caller.
#[derive(Clone, Copy)]
pub struct Held<'a> {
    pub op: &'a Op,
    pub from: Instant,
    pub until: Instant,
    pub how: How,
}

/// What ended a grant for its caller.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum How {
    Released,
    Lost,
    Died,
    Open,
}

impl<'a> Facts<'a> {
    /// Reads a finding.
    pub fn of(finding: &'a Finding) -> Facts<'a> {
        let history = &finding.history;
        let mut facts = Facts { finding, history, holds: Vec::new() };
        facts.holds = history.ops.iter().filter_map(|op| facts.held(op)).collect();
        facts
    }

    fn held(&self, op: &'a Op) -> Option<Held<'a>> {
        if !is_granted(op) || !op.is_on(self.lock()) {
            return None;
        }
        let from = op.ret?.instant();
        let ends = self.history.ops.iter().filter_map(|end| match end.kind {
            OpKind::Release { grant } if grant == op.id => {
                Some((end.call.instant(), How::Released))
            }
            OpKind::Lost { grant } if grant == op.id => Some((end.call.instant(), How::Lost)),
            OpKind::Extend { grant, background: false }
                if grant == op.id && end.outcome == Outcome::Lost =>
            {
                Some((end.ret?.instant(), How::Lost))
            }
            _ => None,
        });
        let dead = self.deaths(&op.process).filter(|at| *at > from).map(|at| (at, How::Died));
        let end = (self.history.end, How::Open);
        let (until, how) =
            ends.chain(dead).fold(end, |one, two| if two.0 < one.0 { two } else { one });
        Some(Held { op, from, until: until.max(from), how })
    }

    /// When the lease of a grant, counted from an instant, is over, including all extends before
    /// that. `None`: never.
    pub fn lease_over(&self, grant: &Op, from: Instant) -> Option<Nanos> {
        let Outcome::Granted { deadline, .. } = grant.outcome else { return None };
        let mut terms = vec![(grant.ret?.instant(), grant.call.instant(), deadline?)];
        for op in &self.history.ops {
            let is_own = matches!(op.kind, OpKind::Extend { grant: of, .. } if of == grant.id);
            if let (true, Outcome::Kept { deadline: Some(deadline) }, Some(ret)) =
                (is_own, &op.outcome, op.ret)
            {
                terms.push((ret.instant(), op.call.instant(), *deadline));
            }
        }
        terms.sort_by_key(|(ret, ..)| *ret);
        let mut over = None;
        let mut called = Instant::default();
        for (ret, call, (clock, deadline)) in terms {
            let late = ret > from && over.is_some_and(|over| over <= ret.at);
            if late || call < called {
                continue;
            }
            called = call;
            over = self.comes_to(&grant.process, clock, ret.at, deadline);
        }
        over
    }

    /// When the lease is over that the caller of a grant knew of at an instant: the longest of the
    /// grant's and of the extends that had returned as kept.
    pub fn lease_known(&self, grant: &Op, at: Instant) -> Option<Nanos> {
        let Outcome::Granted { deadline: Some(first), .. } = grant.outcome else { return None };
        let extends = self.history.ops.iter().filter_map(|op| match (&op.kind, &op.outcome) {
            (OpKind::Extend { grant: of, .. }, Outcome::Kept { deadline: Some(deadline) })
                if *of == grant.id && op.ret.is_some_and(|ret| ret.instant() < at) =>
            {
                Some((op.call.instant().at, *deadline))
            }
            _ => None,
        });
        let terms = std::iter::once((grant.call.instant().at, first)).chain(extends);
        let ends = terms.filter_map(|(from, (clock, deadline))| {
            self.comes_to(&grant.process, clock, from, deadline)
        });
        ends.max()
    }

    /// The key of the lock; of groups of keys, the one that the story is about.
    pub fn lock(&self) -> &'a str {
        let told = match &self.finding.judgement.verdict {
            Verdict::Violated(violations) => violations.first().and_then(|it| it.key.as_ref()),
            _ => None,
        };
        told.map(String::as_str)
            .or_else(|| self.nearest_key())
            .unwrap_or(&self.finding.plan.lock.key)
    }

    /// Where callers name keys, that of the nearest miss.
    fn nearest_key(&self) -> Option<&'a str> {
        let nearest = self.finding.judgement.nearest.as_ref()?;
        let key = self.history.keys.get(nearest.key?)?;
        let name: &str = &key.key;
        self.op(nearest.grant)?.keys.iter().any(|own| own == name).then_some(name)
    }

    /// The operation of that number.
    pub fn op(&self, id: OpId) -> Option<&'a Op> {
        self.history.ops.iter().find(|op| op.id == id)
    }

    /// Its caller.
    pub fn caller(&self, id: OpId) -> &'a str {
        self.op(id).map_or("nobody", |op| &op.caller)
    }

    /// The acquire to which an operation belongs.
    pub fn grant(&self, id: OpId) -> Option<OpId> {
        match self.op(id)?.kind {
            OpKind::Acquire => Some(id),
            OpKind::Extend { grant, .. } | OpKind::Release { grant } | OpKind::Lost { grant } => {
                Some(grant)
            }
            ref access => access.access_grant(),
        }
    }

    /// When a process was killed, or stopped by its own lock.
    fn deaths(&self, host: &str) -> impl Iterator<Item = Instant> {
        let killed = self.struck(host).filter(|c| is_death(&c.verb)).map(|c| c.from);
        let host = host.to_owned();
        let fatal = self.history.breaches.iter().filter(|breach| breach.clause.is_fatal());
        let fatal = fatal.filter(move |breach| breach.process == host).map(|breach| breach.at);
        killed.chain(fatal)
    }

    /// The faults of a host itself.
    pub fn struck(&self, host: &str) -> impl Iterator<Item = &'a FaultInterval> {
        let host = host.to_owned();
        let all = self.history.fault_intervals.iter();
        all.filter(move |c| matches!(&c.target, Target::Host(name) if *name == host))
    }

    /// Whether a host's process is down at a true time.
    pub fn is_down(&self, host: &str, at: Nanos) -> bool {
        let killed = self
            .struck(host)
            .any(|c| is_death(&c.verb) && c.from.at <= at && c.to.is_none_or(|to| at < to.at));
        let mut sentence = self.history.sightings.iter().rev();
        let last = sentence.find(|seen| seen.by == host && seen.at.at <= at);
        killed || last.is_some_and(|seen| seen.what == Seen::Exited)
    }

    /// Whether a host was down at any time between two.
    pub fn was_down(&self, host: &str, from: Instant, to: Instant) -> bool {
        let falls =
            self.struck(host).any(|c| is_death(&c.verb) && from.at <= c.from.at && c.from <= to);
        let exits = self.history.sightings.iter().any(|seen| {
            seen.by == host && seen.what == Seen::Exited && from.at <= seen.at.at && seen.at <= to
        });
        falls || exits || self.is_down(host, from.at)
    }

    /// What a clock reads at a true time.
    pub fn reads(&self, host: &str, clock: Clock, at: Nanos) -> Option<Nanos> {
        let pieces = self.history.clocks.iter();
        let mut pieces = pieces.filter(|piece| piece.host == host && piece.clock == clock);
        let piece = pieces.rfind(|piece| piece.from.at <= at)?;
        Some(piece.line.at(at))
    }

    /// When a clock reaches a reading, found by bisection of each of its pieces.
    pub fn comes_to(&self, host: &str, clock: Clock, from: Nanos, reading: Nanos) -> Option<Nanos> {
        let pieces = self.history.clocks.iter();
        let pieces = pieces.filter(|piece| piece.host == host && piece.clock == clock);
        let pieces: Vec<_> = pieces.collect();
        for (index, piece) in pieces.iter().enumerate() {
            let far = from.max(piece.from.at) + 400 * 86_400 * SECOND;
            let next = pieces.get(index + 1).map_or(far, |next| next.from.at);
            let (mut low, mut high) = (from.max(piece.from.at), next);
            if low >= high {
                continue;
            }
            if piece.line.at(low) >= reading {
                return Some(low);
            }
            if piece.line.at(high) < reading {
                continue;
            }
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if piece.line.at(middle) >= reading { high = middle } else { low = middle }
            }
            if high < next || index + 1 == pieces.len() {
                return Some(high);
            }
        }
        None
    }

    /// The changes of the lock's key on a node, with their indices.
    pub fn keys_on(&self, node: &str) -> impl DoubleEndedIterator<Item = (usize, &'a Key)> {
        let (node, lock) = (node.to_owned(), self.lock());
        let keys = self.history.keys.iter().enumerate();
        keys.filter(move |(_, key)| key.node == node && key.key == lock)
    }

    /// The changes of the members of the lock's key on a node, with their indices.
    pub fn members_on(&self, node: &str) -> impl Iterator<Item = (usize, &'a Key)> {
        let (node, lock) = (node.to_owned(), self.lock());
        let keys = self.history.keys.iter().enumerate();
        keys.filter(move |(_, key)| key.node == node && key.of.as_deref() == Some(&*lock))
    }

    /// The acquire that had set the member which the change at that index is about.
    pub fn owner_of_member(&self, index: usize) -> Option<OpId> {
        let member = &self.history.keys[index];
        let is_set = |key: &&Key| {
            key.node == member.node && key.key == member.key && key.change == KeyChange::Set
        };
        let set = self.history.keys[..index].iter().rfind(is_set)?;
        set.by.and_then(|by| self.owner(by))
    }

    /// Whether a request to a node made a change there, and not a master, a start or the node.
    pub fn is_set_by_request(&self, key: &Key) -> bool {
        let mut requests = self.history.requests.iter().filter(|request| request.to == key.node);
        requests.any(|request| {
            let applied = request.at(Leg::Applied).is_some_and(|at| at.at == key.at.at);
            Some(request.op) == key.by && applied
        })
    }

    /// The life of the lock's key that exists on a node before the change at that index: its
    /// creation and its owner.
    pub fn standing(&self, node: &str, before: usize) -> Option<(usize, Option<OpId>)> {
        let mut alive: Option<(usize, Option<OpId>)> = None;
        for (index, key) in self.keys_on(node).take_while(|(index, _)| *index < before) {
            alive = match (key.change, alive) {
                (KeyChange::Set, _) | (KeyChange::Changed, None) => Some((index, key.by)),
                (KeyChange::Changed, Some((_, by))) if self.takes(by, key) => Some((index, key.by)),
                (KeyChange::Extended, None) => Some((index, None)),
                (KeyChange::Changed | KeyChange::Extended, alive) => alive,
                _ => None,
            };
        }
        let (born, by) = alive?;
        Some((born, by.and_then(|by| self.owner(by))))
    }

    /// The acquire whose key exists on a node before the change at that index, also one whose release
    /// set it.
    pub fn leaver(&self, node: &str, before: usize) -> Option<OpId> {
        let (born, owner) = self.standing(node, before)?;
        let by = self.history.keys[born].by.and_then(|by| self.op(by));
        let released = by.and_then(|by| match by.kind {
            OpKind::Release { grant } => Some(grant),
            _ => None,
        });
        owner.or(released)
    }

    /// Whether the operation of a change gave the key another expiry, with that change or later.
    fn moves_the_end(&self, change: &Key) -> bool {
        let (mut before, mut moves) = (None, false);
        for (_, key) in self.keys_on(&change.node) {
            match key.at < change.at {
                true => before = key.until_ms,
                false => moves |= key.by == change.by && key.change == KeyChange::Extended,
            }
        }
        moves || before != change.until_ms
    }

    /// Whether a change in place takes over a key of that creator, on which nobody relies.
    fn takes(&self, by: Option<OpId>, key: &Key) -> bool {
        let is_alone = || !self.history.ops.iter().any(|op| op.shared);
        let Some(taker) = key.by.filter(|_| self.finding.promise.holders == 1 && is_alone()) else {
            return false;
        };
        let granted = |op: &Op| matches!(op.outcome, Outcome::Granted { .. });
        let tries = self.op(taker).is_some_and(|op| op.kind == OpKind::Acquire && !granted(op));
        if tries && !self.moves_the_end(key) {
            return false;
        }
        let Some(owner) = by.and_then(|by| self.owner(by)) else {
            return self.owner(taker).is_some();
        };
        let taker = self.grant(taker).unwrap_or(taker);
        let relies = |hold: &Held| {
            let is_lasting = hold.from <= key.at && key.at < hold.until;
            let in_lease = self.lease_over(hold.op, hold.from).is_none_or(|over| key.at.at < over);
            hold.op.caller == self.caller(owner) && is_lasting && in_lease
        };
        let comes = |hold: &Held| hold.op.id == owner && key.at < hold.from;
        let token = |id: OpId| match &self.op(id)?.outcome {
            Outcome::Granted { token, .. } => {
                Some(token.as_str()).filter(|token| !token.is_empty())
            }
            _ => None,
        };
        let enters = key.by == Some(taker);
        let pair = token(taker).zip(token(owner)).filter(|_| enters);
        let differs = pair.is_some_and(|(one, other)| one != other)
            && self.caller(taker) != self.caller(owner);
        let is_kept = self.holds.iter().any(|hold| relies(hold) || comes(hold));
        taker != owner && (differs || !is_kept)
    }

    /// The acquire that owns the key which an operation makes.
    pub fn owner(&self, by: OpId) -> Option<OpId> {
        match self.op(by)?.kind {
            OpKind::Acquire => Some(by),
            OpKind::Extend { grant, .. } => Some(grant),
            _ => None,
        }
    }

    /// When the key of a life expires on its node's clock.
    pub fn runs_out(&self, node: &str, born: usize, before: usize) -> Option<Nanos> {
        self.runs_out_since(node, born, before, Nanos::MAX)
    }

    /// As [`Facts::runs_out`], with the clock read from the true time `from` on if that is before
    /// the last change of the key.
    pub fn runs_out_since(
        &self,
        node: &str,
        born: usize,
        before: usize,
        from: Nanos,
    ) -> Option<Nanos> {
        let last = self
            .keys_on(node)
            .rfind(|(index, key)| *index >= born && *index < before && !is_removal(key.change));
        let (_, last) = last?;
        let reading = (last.until_ms? + 1) * MILLISECOND;
        self.comes_to(node, Clock::Wall, last.at.at.min(from), reading)
    }

    /// Whether the time to live that a change gave a key is first over at that true time.
    pub fn is_due_first_at(&self, key: &Key, at: Nanos) -> bool {
        self.is_due_from(key, key.at.at, at)
    }

    /// Whether the time to live that a change gave a key is over at a true time.
    pub fn is_over_at(&self, key: &Key, at: Nanos) -> bool {
        let reading = key.until_ms.map(|until| until.saturating_add(1).saturating_mul(MILLISECOND));
        let over = |reading| self.comes_to(&key.node, Clock::Wall, at, reading);
        reading.and_then(over) == Some(at)
    }

    /// Whether the time to live that a change gave a key is over at one true time, and was not
    /// between another and that.
    pub fn is_due_from(&self, key: &Key, from: Nanos, at: Nanos) -> bool {
        let reading = key.until_ms.map(|until| until.saturating_add(1).saturating_mul(MILLISECOND));
        let over = |reading| self.comes_to(&key.node, Clock::Wall, from, reading);
        !is_removal(key.change) && reading.and_then(over) == Some(at) && key.at.at < at
    }
}

/// Whether an operation was granted the lock.
pub fn is_granted(op: &Op) -> bool {
    op.kind == OpKind::Acquire && matches!(op.outcome, Outcome::Granted { .. })
}

/// Whether a change removes a key.
pub fn is_removal(change: KeyChange) -> bool {
    !matches!(change, KeyChange::Set | KeyChange::Changed | KeyChange::Extended)
}

/// Whether a fault kills a process.
pub fn is_death(verb: &Verb) -> bool {
    matches!(verb, Verb::Crash | Verb::PowerLoss | Verb::Restart)
}
