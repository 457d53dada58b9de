//! What made the difference to a violation, and the thresholds, compared with results derived by
//! hand.

use std::path::Path;

use lockstorm::check::verdict::Verdict;
use lockstorm::explain::cause::{change_words, part_words, sentences};
use lockstorm::explain::experiment::{Experiments, LaterHeal, PlanChange};
use lockstorm::explain::explanation::explain;
use lockstorm::explain::finding::Finding;
use lockstorm::explain::mechanism::how::How;
use lockstorm::explain::story::StoryLine;
use lockstorm::explore::budget::Budget;
use lockstorm::explore::examine;
use lockstorm::explore::knob::{Knob, knobs, knobs_of, turned, with_later_heal};
use lockstorm::explore::threshold::Located;
use lockstorm::ledger::part::Part;
use lockstorm::plan::base_plan::base_plan;
use lockstorm::plan::{Plan, TopologyKind};
use lockstorm::run::Lab;
use lockstorm::scenario::Scenario;
use lockstorm_platform::fault::{Anchor, Fault, Pattern, Target, Verb};
use lockstorm_platform::time::{ClockSetting, MILLISECOND, Nanos, SECOND};

use crate::NO_TIME;
use crate::amount::sample;

/// The plan of a scenario's first seed.
fn plan(name: &str) -> Plan {
    plan_in("scenarios", name)
}

fn plan_in(folder: &str, name: &str) -> Plan {
    let file = Path::new(folder).join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&file).expect("the scenario can be read");
    let scenario = Scenario::parse(name, &text).expect("the scenario is one");
    scenario.plan(scenario.seeds()[0])
}

fn with_causes(plan: &Plan) -> Finding {
    let lab = Lab::default();
    examine::explained(&lab, Some(NO_TIME), &[], examine::classified(&lab, plan))
}

fn experiments(finding: &Finding) -> &Experiments {
    finding.experiments.as_ref().expect("a violated run is explained")
}

/// Scenarios with the necessary parts, the minimal sufficient sets, and the idle parts.
#[test]
fn the_causes_of_scenarios_are_those_that_their_stories_need() {
    use Part::{Fault, Offset, Persistence};
    let check = |name: &str, necessary: &[Part], sufficient: &[&[Part]], idle: &[Part]| {
        let finding = with_causes(&plan(name));
        let causes = &experiments(&finding).causes;
        assert_eq!(causes.necessary, necessary, "{name}");
        assert_eq!(causes.sufficient, sufficient, "{name}");
        assert_eq!(causes.idle, idle, "{name}");
    };
    check("check-then-set-race", &[], &[&[]], &[]);
    check("gc-pause-outlives-lease", &[Fault(1)], &[&[Fault(1)]], &[]);
    let all = [Fault(1), Fault(2), Offset(0)];
    check("promoted-replica-with-fast-clock", &all, &[&all], &[Persistence]);
    let all = [Fault(1), Fault(2), Persistence];
    check("redlock-amnesiac-restart", &all, &[&all], &[]);
    // Without its compat there is no WAITAOF, and no valid plan.
    let all = [Fault(1), Persistence];
    check("waitaof-valkey-power-loss", &all, &[&all], &[]);
    // It takes two Sentinels whose clocks step, any two, and the master's death.
    let two = |one, other| [Fault(one), Fault(other), Fault(4)];
    check(
        "sentinel-clock-step-delays-failover",
        &[Fault(4)],
        &[&two(1, 2), &two(1, 3), &two(2, 3)],
        &[Persistence],
    );
}

