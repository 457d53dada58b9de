//! Priorities: clients run at different speeds, and a few of them slow down at a change point. This
//! is probabilistic concurrency testing with pauses and delays in place of a scheduler.
//!
//! A change point is a moment of one client: one of its first operations begins or ends, or one of
//! its first messages completes a leg. With k such moments, a plan with d changes hits d given
//! moments with a chance of d! / k^d: a bug of small depth has a chance that faults elsewhere do
//! not lower.

use lockstorm_platform::fault::verbs::Row;
use lockstorm_platform::fault::{Anchor, Fault, Pattern, Target, Verb};
use lockstorm_platform::time::MILLISECOND;
use lockstorm_platform::trace::Leg;
use proptest::collection::vec;
use proptest::prelude::{BoxedStrategy, Just, Strategy};
use proptest::sample::{select, subsequence};
use proptest::strategy::Union;
use proptest::test_runner::TestRunner;

use crate::hunt::drawing::anchor::queried_nodes;
use crate::hunt::drawing::duration::length;
use crate::hunt::drawing::{Alphabet, Burst, burst, calm, rows, sampled, verb_of, with_faults};
use crate::lock::algorithm::Algorithm;
use crate::plan::Plan;

/// The verbs that slow a client down.
pub const SLOWING: [&str; 3] = ["pause", "suspend", "delay"];
/// The operations of a client, and the messages to each node, that are change points.
const OPERATIONS: u32 = 4;
const MESSAGES: u32 = 6;
/// The maximum number of change points in a plan.
const CHANGES: usize = 2;

/// The verbs of the alphabet that slow clients of plans like this.
pub fn slowing(plan: &Plan, alphabet: &Alphabet) -> Vec<&'static Row> {
    let can = |row: &&Row| SLOWING.contains(&row.word) && !halts(row, alphabet);
    rows(plan, alphabet).into_iter().filter(can).collect()
}

/// Whether a verb stops the clients of a lock whose clients cannot be stopped.
fn halts(row: &Row, alphabet: &Alphabet) -> bool {
    alphabet.lock.runs_tokio && !matches!((row.plain)(), Verb::Delay { .. })
}

/// The plans of this strategy. The alphabet has a verb that slows clients.
pub fn plans(base: &Plan, alphabet: &Alphabet, runner: &mut TestRunner) -> BoxedStrategy<Plan> {
    let calm = calm(base, alphabet, runner);
    let slowing = slowing(&calm, alphabet);
    let clients = calm.clients();
    // One client in two is slow, at most: if all were, none would be.
    let slow = sampled(&subsequence(clients.clone(), 0..=clients.len() / 2), runner);
    let points = points(&calm);
    let speeds: Vec<_> =
        slow.into_iter().map(|who| speed((&calm, &alphabet.lock), who, &slowing)).collect();
    let change = change((&calm, &alphabet.lock), points, &slowing);
    let other = vec(burst(&calm, alphabet), 0..=1);
    let faults = (speeds, vec(change, 1..=CHANGES), other).prop_map(|(speeds, changes, other)| {
        let own = changes.into_iter().chain(speeds).map(Burst::once);
        own.chain(other).collect()
    });
    with_faults(calm, faults.boxed(), alphabet)
}

/// A client that is slow from the start: each of its messages is, or it begins late.
fn speed(
    (plan, lock): (&Plan, &Algorithm),
    who: String,
    slowing: &[&'static Row],
) -> BoxedStrategy<Fault> {
    let delay = slowing.iter().find(|row| matches!((row.plain)(), Verb::Delay { .. }));
    let heal = plan.heal_at;
    let (row, length) = match delay {
        Some(row) => (*row, Just(heal).boxed()),
        None => (slowing[0], length(plan, lock)),
    };
    let nodes = plan.nodes();
    (verb_of(row, plan, lock), length)
        .prop_map(move |(verb, length)| slowed(verb, (&who, &nodes), Anchor::At(0), length))
        .boxed()
}

/// A client that slows down at a change point.
fn change(
    (plan, lock): (&Plan, &Algorithm),
    points: Vec<(String, Pattern, u32)>,
    slowing: &[&'static Row],
) -> BoxedStrategy<Fault> {
    let verb = Union::new(slowing.iter().map(|row| verb_of(row, plan, lock)));
    let nodes = plan.nodes();
    (verb, select(points), length(plan, lock))
        .prop_map(move |(verb, (who, event, nth), length)| {
            slowed(verb, (&who, &nodes), Anchor::After { event, nth, plus: 0 }, length)
        })
        .boxed()
}

fn slowed(verb: Verb, (who, nodes): (&str, &[String]), anchor: Anchor, length: u64) -> Fault {
    let target = match verb {
        Verb::Delay { .. } => {
            Target::Links { from: vec![who.to_owned()], to: nodes.to_vec(), both: true }
        }
        _ => Target::Host(who.to_owned()),
    };
    Fault { id: 0, verb, target, anchor, length: Some(length.max(MILLISECOND)) }
}

/// The change points: a client, what happens to it, and at which occurrence of it.
fn points(plan: &Plan) -> Vec<(String, Pattern, u32)> {
    let outcomes = ["acquire", "acquired", "read", "release", "released"];
    let legs = [Leg::Sent, Leg::Applied, Leg::Replied, Leg::Delivered];
    let nodes: Vec<String> = queried_nodes(plan).into_iter().map(|(_, node)| node).collect();
    let of = |who: &String| {
        let outcome = |what: &str| Pattern::Outcome { who: who.clone(), what: what.to_owned() };
        let message = |(to, leg): (&String, Leg)| Pattern::Message {
            from: who.clone(),
            to: to.clone(),
            command: None,
            leg,
        };
        let outcomes = outcomes.map(|what| (outcome(what), OPERATIONS)).into_iter();
        let messages = nodes.iter().flat_map(|to| legs.map(|leg| (message((to, leg)), MESSAGES)));
        let events: Vec<(Pattern, u32)> = outcomes.chain(messages).collect();
        let each = events
            .into_iter()
            .flat_map(|(event, most)| (1..=most).map(move |nth| (event.clone(), nth)));
        each.map(|(event, nth)| (who.clone(), event, nth)).collect::<Vec<_>>()
    };
    plan.clients().iter().flat_map(of).collect()
}
