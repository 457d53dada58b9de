//! Every check of the lock against a brute force that is written from the verdict table and shares
//! no function with it, on small random histories. Breaches of the contract are recorded at run
//! time; `tests/lab/contract.rs` tests them.
//!
//! `LOCKSTORM_CASES` sets the number of histories; a failure names its seed.

mod crowd;
mod damage;
mod holding;
mod lost;
mod near;
mod order;
mod queue;
mod random;
mod served;
mod table;

use std::collections::{BTreeMap, BTreeSet};

use lockstorm::check::case::Case;
use lockstorm::check::judge::{Judgement, judge};
use lockstorm::check::terms::{Invariant, Terms};
use lockstorm::check::verdict::{Cause, Kind, Turn, Verdict, Violation};
use lockstorm::check::{
    availability, corruption, counts, fence, foreign, idle, late_loss, leak, linear, liveness,
    lost_early, nearest_miss, overlap, overtaking, renewal,
};
use lockstorm::explain::argument;
use lockstorm::history::{History, Key, OpKind};

use crate::amount::amount;
use crate::brute::random::Taste;
use crate::brute::table::Table;

/// The result of a check, and what the brute force expects.
type Both<T> = (T, T);

/// Runs a comparison on random histories. At least one in `one_in` must have a result: a check that
/// never fires tests nothing.
fn compare<T: PartialEq + std::fmt::Debug + Default>(
    taste: Taste,
    one_in: u64,
    both: fn(&Case, &Table) -> Both<T>,
) {
    hits(one_in, |seed| {
        let (history, terms) = random::history(seed, taste);
        agreed(seed, &history, &terms, both) != T::default()
    });
}

/// The same with callers that re-enter the lock while they hold it. At least one history in
/// `one_in` must be judged differently than with each grant on its own.
fn compare_again<T: PartialEq + std::fmt::Debug>(
    taste: Taste,
    one_in: u64,
    both: fn(&Case, &Table) -> Both<T>,
) {
    hits(one_in, |seed| {
        let (history, nested) = random::history_again(seed, taste);
        let apart = Terms { reenters: false, ..nested.clone() };
        let (alone, _) = both(&Case::new(&history, &apart), &Table::new(&history, &apart));
        agreed(seed, &history, &nested, both) != alone
    });
}

/// The same with callers that re-enter the lock, if that does not change the result.
fn compare_nested<T: PartialEq + std::fmt::Debug + Default>(
    taste: Taste,
    one_in: u64,
    both: fn(&Case, &Table) -> Both<T>,
) {
    hits(one_in, |seed| {
        let (history, terms) = random::history_again(seed, taste);
        agreed(seed, &history, &terms, both) != T::default()
    });
}

/// The same with keys that commands hand to waiters.
fn compare_handed_on<T: PartialEq + std::fmt::Debug + Default>(
    taste: Taste,
    one_in: u64,
    both: fn(&Case, &Table) -> Both<T>,
) {
    hits(one_in, |seed| {
        let (history, terms) = random::handed_on(seed, taste);
        agreed(seed, &history, &terms, both) != T::default()
    });
}

/// Runs all cases, of which at least one in `one_in` has to hit.
fn hits(one_in: u64, is_hit: impl Fn(u64) -> bool) {
    let hits = (0..cases()).filter(|seed| is_hit(*seed)).count() as u64;
    assert!(hits * one_in >= cases(), "only {hits} of {} histories show anything", cases());
}

fn cases() -> u64 {
    amount("LOCKSTORM_CASES", 2_000) as u64
}

/// The results of both sides for a history.
fn agreed<T: PartialEq + std::fmt::Debug>(
    seed: u64,
    history: &History,
    terms: &Terms,
    both: fn(&Case, &Table) -> Both<T>,
) -> T {
    let (found, expected) = both(&Case::new(history, terms), &Table::new(history, terms));
    assert_eq!(found, expected, "seed {seed}: {terms:#?} {history:#?}");
    found
}