/// A pause keeps a flush from being carried out in time, so that an eviction is needed beside both:
/// the flush does it without them.
#[test]
fn a_fault_that_another_one_undoes_is_enough_by_itself() {
    let text = "name = 'x'\nask = 'x'\nexpect = { holds = true }\n\
        [topology]\nkind = 'cluster'\nnodes = 3\nreplicas = 1\nnode_timeout = '2s'\n\
        [lock]\nalgorithm = 'token-lua'\nttl = '10s'\n\
        [workload]\nkind = 'counter'\nclients = 2\nhold = '6s'\n\
        [[fault]]\nkind = 'pause'\ntarget = 'n2'\nfor = '8s'\n\
        after = { event = 'acquired', by = 'c1', nth = 1, plus = '100ms' }\n\
        [[fault]]\nkind = 'flush'\ntarget = 'n2'\n\
        after = { event = 'acquired', by = 'c1', nth = 1, plus = '500ms' }\n\
        [[fault]]\nkind = 'evict'\ntarget = 'n5'\nkey = 'lock'\n\
        after = { event = 'acquired', by = 'c1', nth = 1, plus = '4500ms' }\n";
    let plan = Scenario::parse("x", text).expect("a scenario").plan(1);
    let finding = with_causes(&plan);
    let causes = &experiments(&finding).causes;
    let sets = [vec![Part::Fault(2)], vec![Part::Fault(1), Part::Fault(3)]];
    assert_eq!((&causes.necessary[..], &causes.sufficient[..]), (&[][..], &sets[..]));
    assert_eq!(causes.needed_here, [Part::Fault(3)]);
    let said = sentences(&finding).join(" ");
    let here = "Needed only beside the others: n5's evict. Without it alone the violation does not \
                occur: what is left hides it.";
    assert!(said.contains(here) && !said.contains("Necessary"), "{said}");
}

/// A lock on a master with a replica, with faults each so long after the first grant.
fn replicated(faults: &[&str]) -> Plan {
    let mut text = "name = 'x'\nask = 'x'\nexpect = { holds = true }\n\
        [topology]\nkind = 'replicated'\nnodes = 2\n\
        [lock]\nalgorithm = 'token-lua'\nttl = '10s'\n\
        [workload]\nkind = 'counter'\nclients = 2\nhold = '4s'\n"
        .to_owned();
    for fault in faults {
        let [kind, target, plus, more @ ..] = &fault.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{fault} is no fault");
        };
        let after = format!("{{ event = 'acquired', by = 'c1', nth = 1, plus = '{plus}' }}");
        let more = more.join("\n");
        text +=
            &format!("[[fault]]\nkind = '{kind}'\ntarget = '{target}'\nafter = {after}\n{more}\n");
    }
    Scenario::parse("x", &text).expect("a scenario").plan(1)
}

/// Without the first failover nobody would write the second: it happens to a master. It is tried
/// without it all the same.
#[test]
fn a_fault_without_which_another_makes_no_sense_is_tried_too() {
    let faults = ["crash n1 100ms for='3s'", "failover n2 200ms"];
    let faults = faults.into_iter().chain(["failover n1 300ms", "evict n2 900ms key='lock'"]);
    let mut plan = replicated(&faults.collect::<Vec<_>>());
    plan.workload.hold = 3 * SECOND;
    let finding = with_causes(&plan);
    let causes = &experiments(&finding).causes;
    let necessary = [Part::Fault(1), Part::Fault(2), Part::Fault(4)];
    assert_eq!(causes.necessary, necessary);
    assert_eq!(causes.sufficient, [necessary]);
    let is_it = |change: &PlanChange| *change == PlanChange::Without(Part::Fault(2));
    assert!(causes.changes.iter().any(|changed| is_it(&changed.change) && !changed.stays));
}

/// Where other faults wait in vain for an event without one, its other effect names them.
#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_fault_without_which_others_wait_in_vain_says_which() {
    let mut text = "name = 'x'\nask = 'x'\nexpect = { holds = true }\n\
        [topology]\nkind = 'replicated'\nnodes = 2\npersistence = 'aof-always'\n\
        [lock]\nalgorithm = 'token-lua'\nttl = '10s'\n\
        [workload]\nkind = 'counter'\nclients = 2\nhold = '6s'\nrounds = 8\n\
        [[fault]]\nkind = 'failover'\ntarget = 'n2'\nat = '0ms'\n\
        [[fault]]\nkind = 'reset'\ntarget = 'c1 c2 <-> n1'\nat = '1ms'\n"
        .to_owned();
    let waiting = [
        ("partition", "c2 n1 <-> n2", "0ms", "for = '15s'"),
        ("crash", "n2", "300ms", "for = '4s'"),
        ("restart", "n1", "500ms", ""),
    ];
    for (kind, target, plus, more) in waiting {
        let after = format!("{{ event = 'acquired', by = 'c1', nth = 1, plus = '{plus}' }}");
        text +=
            &format!("[[fault]]\nkind = '{kind}'\ntarget = '{target}'\nafter = {after}\n{more}\n");
    }
    let plan = Scenario::parse("x", &text).expect("a scenario").plan(1);
    let lab = Lab::default();
    let finding = examine::explained(&lab, None, &[], examine::classified(&lab, &plan));
    let others = &experiments(&finding).other_effects;
    assert!(others.iter().any(|other| other.fault == 2 && other.waits == [3, 4, 5]), "{others:?}");
    let said = sentences(&finding).join(" ");
    assert!(said.contains("n1's restart never strike, and stuck is not violated"), "{said}");
}

