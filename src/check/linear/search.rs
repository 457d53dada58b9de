//! The search for a legal order: depth first, with a memory of visited configurations. It knows no
//! lock.
//!
//! A configuration consists of the first item that is not yet placed, which of the subsequent items
//! are placed, the model's state, and the point in time that the order has reached. Time
//! constraints are lower bounds only, so the earliest point is the best: a configuration that was
//! reached at an earlier point makes the same one at a later point redundant. If an item has
//! another effect after waiting, the model reports it, and both are tried.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::history::OpId;
use crate::reading::moment::Moment;

/// The specification: how one action changes a state.
pub trait SequentialModel {
    /// The state of the model.
    type State: Copy + Ord;
    /// What an item does.
    type Action: Clone;
    /// The initial state.
    fn initial(&self) -> Self::State;
    /// Whether the action can never change a state. A blind write can, even if it writes the
    /// current value.
    fn only_looks(&self, action: &Self::Action) -> bool;
    /// The state after the item, and the earliest point not before `from` at which it can take
    /// effect; `None` if it cannot in that state.
    fn step(
        &self,
        state: Self::State,
        item: &Item<Self::Action>,
        from: Moment,
    ) -> Option<(Self::State, Moment)>;
    /// As [`SequentialModel::step`], for an item that takes effect only later, if that can lead to
    /// another state.
    fn step_later(
        &self,
        _: Self::State,
        _: &Item<Self::Action>,
        _: Moment,
    ) -> Option<(Self::State, Moment)> {
        None
    }
}

/// An action that took effect at one point between its call and its return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item<A> {
    /// The operation.
    pub op: OpId,
    /// Items that belong together: removing a whole block never makes it harder to find an order.
    pub block: i64,
    /// The earliest point.
    pub call: Moment,
    /// The latest point.
    pub ret: Moment,
    /// Whether it certainly took effect.
    pub is_certain: bool,
    /// What it does.
    pub action: A,
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Legality {
    /// There is a legal order.
    Legal,
    /// There is none.
    Illegal,
    /// Too many configurations, or too many items at once.
    GaveUp,
}

/// The maximum number of configurations before the search gives up.
const LIMIT: usize = 200_000;
/// The maximum number of items placed before the first one that is not, and of uncertain items.
const WIDTH: usize = 128;

#[derive(Clone, Copy)]
struct Configuration<S> {
    /// The first certain item that is not placed.
    first: usize,
    /// Which of the certain items from `first` on are placed.
    placed: u128,
    /// Which of the uncertain items are placed.
    chosen: u128,
    state: S,
    now: Moment,
}

/// Looks for a legal order of the items, which are sorted by their call.
pub fn search<M: SequentialModel>(model: &M, items: &[Item<M::Action>]) -> Legality {
    let (certain, uncertain) = items.iter().partition::<Vec<_>, _>(|item| item.is_certain);
    if uncertain.len() > WIDTH {
        return Legality::GaveUp;
    }
    let state = model.initial();
    let start = Configuration { first: 0, placed: 0, chosen: 0, state, now: Moment::default() };
    let mut open = vec![start];
    let mut reached: BTreeMap<_, Moment> = BTreeMap::new();
    while let Some(at) = open.pop() {
        if at.first == certain.len() {
            return Legality::Legal;
        }
        if !is_earliest(&mut reached, (at.first, at.placed, at.chosen, at.state), at.now) {
            continue;
        }
        if reached.len() > LIMIT || !expand(model, &certain, &uncertain, at, &mut open) {
            return Legality::GaveUp;
        }
    }
    Legality::Illegal
}

/// Whether a configuration is reached for the first time or earlier than before; records the point.
pub fn is_earliest<C: Ord>(reached: &mut BTreeMap<C, Moment>, at: C, now: Moment) -> bool {
    match reached.entry(at) {
        Entry::Occupied(entry) if *entry.get() <= now => return false,
        Entry::Occupied(mut entry) => *entry.get_mut() = now,
        Entry::Vacant(entry) => _ = entry.insert(now),
    }
    true
}

/// Pushes the successors of a configuration on the stack, the earliest call on top. False if more
/// items are concurrent than can be distinguished.
fn expand<M: SequentialModel>(
    model: &M,
    certain: &[&Item<M::Action>],
    uncertain: &[&Item<M::Action>],
    at: Configuration<M::State>,
    open: &mut Vec<Configuration<M::State>>,
) -> bool {
    let bottom = open.len();
    let mut deadline = Moment::NEVER;
    for (offset, item) in certain[at.first..].iter().enumerate() {
        // Items are in order of their calls: this one and all later ones begin after an item that
        // is not placed had returned.
        if item.call > deadline {
            break;
        }
        if offset >= WIDTH {
            return false;
        }
        if at.placed >> offset & 1 == 1 {
            continue;
        }
        deadline = deadline.min(item.ret);
        for next in place(model, item, at) {
            let next = Configuration { placed: next.placed | 1 << offset, ..next };
            let next = slide(next, certain.len());
            if model.only_looks(&item.action) {
                // An item that fits now and changes nothing is placed at once: it excludes no
                // order.
                open.truncate(bottom);
                open.push(next);
                return true;
            }
            open.push(next);
        }
    }
    // An item that is not placed must have taken effect by now: no order continues from here.
    if at.now > deadline {
        open.truncate(bottom);
        return true;
    }
    for (bit, item) in uncertain.iter().enumerate() {
        if at.chosen >> bit & 1 == 0 && item.call <= deadline {
            open.extend(
                place(model, item, at)
                    .map(|next| Configuration { chosen: at.chosen | 1 << bit, ..next }),
            );
        }
    }
    open[bottom..].reverse();
    true
}

fn place<M: SequentialModel>(
    model: &M,
    item: &Item<M::Action>,
    at: Configuration<M::State>,
) -> impl Iterator<Item = Configuration<M::State>> {
    let steps = steps(model, at.state, item, at.now.max(item.call));
    steps.filter_map(move |(state, now)| {
        (now <= item.ret).then_some(Configuration { state, now, ..at })
    })
}

/// The results of an item from a point on: immediately, and later.
pub fn steps<M: SequentialModel>(
    model: &M,
    state: M::State,
    item: &Item<M::Action>,
    from: Moment,
) -> impl Iterator<Item = (M::State, Moment)> + use<M> {
    [model.step(state, item, from), model.step_later(state, item, from)].into_iter().flatten()
}

/// Moves the window past the placed items at its beginning.
fn slide<S>(mut at: Configuration<S>, items: usize) -> Configuration<S> {
    let gone = at.placed.trailing_ones();
    at.placed = at.placed.checked_shr(gone).unwrap_or(0);
    at.first += gone as usize;
    debug_assert!(at.first <= items, "only items are placed");
    at
}
