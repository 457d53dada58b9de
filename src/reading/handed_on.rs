//! Which keys a command handed on: it set the key for a waiter, which learns of it later. The key
//! is the waiter's, as if its own acquire had set it.
//!
//! A command hands the key on if it belongs to a release; or to an acquire that keeps its own place
//! in the queue, and goes on to ask or leaves the key to the waiter; or to an acquire that has the
//! key and is not granted the lock: it leaves, and passes on what was handed to it; or to one that
//! has no grant, and no place in the queue any more: it leaves the free lock to the next, if it is
//! refused or the next makes use of the key.
//!
//! The waiter is one whose place in the queue the command removes. Of several it is the first that
//! changed the key next, or was granted the lock without a change of its own; if there is none, the
//! one that joined last: the others were skipped. A key that is changed in place is handed on only
//! to one of the former: a release may sweep the queue whenever it changes the key. If no acquire
//! whose place the command removes still waits, the one at the head is such a waiter, too: it may
//! keep its place until it takes the lock. If the history has no queue, the waiter is another
//! acquire, and only who changed the key next, or was let in by it, shows which.
//!
//! The copies of a key that a command handed on, and what a start restores of it, are the same
//! waiter's.

use std::collections::BTreeMap;

use lockstorm_platform::trace::KeyChange;

use crate::history::{Key, Op, OpId, OpKind, Outcome};
use crate::reading::index::HistoryIndex;
use crate::reading::key_life::KeyLife;
use crate::reading::moment::Moment;

/// The waiter's acquire of each change of the lock's key that handed it on, by the change's index.
pub type HandedOn = BTreeMap<usize, OpId>;

/// See the module documentation.
pub fn handed_on(index: &HistoryIndex) -> HandedOn {
    let keys = &index.history.keys;
    let is_of_lock = |key: &Key| key.of.is_none() && key.key == index.lock_key;
    // With most locks nobody is handed the key.
    let is_set = |key: &Key| is_of_lock(key) && is_set_by_release(index, key);
    if index.places.is_empty() && !keys.iter().any(is_set) {
        return HandedOn::new();
    }
    let of_lock = keys.iter().enumerate().filter(|(_, key)| is_of_lock(key)).collect();
    HandOvers { index, of_lock }.found()
}

fn is_set_by_release(index: &HistoryIndex, change: &Key) -> bool {
    let by = change.by.filter(|_| change.change == KeyChange::Set);
    let by = by.and_then(|by| index.op(by));
    by.is_some_and(|by| matches!(by.kind, OpKind::Release { .. }))
}

struct HandOvers<'a, 'i> {
    index: &'i HistoryIndex<'a>,
    /// The changes of the lock's key, with their indices.
    of_lock: Vec<(usize, &'a Key)>,
}

/// A key that an operation set, with an expiry that it had.
struct Sets {
    until_ms: Option<u64>,
    /// The waiter to which it handed the key by that.
    to: Option<OpId>,
}

impl<'a> HandOvers<'a, '_> {
    fn found(&self) -> HandedOn {
        let (mut found, mut sets) = (HandedOn::new(), BTreeMap::<OpId, Vec<Sets>>::new());
        // Which operation set the key of each node, and to whom it handed it.
        let mut setters: BTreeMap<&str, (OpId, Option<OpId>)> = BTreeMap::new();
        // Whose key each node has.
        let mut owners: BTreeMap<&str, OpId> = BTreeMap::new();
        for (nth, (born, change)) in self.of_lock.iter().enumerate() {
            let in_place = change.change == KeyChange::Changed && self.has_queue();
            let is_set = change.change == KeyChange::Set || in_place;
            let is_set = is_set && !self.is_undone(nth, change);
            let owner = owners.get(&*change.node).copied();
            let by = change.by.and_then(|by| self.index.op(by)).filter(|_| is_set);
            if let Some(by) = by {
                let earlier = sets.entry(by.id).or_default();
                let to = self.original(earlier, change).unwrap_or_else(|| {
                    let to = self.taker((nth, change), by, owner == change.by);
                    let is_release = matches!(by.kind, OpKind::Release { .. });
                    to.or_else(|| earlier.iter().find_map(|set| set.to).filter(|_| is_release))
                });
                earlier.push(Sets { until_ms: change.until_ms, to });
                found.extend(to.map(|to| (*born, to)));
                setters.insert(&*change.node, (by.id, to));
            } else if let Some((by, to)) = setters.get(&*change.node).copied() {
                let until_ms = change.until_ms;
                sets.entry(by).or_default().push(Sets { until_ms, to });
            }
            let to = found.get(born).copied();
            let owner = match change.change {
                KeyChange::Set => to.or(change.by.filter(|_| self.has_queue())),
                KeyChange::Changed | KeyChange::Extended => to.or(owner),
                _ => None,
            };
            owners.remove(&*change.node);
            owners.extend(owner.map(|owner| (&*change.node, owner)));
        }
        found
    }