/// A user who stops a hunt has left out what the explanation then lacks, and no budget has.
#[test]
fn what_a_stop_left_out_says_so() {
    let lab = Lab::default();
    let said = |budget: Budget| {
        let finding = examine::classified(&lab, &plan("gc-pause-outlives-lease"));
        sentences(&examine::explained(&lab, Some(budget), &[], finding)).join(" ")
    };
    let (late, stopped) = (said(NO_TIME), said(Budget { is_stopped: || true, ..NO_TIME }));
    assert!(late.contains("Not done, because the budget was used up: "), "{late}");
    assert!(stopped.contains("Not done, because the hunt was stopped: "), "{stopped}");
}

/// What lost the update is in the story, though the overlap that it is about needed it not.
#[test]
fn a_fault_that_lost_an_update_is_in_the_story() {
    let text = text(
        "algorithm = 'token-lua'\nttl = '10s'",
        "kind = 'counter'\nclients = 2\nhold = '3s'\nrounds = 3",
        &[
            ("evict", "n1", "c1', nth = 1, plus = '1s'", "key = 'lock'"),
            ("crash", "c1", "c1', nth = 1, plus = '2s'", "for = '1s'"),
            (
                "delay",
                "c2 -> resource",
                "c2', nth = 2, plus = '2500ms'",
                "extra = '2s'\nfor = '1s'",
            ),
        ],
    );
    assert!(text.contains("Messages from c2 to resource take 2 s longer"), "{text}");
}

/// A fence that the story tells to be too small has its fault, and the grant before it.
#[test]
fn a_fault_that_made_a_fence_too_small_is_in_the_story() {
    let text = text(
        "algorithm = 'fenced'\nttl = '5s'",
        "kind = 'append-log'\nclients = 2\nhold = '3s'\nrounds = 2\nfence = 'reject-smaller'",
        &[
            ("pause", "c1", "c1', nth = 1, plus = '1s'", "for = '12s'"),
            ("pause", "c2", "c2', nth = 1, plus = '1s'", "for = '14s'"),
            ("flush", "n1", "c1', nth = 1, plus = '13012ms'", ""),
        ],
    );
    assert!(text.contains("c1's fence 1 is not above c2's fence 2."), "{text}");
    assert!(text.contains("n1 is flushed"), "{text}");
}

/// The story of a scenario on one node, with these faults after grants.
fn text(lock: &str, workload: &str, faults: &[(&str, &str, &str, &str)]) -> String {
    let mut text = format!(
        "name = 'x'\nask = 'x'\nexpect = {{ holds = true }}\n[topology]\nkind = 'single'\n\
         [lock]\n{lock}\n[workload]\n{workload}\n"
    );
    for (kind, target, by, more) in faults {
        text += &format!("[[fault]]\nkind = '{kind}'\ntarget = '{target}'\n{more}\n");
        text += &format!("after = {{ event = 'acquired', by = '{by} }}\n");
    }
    let plan = Scenario::parse("x", &text).expect("a scenario").plan(1);
    let lab = Lab::default();
    let finding = examine::explained(&lab, None, &[], examine::classified(&lab, &plan));
    let lines = explain(&finding).story.lines.into_iter();
    lines.map(|line| line.text + "\n").collect()
}

/// A flush needs the failover back if there was one.
#[test]
fn a_fault_that_only_undoes_another_is_not_necessary() {
    let (back, flush) = (Part::Fault(2), Part::Fault(3));
    let faults = ["failover n2 500ms", "failover n1 1500ms", "flush n1 2500ms"];
    let finding = with_causes(&replicated(&faults));
    let causes = &experiments(&finding).causes;
    assert_eq!((&causes.necessary[..], &causes.needed_here[..]), (&[flush][..], &[back][..]));
    assert_eq!(causes.sufficient, [[flush]]);
    let faults = ["evict n1 500ms key='lock'", "restart n1 600ms", "crash n1 900ms for='1s'"];
    let mut plan = replicated(&faults);
    plan.topology.kind = TopologyKind::Single;
    plan.topology.nodes = 1;
    let finding = with_causes(&plan);
    let causes = &experiments(&finding).causes;
    let sets = causes.sufficient.iter().filter(|set| set.contains(&Part::Persistence));
    assert_eq!(sets.count(), 2, "{causes:?}");
}

