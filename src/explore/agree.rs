//! Whether two engines agree about a plan. A verdict from one engine alone is one opinion.
//!
//! Verdict, kinds and class must be equal, the nearest misses must be within [`SLACK`] of each
//! other, and the operations on the lock must have the same outcomes. Two operations that are
//! further apart than [`SLACK`] on both engines must have the same order. If two requests reach a
//! node at the same time, each engine breaks the tie in its own way, and the runs may differ from
//! there on: then only the verdicts are compared. An operation without requests, as one that waits
//! for a mutex of its host, is such a tie, too. If nodes talk to each other, the same applies from
//! the first fault on: each engine splits that traffic into messages in its own way, and a
//! millisecond decides which node requests votes first, or which replica has acknowledged more.

use std::collections::BTreeMap;

use lockstorm_platform::time::{MILLISECOND, Nanos};
use lockstorm_platform::trace::Leg;

use crate::explain::finding::Finding;
use crate::explain::naming::verdict_words;
use crate::explore::examine::word;
use crate::history::{History, Op, OpId, Request};

/// A millisecond for each hop of an operation that queries one node after the other.
pub const SLACK: Nanos = 10 * MILLISECOND;

/// An end of an operation on the lock: its caller, its index there, and whether it is the return.
type Mark<'a> = (&'a str, usize, bool);

/// Requests closer together than this may be executed in any order.
const TIE: Nanos = 2 * MILLISECOND;

/// To what extent two findings of one plan agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineAgreement {
    /// They agree in everything that must be equal.
    Whole,
    /// They agree up to a tie at this true time, and in the verdict.
    UntilTie(Nanos),
    /// They agree up to the first fault, at this true time, and in the verdict: nodes talk to each
    /// other.
    UntilFault(Nanos),
    /// They differ; the text says how.
    Not(String),
}

/// Compares two findings of one plan.
pub fn agreement(one: &Finding, other: &Finding) -> EngineAgreement {
    let say = |a: &str, b: &str| format!("{a} on {}, {b} on {}", one.engine, other.engine);
    let verdicts = [one, other].map(|finding| verdict_words(&finding.judgement.verdict));
    if verdicts[0] != verdicts[1] {
        return EngineAgreement::Not(say(&verdicts[0], &verdicts[1]));
    }
    let classes = [one, other].map(|finding| word(finding).map_or("-", |class| class.word()));
    if classes[0] != classes[1] {
        return EngineAgreement::Not(say(classes[0], classes[1]));
    }
    let key = &one.plan.lock.key;
    let ops = [one, other].map(|finding| of_lock(&finding.history, key));
    let parting = parting(&ops);
    let strict = of_operations(one, other, &ops, parting.as_ref());
    let Some(fault) = first_fault(one).filter(|_| matches!(strict, EngineAgreement::Not(_))) else {
        return strict;
    };
    let parted = parting.as_ref().is_some_and(|parting| parting.at() < fault);
    let same = !parted && swap(&ops, fault).is_none();
    if same { EngineAgreement::UntilFault(fault) } else { strict }
}

/// When the first fault strikes a plan whose nodes talk to each other.
fn first_fault(finding: &Finding) -> Option<Nanos> {
    let talks = finding.plan.topology.replicas() > 0;
    let strikes = finding.history.fault_intervals.iter().map(|interval| interval.from.at);
    strikes.filter(|_| talks).min()
}

/// Whether the operations on the lock and the nearest misses are the same.
fn of_operations(
    one: &Finding,
    other: &Finding,
    ops: &[BTreeMap<(&str, usize), &Op>; 2],
    parting: Option<&Parting>,
) -> EngineAgreement {
    let say = |a: &str, b: &str| format!("{a} on {}, {b} on {}", one.engine, other.engine);
    let misses = [one, other].map(|finding| finding.judgement.nearest_miss);
    let histories = [&one.history, &other.history];
    let parted = parting.and_then(|parting| tie(histories, parting.ops));
    let Some(swap) = swap(ops, parted.unwrap_or(Nanos::MAX)) else {
        return of_outcomes(parting, parted, misses, &say);
    };
    let early = [0, 1].map(|engine| ops[engine].get(&(swap.early.0, swap.early.1)).copied());
    match tie(histories, early).filter(|at| self::swap(ops, *at).is_none()) {
        Some(at) => EngineAgreement::UntilTie(at),
        None => {
            let (early, late) = (name(&swap.early), name(&swap.late));
            EngineAgreement::Not(say(&format!("{early} before {late}"), "after it"))
        }
    }
}

/// Whether their outcomes are the same; the operations have the same order.
fn of_outcomes(
    parting: Option<&Parting>,
    tie: Option<Nanos>,
    misses: [Option<i64>; 2],
    say: &dyn Fn(&str, &str) -> String,
) -> EngineAgreement {
    match (parting, tie) {
        (None, _) if !near(misses) => {
            EngineAgreement::Not(say(&miss_words(misses[0]), &miss_words(misses[1])))
        }
        (None, _) => EngineAgreement::Whole,
        (Some(_), Some(at)) => EngineAgreement::UntilTie(at),
        (Some(Parting { who: (caller, nth), outcomes: [a, b], .. }), None) => {
            EngineAgreement::Not(format!("operation {nth} of {caller} on the lock: {}", say(a, b)))
        }
    }
}

