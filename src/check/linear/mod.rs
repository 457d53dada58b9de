//! Linearizability: is there a legal order? What a lock or a register promises is a small
//! sequential model ([`spec`]); the enumeration of orders is a separate file ([`search`]).

mod search;
pub(crate) mod spec;
mod turn;

use crate::check::case::Case;
use crate::check::linear::search::{Item, Legality, SequentialModel};
use crate::check::linear::spec::{LockModel, Register};
use crate::check::own::Findings;
use crate::check::terms::Invariant;
use crate::check::verdict::Kind;
use crate::check::verdict::Violation;
use crate::history::{RESOURCE, segment};
use crate::promise;

/// Judges the lock's history by its model, and the resource's as a register.
pub fn judge(case: &Case<'_>) -> Findings {
    let mut linear = Findings::default();
    if case.terms.model != promise::Model::None && case.terms.holders == 1 {
        take(&mut linear, case, ("lock", &LockModel), spec::lock_items(case));
        for violation in &mut linear.violations {
            violation.turns = turn::turns(case, &violation.ops);
        }
    }
    let (initial, name) = match case.terms.invariant {
        Invariant::Counter => (0, None),
        Invariant::Stock { items } => (items, None),
        Invariant::Segment { nth, items } => (items, Some(segment(nth))),
        // What is added in one step needs no search: the resource has the only order.
        Invariant::Within { .. }
        | Invariant::Taken { .. }
        | Invariant::Passed { .. }
        | Invariant::None
        | Invariant::AppendLog
        | Invariant::Inside { .. }
        | Invariant::Latch { .. }
        | Invariant::Schedule => return linear,
    };
    let register = Register { initial };
    let items = spec::register_items(case, name.as_deref());
    take(&mut linear, case, (RESOURCE, &register), items);
    linear
}

/// Adds the violation of a named model that has no legal order.
fn take<M: SequentialModel>(
    linear: &mut Findings,
    case: &Case,
    (what, model): (&str, &M),
    mut items: Vec<Item<M::Action>>,
) {
    items.sort_by_key(|item| item.call);
    match search::search(model, &items) {
        Legality::Legal => {}
        Legality::Illegal => linear.violations.push(violation(case, &core(model, items))),
        Legality::GaveUp => {
            linear.unknown.push(format!("the search for a legal order of the {what} gave up"));
        }
    }
}

/// Blocks that together have no legal order, and none of which can be removed. Removing a whole
/// block never makes it harder to find an order, so the core proves the violation of the whole.
fn core<M: SequentialModel>(model: &M, mut items: Vec<Item<M::Action>>) -> Vec<Item<M::Action>> {
    let mut blocks = items.iter().map(|item| item.block).collect::<Vec<_>>();
    blocks.sort_unstable();
    blocks.dedup();
    // Large chunks first: one search then removes many blocks.
    let mut size = blocks.len().div_ceil(2);
    loop {
        let mut start = 0;
        while start < blocks.len() {
            let end = blocks.len().min(start + size);
            let chunk = &blocks[start..end];
            let rest = items.iter().filter(|item| chunk.binary_search(&item.block).is_err());
            let rest = rest.cloned().collect::<Vec<_>>();
            if search::search(model, &rest) == Legality::Illegal {
                items = rest;
                blocks.drain(start..end);
            } else {
                start = end;
            }
        }
        if size <= 1 {
            return items;
        }
        size = size.div_ceil(2);
    }
}

fn violation<A>(case: &Case, core: &[Item<A>]) -> Violation {
    let mut ops = core.iter().map(|item| item.op).collect::<Vec<_>>();
    ops.sort_unstable();
    let from = core.iter().map(|item| item.call).min().unwrap_or_default();
    let to = core.iter().map(|item| item.ret).max().unwrap_or_default();
    let (from, to) = (from.instant(case.history), to.instant(case.history));
    Violation { ops, ..Violation::new(Kind::NotLinearizable, from, to) }
}
