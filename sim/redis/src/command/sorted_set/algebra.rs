//! Unions, intersections and differences of sorted sets; plain sets count with scores of 1.

use bytes::Bytes;

use crate::call::{Call, Outcome};
use crate::command::sorted_set::listed::listed;
use crate::errors::{NOT_INTEGER, SYNTAX, WRONGTYPE};
use crate::float;
use crate::frame::{Reply, integer};
use crate::keyspace::Value;
use crate::keyspace::sorted_set::SortedSet;

/// The operation on the sets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AlgebraOperation {
    Union,
    Intersection,
    Difference,
}

/// How the scores of one member are combined.
#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Least,
    Greatest,
}

impl Aggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            Aggregate::Sum if (one + other).is_nan() => 0.0,
            Aggregate::Sum => one + other,
            Aggregate::Least => {
                if other < one {
                    other
                } else {
                    one
                }
            }
            Aggregate::Greatest => {
                if other > one {
                    other
                } else {
                    one
                }
            }
        }
    }
}

/// The arguments of a request.
struct AlgebraArguments {
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    limit: usize,
}

/// The form of a command, from its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AlgebraForm {
    Answers,
    Stores,
    Counts,
}

/// ZUNION numkeys key ... [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]
pub fn zunion(call: &mut Call) -> Outcome {
    run(call, AlgebraOperation::Union, AlgebraForm::Answers)
}

/// ZINTER numkeys key ... [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]
pub fn zinter(call: &mut Call) -> Outcome {
    run(call, AlgebraOperation::Intersection, AlgebraForm::Answers)
}

/// ZDIFF numkeys key ... [WITHSCORES]
pub fn zdiff(call: &mut Call) -> Outcome {
    run(call, AlgebraOperation::Difference, AlgebraForm::Answers)
}

/// ZUNIONSTORE destination numkeys key ... [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX]
pub fn zunionstore(call: &mut Call) -> Outcome {
    run(call, AlgebraOperation::Union, AlgebraForm::Stores)
}

/// ZINTERSTORE destination numkeys key ... [WEIGHTS weight ...] [AGGREGATE SUM | MIN | MAX]
pub fn zinterstore(call: &mut Call) -> Outcome {
    run(call, AlgebraOperation::Intersection, AlgebraForm::Stores)
}

/// ZDIFFSTORE destination numkeys key ...
pub fn zdiffstore(call: &mut Call) -> Outcome {
    run(call, AlgebraOperation::Difference, AlgebraForm::Stores)
}

/// ZINTERCARD numkeys key ... [LIMIT limit]
pub fn zintercard(call: &mut Call) -> Outcome {
    run(call, AlgebraOperation::Intersection, AlgebraForm::Counts)
}

fn run(call: &mut Call, operation: AlgebraOperation, form: AlgebraForm) -> Outcome {
    let words = call.from(1 + usize::from(form == AlgebraForm::Stores));
    let number = integer(&words[0]).ok_or(Reply::error(NOT_INTEGER))?;
    let Some(number) = usize::try_from(number).ok().filter(|number| *number > 0) else {
        let name = call.command.lower;
        let text = format!("ERR at least 1 input key is needed for '{name}' command");
        return Err(Reply::Error(text.into()));
    };
    let Some((keys, words)) = words[1..].split_at_checked(number) else {
        return Err(Reply::error(SYNTAX));
    };
    let sources = sources(call, keys)?;
    let arguments = options(number, words, operation, form)?;
    let result = combine(sources, operation, &arguments);
    match form {
        AlgebraForm::Answers => {
            let members = result.iter().map(|(member, score)| (member.clone(), score));
            Ok(listed(call.session.replies.protocol, members, arguments.with_scores))
        }
        AlgebraForm::Counts => {
            let limit = if arguments.limit == 0 { usize::MAX } else { arguments.limit };
            Ok(Reply::count(result.len().min(limit)))
        }
        AlgebraForm::Stores => {
            let event = ["zunionstore", "zinterstore", "zdiffstore"][operation as usize];
            let result = result.fitted(call.node.limits.sorted_set);
            call.store(&call.args[1], Value::SortedSet(result), b'z', event)
        }
    }
}

