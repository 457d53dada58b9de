//! What the strategies of hunts draw.

use std::collections::BTreeSet;

use lockstorm::explore::trial::attempt;
use lockstorm::hunt::drawing::Alphabet;
use lockstorm::hunt::parameter::Parameter;
use lockstorm::hunt::search::{Until, scout};
use lockstorm::hunt::seeded::{Hunt, draw};
use lockstorm::hunt::strategy::Strategy;
use lockstorm::ledger::planned::breaks;
use lockstorm::ledger::site::bound_of;
use lockstorm::lock::catalogue::find;
use lockstorm::plan::base_plan::base_plan;
use lockstorm::plan::extend::Extend;
use lockstorm::plan::{Plan, TopologyKind};
use lockstorm::promise::Bounded;
use lockstorm::run::Lab;
use lockstorm_platform::fault::{Anchor, Fault, Pattern, Verb};
use lockstorm_platform::time::MILLISECOND;

fn hunt(lock: &str, kind: TopologyKind) -> Hunt {
    let alphabet = Alphabet::of(*find(lock).expect("a lock of the catalogue"));
    Hunt::new(Lab::default(), base_plan(lock, kind), alphabet, 1..=1)
}

fn plans(hunt: &Hunt, strategy: Strategy, count: u64) -> Vec<Plan> {
    (1..=count).map(|seed| draw(hunt, seed, strategy)).collect()
}

/// The number of different verbs of a plan.
fn words(plan: &Plan) -> BTreeSet<&'static str> {
    plan.faults.iter().map(|fault| fault.verb.word()).collect()
}

#[test]
fn a_swarm_leaves_half_of_the_faults_out_of_each_plan_and_none_out_of_all() {
    let mut hunt = hunt("redlock", TopologyKind::Independent);
    hunt.alphabet.verbs = ["partition", "pause", "crash", "delay"].map(str::to_owned).into();
    let swarm = plans(&hunt, Strategy::Swarm, 200);
    assert!(swarm.iter().all(|plan| words(plan).len() <= 2));
    let all: BTreeSet<_> = swarm.iter().flat_map(words).collect();
    assert_eq!(all.len(), 4, "{all:?}");
    assert!(plans(&hunt, Strategy::Random, 200).iter().any(|plan| words(plan).len() > 2));
}

#[test]
fn priorities_slow_clients_at_their_own_steps() {
    let hunt = hunt("token-lua", TopologyKind::Single);
    let slows = |verb: &Verb| matches!(verb, Verb::Pause | Verb::Suspend | Verb::Delay { .. });
    let drawn = plans(&hunt, Strategy::Priorities, 100);
    let changes = |plan: &Plan| {
        let own = plan.faults.iter().filter(|fault| {
            let Anchor::After { event, .. } = &fault.anchor else { return false };
            let who = match event {
                Pattern::Outcome { who, .. } => who,
                Pattern::Message { from, .. } => from,
                _ => return false,
            };
            slows(&fault.verb) && fault.target.hosts().contains(&who.as_str())
        });
        own.count()
    };
    assert!(drawn.iter().all(|plan| changes(plan) >= 1));
    assert!(drawn.iter().any(|plan| changes(plan) >= 2));
    let is_slow = |plan: &Plan| plan.faults.iter().any(|fault| fault.anchor == Anchor::At(0));
    assert!(drawn.iter().filter(|plan| is_slow(plan)).count() > 20, "some are slow throughout");
}

#[test]
fn lineage_strikes_what_a_run_without_faults_does() {
    let hunt = hunt("redlock", TopologyKind::Independent);
    let strikes = |plan: &Plan| {
        let trial = attempt(&hunt.lab, plan);
        // Nothing happens before the first of them: the run is that without faults up to there,
        // except for the draws of another seed.
        trial.run.history.fault_intervals.iter().any(|interval| interval.fault == 1)
    };
    let plans = plans(&hunt, Strategy::Lineage, 30);
    let aimed: Vec<&Plan> = plans.iter().filter(|plan| !plan.faults.is_empty()).collect();
    // A fault on links that nothing uses is left out.
    assert!(aimed.len() >= 25, "{} plans with faults", aimed.len());
    let struck = aimed.iter().filter(|plan| strikes(plan)).count();
    assert!(struck * 10 >= aimed.len() * 8, "{struck} of {}", aimed.len());
}

/// Faults that strike a tenth of a lease before its end, counted from its grant.
#[test]
fn lineage_strikes_the_ends_of_leases() {
    let drawn = plans(&hunt("token-lua", TopologyKind::Single), Strategy::Lineage, 200);
    let is_late = |plan: &Plan| {
        let ttl = plan.longest_ttl();
        plan.faults.iter().any(|fault| match &fault.anchor {
            Anchor::After { event: Pattern::Outcome { what, .. }, plus, .. } => {
                what == "acquired" && *plus == ttl - ttl / 10
            }
            _ => false,
        })
    };
    let late = drawn.iter().filter(|plan| is_late(plan)).count();
    assert!(late >= 5, "{late} of {} plans", drawn.len());
}

