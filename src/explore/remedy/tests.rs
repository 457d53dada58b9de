//! How remedies change a plan, and how the change is described.

use lockstorm_platform::fault::{Anchor, Fault, Target, Verb};
use lockstorm_platform::network::Latency;
use lockstorm_platform::time::{MILLISECOND, Nanos, SECOND};

use super::changes::{
    checks_validity, delayed_restart, fenced, longer_lease, longer_timeout, majority, min_replicas,
    more_votes, own_token, slewed, token_of_acquire, token_of_try, unchecked,
};
use super::{REMEDIES, ViolatedRun, diff};
use crate::explain::experiment::{Threshold, Unit};
use crate::explain::mechanism::how::How;
use crate::explore::remedy::lease::lease_that_holds;
use crate::ledger::part::{Part, Strikes};
use crate::lock::algorithm::{Algorithm, Nodes, redlock, token_lua};
use crate::lock::config::{FenceFrom, TokenScope};
use crate::plan::base_plan::{base_plan, base_plan_of};
use crate::plan::{MinReplicas, Plan, TopologyKind};
use crate::scenario::default_end;

fn fault(target: &str, verb: Verb, length: Option<Nanos>) -> Fault {
    let anchor = Anchor::At(5 * SECOND);
    Fault { id: 1, anchor, length, verb, target: Target::Host(target.to_owned()) }
}

fn of(struck: &Strikes, longest_hold: Nanos) -> ViolatedRun<'_> {
    let (how, acting, timeout) = (How::StoodStill, &[], SECOND);
    ViolatedRun {
        lock: &redlock::ALGORITHM,
        struck,
        how,
        acting,
        longest_hold,
        lease: None,
        timeout,
    }
}

fn redlock(faults: Vec<Fault>) -> Plan {
    Plan { faults, ..base_plan("redlock", TopologyKind::Independent) }
}

#[test]
fn a_node_that_stays_down_longer_has_the_time_for_it() {
    let struck: Strikes = [(1, 25 * SECOND)].into();
    for (verb, length) in [(Verb::Crash, Some(SECOND)), (Verb::Restart, None)] {
        let plan = redlock(vec![fault("n1", verb, length)]);
        let with = delayed_restart(&plan, &struck).expect("it is back too early");
        let least = plan.longest_ttl() + SECOND;
        assert_eq!(with.faults, [fault("n1", Verb::Crash, Some(least))]);
        assert!(with.heal_at > 25 * SECOND + least, "the heal would end it");
        assert_eq!(with.until - with.heal_at, plan.until - plan.heal_at, "the probe has its time");
    }
    let late = redlock(vec![fault("n1", Verb::Crash, Some(60 * SECOND))]);
    assert_eq!(delayed_restart(&late, &Strikes::new()), None, "it is down for long enough");
    let client = redlock(vec![fault("c1", Verb::Crash, Some(SECOND))]);
    assert_eq!(delayed_restart(&client, &struck), None, "a client is no node");
    let outage = fault("n1", Verb::Crash, Some(40 * SECOND));
    let within = redlock(vec![outage.clone(), Fault { id: 2, ..fault("n1", Verb::Restart, None) }]);
    let struck: Strikes = [(1, 25 * SECOND), (2, 26 * SECOND)].into();
    let with = delayed_restart(&within, &struck).expect("it is started too early");
    assert_eq!(with.faults, [outage], "a node that is down already stays down");
}

#[test]
fn a_quorum_grows_up_to_all_nodes() {
    const MINE: Algorithm = Algorithm { name: "mine", ..redlock::ALGORITHM };
    for lock in [redlock::ALGORITHM, MINE] {
        let plan = base_plan_of(&lock, TopologyKind::Independent);
        let four = more_votes(&plan, &lock).expect("3 of 5 can be more");
        assert_eq!(four.lock.quorum, Some(4));
        let five = more_votes(&four, &lock).expect("4 of 5 can be more");
        assert_eq!(five.lock.quorum, Some(5));
        assert_eq!(more_votes(&five, &lock), None);
    }
    let chosen = Algorithm { nodes: Nodes::Chosen, ..MINE };
    let plan = base_plan_of(&chosen, TopologyKind::Independent);
    assert_eq!(more_votes(&plan, &chosen), None, "each key is on one node");
}