/// Whether two runs came equally close to a violation.
fn near(misses: [Option<i64>; 2]) -> bool {
    match misses {
        [Some(one), Some(other)] => one.abs_diff(other) <= SLACK,
        [one, other] => one == other,
    }
}

fn miss_words(miss: Option<i64>) -> String {
    miss.map_or("no nearest miss".to_owned(), |miss| format!("a nearest miss of {miss} ns"))
}

/// The operations on the lock, by caller and index among its operations.
fn of_lock<'a>(history: &'a History, key: &str) -> BTreeMap<(&'a str, usize), &'a Op> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let ops = history.ops.iter().filter(|op| op.object == *key);
    ops.map(|op| {
        let nth = counts.entry(&op.caller).or_default();
        *nth += 1;
        ((op.caller.as_str(), *nth), op)
    })
    .collect()
}

/// The first operation in which the engines differ.
struct Parting<'a> {
    who: (&'a str, usize),
    outcomes: [String; 2],
    /// The operation on each engine, if it exists there.
    ops: [Option<&'a Op>; 2],
}

impl Parting<'_> {
    /// When it was called, on the engine that was earlier.
    fn at(&self) -> Nanos {
        self.ops.iter().flatten().map(|op| op.call.at).min().unwrap_or(0)
    }
}

fn parting<'a>([one, other]: &[BTreeMap<(&'a str, usize), &'a Op>; 2]) -> Option<Parting<'a>> {
    let outcome = |op: Option<&Op>| {
        op.map_or("nothing".to_owned(), |op| {
            let outcome = op.ret.map_or("pending", |_| op.outcome.return_word(&op.kind));
            format!("{}: {outcome}", op.kind.invocation_word())
        })
    };
    let partings = one.keys().chain(other.keys()).filter_map(|who| {
        let ops = [one, other].map(|ops| ops.get(who).copied());
        let outcomes = ops.map(outcome);
        (outcomes[0] != outcomes[1]).then_some(Parting { who: *who, outcomes, ops })
    });
    partings.min_by_key(Parting::at)
}

/// The last time at which a request of this operation and one of another caller reached a node
/// together, on either engine; or the call of an operation that waited on its host alone.
fn tie(histories: [&History; 2], ops: [Option<&Op>; 2]) -> Option<Nanos> {
    histories.into_iter().zip(ops).find_map(|(history, op)| rivalled(history, op?))
}

fn rivalled(history: &History, op: &Op) -> Option<Nanos> {
    let applied = |request: &Request| request.at(Leg::Applied).map(|at| at.at);
    let caller = |id: OpId| history.ops.iter().find(|op| op.id == id).map(|op| &op.caller);
    let is_others = |request: &Request| {
        request.from != *op.process || caller(request.op).is_some_and(|other| *other != op.caller)
    };
    let mut own = history.requests.iter().rev().filter(|request| request.op == op.id).peekable();
    if own.peek().is_none() {
        return Some(op.call.at);
    }
    own.find_map(|own| {
        let at = applied(own)?;
        let rivals = history.requests.iter().filter(|r| is_others(r) && r.to == own.to);
        let mut rivals = rivals.filter_map(applied);
        rivals.any(|rival| rival.abs_diff(at) <= TIE).then_some(at)
    })
}

/// Two ends of operations whose order differs on the other engine.
struct Swap<'a> {
    /// The end that comes first on this engine.
    early: Mark<'a>,
    /// The end that comes first on the other engine.
    late: Mark<'a>,
}

/// The first ends before `until` whose order differs on the other engine.
fn swap<'a>(ops: &[BTreeMap<(&'a str, usize), &Op>; 2], until: Nanos) -> Option<Swap<'a>> {
    let [one, other] = ops.each_ref().map(marks);
    let mut sorted: Vec<(Nanos, Nanos, Mark<'a>)> =
        one.iter().filter_map(|(mark, at)| Some((*at, *other.get(mark)?, *mark))).collect();
    sorted.retain(|(at, _, _)| *at < until);
    sorted.sort_unstable();
    // An end that comes later here by more than the slack must not come earlier there.
    let mut first = 0;
    let mut latest: Option<(Nanos, Mark<'a>)> = None;
    for (at, there, mark) in &sorted {
        while sorted[first].0 + SLACK < *at {
            let (_, passed, before) = sorted[first];
            if latest.is_none_or(|(known, _)| known < passed) {
                latest = Some((passed, before));
            }
            first += 1;
        }
        if let Some((known, early)) = latest
            && there + SLACK < known
        {
            return Some(Swap { early, late: *mark });
        }
    }
    None
}

fn marks<'a>(ops: &BTreeMap<(&'a str, usize), &Op>) -> BTreeMap<Mark<'a>, Nanos> {
    let mut marks = BTreeMap::new();
    for ((caller, nth), op) in ops {
        marks.insert((*caller, *nth, false), op.call.at);
        if let Some(ret) = op.ret {
            marks.insert((*caller, *nth, true), ret.at);
        }
    }
    marks
}

fn name((caller, nth, is_return): &Mark) -> String {
    let end = if *is_return { "return" } else { "call" };
    format!("the {end} of operation {nth} of {caller}")
}
