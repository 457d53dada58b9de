//! Which plans can run on real servers in real time. The reasons against a plan follow from rules,
//! and no scenario is named here.

use lockstorm_platform::fault::{Anchor, Fault, Pattern, Target, Verb};
use lockstorm_platform::time::{MILLISECOND, Nanos};
use lockstorm_redis::compat::Compat;

use crate::length;
use crate::plan::{Persistence, Plan};

/// Real time does not order events that are closer together than this.
const FINEST: Nanos = 5 * MILLISECOND;

/// What is available for a confirmation.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    /// The maximum length of a run, ns.
    pub longest: Nanos,
    /// Whether the clocks of servers can be set: libfaketime is installed.
    pub has_clocks: bool,
}

/// The reasons why a plan cannot be confirmed; empty if it can.
pub fn reasons(plan: &Plan, means: Means) -> Vec<String> {
    let mut reasons: Vec<String> =
        plan.faults.iter().filter_map(|fault| of_fault(fault, plan, means)).collect();
    for (server, clock) in plan.clocks.iter().filter(|(host, _)| is_server(plan, host)) {
        if clock.rate_ppm != 0 {
            let why = format!("{server}'s clock has a rate of its own, and a real one keeps its");
            reasons.push(why);
        } else if clock.wall_offset != 0 && !means.has_clocks {
            reasons.push(NO_CLOCKS.to_owned());
        }
    }
    if plan.topology.compat != Compat::default() {
        reasons
            .push("its nodes are to answer like another server than redis-server 7.0".to_owned());
    }
    if plan.until > means.longest {
        let (takes, longest) = (length::write(plan.until), length::write(means.longest));
        reasons.push(format!("it takes {takes} of real time, and --longest is {longest}"));
    }
    reasons.sort();
    reasons.dedup();
    reasons
}

/// Whether the host is a real server in a real run: a node or a Sentinel. Clients and the resource
/// run on simulated machines, which can suffer every fault.
fn is_server(plan: &Plan, host: &str) -> bool {
    is_node(plan, host) || plan.sentinels().iter().any(|sentinel| sentinel == host)
}

fn is_node(plan: &Plan, host: &str) -> bool {
    plan.nodes().iter().any(|node| node == host)
}

const NO_CLOCKS: &str =
    "a real server's clock is set by libfaketime, which is not installed: Debian's 'libfaketime'";

fn of_fault(fault: &Fault, plan: &Plan, means: Means) -> Option<String> {
    let of = format!("fault {}, {}", fault.id, fault.verb.word());
    if let Anchor::After { plus: 1..FINEST, .. } = fault.anchor {
        return Some(format!("{of}: it needs finer order than real time gives"));
    }
    if let Anchor::After { event: Pattern::Node { .. }, .. } = fault.anchor {
        return Some(format!("{of}: what a real node becomes is only asked for now and then"));
    }
    let Target::Host(host) = &fault.target else { return None };
    if !is_server(plan, host) {
        return None;
    }
    // A Sentinel syncs everything that it writes.
    let unsynced = is_node(plan, host) && unsynced(plan.topology.persistence);
    match fault.verb {
        Verb::PowerLoss if unsynced => {
            Some(format!("{of}: a running machine keeps what was written but not synced"))
        }
        Verb::LyingDisk | Verb::TearingDisk | Verb::FullDisk => {
            Some(format!("{of}: a real disk cannot be made to lie, to tear writes or to be full"))
        }
        Verb::ClockStep { .. } if !means.has_clocks => Some(NO_CLOCKS.to_owned()),
        Verb::ClockStep { by } if by.unsigned_abs() < MILLISECOND => {
            Some(format!("{of}: a real server's clock is stepped by whole milliseconds"))
        }
        Verb::ClockRate { .. } | Verb::ClockFreeze => {
            Some(format!("{of}: a real server's clock can be stepped, and keeps its rate"))
        }
        _ => None,
    }
}

