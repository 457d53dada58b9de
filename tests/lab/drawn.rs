//! What the default hunt draws: bugs have been missed because no plan could show them.

use lockstorm::hunt::drawing::Alphabet;
use lockstorm::hunt::seeded::{Hunt, draw};
use lockstorm::hunt::strategy::Strategy;
use lockstorm::lock::algorithm::Algorithm;
use lockstorm::lock::algorithm::token_lua::TokenLua;
use lockstorm::lock::assumptions;
use lockstorm::lock::catalogue::find;
use lockstorm::plan::base_plan::{base_plan, base_plan_of};
use lockstorm::plan::{Persistence, Plan, TopologyKind};
use lockstorm::promise::{Bounded, bound};
use lockstorm::run::Lab;
use lockstorm_platform::fault::{Anchor, Fault, Pattern, Target, Verb};
use lockstorm_platform::time::SECOND;
use lockstorm_platform::trace::Edge;

fn is_server(host: &str) -> bool {
    host.starts_with(['n', 's'])
}

/// Links between servers alone, in both directions or in one.
fn is_between_servers(fault: &Fault, is_both: bool) -> bool {
    let Target::Links { from, to, both } = &fault.target else { return false };
    *both == is_both && from.iter().chain(to).all(|host| is_server(host))
}

/// A side of links that has a client and a server.
fn is_mixed(fault: &Fault) -> bool {
    let Target::Links { from, to, .. } = &fault.target else { return false };
    let mixed = |side: &[String]| {
        side.iter().any(|host| is_server(host)) && !side.iter().all(|host| is_server(host))
    };
    mixed(from) || mixed(to)
}

fn is_late(fault: &Fault, lease: u64) -> bool {
    matches!(fault.verb, Verb::ReplicaLag { extra } | Verb::Delay { extra } if extra > lease)
}

fn waits_for_fault(fault: &Fault, on: Edge) -> bool {
    let Anchor::After { event: Pattern::Fault { edge, .. }, .. } = &fault.anchor else {
        return false;
    };
    *edge == on
}

fn waits_for_node(fault: &Fault) -> bool {
    matches!(fault.anchor, Anchor::After { event: Pattern::Node { .. }, .. })
}

/// Whether two faults in a row strike the same target, with the same verb or with another one.
fn meet(plan: &Plan, is_same: bool) -> bool {
    let mut pairs = plan.faults.windows(2);
    pairs.any(|pair| pair[0].target == pair[1].target && (pair[0].verb == pair[1].verb) == is_same)
}

/// So many of 600 plans show something.
#[track_caller]
fn check(least: usize, what: &str, is_shown: &dyn Fn(&Plan) -> bool) {
    let base = base_plan("token-lua", TopologyKind::Sentinel);
    let alphabet = Alphabet::of(*find("token-lua").expect("it is of the catalogue"));
    let hunt = Hunt::new(Lab::default(), base, alphabet, 1..=1);
    let plans = (1..=600).map(|seed| draw(&hunt, seed, Strategy::Random));
    let count = plans.filter(is_shown).count();
    assert!(count >= least, "{what}: {count}");
}

#[track_caller]
fn has_fault(least: usize, what: &str, is_it: &dyn Fn(&Fault) -> bool) {
    check(least, what, &|plan| plan.faults.iter().any(is_it));
}

#[test]
fn faults_of_any_links_and_after_anything() {
    let lease = base_plan("token-lua", TopologyKind::Sentinel).longest_ttl();
    has_fault(5, "servers that do not hear each other", &|fault| is_between_servers(fault, true));
    has_fault(5, "one of two directions", &|fault| is_between_servers(fault, false));
    has_fault(5, "a client beside a server", &is_mixed);
    has_fault(5, "messages later than a lease", &|fault| is_late(fault, lease));
    has_fault(5, "after the begin of another", &|fault| waits_for_fault(fault, Edge::Start));
    has_fault(5, "after the end of another", &|fault| waits_for_fault(fault, Edge::End));
    has_fault(5, "after what a node becomes", &waits_for_node);
    check(5, "a burst", &|plan| meet(plan, true));
    check(60, "faults that meet in one place", &|plan| meet(plan, false));
    let whole = |plan: &Plan| plan.faults.iter().any(|fault| fault.length == Some(plan.heal_at));
    check(5, "a condition from the start", &whole);
}

#[test]
fn deployments_and_clocks() {
    let watched = base_plan("token-lua", TopologyKind::Sentinel).topology.sentinels;
    let watched = watched.expect("it is watched");
    let sentinels = |plan: &Plan| plan.topology.sentinels.expect("it is watched");
    check(5, "a disk", &|plan| plan.topology.persistence == Persistence::Rdb);
    check(5, "impatience", &|plan| sentinels(plan).down_after < watched.down_after);
    check(5, "another quorum", &|plan| sentinels(plan).quorum != watched.quorum);
    check(5, "masters that need replicas", &|plan| plan.topology.min_replicas.is_some());
    check(5, "priorities", &|plan| !plan.topology.priorities.is_empty());
    check(5, "a fast clock", &|plan| plan.clocks.values().any(|clock| clock.rate_ppm > 0));
    check(5, "clocks apart", &|plan| plan.clocks.values().any(|clock| clock.wall_offset > 0));
}

#[test]
fn clocks_that_start_apart_are_drawn_within_what_a_lock_assumes() {
    let lock = Algorithm {
        promise: |config, work| {
            let mut promise = assumptions::lease(config, work);
            promise.assumes.push(bound(Bounded::Skew, SECOND));
            promise
        },
        ..Algorithm::lease("dated", |setting| Box::new(TokenLua::new(setting)))
    };
    let base = base_plan_of(&lock, TopologyKind::Single);
    let alphabet = Alphabet { within: true, ..Alphabet::of(lock) };
    let lab = Lab::default().with_lock(lock);
    let hunt = Hunt::new(lab, base, alphabet, 1..=1);
    let clocks =
        (1..=300).flat_map(|seed| draw(&hunt, seed, Strategy::Random).clocks.into_values());
    let offsets: Vec<u64> = clocks.map(|clock| clock.wall_offset.unsigned_abs()).collect();
    assert!(offsets.iter().any(|off| *off > 0), "some are drawn");
    assert!(offsets.iter().all(|off| *off <= SECOND), "{offsets:?}");
}