#[test]
fn overlaps() {
    compare(Taste::Holds, 4, overlap);
    compare_again(Taste::Holds, 4, overlap);
}

fn overlap(case: &Case, table: &Table) -> Both<Vec<holding::Found>> {
    let found = overlap::violations(case);
    let found = found.into_iter().map(|v| (v.kind, v.ops, v.from.at, v.to.at));
    (found.collect::<Vec<_>>(), holding::overlaps(table))
}

#[test]
fn late_losses() {
    compare(Taste::Holds, 4, late_loss);
    compare_again(Taste::Holds, 5, late_loss);
}

fn late_loss(case: &Case, table: &Table) -> Both<Vec<holding::Found>> {
    let found = late_loss::violations(case).into_iter();
    let found = found.map(|v| (v.kind, v.ops, v.late.unwrap_or(0), v.to.at));
    let mut expected = holding::late_losses(table);
    let mut found = found.collect::<Vec<_>>();
    expected.sort();
    found.sort();
    (found, expected)
}

#[test]
fn fences() {
    compare(Taste::Holds, 8, fence);
    compare_again(Taste::Holds, 30, fence);
}

fn fence(case: &Case, table: &Table) -> Both<Vec<u32>> {
    let mut found = fence::violations(case).iter().map(|v| smaller(table, v)).collect::<Vec<_>>();
    found.sort_unstable();
    (found, holding::fence_regresses(table))
}

/// The grant with the smaller number; of two with the same number the later.
fn smaller(table: &Table, violation: &Violation) -> u32 {
    let [one, other] = violation.ops[..] else { panic!("two grants") };
    if holding::fence(table.op(one)) < holding::fence(table.op(other)) { one } else { other }
}

#[test]
fn liveness() {
    compare(Taste::Holds, 20, |case, table| {
        let judged = liveness::judge(case);
        let stuck = judged.violations.iter().any(|v| v.kind == Kind::Stuck);
        let pending = judged.violations.iter().filter(|v| v.kind == Kind::NeverSettles);
        let pending = pending.map(|v| v.ops[0]).collect::<Vec<_>>();
        ((stuck, pending, !judged.unknown.is_empty()), holding::liveness(table))
    });
}

#[test]
fn contention() {
    compare(Taste::Holds, 4, |case, table| {
        (counts::count(case).contended as usize, holding::contended(table))
    });
}

#[test]
fn idle_faults() {
    compare(Taste::Holds, 4, |case, table| {
        (idle::reasons(case).len(), holding::idle_faults(table))
    });
}

#[test]
fn corruptions() {
    compare(Taste::Accesses, 20, corruption);
    compare_again(Taste::Accesses, 300, corruption);
}

fn corruption(case: &Case, table: &Table) -> Both<(Vec<(usize, Cause)>, bool)> {
    let mut found = corruption::violations(case);
    let sum = found.pop_if(|v| v.accesses.is_empty()).is_some();
    let cause = |v: &Violation| v.cause.expect("a cause");
    let found = found.iter().map(|v| (v.accesses[v.accesses.len() - 1], cause(v)));
    let mut expected = damage::corruptions(table);
    expected.extend(damage::endless(table).map(|first| (first, Cause::Endless)));
    let wrong_sum = expected.is_empty() && damage::wrong_sum(table);
    ((found.collect::<Vec<_>>(), sum), (expected, wrong_sum))
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
    compare(Taste::Keys, 100, leak);
    compare_handed_on(Taste::Keys, 250, leak);
    compare_again(Taste::Keys, 1000, leak);
}

