//! What a lock sends where nothing disturbs it: from a run, as the nodes saw it.

use crate::history::{History, Op, OpKind};
use crate::lock::algorithm::Algorithm;
use crate::plan::base_plan::{base_plan_of, home};
use crate::plan::extend::Extend;
use crate::plan::{Plan, WorkloadKind};
use crate::run::Lab;

/// The requests of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuietCall {
    /// The call: `acquire`.
    pub call: &'static str,
    /// Each command, in order, with the nodes that received it.
    pub requests: Vec<(String, Vec<String>)>,
}

/// A sort of calls by its name, the run that shows it, and what belongs to it.
type CallSort<'a> = (&'static str, &'a Option<History>, fn(&OpKind) -> bool);

/// The first call of each sort by the first client, if it sends something, on the topology that the
/// lock is made for. The client is alone, unless the lock waits for others.
pub fn calls(lab: &Lab, lock: &Algorithm) -> Vec<QuietCall> {
    let plain = plan(lock);
    let [own, extended] = [&plain, &extending(&plain)].map(|plan| {
        let is_valid = plan.validate_with(&lab.locks).is_ok();
        is_valid.then(|| lab.run(plan).history)
    });
    // Who loses the lock by an extend that it does not have releases nothing.
    let sorts: [CallSort<'_>; 4] = [
        ("acquire", &own, |kind| *kind == OpKind::Acquire),
        ("extend", &extended, |kind| matches!(kind, OpKind::Extend { background: false, .. })),
        ("renewal", &own, |kind| matches!(kind, OpKind::Extend { background: true, .. })),
        ("release", &own, |kind| matches!(kind, OpKind::Release { .. })),
    ];
    let sent = sorts.into_iter().filter_map(|(call, history, is_it)| {
        let history = history.as_ref()?;
        let op = history.ops.iter().find(|op| op.process == "c1" && is_it(&op.kind))?;
        let requests = requests(history, op);
        (!requests.is_empty()).then_some(QuietCall { call, requests })
    });
    sent.collect()
}

/// The base plan with one client.
fn plan(lock: &Algorithm) -> Plan {
    let mut plan = base_plan_of(lock, home(lock));
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

/// The requests of an operation: those of one command that follow each other are one row.
fn requests(history: &History, op: &Op) -> Vec<(String, Vec<String>)> {
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for request in history.requests.iter().filter(|request| request.op == op.id) {
        let (command, node) = (request.command.to_string(), request.to.to_string());
        match rows.last_mut() {
            Some((last, nodes)) if *last == command => nodes.push(node),
            _ => rows.push((command, vec![node])),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::calls;
    use crate::lock::catalogue::find;
    use crate::run::Lab;

    #[test]
    fn each_call_shows_its_own_requests() {
        let sent = |lock: &str| {
            let calls = calls(&Lab::default(), find(lock).expect("a lock"));
            let words = calls.iter().map(|one| {
                let rows: Vec<String> =
                    one.requests.iter().map(|(c, on)| format!("{c} {}", on.join(" "))).collect();
                format!("{}: {}", one.call, rows.join(", "))
            });
            words.collect::<Vec<_>>().join("; ")
        };
        assert_eq!(sent("setnx-expire"), "acquire: SETNX n1, EXPIRE n1; release: DEL n1");
        assert_eq!(sent("token-lua"), "acquire: SET n1; extend: EVAL n1; release: EVAL n1");
        assert!(sent("redlock-sequential").starts_with("acquire: SET n1 n2 n3 n4 n5; extend: "));
        assert!(sent("token-lua-renewed").contains("renewal: "));
    }
}
