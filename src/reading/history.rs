//! Everything that is read from a history: its index, the holds with their coverage, the tenures
//! that they form, and the lives of the lock's key.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use lockstorm_platform::time::{Clock, MILLISECOND, Nanos};
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::history::{History, Key, Op, OpId, OpKind, Outcome, Request};
use crate::reading::handed_on::{HandedOn, handed_on};
use crate::reading::hold::{self, Hold, HoldEnd, HoldEnding};
use crate::reading::index::HistoryIndex;
use crate::reading::key_life::{KeyLife, Lives};
use crate::reading::moment::Moment;
use crate::reading::tenure::{self, Tenure};

/// A history with what follows from it directly.
#[derive(Clone, Debug)]
pub struct Reading<'a> {
    index: HistoryIndex<'a>,
    /// The holds of the lock, in order of their start.
    pub holds: Vec<Hold>,
    /// The tenures that they form, in order of their beginning.
    pub tenures: Vec<Tenure>,
    /// The lives of the lock's key on every node.
    pub lives: Lives<'a>,
    /// Whether the lives are those of the members of the lock's key.
    pub by_member: bool,
    /// The maximum number of concurrent holders.
    holders: u32,
    /// Whether callers may acquire the lock in shared mode, too.
    pub shares: bool,
    /// The tenure of each acquire that has one, by index.
    by_acquire: BTreeMap<OpId, usize>,
    /// The acquires to which each name of a member may belong, if holders have members.
    named: BTreeMap<&'a str, BTreeSet<OpId>>,
}

impl<'a> Deref for Reading<'a> {
    type Target = HistoryIndex<'a>;

    fn deref(&self) -> &HistoryIndex<'a> {
        &self.index
    }
}

