//! What a lock sends where nothing disturbs it: from runs, as the nodes received it.

use bytes::BytesMut;
use lockstorm_platform::trace::exchange::Exchange;
use lockstorm_redis::frame::Reply;
use lockstorm_redis::frame::decode::decode_reply;

use crate::history::{Op, OpKind, PROBE};
use crate::plan::extend::Extend;
use crate::plan::{Plan, WorkloadKind};
use crate::run::{Lab, Run};

/// The requests of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuietCall {
    /// The call: `acquire`.
    pub call: &'static str,
    /// Its requests, in order.
    pub requests: Vec<QuietRequest>,
}

/// A request, with every node that received it at this point and gave the same reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuietRequest {
    /// The command and its arguments.
    pub words: Vec<String>,
    /// The reply in words; empty if there was none at once.
    pub reply: String,
    /// The nodes, by name.
    pub nodes: Vec<String>,
    /// How often in a row it was sent to all of them.
    pub times: u32,
}

/// A sort of calls by its name, the run that shows it, and what belongs to it.
type CallSort<'a> = (&'static str, &'a Option<Run>, fn(&Op) -> bool);

/// The first call of each sort, if it sends something, in a plan without faults. A client is alone
/// unless the lock waits for others; what a refused acquire sends is that of several.
pub fn calls(lab: &Lab, plan: &Plan) -> Vec<QuietCall> {
    let alone = alone(plan);
    let [shared, own, extended] = [plan, &alone, &extending(&alone)].map(|plan| {
        let is_valid = plan.validate_with(&lab.locks).is_ok();
        is_valid.then(|| lab.run_with_exchanges(plan))
    });
    // Who loses the lock by an extend that it does not have releases nothing.
    let sorts: [CallSort<'_>; 5] = [
        ("acquire", &own, |op| op.kind == OpKind::Acquire),
        ("acquire, refused", &shared, |op| op.kind == OpKind::Acquire && op.is_refused()),
        ("extend", &extended, |op| matches!(op.kind, OpKind::Extend { background: false, .. })),
        ("renewal", &own, |op| matches!(op.kind, OpKind::Extend { background: true, .. })),
        ("release", &own, |op| matches!(op.kind, OpKind::Release { .. })),
    ];
    let sent = sorts.into_iter().filter_map(|(call, run, is_it)| {
        let run = run.as_ref()?;
        // The probe would release also where nobody else does.
        let op = run.history.ops.iter().find(|op| op.process != PROBE && is_it(op))?;
        let requests = requests(run, op);
        (!requests.is_empty()).then_some(QuietCall { call, requests })
    });
    sent.collect()
}

/// The plan with one client.
fn alone(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    if plan.workload.kind != WorkloadKind::Latch {
        plan.workload.clients = 1;
    }
    plan
}

/// The same with work for most of a lease, which is extended half-way.
fn extending(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.workload.hold = plan.workload.hold.max(plan.longest_ttl() / 4 * 3);
    plan.workload.extend = "1/2".parse::<Extend>().expect("a share of the lease");
    plan
}

/// The requests of an operation: equal ones that follow each other are one.
fn requests(run: &Run, op: &Op) -> Vec<QuietRequest> {
    let mut rounds: Vec<QuietRequest> = Vec::new();
    for (index, sent) in run.history.requests.iter().enumerate().filter(|(_, r)| r.op == op.id) {
        let exchange = run.exchanges.get(&index).cloned().unwrap_or_default();
        let (words, reply, node) = (words(&exchange), reply(&exchange), sent.to.to_string());
        let is_same = |last: &&mut QuietRequest| last.words == words && last.reply == reply;
        match rounds.last_mut().filter(is_same).filter(|last| !last.nodes.contains(&node)) {
            Some(last) => last.nodes.push(node),
            None => rounds.push(QuietRequest { words, reply, nodes: vec![node], times: 1 }),
        }
    }
    let mut rows: Vec<QuietRequest> = Vec::new();
    for mut round in rounds {
        // Nodes that are asked at the same time are reached in any order.
        round.nodes.sort();
        match rows.last_mut().filter(|last| QuietRequest { times: 1, ..(*last).clone() } == round) {
            Some(last) => last.times += 1,
            None => rows.push(round),
        }
    }
    rows
}

fn words(exchange: &Exchange) -> Vec<String> {
    exchange.words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The reply in words; empty if there is none.
fn reply(exchange: &Exchange) -> String {
    let mut bytes = BytesMut::from(&exchange.reply[..]);
    match decode_reply(&mut bytes) {
        Ok(Some(reply)) => said(&reply),
        _ => String::new(),
    }
}

fn said(reply: &Reply) -> String {
    match reply {
        Reply::Simple(text) | Reply::Error(text) | Reply::Bulk(text) => {
            String::from_utf8_lossy(text).trim_end().to_owned()
        }
        Reply::Integer(number) => number.to_string(),
        Reply::Array(items) => items.iter().map(said).collect::<Vec<_>>().join(", "),
        _ => "nil".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::calls;
    use crate::lock::catalogue::find;
    use crate::lock::library;
    use crate::plan::TopologyKind;
    use crate::plan::base_plan::{base_plan_of, base_plan_of_library, home};
    use crate::run::Lab;

    fn sent(lock: &str) -> Vec<String> {
        let lock = find(lock).expect("a lock");
        let calls = calls(&Lab::default(), &base_plan_of(lock, home(lock)));
        let lines = calls.iter().flat_map(|one| {
            one.requests.iter().map(|request| {
                let words = request.words.join(" ");
                format!("{}: {words} -> {} on {}", one.call, request.reply, request.nodes.join(" "))
            })
        });
        lines.collect()
    }

    #[test]
    fn a_request_that_is_sent_again_and_again_is_one_with_its_number() {
        let redis_py = library::find("redis-py").expect("a library");
        let plan = base_plan_of_library(redis_py, TopologyKind::Single);
        let calls = calls(&Lab::default(), &plan);
        let refused = calls.iter().find(|one| one.call == "acquire, refused").expect("it has one");
        let [request] = &refused.requests[..] else { panic!("{refused:?}") };
        assert_eq!((&request.nodes[..], request.times), (&["n1".to_owned()][..], 10));
    }

    #[test]
    fn each_call_shows_its_own_requests_as_they_went_over_the_wire() {
        assert_eq!(
            sent("setnx-expire"),
            [
                "acquire: SETNX lock 1 -> 1 on n1",
                "acquire: EXPIRE lock 3 -> 1 on n1",
                "acquire, refused: SETNX lock 1 -> 0 on n1",
                "release: DEL lock -> 1 on n1",
            ]
        );
        let of_redlock = sent("redlock-sequential");
        let first = &of_redlock[0];
        assert!(first.starts_with("acquire: SET lock "), "{first}");
        assert!(first.ends_with(" NX PX 3000 -> OK on n1 n2 n3 n4 n5"), "{first}");
        let refused = of_redlock.iter().find(|line| line.starts_with("acquire, refused"));
        assert!(refused.is_some_and(|line| line.contains(" -> nil on n1")), "{refused:?}");
        // Each try of an acquire is sent to all nodes, one after the other.
        assert_eq!(of_redlock.iter().filter(|line| line.contains("refused: SET")).count(), 3);
        assert!(sent("token-lua-renewed").iter().any(|line| line.starts_with("renewal: EVAL ")));
    }
}