/// The replica's promotion is a step of what happened, though the dead master's start would have
/// let the other caller in as well.
#[test]
fn a_promotion_that_let_a_caller_in_is_in_the_story_though_it_made_no_difference() {
    let faults = ["crash n2 200ms for='1s'", "crash n1 300ms for='3s'", "failover n2 2s"];
    let finding = with_causes(&replicated(&faults));
    assert!(experiments(&finding).causes.idle.contains(&Part::Fault(3)));
    let text = explain(&finding).story.lines;
    let is_there = |line: &StoryLine| line.text.starts_with("n2 is made master");
    assert!(text.iter().any(is_there), "{text:?}");
}

/// The figures of a host are varied only if its own clock made the difference.
#[test]
fn of_several_clocks_the_one_that_counts_is_varied() {
    let mut plan = plan("promoted-replica-with-fast-clock");
    for host in ["c1", "c2"] {
        let off = ClockSetting { wall_offset: 3_600_000_000_000, rate_ppm: 100 };
        plan.clocks.insert(host.to_owned(), off);
    }
    let names = |acting: &[Part]| -> Vec<String> {
        let knobs =
            knobs_of(&Lab::default(), &plan, acting).into_iter().map(|knob| knob.name(&plan));
        knobs.filter(|name| name.starts_with("clocks.")).collect()
    };
    assert_eq!(names(&[Part::Offset(2)]), ["clocks.n2.wall_offset"]);
    assert_eq!(names(&[Part::Rate(0)]), ["clocks.c1.rate_ppm"]);
    assert_eq!(names(&[Part::Clocks]), ["clocks.c1.rate_ppm", "clocks.c2.rate_ppm"]);
}

/// A fault that struck nothing in the violated run makes no experiment with it a test of nothing.
#[test]
fn a_fault_that_was_idle_does_not_make_experiments_untested() {
    let text = std::fs::read_to_string("scenarios/gc-pause-outlives-lease.toml").expect("a file");
    let idle = "\n[[fault]]\nkind = \"evict\"\ntarget = \"n1\"\nat = \"1ms\"\n";
    let scenario = Scenario::parse("idle", &(text + idle)).expect("a scenario");
    let finding = examine::scenario(&Lab::default(), &scenario, 1);
    let experiments = experiments(&finding);
    assert!(!experiments.remedies.is_empty() && !experiments.thresholds.is_empty());
    let remedies = experiments.remedies.iter().filter(|remedied| remedied.is_unknown);
    assert_eq!(remedies.count(), 0, "{:?}", experiments.remedies);
    let thresholds = experiments.thresholds.iter().filter(|threshold| threshold.is_untested);
    assert_eq!(thresholds.count(), 0, "{:?}", experiments.thresholds);
}

/// A pause of a holder of this length, this long after its grant.
fn pause(id: u32, who: &str, plus: Nanos, length: Nanos) -> Fault {
    let event = Pattern::Outcome { who: who.to_owned(), what: "acquired".to_owned() };
    Fault {
        id,
        verb: Verb::Pause,
        target: Target::Host(who.to_owned()),
        anchor: Anchor::After { event, nth: 1, plus },
        length: Some(length),
    }
}

fn paused(pauses: Vec<Fault>) -> Plan {
    let mut plan = base_plan("token-lua", TopologyKind::Single);
    (plan.workload.clients, plan.workload.rounds) = (2, 1);
    plan.faults = pauses;
    plan
}

#[test]
fn of_two_faults_that_each_suffice_neither_is_necessary() {
    let both = vec![
        pause(1, "c1", 100 * MILLISECOND, 4 * SECOND),
        pause(2, "c1", 200 * MILLISECOND, 5 * SECOND),
    ];
    let finding = with_causes(&paused(both));
    let causes = &experiments(&finding).causes;
    assert_eq!(causes.necessary, []);
    assert_eq!(causes.sufficient, [[Part::Fault(1)], [Part::Fault(2)]]);
    assert_eq!(causes.acting(), [Part::Fault(1), Part::Fault(2)]);
}