#[test]
fn below_a_majority_the_majority_is_tried_whatever_happened() {
    let quorum = |quorum: u32| {
        let mut plan = redlock(Vec::new());
        plan.lock.quorum = Some(quorum);
        plan
    };
    let lock = &redlock::ALGORITHM;
    let with = majority(&quorum(2), lock).expect("2 of 5 is no majority");
    assert_eq!(with.lock.quorum, Some(3));
    assert_eq!(more_votes(&quorum(2), lock), None, "the majority comes first");
    assert_eq!(majority(&quorum(3), lock), None);
    assert_eq!(majority(&redlock(Vec::new()), lock), None);
    let struck = Strikes::new();
    let violated = of(&struck, SECOND);
    assert_eq!(violated.mechanisms(&quorum(2)), [How::StoodStill, How::TwoMajorities]);
    assert_eq!(violated.mechanisms(&quorum(3)), [How::StoodStill]);
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

/// A key that a stepped clock keeps alive counts as the key of a dead caller.
#[test]
fn a_clock_that_made_the_difference_is_healed_whatever_it_led_to() {
    let step = fault("n1", Verb::ClockStep { by: -SECOND.cast_signed() }, None);
    let (plan, struck) = (redlock(vec![step]), Strikes::new());
    let run = |acting| ViolatedRun { how: How::LeftByDead, acting, ..of(&struck, 0) };
    assert_eq!(run(&[Part::Fault(1)]).mechanisms(&plan), [How::LeftByDead, How::NodeClock]);
    assert_eq!(run(&[]).mechanisms(&plan), [How::LeftByDead]);
    let client = fault("c1", Verb::ClockStep { by: -SECOND.cast_signed() }, None);
    assert_eq!(run(&[Part::Fault(1)]).mechanisms(&redlock(vec![client])), [How::LeftByDead]);
}

#[test]
fn a_lock_that_counts_for_each_thread_has_a_lock_with_a_token_as_its_remedy() {
    let counts = base_plan("redisson", TopologyKind::Single);
    let with = token_of_acquire(&counts).expect("it counts");
    assert_eq!(with.lock.algorithm, "token-lua");
    assert_eq!(token_of_acquire(&with), None, "it has a token for each acquire");
}

#[test]
fn a_diff_has_what_a_person_would_change() {
    let plan = base_plan("token-lua", TopologyKind::Single);
    let until = default_end(&plan);
    let plan = Plan { until, ..plan };
    for (longest_hold, ttl) in [(SECOND, "9s"), (11 * SECOND, "22s")] {
        let longer = longer_lease(&plan, longest_hold, None).expect("there is a lease");
        assert_eq!(diff(&plan, &longer), [format!("lock.ttl: 3s, then {ttl}")]);
    }
    // An end that a scenario writes does not move with the lease.
    let plan = Plan { until: until + SECOND, ..plan.clone() };
    let longer = longer_lease(&plan, SECOND, None).expect("there is a lease");
    assert_eq!(diff(&plan, &longer), ["lock.ttl: 3s, then 9s", "until: 31s, then 37s"]);
    let fenced = fenced(&plan).expect("one node draws fences");
    assert_eq!(
        diff(&plan, &fenced),
        ["lock.algorithm: token-lua, then fenced", "workload.fence: none, then reject-smaller"]
    );
    assert_eq!(own_token(&plan), None, "it has one");
    let (one, mut moved) = (redlock(vec![fault("n1", Verb::Crash, None)]), redlock(Vec::new()));
    moved.faults = vec![Fault { anchor: Anchor::At(7 * SECOND), ..one.faults[0].clone() }];
    assert_eq!(diff(&one, &moved), ["fault:1.at: when it did, 7s"]);
}

/// A lock that draws fences may differ in other ways, too: without the check it shows what they do.
#[test]
fn a_fence_is_compared_with_its_lock_alone() {
    let plan = base_plan("token-get-del", TopologyKind::Single);
    let with = fenced(&plan).expect("one node draws fences");
    let alone = unchecked(&plan, &with).expect("it is another lock");
    assert_eq!(diff(&plan, &alone), ["lock.algorithm: token-get-del, then fenced"]);
    let checked = fenced(&alone).expect("its fences are not checked");
    assert_eq!(unchecked(&alone, &checked), None, "only the check differs");
    let slewed = Plan { seed: 2, ..plan.clone() };
    assert_eq!(unchecked(&plan, &slewed), None, "nothing is checked");
}

#[test]
fn a_key_that_never_reached_the_promoted_replica_is_healed_by_a_master_that_knows_its_replicas() {
    let plan = base_plan("token-lua", TopologyKind::Sentinel);
    let struck = Strikes::new();
    let run = ViolatedRun { how: How::NeverReached, ..of(&struck, 0) };
    let for_it = REMEDIES.iter().filter(|remedy| remedy.heals.contains(&How::NeverReached));
    let tried: Vec<Plan> = for_it.filter_map(|remedy| (remedy.apply)(&plan, &run)).collect();
    assert!(tried.iter().any(|with| with.topology.min_replicas.is_some()));
}

#[test]
fn a_fence_that_is_read_after_the_grant_comes_with_it_instead() {
    let mut plan = base_plan("redisson-fenced", TopologyKind::Single);
    let struck = Strikes::new();
    let tried = |plan: &Plan, how| {
        let run = ViolatedRun { how, ..of(&struck, 0) };
        let for_it = REMEDIES.iter().filter(|remedy| remedy.heals.contains(&how));
        let tried = for_it.filter_map(|remedy| (remedy.apply)(plan, &run));
        tried.map(|with| diff(plan, &with)).collect::<Vec<_>>()
    };
    let change = vec!["lock.fence_from: counter, then -".to_owned()];
    for how in [How::CounterApart, How::DeadOnArrival, How::StoodStill] {
        plan.lock.fence_from = FenceFrom::Grant;
        assert!(!tried(&plan, how).contains(&change), "it comes with the grant");
        plan.lock.fence_from = FenceFrom::Counter;
        assert!(tried(&plan, how).contains(&change), "{how:?}");
    }
}

/// A threshold of the lease, in milliseconds.
fn lease(holds: i64, breaks: i64) -> Threshold {
    let [holds, breaks] = [holds, breaks].map(|ms| ms * MILLISECOND.cast_signed());
    Threshold {
        of: "lock.ttl".to_owned(),
        unit: Unit::Length,
        own: breaks,
        holds,
        is_untested: false,
        was_open: None,
        breaks,
        looked: (holds, breaks),
        holds_again: Vec::new(),
        breaks_again: Vec::new(),
        instead: String::new(),
        bound: None,
        later: None,
    }
}

#[test]
fn a_lease_is_as_long_as_was_measured() {
    let shorter = lease(900, 901);
    let longer = lease(15_442, 15_441);
    assert_eq!(lease_that_holds(std::slice::from_ref(&shorter)), None);
    let found = lease_that_holds(&[shorter, longer.clone()]);
    assert_eq!(found, Some(16 * SECOND));
    assert_eq!(lease_that_holds(&[Threshold { is_untested: true, ..longer }]), None);
    let plan = base_plan("token-lua", TopologyKind::Single);
    let with = longer_lease(&plan, SECOND, found).expect("there is a lease");
    assert_eq!(with.lock.ttl, Some(16 * SECOND), "a bit above it, and not three times its own");
    assert_eq!(with.until - plan.until, 13 * SECOND, "the probe waits for it");
}

#[test]
fn a_longer_lease_is_for_a_clock_at_a_wrong_rate_and_not_for_one_that_is_set() {
    let rate = fault("n1", Verb::ClockRate { ppm: 400_000 }, Some(SECOND));
    let step = fault("n1", Verb::ClockStep { by: SECOND.cast_signed() }, None);
    let struck = Strikes::new();
    let lease_of = |plan: &Plan, acting: &[Part], lease| {
        let run = ViolatedRun { how: How::NodeClock, acting, lease, ..of(&struck, 0) };
        let mut for_it = REMEDIES.iter().filter(|remedy| remedy.name.contains(" lease"));
        for_it.find_map(|remedy| {
            let applies = remedy.heals.contains(&How::NodeClock);
            applies.then(|| (remedy.apply)(plan, &run))??.lock.ttl
        })
    };
    let (rate, step) = (redlock(vec![rate]), redlock(vec![step]));
    let (by_fault, found) = ([Part::Fault(1)], Some(6 * SECOND));
    assert_eq!(lease_of(&rate, &by_fault, found), Some(6 * SECOND));
    assert_eq!(lease_of(&rate, &[Part::Clocks], found), Some(6 * SECOND));
    assert_eq!(lease_of(&rate, &by_fault, None), None, "nothing was measured");
    assert_eq!(lease_of(&rate, &[Part::Clocks, Part::Offsets], found), None);
    assert_eq!(lease_of(&step, &by_fault, found), None);
}

#[test]
fn a_time_out_grows_only_if_a_first_reply_takes_longer_than_it() {
    let mut plan = redlock(Vec::new());
    plan.links.latency = Latency::Constant(3 * MILLISECOND);
    let with = longer_timeout(&plan, 11 * MILLISECOND).expect("a first reply takes 12 ms");
    assert_eq!(diff(&plan, &with), ["lock.timeout: -, then 24ms"]);
    assert_eq!(longer_timeout(&plan, 12 * MILLISECOND), None);
}

/// The keys are those of a scenario, and faults have the names that thresholds have.
#[test]
fn a_diff_names_keys_that_a_scenario_takes() {
    let plan = base_plan("token-lua", TopologyKind::Sentinel);
    let with = min_replicas(&plan).expect("it asks for none");
    assert_eq!(
        diff(&plan, &with),
        ["topology.min_replicas: -, then 1", "topology.min_replicas_lag: -, then 1s"]
    );
    let step = Fault { id: 2, ..fault("n1", Verb::ClockStep { by: -SECOND.cast_signed() }, None) };
    let with = slewed(&redlock(vec![step.clone()])).expect("a node's step");
    assert_eq!(diff(&redlock(vec![step]), &with), ["fault:2.by: -1s, then -50ms"]);
}

#[test]
fn what_a_master_asks_of_its_replicas_is_not_weakened() {
    let plan = base_plan("token-lua", TopologyKind::Sentinel);
    let with = |to_write, max_lag| {
        let mut plan = plan.clone();
        plan.topology.min_replicas = Some(MinReplicas { to_write, max_lag });
        min_replicas(&plan)?.topology.min_replicas
    };
    let least = |to_write, max_lag| Some(MinReplicas { to_write, max_lag });
    assert_eq!(with(1, SECOND), None);
    assert_eq!(with(2, SECOND), None);
    assert_eq!(with(2, 10 * SECOND), least(2, SECOND));
    let fresh = min_replicas(&plan).expect("it asks for none");
    assert_eq!(fresh.topology.min_replicas, least(1, SECOND));
}

/// A lock may have another default than what is right: to omit the option would change nothing.
#[test]
fn an_option_is_set_to_what_is_right_where_a_lock_has_another_default() {
    let of = |name| base_plan(name, TopologyKind::Single);
    let [util, plain] = [token_lua::JEDIS_UTIL, token_lua::ALGORITHM];
    let own = token_of_try(&of(util.name), &util).expect("its token is a thread's number");
    assert_eq!(own.lock.token, Some(TokenScope::Try));
    let mut shared = of(plain.name);
    assert_eq!(token_of_try(&shared, &plain), None, "it has one");
    shared.lock.token = Some(TokenScope::Constant);
    let own = token_of_try(&shared, &plain).expect("all callers have one token");
    assert_eq!(own.lock.token, None, "that is its default");
    let unchecked = redlock::WITHOUT_VALIDITY;
    let plan = base_plan_of(&unchecked, TopologyKind::Independent);
    let checked = checks_validity(&plan, &unchecked).expect("it checks nothing");
    assert_eq!(checked.lock.validity, Some(true));
    assert_eq!(checks_validity(&checked, &unchecked), None, "it checks now");
}
