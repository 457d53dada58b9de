//! Why a fence was not larger than the previous one: what happened to the counter of fences.

use std::collections::BTreeSet;

use lockstorm_platform::trace::KeyChange;

use crate::check::verdict::Violation;
use crate::explain::evidence::Evidence;
use crate::explain::hold::op;
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::witness::Witness;
use crate::history::{Key, OpId};
use crate::quantity::moment;
use crate::reading::leaders;

/// Why a fence is not larger than the previous one: the node that gave it had lost the counter
/// after the larger number, or was promoted without that number.
pub fn fence(witness: &Witness<'_>, violation: &Violation) -> Option<Mechanism> {
    let history = witness.history();
    let evidence: Vec<Evidence> = violation.ops.iter().map(|id| Evidence::Op(*id)).collect();
    let [larger, smaller] = witness.regress(violation)?.map(|(op, _)| op.id);
    let (larger, smaller) = (&larger, &smaller);
    let ends = |key: &Key| {
        use KeyChange::{Changed, Deleted, Evicted, Expired, LostAtFailover, LostAtRestart};
        matches!(key.change, Deleted | Evicted | Expired | LostAtFailover | LostAtRestart)
            // A change by no operation is a start that read an earlier value.
            || key.change == Changed && key.by.is_none()
    };
    let counter = counter(witness, *smaller, *larger, ends);
    let counters = || {
        let keys = history.keys.iter().enumerate();
        keys.filter(|(_, key)| counter.is_some_and(|counter| key.key == counter))
    };
    let count = |by: &OpId, on: Option<&str>| {
        counters().find(|(_, key)| {
            key.by == Some(*by) && !ends(key) && on.is_none_or(|node| key.node == node)
        })
    };
    if let Some((given, number)) = count(smaller, None) {
        let reached = count(larger, Some(&number.node)).filter(|(index, _)| *index < given);
        let gone = reached.and_then(|(reached, _)| {
            let mut between = counters().filter(|(index, _)| (reached..given).contains(index));
            between.rfind(|(_, key)| key.node == number.node && ends(key))
        });
        if let Some(gone) = gone {
            return Some(counter_gone(witness, gone, evidence));
        }
        let promoted = leaders::promoted(&witness.reading);
        let mut led = promoted.iter().filter(|led| led.by == number.node && led.at <= number.at);
        if let (None, Some(led)) = (reached, led.next_back()) {
            let text = format!(
                "{} was made master at {} with an older counter of fences.",
                led.by,
                moment(led.at.at)
            );
            return Some(Mechanism::new(How::CounterForgotten, text, evidence));
        }
    }
    let text = "The fences do not grow in the order of the grants.".to_owned();
    Some(Mechanism::new(How::CounterApart, text, evidence))
}

/// The name of the key that a grant counted its fence on: the only key beside the lock's that it
/// changed, or the only such key that the other grant changed as well.
fn counter<'a>(
    witness: &Witness<'a>,
    grant: OpId,
    other: OpId,
    ends: impl Fn(&Key) -> bool,
) -> Option<&'a str> {
    let changed = |by: OpId| -> BTreeSet<&'a str> {
        let own = witness.history().keys.iter().filter(|key| key.by == Some(by) && !ends(key));
        own.map(|key| key.key.as_str()).filter(|key| *key != witness.reading.lock_key).collect()
    };
    let (own, others) = (changed(grant), changed(other));
    let mut both = own.intersection(&others);
    match (own.len(), both.next(), both.next()) {
        (1, ..) => own.first().copied(),
        (_, Some(counter), None) => Some(counter),
        _ => None,
    }
}

/// The end of a counter of fences on a node.
fn counter_gone(
    witness: &Witness<'_>,
    (index, key): (usize, &Key),
    mut evidence: Vec<Evidence>,
) -> Mechanism {
    let at = moment(key.at.at);
    let by = key.by.and_then(|by| op(witness.history(), by));
    let node = &key.node;
    let (how, text) = match (key.change, by) {
        (KeyChange::Expired, _) => {
            (How::CounterGone, format!("The counter of fences expired on {node} at {at}."))
        }
        (KeyChange::Deleted, Some(op)) => {
            let (who, what) = (&op.caller, op.kind.noun());
            let text = format!("{who}'s {what} deleted the counter of fences on {node} at {at}.");
            (How::CounterGone, text)
        }
        (KeyChange::Deleted, None) => {
            (How::CounterGone, format!("The counter of fences was deleted on {node} at {at}."))
        }
        (KeyChange::Changed | KeyChange::Set, _) => {
            let text = format!("{node} started at {at} with an older counter of fences.");
            (How::CounterForgotten, text)
        }
        _ => (How::CounterForgotten, format!("{node} lost the counter of fences at {at}.")),
    };
    evidence.push(Evidence::Key(index));
    Mechanism::new(how, text, evidence)
}