/// The members of every key with their scores; a missing key is empty.
fn sources(call: &mut Call, keys: &[Bytes]) -> Result<Vec<SortedSet>, Reply> {
    let mut sources = Vec::new();
    for key in keys {
        sources.push(match call.entry(key).map(|entry| &entry.value) {
            None => SortedSet::default(),
            Some(Value::SortedSet(set)) => set.clone(),
            Some(Value::Set(set)) => {
                let mut scored = SortedSet::default();
                for member in set.iter() {
                    scored.insert(&member, 1.0);
                }
                scored
            }
            Some(_) => return Err(Reply::error(WRONGTYPE)),
        });
    }
    Ok(sources)
}

fn options(
    keys: usize,
    words: &[Bytes],
    operation: AlgebraOperation,
    form: AlgebraForm,
) -> Result<AlgebraArguments, Reply> {
    let weights = vec![1.0; keys];
    let aggregate = Aggregate::Sum;
    let mut arguments = AlgebraArguments { weights, aggregate, with_scores: false, limit: 0 };
    let scored = operation != AlgebraOperation::Difference && form != AlgebraForm::Counts;
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let left = words.len() - at - 1;
        match &word.to_ascii_uppercase()[..] {
            b"WEIGHTS" if scored && left >= keys => {
                for (nth, weight) in arguments.weights.iter_mut().enumerate() {
                    let read = float::number(&words[at + 1 + nth]);
                    *weight = read.ok_or(Reply::error("ERR weight value is not a float"))?;
                }
                at += keys;
            }
            b"AGGREGATE" if scored && left >= 1 => {
                at += 1;
                arguments.aggregate = match &words[at].to_ascii_uppercase()[..] {
                    b"SUM" => Aggregate::Sum,
                    b"MIN" => Aggregate::Least,
                    b"MAX" => Aggregate::Greatest,
                    _ => return Err(Reply::error(SYNTAX)),
                };
            }
            b"WITHSCORES" if form == AlgebraForm::Answers => arguments.with_scores = true,
            b"LIMIT" if form == AlgebraForm::Counts && left >= 1 => {
                at += 1;
                let limit = integer(&words[at]).and_then(|limit| usize::try_from(limit).ok());
                arguments.limit = limit.ok_or(Reply::error("ERR LIMIT can't be negative"))?;
            }
            _ => return Err(Reply::error(SYNTAX)),
        }
        at += 1;
    }
    Ok(arguments)
}

fn combine(
    sources: Vec<SortedSet>,
    operation: AlgebraOperation,
    arguments: &AlgebraArguments,
) -> SortedSet {
    let mut result = SortedSet::large();
    if operation == AlgebraOperation::Difference {
        let elsewhere = |member: &[u8]| sources[1..].iter().any(|set| set.score(member).is_some());
        for (member, score) in sources[0].iter().filter(|(member, _)| !elsewhere(member)) {
            result.insert(member, score);
        }
        return result;
    }
    // Floating point sums depend on their order: in Redis the smallest set comes first.
    let mut sources: Vec<(&SortedSet, f64)> =
        sources.iter().zip(arguments.weights.iter().copied()).collect();
    sources.sort_by_key(|(set, _)| set.len());
    let firsts = if operation == AlgebraOperation::Union { sources.len() } else { 1 };
    for nth in 0..firsts {
        for (member, score) in sources[nth].0.iter() {
            if result.score(member).is_some() {
                continue;
            }
            if let Some(total) =
                total(&sources[nth..], member, score, operation, arguments.aggregate)
            {
                result.insert(member, total);
            }
        }
    }
    result
}

/// The combined score of a member with a known score in the first of these sets.
fn total(
    sources: &[(&SortedSet, f64)],
    member: &[u8],
    first: f64,
    operation: AlgebraOperation,
    aggregate: Aggregate,
) -> Option<f64> {
    let own = |score: f64| if score.is_nan() { 0.0 } else { score };
    let mut total = own(first * sources[0].1);
    for (set, weight) in &sources[1..] {
        match (set.score(member), operation) {
            (Some(score), AlgebraOperation::Union) => {
                total = aggregate.of(total, own(score * weight))
            }
            (Some(score), _) => total = aggregate.of(total, score * weight),
            (None, AlgebraOperation::Union) => {}
            (None, _) => return None,
        }
    }
    Some(total)
}