fn leak(case: &Case, table: &Table) -> Both<BTreeMap<BTreeSet<u32>, u32>> {
    let found = leak::violations(case).into_iter();
    let keyed = found.map(|v| {
        let by = |key: &usize| damage::leaver(table, *key).expect("an acquire");
        let leakers = v.keys.iter().map(by).collect::<BTreeSet<_>>();
        let victim = v.ops.iter().find(|op| !leakers.contains(op)).copied();
        (leakers, victim.expect("somebody failed"))
    });
    (keyed.collect::<BTreeMap<_, _>>(), damage::leaks(table))
}

#[test]
fn places_in_the_queue() {
    let judged = |(history, terms): (History, Terms), seed: u64| {
        let found = agreed(seed, &history, &terms, |case, table| {
            let found = overtaking::violations(case);
            let of = |kind| found.iter().filter(move |v| v.kind == kind);
            let passed = of(Kind::Overtaken).map(|v| (v.ops[0], v.ops[1]));
            let left = of(Kind::Leak).map(|v| (v.ops[0], (v.from.at, v.from.seq), v.ops[1]));
            let expected = (queue::overtaken(table), queue::left(table));
            ((passed.collect(), left.collect()), expected)
        });
        let found: &(BTreeSet<_>, BTreeSet<_>) = &found;
        let judged = overtaking::violations(&Case::new(&history, &terms));
        // A removal beside the two that it lies between.
        let mut passed = judged.iter().filter(|v| v.kind == Kind::Overtaken);
        let is_thrown_out = passed.clone().any(|v| v.keys.len() == 3);
        // The command of another let the grant in.
        let is_handed =
            passed.any(|v| v.keys.last().map(|key| history.keys[*key].by) != Some(Some(v.ops[1])));
        [!found.0.is_empty(), !found.1.is_empty(), is_thrown_out, is_handed]
    };
    hits(80, |seed| judged(random::queued(seed), seed)[0]);
    hits(80, |seed| judged(random::queued(seed), seed)[1]);
    hits(250, |seed| judged(crowd::crowd(seed), seed)[2]);
    hits(250, |seed| judged(crowd::crowd(seed), seed)[3]);
}

/// What a lock of groups violates at one key is what a lock of that key alone violates, but for keys
/// that a release set or changed, while another key of the group may have kept the acquire out.
#[test]
fn groups_are_judged_key_by_key() {
    type Seen = BTreeSet<(Kind, Vec<u32>, Vec<usize>)>;
    let of_callers = [Kind::Stuck, Kind::NeverSettles, Kind::LateLoss];
    let seen = |judgement: Judgement, key: Option<&str>| -> Seen {
        let Verdict::Violated(violations) = judgement.verdict else { return Seen::new() };
        let mut own = violations;
        own.retain(|v| !of_callers.contains(&v.kind) && v.key.as_deref() == key);
        own.into_iter().map(|v| (v.kind, v.ops, v.keys)).collect()
    };
    hits(8, |seed| {
        let (history, terms) = random::grouped(seed);
        let each = terms.keys.iter().map(|name| {
            let mut alone = history.clone();
            for op in alone.ops.iter_mut().filter(|op| op.kind == OpKind::Acquire) {
                let is_on = std::mem::take(&mut op.keys).contains(name);
                op.object = if is_on { name.clone() } else { "another".to_owned() };
            }
            let own = Terms { lock_key: name.clone(), keys: Vec::new(), ..terms.clone() };
            let expected = seen(judge(&alone, &own), None);
            let found = seen(judge(&history, &terms), Some(name));
            let is_free = |(kind, _, keys): &(Kind, Vec<u32>, Vec<usize>)| {
                *kind == Kind::Leak && may_say_free(&history, name, keys)
            };
            assert!(found.is_subset(&expected), "seed {seed}, key {name}: {found:?}");
            assert!(expected.difference(&found).all(is_free), "seed {seed}, key {name}");
            !found.is_empty()
        });
        each.fold(false, |any, is_violated| any | is_violated)
    });
}