impl<'a> Reading<'a> {
    /// Reads a history for the lock with that key. `holders` is the maximum number of concurrent
    /// holders; `reenters` says whether callers acquire the lock again while they hold it.
    pub fn of(
        history: &'a History,
        lock_key: &'a str,
        (holders, reenters): (u32, bool),
    ) -> Reading<'a> {
        let nests = tenure::nest(reenters, holders);
        let index = HistoryIndex::of(history, lock_key);
        let holds = index.acquires().filter_map(|op| hold::hold_of(&index, op.id));
        let mut holds = holds.collect::<Vec<_>>();
        holds.sort_by_key(|hold| hold.start);
        let tenures = tenure::tenures(&index, &holds, nests);
        let mut by_acquire = BTreeMap::new();
        for (index, tenure) in tenures.iter().enumerate() {
            by_acquire.extend(tenure.acquires.iter().map(|acquire| (*acquire, index)));
        }
        let is_member = |key: &Key| key.of.as_deref() == Some(lock_key);
        let shares = history.shares || history.ops.iter().any(|op| op.shared);
        let by_member = (holders > 1 || shares) && history.keys.iter().any(is_member);
        let mut reading = Reading {
            index,
            holds,
            tenures,
            lives: Lives::default(),
            by_member,
            holders,
            shares,
            by_acquire,
            named: BTreeMap::new(),
        };
        if by_member {
            reading.named = named(&reading);
        }
        // The lives come last: whether a key is taken over depends on the tenures.
        let is_own = |key: &Key| reading.is_of_lock(key);
        let has_one = !reading.can_overlap();
        let mut handed_on = if has_one { handed_on(&reading) } else { HandedOn::new() };
        let kept = (nests && has_one).then(|| reading.kept());
        for (index, acquire, is_own) in kept.into_iter().flatten() {
            let known = handed_on.entry(index).or_insert(acquire);
            // A release does not hand on what its caller still has.
            *known = if is_own { acquire } else { *known };
        }
        let takes_over = |creator, change: &Key| has_one && reading.takes_over(creator, change);
        reading.lives = Lives::of(history, is_own, takes_over, &handed_on);
        reading
    }

    /// The keys that a release set anew in a tenure of its caller's, as one that writes the entries
    /// which are left, or a late one of an earlier entry: each stays that of the acquire that began
    /// the tenure. Also whether the tenure is the release's own.
    fn kept(&self) -> impl Iterator<Item = (usize, OpId, bool)> {
        let keys = self.history.keys.iter().enumerate();
        let set = keys.filter(|(_, key)| key.change == KeyChange::Set && self.is_of_lock(key));
        set.filter_map(|(index, key)| {
            let OpKind::Release { grant } = self.op(key.by?)?.kind else { return None };
            let (caller, at) = (self.caller(grant), Moment::from(key.at));
            let mut wholes = self.tenures.iter().map(|tenure| &tenure.whole);
            let is_in =
                |whole: &&Hold| whole.owner == caller && whole.start <= at && at < whole.end;
            let whole = wholes.find(is_in)?;
            Some((index, whole.grant, self.are_one(grant, whole.grant)))
        })
    }

    /// Whether a change is one of a key whose lives are read: of the lock's key or, if each holder
    /// has a member of it, of such a member.
    pub fn is_of_lock(&self, change: &Key) -> bool {
        match self.by_member {
            true => change.of.as_deref() == Some(self.lock_key),
            false => change.of.is_none() && change.key == self.lock_key,
        }
    }

    /// Whether each life has one owner, which shows who may change it: one caller holds the lock,
    /// or each holder has a member of its own.
    pub fn has_owners(&self) -> bool {
        !self.can_overlap() || self.by_member
    }

    /// Whether two callers may hold the lock at once: in shared mode, or because it has several
    /// holders.
    pub fn can_overlap(&self) -> bool {
        self.holders > 1 || self.shares
    }

    /// Whether a change is one of this key, or of this member.
    pub fn is_of_life(&self, life: &KeyLife, change: &Key) -> bool {
        let born = &self.history.keys[life.born];
        change.node == born.node && change.key == born.key && change.of == born.of
    }

    /// The acquire whose member a life is: the one that added it, and whose token names it if it
    /// was granted; if it was not, no other grant's token may name it, as that of a waiter to which
    /// the acquire left its permit, nor may another acquire have joined a queue by that name. An
    /// acquire that fills a list of permits owns none of the other ones; nor does a release that
    /// puts one back. If the lock has one holder, as [`HistoryIndex::owner`].
    pub fn owner_of(&self, life: &KeyLife) -> Option<OpId> {
        let owner = self.owner(life.by?)?;
        let is_own = || match self.op(owner).and_then(|op| op.token()) {
            Some(token) => token == life.name,
            None => self.named.get(life.name).is_none_or(|named| named.contains(&owner)),
        };
        (!self.by_member || is_own()).then_some(owner)
    }

    /// Whether a grant got the lock by a life: it is its own; or, if holders have members, no
    /// acquire's own, and the grant's token names it.
    pub fn lets_in(&self, life: &KeyLife, grant: &Op) -> bool {
        let is_named = || {
            let began = Moment::from(grant.call) <= life.from;
            began && grant.token() == Some(life.name) && self.owner_of(life).is_none()
        };
        match self.by_member {
            true => self.owner_of(life) == Some(grant.id) || is_named(),
            false => life.by == Some(grant.id),
        }
    }

    /// Whether a change makes a key of that creator the key of its own operation. It does so if the
    /// operation belongs to another tenure and nobody relies on the key any more, or if both
    /// acquires were granted the lock with different owner values. Grants with the same owner value
    /// share a key. An acquire or an extend also takes over a key that has no owner.
    fn takes_over(&self, creator: Option<OpId>, change: &Key) -> bool {
        let owner = creator.and_then(|creator| self.owner(creator));
        let Some(by) = change.by.and_then(|by| self.op(by)) else { return false };
        if by.kind == OpKind::Acquire && !self.enters(by, change) {
            return false;
        }
        match (self.owner(by.id), owner, &by.kind) {
            (Some(_), None, _) => true,
            (Some(taker), Some(owner), _)
            | (None, Some(owner), &OpKind::Release { grant: taker }) => {
                let is_free = || self.is_given_up(owner, change.at.into());
                let differs = || by.id == taker && self.differ(taker, owner);
                !self.are_one(taker, owner) && (is_free() || differs())
            }
            _ => false,
        }
    }

    /// Whether an acquire that changes a key in place may get the lock by that: it was granted, or
    /// it gave the key another expiry, or its reply was lost and the key was changed by a release
    /// just before, or by its own later. Another try without a grant may only have incremented a
    /// counter.
    fn enters(&self, by: &Op, change: &Key) -> bool {
        let keys = &self.history.keys;
        let place = keys.partition_point(|key| key.at < change.at);
        let is_it = |key: &&Key| key.node == change.node && key.key == change.key;
        let before = keys[..place].iter().rfind(is_it);
        let own = || keys[place..].iter().filter(is_it).filter(|key| key.by == Some(by.id));
        let extends = || own().any(|key| key.change == KeyChange::Extended);
        let released = |key: &Key| match self.op(key.by?)?.kind {
            OpKind::Release { grant } => Some(grant),
            _ => None,
        };
        let was_freed = || before.and_then(released).is_some();
        let frees = |key: &Key| released(key) == Some(by.id);
        let is_freed = || was_freed() || keys[place..].iter().filter(is_it).any(frees);
        let moves = before.and_then(|key| key.until_ms) != change.until_ms;
        self.is_granted(by.id) || moves || extends() || by.has_no_answer() && is_freed()
    }

    /// Whether two acquires were granted the lock with different owner values.
    fn differ(&self, one: OpId, other: OpId) -> bool {
        let token = |id| self.op(id)?.token().filter(|token| !token.is_empty());
        token(one).zip(token(other)).is_some_and(|(one, other)| one != other)
    }

    /// The acquire to which a key belongs; for a key that a release set, the acquire of its grant.
    pub fn leaver(&self, key: &KeyLife) -> Option<OpId> {
        let by = self.op(key.by?)?;
        match by.kind {
            // A member that a release adds is a permit that it puts back.
            OpKind::Release { grant } if !self.by_member && self.is_set(key) => Some(grant),
            _ => self.owner_of(key),
        }
    }

    fn is_set(&self, key: &KeyLife) -> bool {
        self.history.keys[key.born].change == KeyChange::Set
    }

    /// Whether no caller relies on an acquire's grant at a moment: its lease or its caller has
    /// ended, or it was never granted. The lease of a grant whose reply is still on its way ends by
    /// the caller's clock as well.
    pub fn is_given_up(&self, acquire: OpId, at: Moment) -> bool {
        self.tenure(acquire).is_none_or(|tenure| self.is_over(&tenure.whole, at))
    }

    /// The same for the member on a node that an acquire's token names: grants of its tenure with
    /// other tokens have members of their own. A member has no time to live, so what removes it
    /// counts its lease on the node's clock: it is given up by that clock as well.
    pub fn is_member_given_up(&self, acquire: OpId, node: &str, at: Moment) -> bool {
        let op = |hold: &Hold| self.op(hold.grant);
        let token = self.op(acquire).and_then(|op| op.token());
        let holds = self.tenure(acquire).into_iter().flat_map(|tenure| &tenure.holds);
        let mut own = holds.map(|index| &self.holds[*index]).filter(|hold| {
            op(hold).is_some_and(|op| op.token() == token && Moment::from(op.call) <= at)
        });
        own.all(|hold| self.is_over(hold, at) || self.has_run_out(hold.grant, node, at))
    }

    /// Whether the leases that a grant was given by a moment have passed on a node's clock, each
    /// since the request for it was sent. The clock of a caller that was suspended is behind.
    fn has_run_out(&self, grant: OpId, node: &str, at: Moment) -> bool {
        let boot = |at: Moment| Some(self.clocks.line(node, Clock::Boot, at)?.at(at.at));
        let passed = |from| Some(boot(at)?.saturating_sub(boot(from)?));
        let ops = self.op(grant).into_iter().chain(self.ops_of(grant));
        let mut leases = ops.filter_map(|op| self.lease_since(op, at)).peekable();
        leases.peek().is_some()
            && leases.all(|(sent, lease)| lease.zip(passed(sent)).is_some_and(|(l, p)| l <= p))
    }

    /// When an operation that gave a lease sent the last of its requests that were carried out by a
    /// moment, and how long its caller counts the lease from then, if it has an end.
    fn lease_since(&self, op: &Op, at: Moment) -> Option<(Moment, Option<Nanos>)> {
        let (Outcome::Granted { deadline, .. } | Outcome::Kept { deadline }) = op.outcome else {
            return None;
        };
        let is_done =
            |request: &&&Request| request.at(Leg::Applied).is_some_and(|done| at >= done.into());
        let sent = self.requests_of(op.id).iter().rfind(is_done)?.at(Leg::Sent)?;
        let lease = deadline.and_then(|(clock, until)| {
            let line = self.clocks.line(&op.process, clock, sent.into())?;
            Some(until.saturating_sub(line.at(sent.at)))
        });
        Some((sent.into(), lease))
    }

    /// Whether no caller relies on a hold at a moment, or on the grant that begins it.
    fn is_over(&self, hold: &Hold, at: Moment) -> bool {
        if hold.start <= at {
            return !hold.covers(at);
        }
        let Some(op) = self.op(hold.grant) else { return false };
        let Outcome::Granted { deadline: Some((clock, until)), .. } = op.outcome else {
            return false;
        };
        let line = self.clocks.line(&op.process, clock, at);
        line.is_some_and(|line| line.at(at.at) >= until)
    }

    /// The tenure that an acquire began, or in which it was called.
    pub fn tenure(&self, acquire: OpId) -> Option<&Tenure> {
        self.by_acquire.get(&acquire).map(|index| &self.tenures[*index])
    }

    /// The acquire that represents an acquire's tenure: the one that began it; the acquire itself
    /// if it has no tenure.
    pub fn outermost(&self, acquire: OpId) -> OpId {
        self.tenure(acquire).map_or(acquire, |tenure| tenure.whole.grant)
    }

    /// Whether two acquires belong to one tenure.
    pub fn are_one(&self, one: OpId, other: OpId) -> bool {
        self.outermost(one) == self.outermost(other)
    }

    /// The acquires of an acquire's tenure; the acquire alone if it has none.
    pub fn together(&self, acquire: OpId) -> Vec<OpId> {
        self.tenure(acquire).map_or_else(|| vec![acquire], |tenure| tenure.acquires.clone())
    }

    /// The endings that gave up an acquire's key: those of its tenure from the tenure's end on. An
    /// earlier release of a nested grant leaves the key to the others.
    pub fn endings(&self, acquire: OpId) -> impl Iterator<Item = HoldEnding> {
        let over = self.tenure(acquire).map_or(Moment::default(), |tenure| tenure.whole.end);
        let all = self.together(acquire).into_iter().flat_map(|id| hold::endings(self, id));
        all.filter(move |ending| ending.at >= over)
    }

    /// The releases among those endings.
    pub fn releases(&self, acquire: OpId) -> impl Iterator<Item = &'a Op> {
        self.endings(acquire).filter_map(|ending| match ending.ended {
            HoldEnd::Released(id) => self.op(id),
            _ => None,
        })
    }

    /// When a key's time to live is over, whether or not the node has noticed: the key lives while
    /// its node's wall clock reads its last millisecond, and is gone in the next. If the clock is
    /// set back before the node notices, the key exists as before. An expiry counts from the moment
    /// at which it was set: one that a start restores did not exist before.
    pub fn passes(&self, key: &KeyLife) -> Moment {
        let over = key.until_ms.and_then(|until| {
            let reading = until.saturating_add(1).saturating_mul(MILLISECOND);
            self.clocks.stays(key.node, Clock::Wall, (key.until_from, key.to), reading)
        });
        over.unwrap_or(Moment::NEVER)
    }

    /// When a key was removed, or its time to live was over.
    pub fn gone(&self, key: &KeyLife) -> Moment {
        self.passes(key).min(key.to)
    }
}

/// The acquires to which each name may belong: by their owner values, or since they joined a queue
/// by that name.
fn named<'a>(index: &HistoryIndex<'a>) -> BTreeMap<&'a str, BTreeSet<OpId>> {
    let valued = index.acquires().filter_map(|op| Some((op.owner_value()?, op.id)));
    let is_queue = |of: &str| of != index.lock_key;
    let adds = |key: &&Key| key.change == KeyChange::Set && key.of.as_deref().is_some_and(is_queue);
    let added = index.history.keys.iter().filter(adds);
    let joined = added.filter_map(|key| Some((key.key.as_str(), index.owner(key.by?)?)));
    let mut named: BTreeMap<_, BTreeSet<OpId>> = BTreeMap::new();
    for (name, acquire) in valued.chain(joined) {
        named.entry(name).or_default().insert(acquire);
    }
    named
}
