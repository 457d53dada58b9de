//! Operations of several commands, between which another operation set the key.

use lockstorm_platform::time::Instant;
use lockstorm_platform::trace::{KeyChange, Leg};

use crate::explain::evidence::Evidence;
use crate::explain::hold::op;
use crate::explain::story::{Beat, Weight};
use crate::explain::witness::Witness;
use crate::history::{OpId, Request};
use crate::reading::tries::{KEYLESS, tries};

/// A sentence for each operation between two commands of which the key of another grant was set on
/// their node, if the operation made a grant of the story or ended the key of one.
pub fn beats(witness: &Witness<'_>) -> Vec<Beat> {
    let mut ops: Vec<OpId> = witness.actors.iter().map(|grant| grant.id).collect();
    let theirs = witness.lives.iter().filter(|l| l.owner.is_some_and(|o| witness.is_actor(o)));
    ops.extend(theirs.filter_map(|life| witness.history().keys.get(life.end?)?.by));
    ops.sort_unstable();
    ops.dedup();
    ops.into_iter().filter_map(|id| torn(witness, id)).collect()
}

fn torn(witness: &Witness<'_>, id: OpId) -> Option<Beat> {
    let op = op(witness.history(), id)?;
    let requests = witness.history().requests.iter().enumerate();
    let own: Vec<(usize, &Request)> = requests.filter(|(_, request)| request.op == id).collect();
    let named = |request: &Request| !KEYLESS.contains(&&*request.command);
    let mut steps: Vec<(Instant, usize, &Request)> = own
        .iter()
        .copied()
        .filter(|(_, request)| named(request) && !is_queued(request, &own))
        .filter_map(|(index, request)| Some((request.at(Leg::Applied)?, index, request)))
        .collect();
    steps.sort_by_key(|(at, ..)| *at);
    steps.windows(2).find_map(|pair| {
        let [(before, one, first), (after, other, second)] = pair else { return None };
        if first.to != second.to || !are_one_try(&steps, first, second) {
            return None;
        }
        let (index, by) = set_between(witness, &first.to, op.grant()?, (*before, *after))?;
        let next = match witness.caller(by)? {
            same if same == op.caller => "its own next key".to_owned(),
            other => format!("{other}'s key"),
        };
        let (ask, act, node) = (&first.command, &second.command, &first.to);
        let who = &op.caller;
        let text =
            format!("{who}'s {ask} comes to {node} before {next} is set there, its {act} after.");
        let evidence = vec![
            Evidence::Op(id),
            Evidence::Op(by),
            Evidence::Request(*one),
            Evidence::Request(*other),
            Evidence::Key(index),
        ];
        Some(Beat::new(Weight::Crux, *before, text, evidence))
    })
}

/// Whether a MULTI queues a request of an operation: it looks at no key when it comes to its node,
/// but at the EXEC. <https://redis.io/docs/latest/develop/using-commands/transactions/>
fn is_queued(request: &Request, own: &[(usize, &Request)]) -> bool {
    let ends = |other: &Request| matches!(&*other.command, "MULTI" | "EXEC" | "DISCARD");
    let until = request.at(Leg::Applied);
    let there = own.iter().map(|(_, other)| *other).filter(|other| other.to == request.to);
    let before = there.filter(|other| ends(other) && other.at(Leg::Applied).is_some());
    let before = before.filter(|other| other.at(Leg::Applied) <= until);
    before.max_by_key(|other| other.at(Leg::Applied)).is_some_and(|last| last.command == "MULTI")
}

/// Whether two requests to one node belong to one try of their operation.
fn are_one_try(steps: &[(Instant, usize, &Request)], one: &Request, other: &Request) -> bool {
    let requests: Vec<&Request> = steps.iter().map(|(.., request)| *request).collect();
    let has = |attempt: &[&Request], it: &Request| attempt.iter().any(|r| std::ptr::eq(*r, it));
    tries(&requests, &one.to).iter().any(|attempt| has(attempt, one) && has(attempt, other))
}

/// The key of another grant that was set on a node between two instants and still existed at the
/// second one, and the operation that set it.
fn set_between(
    witness: &Witness<'_>,
    node: &str,
    own: OpId,
    (before, after): (Instant, Instant),
) -> Option<(usize, OpId)> {
    let lock = &witness.finding.plan.lock.key;
    let keys = witness.history().keys.iter().enumerate();
    let mut set = keys.filter(|(_, key)| {
        key.node == node
            && key.key == *lock
            && key.change == KeyChange::Set
            && (before..after).contains(&key.at)
    });
    let lasts = |born: usize| witness.lives.iter().any(|l| l.born == born && after <= l.until);
    set.find_map(|(index, key)| {
        let by = op(witness.history(), key.by?).filter(|by| by.grant() != Some(own))?;
        lasts(index).then_some((index, by.id))
    })
}

#[cfg(test)]
mod tests {
    use lockstorm_platform::time::Instant;
    use lockstorm_platform::trace::Leg;

    use super::is_queued;
    use crate::history::{OpId, Request};

    #[test]
    fn what_comes_between_multi_and_exec_is_queued() {
        let words = ["WATCH", "GET", "MULTI", "ZADD", "ZRANK", "EXEC", "GET", "MULTI", "DISCARD"];
        let sent = (1..).zip(words).map(|(seq, command)| Request {
            op: OpId::default(),
            from: "c1".into(),
            to: "n1".into(),
            command: command.into(),
            legs: [(Leg::Applied, Instant { seq, at: 7 })].into_iter().collect(),
            declined: false,
            answer: None,
            other_keys: false,
        });
        let sent: Vec<Request> = sent.collect();
        let own: Vec<(usize, &Request)> = sent.iter().enumerate().collect();
        let queued = own.iter().filter(|(_, request)| is_queued(request, &own));
        let queued: Vec<&str> = queued.map(|(_, request)| &*request.command).collect();
        assert_eq!(queued, ["MULTI", "ZADD", "ZRANK", "MULTI"]);
    }
}