    /// To whom the original of a copy was handed, if the change is one: of those that its operation
    /// set, the last that had that expiry. A resynchronisation copies a key as it was at some time.
    fn original(&self, earlier: &[Sets], change: &Key) -> Option<Option<OpId>> {
        let is_copy = !self.index.is_by_command(change);
        let same = earlier.iter().rfind(|set| set.until_ms == change.until_ms);
        same.or(earlier.last()).filter(|_| is_copy).map(|set| set.to)
    }

    fn has_queue(&self) -> bool {
        !self.index.places.is_empty()
    }

    /// The waiter for which a command changed the key, which its operation had before or not.
    fn taker(&self, (nth, change): (usize, &Key), by: &Op, has_key: bool) -> Option<OpId> {
        let quits = self.quits(change, by);
        let leaves = has_key && !self.index.is_granted(by.id) || quits;
        let (own, keeps) = match by.kind {
            OpKind::Release { grant } => (grant, false),
            OpKind::Acquire => (by.id, !leaves && self.keeps_place(change, by)),
            _ => return None,
        };
        if by.kind == OpKind::Acquire && !leaves && !keeps {
            return None;
        }
        // One whose reply was lost may have set the key for itself.
        let is_sure = !quits || has_key || by.is_refused();
        let (head, out) = self.waiters(change, (own, is_sure));
        let last = out.last().copied();
        let waiters: Vec<&Op> = head.into_iter().chain(out).collect();
        let next = waiters.iter().find(|waiter| self.is_changed_by(nth, waiter));
        let is_own = || self.index.is_granted(by.id) || self.is_changed_by(nth, by);
        if keeps && next.is_none() && !self.goes_on(change, by) && is_own() {
            return None;
        }
        let mut granted: Vec<&&Op> =
            waiters.iter().filter(|waiter| self.is_let_in(nth, waiter)).collect();
        granted.sort_by_key(|waiter| waiter.ret.map(Moment::from));
        let is_set = self.has_queue() && change.change == KeyChange::Set;
        let last = last.filter(|_| is_set && is_sure);
        next.or(granted.first().copied()).copied().or(last).map(|waiter| waiter.id)
    }

    /// The acquires for which a command may have changed the key: the one at the head if it may be
    /// that, and those whose places the command removed; or those that waited if the history has no
    /// queue.
    fn waiters(&self, change: &Key, (own, is_sure): (OpId, bool)) -> (Option<&'a Op>, Vec<&'a Op>) {
        if !self.has_queue() {
            // Also one of the same caller, whose release was late.
            let others = self.index.acquires().filter(|op| op.id != own);
            return (None, others.filter(|op| waits(op, change)).collect());
        }
        let is_other = |op: &&Op| op.kind == OpKind::Acquire && op.id != own;
        let waiter = |place: &KeyLife<'a>| self.index.op(place.by?).filter(is_other);
        let removed = self.index.places.iter().filter(|place| self.is_removed_with(place, change));
        let removed: Vec<&Op> = removed.filter_map(waiter).collect();
        let is_over = |op: &&Op| op.ret.is_some_and(|ret| Moment::from(ret) <= change.at.into());
        // A copy of the queue may have another order.
        let may_be_head = is_sure && self.index.is_by_command(change);
        let may_be_head = may_be_head && removed.iter().all(is_over);
        (self.head(change).filter(|_| may_be_head).and_then(waiter), removed)
    }