/// Whether a release set or changed these keys of that name, and an operation of a grant another.
fn may_say_free(history: &History, name: &str, keys: &[usize]) -> bool {
    let kind = |key: &Key| Some(&history.ops[key.by? as usize].kind);
    let marks = |key: &Key| key.key == *name && matches!(kind(key), Some(OpKind::Release { .. }));
    let holds = |key: &Key| {
        let is_grants = matches!(kind(key), Some(OpKind::Acquire | OpKind::Extend { .. }));
        key.key != *name && key.change.leaves_key() && is_grants
    };
    let is_marked = |born: &usize| history.keys[*born..].iter().any(marks);
    keys.iter().any(is_marked) && history.keys.iter().any(holds)
}

#[test]
fn renewals() {
    compare(Taste::Keys, 30, renewal);
    compare_handed_on(Taste::Keys, 100, renewal);
    compare_again(Taste::Keys, 200, renewal);
}

fn renewal(case: &Case, table: &Table) -> Both<BTreeMap<u32, BTreeSet<usize>>> {
    let found = renewal::violations(case).into_iter();
    let extend = |v: &Violation| {
        let extends = |op: &&u32| matches!(table.op(**op).kind, OpKind::Extend { .. });
        *v.ops.iter().find(extends).expect("an extend")
    };
    let keyed = found.map(|v| (extend(&v), v.keys.iter().copied().collect::<BTreeSet<_>>()));
    (keyed.collect::<BTreeMap<_, _>>(), damage::renewals(table))
}

#[test]
fn losses_before_the_end_of_a_lease() {
    compare(Taste::Keys, 250, lost_early);
    compare_handed_on(Taste::Keys, 250, lost_early);
    compare_again(Taste::Keys, 300, lost_early);
}

fn lost_early(case: &Case, table: &Table) -> Both<Vec<(u32, usize)>> {
    let found = lost_early::violations(case).into_iter();
    let mut found = found.map(|v| (v.ops[0], v.keys[0])).collect::<Vec<_>>();
    found.sort_unstable();
    (found, lost::lost_early(table))
}

#[test]
fn nearest_misses() {
    compare(Taste::Both, 50, nearest_miss);
    compare_handed_on(Taste::Both, 100, nearest_miss);
    compare_again(Taste::Both, 100, nearest_miss);
    // Found among 200,000: keys that releases set, also of what was not granted.
    for seed in [4_496, 6_130, 24_765] {
        let histories =
            [random::history, random::history_again].map(|draw| draw(seed, Taste::Both));
        histories.iter().for_each(|(history, terms)| {
            agreed(seed, history, terms, nearest_miss);
        });
    }
}

fn nearest_miss(case: &Case, table: &Table) -> Both<Option<i64>> {
    (nearest_miss::nearest(case).map(|nearest| nearest.by), near::nearest_miss(table))
}

#[test]
fn times_without_the_lock() {
    compare(Taste::Holds, 2, unavailable);
    compare_nested(Taste::Holds, 2, unavailable);
}

fn unavailable(case: &Case, table: &Table) -> Both<Option<(u64, u64)>> {
    let found = availability::measure(case).unavailable;
    (found.map(|found| (found.from.at, found.to.at)), served::unavailable(table))
}

#[test]
fn waits() {
    compare(Taste::Holds, 2, waits_of);
    compare_nested(Taste::Holds, 2, waits_of);
}

