//! How remedies change a plan, and how the change is described.

use lockstorm_platform::fault::{Anchor, Fault, Target, Verb};
use lockstorm_platform::time::{MILLISECOND, Nanos, SECOND};

use super::{
    REMEDIES, ViolatedRun, delayed_restart, diff, fenced, longer_lease, more_votes, own_token,
    slewed,
};
use crate::explain::mechanism::how::How;
use crate::explore::ground::ground;
use crate::ledger::part::Strikes;
use crate::plan::{Plan, TopologyKind};
use crate::scenario::usual_end;

fn fault(target: &str, verb: Verb, length: Option<Nanos>) -> Fault {
    let anchor = Anchor::At(5 * SECOND);
    Fault { id: 1, anchor, length, verb, target: Target::Host(target.to_owned()) }
}

fn of(struck: &Strikes, longest_hold: Nanos) -> ViolatedRun<'_> {
    ViolatedRun { struck, how: How::StoodStill, acting: &[], longest_hold }
}

fn redlock(faults: Vec<Fault>) -> Plan {
    Plan { faults, ..ground("redlock", TopologyKind::Independent) }
}

#[test]
fn a_node_that_stays_down_longer_has_the_time_for_it() {
    let struck: Strikes = [(1, 25 * SECOND)].into();
    for (verb, length) in [(Verb::Crash, Some(SECOND)), (Verb::Restart, None)] {
        let plan = redlock(vec![fault("n1", verb, length)]);
        let with = delayed_restart(&plan, &of(&struck, 0)).expect("it is back too early");
        let least = plan.longest_ttl() + SECOND;
        assert_eq!(with.faults, [fault("n1", Verb::Crash, Some(least))]);
        assert!(with.heal_at > 25 * SECOND + least, "the heal would end it");
        assert_eq!(with.until - with.heal_at, plan.until - plan.heal_at, "the probe has its time");
    }
    let late = redlock(vec![fault("n1", Verb::Crash, Some(60 * SECOND))]);
    assert_eq!(delayed_restart(&late, &of(&Strikes::new(), 0)), None, "it is down for long enough");
    let client = redlock(vec![fault("c1", Verb::Crash, Some(SECOND))]);
    assert_eq!(delayed_restart(&client, &of(&struck, 0)), None, "a client is no node");
}

#[test]
fn a_quorum_grows_up_to_all_nodes() {
    let plan = redlock(Vec::new());
    let four = more_votes(&plan).expect("3 of 5 can be more");
    assert_eq!(four.lock.quorum, Some(4));
    let five = more_votes(&four).expect("4 of 5 can be more");
    assert_eq!(five.lock.quorum, Some(5));
    assert_eq!(more_votes(&five), None);
    assert_eq!(more_votes(&ground("token-lua", TopologyKind::Replicated)), None);
}

#[test]
fn only_clocks_of_nodes_are_slewed() {
    let step = |target, by| fault(target, Verb::ClockStep { by }, None);
    let by = SECOND.cast_signed();
    let with = slewed(&redlock(vec![step("n1", by), step("c1", by)])).expect("a node's steps");
    let left = (50 * MILLISECOND).cast_signed();
    assert_eq!(with.faults, [step("n1", left), step("c1", by)]);
    assert_eq!(slewed(&redlock(vec![step("c1", by)])), None);
}

#[test]
fn a_diff_has_what_a_person_would_change() {
    let plan = ground("token-lua", TopologyKind::Single);
    let until = usual_end(&plan);
    let plan = Plan { until, ..plan };
    for (longest_hold, ttl) in [(SECOND, "9s"), (11 * SECOND, "22s")] {
        let struck = Strikes::new();
        let longer = longer_lease(&plan, &of(&struck, longest_hold)).expect("there is a lease");
        assert_eq!(diff(&plan, &longer), [format!("lock.ttl: 3s, then {ttl}")]);
    }
    // An end that a scenario writes does not move with the lease.
    let plan = Plan { until: until + SECOND, ..plan.clone() };
    let longer = longer_lease(&plan, &of(&Strikes::new(), SECOND)).expect("there is a lease");
    assert_eq!(diff(&plan, &longer), ["lock.ttl: 3s, then 9s", "until: 31s, then 37s"]);
    let fenced = fenced(&plan).expect("one node draws fences");
    assert_eq!(
        diff(&plan, &fenced),
        ["lock.algorithm: token-lua, then fenced", "workload.fence: none, then reject-smaller"]
    );
    assert_eq!(own_token(&plan), None, "it has one");
    let (one, mut moved) = (redlock(vec![fault("n1", Verb::Crash, None)]), redlock(Vec::new()));
    moved.faults = vec![Fault { anchor: Anchor::At(7 * SECOND), ..one.faults[0].clone() }];
    assert_eq!(diff(&one, &moved), ["faults.1.at: when it did, 7s"]);
}

#[test]
fn a_key_that_never_reached_the_promoted_replica_is_healed_by_a_master_that_knows_its_replicas() {
    let plan = ground("token-lua", TopologyKind::Sentinel);
    let struck = Strikes::new();
    let run = ViolatedRun { how: How::NeverReached, ..of(&struck, 0) };
    let for_it = REMEDIES.iter().filter(|remedy| remedy.heals.contains(&How::NeverReached));
    let tried: Vec<Plan> = for_it.filter_map(|remedy| (remedy.apply)(&plan, &run)).collect();
    assert!(tried.iter().any(|with| with.topology.min_replicas.is_some()));
}