/// The client's pause alone lets another in. The client dies later between SETNX and EXPIRE, and
/// the flush removes the key that it would have left for ever.
#[test]
fn what_a_fault_does_besides_the_headline_is_in_the_story() {
    let text = r#"
        name = "two-effects"
        ask = "What does the flush do?"
        expect = { violated = ["stale-holder", "corruption"] }
        heal_at = "12s"
        lock = { algorithm = "setnx-expire", ttl = "2s" }
        workload = { rounds = 2, hold = "300ms", rest = "0s", stagger = "20ms" }
        [[fault]]
        kind = "flush"
        target = "n1"
        at = "10s"
        [[fault]]
        kind = "pause"
        target = "c1"
        after = { event = "acquired", by = "c1", plus = "100ms" }
        for = "4s"
        [[fault]]
        kind = "crash"
        target = "c1"
        after = { event = "step", by = "c1", label = "set", nth = 2 }"#;
    let scenario = Scenario::parse("two-effects", text).expect("a scenario");
    let lab = Lab::default();
    let finding = examine::explained(&lab, None, &[], examine::classified(&lab, &scenario.plan(1)));
    let idle = &experiments(&finding).causes.idle;
    assert_eq!(idle, &[Part::Fault(1), Part::Fault(3), Part::Persistence]);
    let text = sentences(&finding);
    let effect = "Another effect: without n1's flush, stuck is violated as well.";
    assert!(text.iter().any(|sentence| sentence == effect), "{text:?}");
}

#[test]
fn a_fault_that_struck_nobody_made_no_difference_and_is_varied_no_further() {
    let mut plan = paused(vec![pause(1, "c1", 100 * MILLISECOND, 4 * SECOND)]);
    let late = Fault { id: 2, anchor: Anchor::At(11 * SECOND), ..pause(2, "c2", 0, SECOND) };
    let mut never = pause(3, "c2", 0, SECOND);
    if let Anchor::After { nth, .. } = &mut never.anchor {
        *nth = 50;
    }
    plan.faults.extend([late, never]);
    assert_eq!(plan.validate(), Ok(()));
    let finding = with_causes(&plan);
    let causes = &experiments(&finding).causes;
    assert_eq!(causes.idle, [Part::Fault(2), Part::Fault(3)]);
    let of_idle = |change: &PlanChange| match change {
        PlanChange::Without(part) => *part != Part::Fault(1),
        PlanChange::Halved(id) | PlanChange::Doubled(id) => *id != 1,
        PlanChange::Earlier(id, _) | PlanChange::Later(id, _) => *id != 1,
    };
    assert!(!causes.changes.iter().any(|changed| of_idle(&changed.change)));
    let without = causes.changes.iter().find(|c| c.change == PlanChange::Without(Part::Fault(1)));
    let without = without.expect("each acting part is taken away");
    assert!(!without.stays && without.kinds.is_empty());
    assert_eq!(part_words(&plan, Part::Fault(1)), "c1's pause of 4 s");
    assert_eq!(change_words(&finding, without), "without c1's pause of 4 s");
}

#[test]
fn a_fault_is_made_longer_only_as_far_as_the_heal_allows() {
    let plan = paused(vec![pause(1, "c1", 100 * MILLISECOND, 4 * SECOND)]);
    let (lab, struck) = (Lab::default(), [(1, 2 * SECOND)].into());
    let with = |plan: &Plan, length: Nanos| {
        turned(&lab, (plan, &struck), &Knob::Lasts(1), length.cast_signed())
    };
    let room = plan.heal_at - 2 * SECOND;
    let most = with(&plan, room).expect("it ends with the heal");
    assert_eq!((most.faults[0].length, most.heal_at), (Some(room), plan.heal_at));
    assert_eq!(with(&plan, room + 1), None);
    let later = with_later_heal(&plan, 3_595_001 * MILLISECOND);
    assert_eq!(later.heal_at, plan.heal_at + 3_596 * SECOND);
    assert_eq!(later.until - later.heal_at, plan.until - plan.heal_at);
    let long = with(&later, 3_600 * SECOND).expect("an hour is a length");
    assert_eq!(long, Plan { faults: long.faults.clone(), ..later });
}

/// A plan with one length changed as a reader of the report would change it.
fn edited(plan: &Plan, id: u32, length: Nanos, later: Option<LaterHeal>) -> Plan {
    let mut plan = plan.clone();
    let fault = plan.faults.iter_mut().find(|fault| fault.id == id).expect("it is there");
    fault.length = Some(length);
    if let Some(later) = later {
        (plan.heal_at, plan.until) = (later.heal_at, later.until);
    }
    plan
}