fn waits_of(case: &Case, table: &Table) -> Both<(u32, [u64; 3])> {
    let found = availability::measure(case).waits;
    let lengths = served::waits(table);
    let expected = [50, 99, 100].map(|percent| served::not_exceeded(&lengths, percent));
    let count = u32::try_from(lengths.len()).expect("few");
    ((found.count, [found.median, found.percentile_99, found.longest]), (count, expected))
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

/// The same with callers that re-enter the lock while they hold it.
#[test]
fn orders_of_a_lock_taken_again() {
    compare_again(Taste::Holds, 30, |case, table| {
        let found = linear::judge(case);
        let lock = found.violations.iter().any(|v| case.op(v.ops[0]).unwrap().object == "lock");
        let legal = table.terms.holders > 1 || order::lock_is_legal(table);
        ((lock, found.unknown.len()), (!legal, 0))
    });
}

/// The same if keys show whether a release on several nodes removed any.
#[test]
fn orders_of_the_lock_and_its_keys() {
    compare(Taste::Keys, 40, |case, table| {
        let found = linear::judge(case);
        let lock = found.violations.iter().any(|v| case.op(v.ops[0]).unwrap().object == "lock");
        let legal = table.terms.holders > 1 || order::lock_is_legal(table);
        ((lock, found.unknown.len()), (!legal, 0))
    });
}

/// Two grants without an order: each one's turn can end only after the other's has begun, by the
/// model and by the argument.
#[test]
fn turns_of_the_lock() {
    compare(Taste::Holds, 20, |case, table| {
        let found = linear::judge(case).violations.into_iter();
        let pairs = found.filter_map(|v| <[Turn; 2]>::try_from(v.turns).ok());
        let pairs = pairs.map(|[one, other]| {
            let acquires = [(one.grant, other.grant), (other.grant, one.grant)];
            let legal =
                acquires.map(|(first, second)| order::is_legal_in_order(table, first, second));
            let excludes = [argument::excludes(&one, &other), argument::excludes(&other, &one)];
            (excludes, legal.map(|legal| !legal))
        });
        pairs.unzip::<_, _, Vec<_>, Vec<_>>()
    });
}

/// Each sentence of an argument says that one turn ends after the other has begun: the figures in
/// it prove that.
#[test]
fn arguments_state_what_is_so() {
    compare(Taste::Holds, 20, |case, _| {
        let violations = linear::judge(case).violations.into_iter();
        let pairs = violations.filter(|violation| violation.turns.len() == 2);
        let said = pairs.flat_map(|violation| {
            let text = argument::argument(case.history, &violation);
            let sentences = text.split("cannot come first: ").skip(1).map(str::to_owned);
            sentences.map(|said| states_an_inequality(&said)).collect::<Vec<_>>()
        });
        let said = said.collect::<Vec<_>>();
        let expected = vec![true; said.len().next_multiple_of(2)];
        (said, expected)
    });
}

/// Whether the end of one turn is after the beginning of the other, by the figures in the text.
fn states_an_inequality(said: &str) -> bool {
    let figure = |word: &str| {
        let (_, rest) = said.split_once(word)?;
        rest.split(' ').next()?.parse::<f64>().ok()
    };
    match (figure("before "), figure("begun by ")) {
        (Some(free), Some(had)) if said.contains("in the same instant") => free == had,
        (Some(free), Some(had)) => free > had,
        (None, Some(_)) => said.contains("nothing ends it"),
        _ => false,
    }
}

/// The core has no legal order, and every block of it is necessary.
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

/// Every history is judged as that of a counter or of a stock: the others have no register. Few of
/// them have writes whose order matters, so there are more of them.
#[test]
fn orders_of_the_register() {
    hits(2, |nth| {
        let mut seeds = 8 * nth..8 * (nth + 1);
        seeds.any(|seed| {
            let (history, terms) = random::history(seed, Taste::Accesses);
            let invariant = match seed.is_multiple_of(2) {
                true => Invariant::Counter,
                false => Invariant::Stock { items: 2 },
            };
            let terms = Terms { invariant, ..terms };
            agreed(seed, &history, &terms, register) != (false, 0)
        })
    });
}

fn register(case: &Case, table: &Table) -> Both<(bool, usize)> {
    let found = linear::judge(case);
    let resource = found.violations.iter().any(|v| case.op(v.ops[0]).unwrap().object != "lock");
    let initial = if let Invariant::Stock { items } = table.terms.invariant { items } else { 0 };
    ((resource, found.unknown.len()), (!order::register_is_legal(table, initial), 0))
}