    /// The first place that is left in a queue when the command of a change is done.
    fn head(&self, change: &Key) -> Option<&KeyLife<'a>> {
        let at = Moment::from(change.at);
        self.index.places.iter().find(|place| {
            let is_there = place.from <= at && at < place.to;
            place.node == &*change.node && is_there && !self.is_removed_with(place, change)
        })
    }

    /// Whether an acquire that changed the key kept its own place.
    fn keeps_place(&self, change: &Key, by: &Op) -> bool {
        self.index.places.iter().any(|place| {
            let is_own = place.by == Some(by.id) && place.node == &*change.node;
            let is_there = place.from.at <= change.at.at && place.to > change.at.into();
            is_own && is_there && !self.is_removed_with(place, change)
        })
    }

    /// Whether an acquire without a grant does not stand in the queue once its command has changed
    /// the key: it left with that command, or had no place.
    fn quits(&self, change: &Key, by: &Op) -> bool {
        let is_out = self.has_queue() && !self.keeps_place(change, by);
        by.kind == OpKind::Acquire && !self.index.is_granted(by.id) && is_out
    }

    /// Whether the command that changed the key removed a place.
    fn is_removed_with(&self, place: &KeyLife, change: &Key) -> bool {
        place.ended.is_some_and(|end| end.is_of_command(self.index.history, change))
    }

    /// Whether the command of a change deletes the key in the end: it handed nothing on.
    fn is_undone(&self, nth: usize, change: &Key) -> bool {
        let rest = self.of_lock[nth + 1..].iter().map(|(_, key)| *key);
        let same = rest.take_while(|key| key.is_one_command_with(change));
        same.last().is_some_and(|key| key.change == KeyChange::Deleted)
    }

    /// Whether an acquire sent the node another request after it had changed the key.
    fn goes_on(&self, change: &Key, by: &Op) -> bool {
        self.index.commands(by.id, &change.node).any(|at| at.at > change.at.at)
    }

    /// The changes of the key on its node by later commands than that of a change, in order.
    fn later(&self, nth: usize) -> impl Iterator<Item = (usize, &'a Key)> {
        let (_, change) = self.of_lock[nth];
        let later = self.of_lock.iter().map(|(_, key)| *key).enumerate().skip(nth + 1);
        later.filter(move |(_, key)| key.node == change.node && !change.is_one_command_with(key))
    }

    /// Whether the next operation that changed the key was a waiter's acquire which prolonged it,
    /// or which left and deleted it or passed it on; or a release or an extend of that acquire.
    fn is_changed_by(&self, nth: usize, waiter: &Op) -> bool {
        let Some(next) = self.later(nth).next() else { return false };
        let by = next.1.by.and_then(|by| self.index.op(by));
        by.is_some_and(|by| match by.kind {
            OpKind::Acquire if by.id == waiter.id => match next.1.change {
                KeyChange::Extended => true,
                _ if self.index.is_granted(by.id) => false,
                // A key without a time to live may say that the lock is free.
                KeyChange::Set if self.of_lock[nth].1.until_ms.is_none() => false,
                KeyChange::Set => self.passes_on(next, by),
                change => change == KeyChange::Deleted,
            },
            OpKind::Release { grant } | OpKind::Extend { grant, .. } => grant == waiter.id,
            _ => false,
        })
    }

    /// Whether an acquire that is not granted the lock set the key for another. Without a queue, an
    /// acquire without an answer set it for another only if that one makes use of it.
    fn passes_on(&self, (nth, change): (usize, &Key), by: &Op) -> bool {
        let is_used = || self.taker((nth, change), by, true).is_some();
        self.has_queue() || by.is_refused() || is_used()
    }

    /// Whether an acquire was granted the lock after a change of the key, and neither set the key
    /// nor changed it since; without a queue, also whether its last request met the key.
    fn is_let_in(&self, nth: usize, waiter: &Op) -> bool {
        let (_, change) = self.of_lock[nth];
        let ret = waiter.ret.map(|ret| ret.instant());
        let Some(ret) = ret.filter(|ret| change.at < *ret && self.index.is_granted(waiter.id))
        else {
            return false;
        };
        let later = || self.later(nth).map(|(_, key)| key);
        let sets = |key: &Key| matches!(key.change, KeyChange::Set | KeyChange::Changed);
        let mut own = later().filter(|key| key.at < ret);
        let is_own = own.any(|key| sets(key) && key.by == Some(waiter.id));
        let meets = || {
            let end = later().find(|key| key.change != KeyChange::Extended);
            let last = self.index.commands(waiter.id, &change.node).filter(|at| *at < ret).last();
            last.is_some_and(|at| change.at < at && end.is_none_or(|end| at < end.at))
        };
        !is_own && (self.has_queue() || meets())
    }
}

/// Whether an acquire waited when the key was changed: it was called and had not returned, or its
/// outcome is unknown.
fn waits(acquire: &Op, change: &Key) -> bool {
    let is_over = acquire.ret.is_some_and(|ret| ret.instant() <= change.at);
    acquire.call.instant() < change.at && (!is_over || acquire.outcome == Outcome::Unknown)
}