/// The lengths of a report are compared with one heal, and an edited plan shows the same.
#[test]
fn what_a_report_says_about_lengths_an_edited_plan_shows() {
    let lab = Lab::default();
    let is_there = |plan: &Plan| {
        matches!(examine::classified(&lab, plan).judgement.verdict, Verdict::Violated(_))
    };
    // The heal at 12 s cuts the pause, which begins at 1 s or so.
    let mut cut = paused(vec![pause(1, "c1", 100 * MILLISECOND, 30 * SECOND)]);
    cut.faults[0].anchor = Anchor::After {
        event: Pattern::Outcome { who: "c1".to_owned(), what: "acquired".to_owned() },
        nth: 1,
        plus: 100 * MILLISECOND,
    };
    let plans = [cut, plan("cluster-failover-wait-replica"), plan("gc-pause-outlives-lease")];
    for plan in sample(plans) {
        let finding = examine::plan(&lab, &plan);
        let found = finding.experiments.clone().unwrap_or_else(|| {
            let finding = examine::with_margins(&lab, None, finding.clone());
            finding.experiments.expect("a run that holds has margins")
        });
        let lengths = found.thresholds.iter().filter(|found| found.of.ends_with(".for"));
        let mut count = 0;
        for found in lengths {
            let id = found.of["fault:".len()..found.of.len() - ".for".len()].parse().unwrap();
            let with = |length: i64| edited(&plan, id, length.unsigned_abs(), found.later);
            assert!(is_there(&with(found.breaks)), "{} {found:?}", plan.name);
            assert!(found.holds == 0 || !is_there(&with(found.holds)), "{} {found:?}", plan.name);
            count += 1;
        }
        assert!(count > 0, "{}", plan.name);
        for changed in &found.causes.changes {
            let (PlanChange::Halved(id) | PlanChange::Doubled(id)) = changed.change else {
                continue;
            };
            let lasted = found.thresholds.iter().find(|of| of.of == format!("fault:{id}.for"));
            let Some(own) = lasted.map(|lasted| lasted.own.unsigned_abs()) else { continue };
            let is_half = changed.change == PlanChange::Halved(id);
            let length = if is_half { own / 2 } else { own * 2 };
            let with = edited(&plan, id, length, changed.later);
            assert_eq!(is_there(&with), !changed.kinds.is_empty(), "{} {changed:?}", plan.name);
        }
    }
}

/// Of a plan that holds, a length of the setup may be too short as well as too long.
#[test]
fn a_lease_is_searched_both_ways_where_the_lock_holds() {
    let plan = base_plan("token-lua", TopologyKind::Single);
    let found = examine::thresholds_of(&Lab::default(), &plan, &[Knob::Set("lock.ttl")]);
    let Ok([(_, Located::Thresholds(found))]) = found.as_deref() else {
        panic!("work of 600 ms outlasts some lease: {:?}", found.is_ok());
    };
    assert!(found[0].breaks < found[0].holds && found[0].holds < 3_000_000_000, "{found:?}");
}

/// A sixteenth of 3 s is no whole number of milliseconds: the range ends with the value next to it.
#[test]
fn what_breaks_again_lies_in_the_range_that_was_looked_at() {
    let plan = plan("renewal-revives-released-lock");
    let found = examine::thresholds_of(&Lab::default(), &plan, &[Knob::Set("lock.ttl")]);
    let Ok([(_, Located::Thresholds(found))]) = found.as_deref() else {
        panic!("a longer lease holds: {found:?}");
    };
    for found in found {
        let (least, most) = (found.looked.0.min(found.holds), found.looked.0.max(found.holds));
        let is_within = |value: &i64| (least..=most).contains(value);
        assert!(found.breaks_again.iter().all(is_within), "{found:?}");
    }
    assert!(found.iter().any(|found| found.breaks_again.contains(&187_000_000)), "{found:?}");
}

/// Of a dozen values below 26 s, the smallest is 2.181 s: that shorter outages break too is found.
#[test]
fn what_breaks_again_is_searched_to_its_end() {
    let plan = plan_in("tests/mechanisms", "replicas-that-reconnect-late");
    let found = examine::thresholds_of(&Lab::default(), &plan, &[Knob::Lasts(1)]);
    let Ok([(_, Located::Thresholds(found))]) = found.as_deref() else { panic!("{found:?}") };
    let least = found.iter().filter_map(|found| found.breaks_again.first()).min();
    assert_eq!(least, Some(&MILLISECOND.cast_signed()), "{found:?}");
}