#[test]
fn bounds_go_to_the_edge_of_the_promise_and_strike_one_client() {
    let hunt = hunt("redlock", TopologyKind::Independent);
    let drawn = plans(&hunt, Strategy::Bounds, 200);
    let most_work = |plan: &Plan| bound_of(&hunt.lab.promise(plan).assumes, Bounded::Work);
    let many = |is: &dyn Fn(&Plan) -> bool| drawn.iter().filter(|plan| is(plan)).count() >= 40;
    let works_most = |plan: &&Plan| most_work(plan) == Some(plan.workload.hold);
    assert!(drawn.iter().filter(works_most).count() >= 20, "a third of those that do not extend");
    let rate = |plan: &Plan, most| plan.clocks.values().any(|clock| clock.rate_ppm == most);
    assert!(many(&|plan| rate(plan, 10_000)) && many(&|plan| rate(plan, -10_000)));
    let lasts = |plan: &Plan, length: u64| {
        let cut = plan.faults.iter().filter(|fault| fault.verb == Verb::Partition);
        cut.filter_map(|fault| fault.length).any(|own| own.abs_diff(length) <= 50 * MILLISECOND)
    };
    assert!(drawn.iter().any(|plan| plan.lock.needs.is_some()));
    let extends = |plan: &&Plan| plan.workload.extend != Extend::Never;
    assert!(drawn.iter().filter(extends).count() >= 75, "half of the plans, and some others");
    let awaits = |fault: &Fault| {
        matches!(&fault.anchor,
        Anchor::After { event: Pattern::Outcome { what, .. }, .. } if what == "extend")
    };
    assert!(drawn.iter().filter(|plan| plan.faults.iter().any(awaits)).count() >= 5);
    assert!(drawn.iter().filter(|plan| lasts(plan, plan.longest_ttl())).count() >= 5);
    for plan in drawn {
        assert_eq!(breaks(&plan, &hunt.lab.promise(&plan)), BTreeSet::new());
        let hosts = plan.faults.iter().flat_map(|fault| fault.target.hosts());
        let struck: BTreeSet<&str> = hosts.filter(|host| host.starts_with('c')).collect();
        assert!(struck.len() <= 1, "{struck:?}");
    }
}

#[test]
fn work_lasts_until_a_drawn_extend_is_due_unless_its_length_is_given() {
    let mut hunt = hunt("redlock", TopologyKind::Independent);
    let extending = |hunt: &Hunt| -> Vec<Plan> {
        let drawn = plans(hunt, Strategy::Random, 200).into_iter();
        drawn.filter(|plan| plan.workload.extend != Extend::Never).collect()
    };
    let comes = |plan: &Plan| {
        let rhythm = plan.workload.extend.rhythm().expect("it extends");
        plan.workload.reenter || plan.workload.hold > rhythm.due(plan.longest_ttl())
    };
    let drawn = extending(&hunt);
    assert!(drawn.len() >= 30 && drawn.iter().all(comes));
    hunt.alphabet.varies.remove(&Parameter::Hold);
    let drawn = extending(&hunt);
    assert!(drawn.iter().all(|plan| plan.workload.hold == hunt.base.workload.hold));
    assert!(!drawn.iter().all(comes));
}

#[test]
fn drawn_clocks_drift_as_far_as_the_lock_allows_and_no_farther() {
    let mut hunt = hunt("redlock", TopologyKind::Independent);
    hunt.alphabet.within = true;
    let drawn = plans(&hunt, Strategy::Random, 200);
    let clocks = drawn.iter().flat_map(|plan| plan.clocks.values());
    let rates: Vec<u32> = clocks.map(|clock| clock.rate_ppm.unsigned_abs()).collect();
    assert!(rates.iter().all(|rate| *rate <= 10_000));
    assert!(rates.iter().filter(|rate| **rate == 10_000).count() >= 5);
}

#[test]
fn a_strategy_alone_finds_what_the_portfolio_says_it_found() {
    let portfolio = Hunt { seeds: 1..=64, ..hunt("token-get-del", TopologyKind::Single) };
    let all = scout(&portfolio, Until::End, None, &|_| {});
    let examples: Vec<_> = all.groups.iter().flat_map(|(_, group)| &group.smallest).collect();
    assert!(examples.iter().any(|example| example.strategy != Strategy::Random));
    for example in examples {
        let seeds = example.seed..=example.seed;
        let only = Hunt { seeds, strategies: example.strategy.into(), ..portfolio.clone() };
        let found = scout(&only, Until::First, None, &|_| {}).groups;
        assert_eq!(found.examples().collect::<Vec<_>>(), [*example]);
    }
    assert!(!all.novelty.states.is_empty());
}
