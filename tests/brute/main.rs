//! Every check against a brute force that is written from the verdict table and shares no
//! function with it, on small random histories.
//!
//! `LOCKSTORM_CASES` sets how many; a failure names its seed.

mod damage;
mod holding;
mod order;
mod random;
mod table;

use std::collections::{BTreeMap, BTreeSet};

use lockstorm::check::case::Case;
use lockstorm::check::{Invariant, Kind, Violation};
use lockstorm::check::{
    corruption, counts, fence, foreign, late_loss, leak, linear, liveness, nearest_miss, overlap,
};
use lockstorm::history::OpKind;

use crate::random::Taste;
use crate::table::Table;

/// Runs a comparison on random histories. At least one in so many must find something: a check
/// that never fires tests nothing.
fn compare<T: PartialEq + std::fmt::Debug + Default>(
    taste: Taste,
    one_in: u64,
    both: fn(&Case, &Table) -> (T, T),
) {
    #[allow(clippy::disallowed_methods, reason = "how long to try, not what is tried")]
    let cases = std::env::var("LOCKSTORM_CASES").ok().and_then(|text| text.parse().ok());
    let cases = cases.unwrap_or(2_000_u64);
    let mut hits = 0;
    for seed in 0..cases {
        let (history, terms) = random::history(seed, taste);
        let (found, expected) = both(&Case::new(&history, &terms), &Table::new(&history, &terms));
        assert_eq!(found, expected, "seed {seed}: {terms:#?} {history:#?}");
        hits += u64::from(found != T::default());
    }
    assert!(hits * one_in >= cases, "only {hits} of {cases} histories show anything");
}

#[test]
fn overlaps() {
    compare(Taste::Holds, 4, |case, table| {
        let found = overlap::violations(case, &overlap::overlaps(case));
        let found = found.into_iter().map(|v| (v.kind, v.ops, v.from.at, v.to.at));
        (found.collect::<Vec<_>>(), holding::overlaps(table))
    });
}

#[test]
fn late_losses() {
    compare(Taste::Holds, 4, |case, table| {
        let found = late_loss::violations(case).into_iter();
        let found = found.map(|v| (v.kind, v.ops, v.late.unwrap_or(0), v.to.at));
        let mut expected = holding::late_losses(table);
        let mut found = found.collect::<Vec<_>>();
        expected.sort();
        found.sort();
        (found, expected)
    });
}

#[test]
fn fences() {
    compare(Taste::Holds, 8, |case, table| {
        let mut found = fence::violations(case).iter().map(later).collect::<Vec<_>>();
        found.sort_unstable();
        (found, holding::fence_regresses(table))
    });
}

fn later(violation: &Violation) -> u32 {
    violation.ops[violation.ops.len() - 1]
}

#[test]
fn liveness() {
    compare(Taste::Holds, 20, |case, table| {
        let judged = liveness::judge(case);
        let stuck = judged.violations.iter().any(|v| v.kind == Kind::Stuck);
        let pending = judged.violations.iter().filter(|v| v.kind == Kind::NeverSettles);
        let pending = pending.map(|v| v.ops[0]).collect::<Vec<_>>();
        ((stuck, pending, judged.unknown.is_some()), holding::liveness(table))
    });
}

#[test]
fn contention() {
    compare(Taste::Holds, 4, |case, table| {
        (counts::count(case).contended as usize, holding::contended(table))
    });
}

#[test]
fn corruptions() {
    compare(Taste::Accesses, 12, |case, table| {
        let mut found = corruption::violations(case);
        let sum = found.pop_if(|v| v.accesses.is_empty()).is_some();
        let cause = |v: &Violation| v.cause.expect("a cause");
        let found = found.iter().map(|v| (v.accesses[v.accesses.len() - 1], cause(v)));
        let expected = damage::corruptions(table);
        let wrong_sum = expected.is_empty() && damage::wrong_sum(table);
        ((found.collect::<Vec<_>>(), sum), (expected, wrong_sum))
    });
}

#[test]
fn foreign_commands() {
    compare(Taste::Keys, 8, |case, table| {
        let found = foreign::violations(case);
        let found = found.into_iter().map(|v| (v.kind, v.ops)).collect::<BTreeSet<_>>();
        let expected = damage::foreign(table).into_iter();
        let expected =
            expected.map(|(kind, by, victim)| (kind, vec![by.min(victim), by.max(victim)]));
        (found, expected.collect())
    });
}

#[test]
fn leaks() {
    compare(Taste::Keys, 60, |case, table| {
        let found = leak::violations(case).into_iter();
        let keyed = found.map(|v| {
            let by = |key: &usize| case.history.keys[*key].by.expect("an acquire");
            let leakers = v.keys.iter().map(by).collect::<BTreeSet<_>>();
            let victim = v.ops.iter().find(|op| !leakers.contains(op)).copied();
            (leakers, victim.expect("somebody failed"))
        });
        (keyed.collect::<BTreeMap<_, _>>(), damage::leaks(table))
    });
}

#[test]
fn nearest_misses() {
    compare(Taste::Both, 40, |case, table| {
        (nearest_miss::nearest(case), damage::nearest_miss(table))
    });
}

#[test]
fn orders_of_the_lock() {
    compare(Taste::Holds, 8, |case, table| {
        let found = linear::judge(case);
        let lock = found.violations.iter().any(|v| case.op(v.ops[0]).unwrap().object == "lock");
        let legal = table.terms.holders > 1 || order::lock_is_legal(table);
        ((lock, found.unknown.len()), (!legal, 0))
    });
}

/// The core has no legal order, and every block of it is needed for that.
#[test]
fn cores_of_the_lock() {
    compare(Taste::Holds, 8, |case, table| {
        let violations = linear::judge(case).violations.into_iter();
        let mut cores = violations.filter(|v| case.op(v.ops[0]).unwrap().object == "lock");
        let Some(core) = cores.next() else { return (Vec::new(), Vec::new()) };
        let blocks = core.ops.iter().filter(|id| table.op(**id).kind == OpKind::Acquire);
        let blocks = blocks.copied().collect::<Vec<_>>();
        let legal = |blocks: &[u32]| {
            let history = order::only(table, blocks);
            order::lock_is_legal(&Table::new(&history, table.terms))
        };
        let spared = (0..blocks.len()).map(|index| {
            let mut fewer = blocks.clone();
            fewer.remove(index);
            legal(&fewer)
        });
        let found = [legal(&blocks)].into_iter().chain(spared).collect::<Vec<_>>();
        let expected = [false].into_iter().chain(blocks.iter().map(|_| true)).collect();
        (found, expected)
    });
}

#[test]
fn orders_of_the_register() {
    compare(Taste::Accesses, 20, |case, table| {
        let found = linear::judge(case);
        let resource = found.violations.iter().any(|v| case.op(v.ops[0]).unwrap().object != "lock");
        let legal = match table.terms.invariant {
            Invariant::Counter => order::register_is_legal(table, 0),
            Invariant::Stock { items } => order::register_is_legal(table, items),
            _ => true,
        };
        ((resource, found.unknown.len()), (!legal, 0))
    });
}