/// A first reply takes four messages of 3 ms, and the default time-out is 10 ms.
#[test]
fn a_default_time_out_and_a_latency_have_thresholds_and_a_longer_time_out_is_a_remedy() {
    let text = r#"
        name = "no-reply-in-time"
        ask = "Does a lock work whose first reply takes longer than its time-out?"
        expect = { violated = ["stuck"] }
        drawn = true
        heal_at = "12s"
        until = "25s"
        topology = { kind = "independent", nodes = 1 }
        lock = { algorithm = "redlock-no-validity", ttl = "200ms" }
        workload = { rounds = 1, hold = "50ms", rest = "0s", stagger = "20ms" }
        links = { latency = "3ms" }
    "#;
    let plan = Scenario::parse("no-reply-in-time", text).expect("a scenario").plan(1);
    let finding = examine::plan(&Lab::default(), &plan);
    let found = experiments(&finding);
    let of = |name: &str| {
        let mut named = found.thresholds.iter().filter(|found| found.of == name);
        let found = named.next().unwrap_or_else(|| panic!("{name}: {:?}", found.thresholds));
        [found.own, found.holds, found.breaks].map(|ns| ns / 100_000)
    };
    assert_eq!(of("lock.timeout"), [100, 120, 110]);
    assert_eq!(of("links.latency"), [30, 25, 26]);
    let mut longer = found.remedies.iter().filter(|tried| tried.name.contains("time-out"));
    let longer = longer.next().expect("a longer time-out was tried");
    assert_eq!(longer.diff, ["lock.timeout: -, then 24ms"]);
    assert_eq!((longer.kinds.len(), longer.on_fresh.held), (0, 50));
}

/// The lock that draws fences sends its scripts again, which is enough after a failover.
#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_fence_is_no_remedy_where_its_lock_heals_unchecked() {
    let has_fence = |name: &str| {
        let finding = examine::plan(&Lab::default(), &plan(name));
        let mut tried = experiments(&finding).remedies.iter();
        tried.any(|remedied| remedied.name.starts_with("a fence"))
    };
    assert!(!has_fence("script-cache-lost-at-failover"));
    assert!(has_fence("gc-pause-outlives-lease"));
}

/// Twice the rate of a clock is no rate: what is between is searched.
/// A node that is back within the lease forgets it, and one that is down for longer does not.
#[test]
fn a_way_that_the_heal_ends_has_one_threshold() {
    let mut plan = base_plan("token-lua", TopologyKind::Single);
    plan.workload.rounds = 1;
    plan.workload.hold = 8 * SECOND;
    let event = Pattern::Outcome { who: "c1".to_owned(), what: "acquired".to_owned() };
    let anchor = Anchor::After { event, nth: 1, plus: SECOND };
    let target = Target::try_from("n1".to_owned()).expect("a target");
    let length = Some(100 * MILLISECOND);
    plan.faults = vec![Fault { id: 1, verb: Verb::Crash, target, anchor, length }];
    let found = examine::thresholds_of(&Lab::default(), &plan, &[Knob::Lasts(1)]);
    let Ok([(_, Located::Thresholds(found))]) = found.as_deref() else { panic!("{found:?}") };
    let [threshold] = &found[..] else { panic!("{found:?}") };
    assert!(threshold.breaks_again.is_empty(), "{threshold:?}");
    assert_eq!(threshold.holds, threshold.breaks + i64::try_from(MILLISECOND).expect("small"));
}

#[test]
fn a_figure_is_searched_as_far_as_plans_go() {
    let mut plan = base_plan("token-lua", TopologyKind::Single);
    plan.workload.hold = 2_100 * MILLISECOND;
    plan.clocks.insert("n1".to_owned(), ClockSetting { wall_offset: 0, rate_ppm: 300_000 });
    let found = examine::thresholds_of(&Lab::default(), &plan, &[Knob::Rate("n1".to_owned())]);
    let Ok([(_, Located::Thresholds(found))]) = found.as_deref() else {
        panic!("a lease of 3 s is over after 2.1 s at a rate of 1.43: {found:?}");
    };
    assert!((400_000..430_000).contains(&found[0].breaks), "{found:?}");
    // With a hold of a second the lease is long enough at every rate that a plan can have.
    plan.workload.hold = SECOND;
    let found = examine::thresholds_of(&Lab::default(), &plan, &[Knob::Rate("n1".to_owned())]);
    let Ok([(_, Located::Everywhere(steady))]) = found.as_deref() else {
        panic!("nothing is violated: {found:?}");
    };
    assert_eq!(steady.between, (300_000, 500_000));
}