/// Whether a write may be acknowledged before it is on the disk.
fn unsynced(persistence: Persistence) -> bool {
    matches!(persistence, Persistence::AofEverysec | Persistence::AofNo)
}

#[cfg(test)]
mod tests {
    use lockstorm_platform::time::SECOND;

    use super::{Means, reasons};
    use crate::scenario::Scenario;

    /// Checks the reasons for a scenario with these lines on its nodes, these clocks and this
    /// fault.
    fn check_on(nodes: &str, clocks: &str, fault: &str, has_clocks: bool, wanted: &[&str]) {
        let text = format!(
            "name = 'x'\nask = 'x'\n[topology]\n{nodes}\n\
             [lock]\nalgorithm = 'token-lua'\nttl = '10s'\n{clocks}[[fault]]\nat = '3s'\n{fault}\n"
        );
        let plan = Scenario::parse("x", &text).unwrap_or_else(|no| panic!("{}", no.render(false)));
        let found = reasons(&plan.plan(1), Means { longest: 90 * SECOND, has_clocks });
        assert_eq!(found.len(), wanted.len(), "{fault}: {found:?}");
        for (found, wanted) in found.iter().zip(wanted) {
            assert!(found.contains(wanted), "{found}");
        }
    }

    fn check(persistence: &str, fault: &str, wanted: &[&str]) {
        let nodes = format!("kind = 'single'\npersistence = '{persistence}'");
        check_on(&nodes, "", fault, false, wanted);
    }

    #[test]
    fn what_a_real_machine_cannot_do_is_reported() {
        check("none", "kind = 'pause'\ntarget = 'c1'\nfor = '15s'", &[]);
        check("none", "kind = 'power-loss'\ntarget = 'n1'\nfor = '1s'", &[]);
        check("aof-always", "kind = 'power-loss'\ntarget = 'n1'\nfor = '1s'", &[]);
        check("aof-everysec", "kind = 'power-loss'\ntarget = 'n1'\nfor = '1s'", &["synced"]);
        check("aof-no", "kind = 'lying-disk'\ntarget = 'n1'\nfor = '1s'", &["lie"]);
        check("none", "kind = 'clock-step'\ntarget = 'n1'\nby = '1s'", &["libfaketime"]);
        check("none", "kind = 'clock-rate'\ntarget = 'n1'\nppm = 100", &["rate"]);
        check("none", "kind = 'clock-step'\ntarget = 'c1'\nby = '1s'", &[]);
        check("none", "kind = 'pause'\ntarget = 'c1'\nfor = '100s'", &["real time"]);
    }

    #[test]
    fn a_sentinel_is_a_real_server_too() {
        let check = |clocks, fault, has_clocks, wanted: &[&str]| {
            let nodes = "kind = 'sentinel'\nnodes = 2\npersistence = 'aof-everysec'";
            check_on(nodes, clocks, fault, has_clocks, wanted);
        };
        let step = "kind = 'clock-step'\ntarget = 's1'\nby = '1s'";
        check("", step, false, &["libfaketime"]);
        check("", step, true, &[]);
        check("", "kind = 'clock-step'\ntarget = 's1'\nby = '900us'", true, &["milliseconds"]);
        check("", "kind = 'clock-rate'\ntarget = 's1'\nppm = 100", true, &["keeps its rate"]);
        check("", "kind = 'clock-freeze'\ntarget = 's1'\nfor = '1s'", true, &["keeps its rate"]);
        let pause = "kind = 'pause'\ntarget = 's1'\nfor = '1s'";
        check("", pause, false, &[]);
        check("[clocks.s1]\nrate_ppm = 100\n", pause, true, &["a rate of its own"]);
        check("[clocks.s1]\nwall_offset = '2s'\n", pause, false, &["libfaketime"]);
        check("", "kind = 'power-loss'\ntarget = 's1'\nfor = '1s'", false, &[]);
        check("", "kind = 'power-loss'\ntarget = 'n1'\nfor = '1s'", false, &["synced"]);
    }
}