/// Figures in milliseconds: the theoretical value, and the tolerance, since waiting clients poll
/// from time to time and messages take their time.
#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn thresholds_are_where_theory_has_them() {
    let check = |name: &str, of: &str, theory: i64, within: i64| {
        let plan = plan(name);
        let lab = Lab::default();
        let mut knobs = knobs(&lab, &plan);
        knobs.retain(|knob| knob.name(&plan) == of);
        let found = examine::thresholds_of(&lab, &plan, &knobs);
        let Ok([(_, Located::Thresholds(found))]) = found.as_deref() else {
            panic!("{name} has no threshold of {of}");
        };
        let threshold = &found[0];
        let step = (threshold.breaks - threshold.holds).abs();
        assert!(step == 1_000_000 || of.ends_with("lag"), "{name} {of}: {threshold:?}");
        let off = (threshold.breaks / 1_000_000 - theory).abs();
        assert!(off <= within, "{name} {of}: {} ms, not {theory}", threshold.breaks / 1_000_000);
    };
    // Lease against pause: 10 s from the request on, 500 ms of which have passed when the pause
    // begins; the other retries every 100 ms or so, and the holder's last write precedes its
    // release.
    check("gc-pause-outlives-lease", "fault:1.for", 10_000 - 500, 200);
    // The watchdog is paused with its process.
    check("token-lua-renewed-pause", "fault:1.for", 10_000 - 500, 200);
    // A node's clock against the rest of the lease when the holder finishes after 2 s.
    check("node-clock-steps-forward", "fault:1.by", 10_000 - 2_000, 200);
    check("redlock-clock-step", "fault:2.by", 10_000 - 3_000, 300);
    // A promoted replica's clock against the rest of the lease when the holder finishes.
    check("promoted-replica-with-fast-clock", "clocks.n2.wall_offset", 10_000 - 6_000, 200);
    // Without the check of validity: the second may enter when the first's keys are gone, and works
    // for 8 s, in which it overlaps the first, whose votes are this late.
    check("redlock-no-validity-slow-votes", "fault:1.extra", 10_000 - 8_000, 100);
    // Work against lease.
    check("token-lua-long-work", "workload.hold", 10_000, 200);
    // Lag against failover: 1 s until a Sentinel considers the master down, and the vote.
    check("sentinel-failover-loses-grant", "fault:1.extra", 1_000 + 450, 150);
    // A master in a minority rejects writes once its replicas are silent for longer than this; the
    // others have a new one after 5 s of suspicion and up to two of vote and promotion.
    check("minority-master-min-replicas-usual-lag", "topology.min_replicas_lag", 7_000, 1_000);
}

/// The flush removes a key and makes an overlap of its own; without it the lock is violated all the
/// same, and earlier.
#[test]
fn the_headline_is_what_comes_about_without_a_fault_that_makes_no_difference() {
    let text = "name = 'x'\nask = 'x'\nexpect = { holds = true }\n\
        [topology]\nkind = 'single'\n[lock]\nalgorithm = 'check-then-set'\n\
        [workload]\nkind = 'counter'\nclients = 4\nhold = '2s'\nrounds = 3\n\
        [links]\nlatency = '2ms'\n\
        [[fault]]\nkind = 'flush'\ntarget = 'n1'\nat = '3s'\n";
    let plan = Scenario::parse("x", text).expect("a scenario").plan(1);
    let lab = Lab::default();
    let finding = examine::classified(&lab, &plan);
    let how = |finding: &Finding| explain(finding).mechanism.expect("it is violated").how;
    assert_eq!(how(&finding), How::Removed, "untried, the first violation is the headline");
    let finding = examine::explained(&lab, Some(NO_TIME), &[], finding);
    assert_eq!(experiments(&finding).causes.idle, [Part::Fault(1)]);
    assert_eq!(how(&finding), How::Overwritten);
    assert!(experiments(&finding).headline > 0);
}
