//! Every sentence depends on the events that it names: if one is removed, the sentence disappears.

use lockstorm_platform::time::SECOND;

use crate::check::verdict::{Verdict, Violation};
use crate::explain::cause::part_words;
use crate::explain::evidence::Evidence;
use crate::explain::experiment::{Causes, Experiments};
use crate::explain::explanation::explain;
use crate::explain::finding::Finding;
use crate::explain::fixture;
use crate::explain::fixture::sketch::{self, Sketch, granted};
use crate::explain::selection::MAX_LINES;
use crate::history::{OpKind, Outcome};
use crate::ledger::part::Part;
use crate::plan::TopologyKind;
use crate::plan::base_plan::base_plan;

/// The finding as if the event had not been recorded.
fn without(finding: &Finding, event: Evidence) -> Finding {
    let mut finding = finding.clone();
    let shifted = |indices: &mut Vec<usize>, gone: usize| {
        indices.retain(|index| *index != gone);
        indices.iter_mut().filter(|index| **index > gone).for_each(|index| *index -= 1);
    };
    let Verdict::Violated(violations) = &mut finding.judgement.verdict else {
        return cut(finding, event);
    };
    for Violation { keys, accesses, .. } in violations {
        match event {
            Evidence::Key(gone) => shifted(keys, gone),
            Evidence::Access(gone) => shifted(accesses, gone),
            _ => {}
        }
    }
    cut(finding, event)
}

fn cut(mut finding: Finding, event: Evidence) -> Finding {
    let history = &mut finding.history;
    match event {
        Evidence::Op(id) => history.ops.retain(|op| op.id != id),
        Evidence::Key(index) => drop(history.keys.remove(index)),
        Evidence::Access(index) => drop(history.accesses.remove(index)),
        Evidence::FaultInterval(index) => drop(history.fault_intervals.remove(index)),
        Evidence::Request(index) => drop(history.requests.remove(index)),
        Evidence::Sighting(index) => drop(history.sightings.remove(index)),
    }
    finding
}

#[test]
fn a_sentence_goes_with_each_of_its_events() {
    for finding in fixture::all() {
        for line in explain(&finding).story.lines {
            assert!(!line.evidence.is_empty(), "{} rests on nothing", line.text);
            for event in &line.evidence {
                let poorer = explain(&without(&finding, *event)).story;
                let text = &line.text;
                assert!(!poorer.lines.contains(&line), "'{text}' stays without {event:?}");
                // Two accesses may have seen the value that a write replaced.
                let is_second = matches!(event, Evidence::Access(_)) && *event != line.evidence[0];
                let same = poorer.lines.iter().any(|other| other.text == *text);
                assert!(!same || is_second, "'{text}' reads the same without {event:?}");
            }
        }
    }
}

#[test]
fn a_story_is_short_and_in_order() {
    for finding in fixture::all() {
        let lines = explain(&finding).story.lines;
        assert!((4..=MAX_LINES).contains(&lines.len()), "{}: {}", finding.scenario, lines.len());
        assert!(lines.is_sorted_by_key(|line| line.at));
    }
}

#[test]
fn a_lock_is_handed_over_by_the_tenure_and_not_by_each_grant() {
    let mut s = Sketch::default();
    let outer = s.take("c1", 10_000, 6, Some(10_000));
    let inner = s.op("c1", OpKind::Acquire, (100_000, 106_000), granted("c1", Some(10_100_000)));
    s.op("c1", OpKind::Release { grant: inner }, (500_000, 506_000), Outcome::Released);
    s.give_back("c1", outer, 1_000_000, 6);
    let other = s.take("c2", 1_018_000, 6, Some(10_000));
    s.give_back("c2", other, 2_000_000, 6);
    let history = s.done(3_000_000, 4_000_000);
    let mut finding =
        sketch::finding("taken-again", "Is it one hold?", "redisson", (1, 2), history);
    finding.plan.workload.reenter = true;
    let lines = explain(&finding).story.lines;
    let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
    let says = |part: &str| assert!(texts.iter().any(|text| text.contains(part)), "{texts:#?}");
    says("c2 is granted the lock 24 ms after c1's hold ended");
    says("1 grant to c2 follows");
    says("takes it again, 1 time");
}

#[test]
fn a_mechanism_of_what_makes_no_difference_says_how_it_comes_about_without_that() {
    let mut finding = fixture::gc_pause::finding();
    let fault = Part::Fault(finding.plan.faults[0].id);
    let causes = Causes { sufficient: vec![vec![]], idle: vec![fault], ..Causes::default() };
    let without_idle = Some("Nothing is locked.".to_owned());
    finding.experiments = Some(Experiments { causes, without_idle, ..Experiments::default() });
    let said = explain(&finding).mechanism.expect("it is violated").sentence;
    let without = ", which makes no difference, the way is another: Nothing is locked.";
    assert!(said.contains(" Without c1's pause of ") && said.ends_with(without), "{said}");
}

#[test]
fn a_part_that_others_make_needed_is_not_called_necessary() {
    let mut finding = fixture::gc_pause::finding();
    let fault = Part::Fault(finding.plan.faults[0].id);
    let causes = Causes { sufficient: vec![vec![]], needed_here: vec![fault], ..Causes::default() };
    finding.experiments = Some(Experiments { causes, ..Experiments::default() });
    let [nothing, here] = &explain(&finding).causes[..] else { panic!("two sentences") };
    assert_eq!(nothing, "Nothing is needed for it: it occurs without all of these parts as well.");
    assert!(here.starts_with("Needed only beside the others: c1's pause of "), "{here}");
}

#[test]
fn work_of_a_caller_that_extends_is_what_it_does_when_its_extends_fail() {
    let mut plan = base_plan("token-lua", TopologyKind::Single);
    plan.lock.ttl = Some(10 * SECOND);
    plan.workload.hold = 2 * SECOND;
    assert_eq!(part_words(&plan, Part::Work(SECOND)), "work of 2 s instead of 1 s");
    plan.workload.extend = "until-lost".parse().expect("a rhythm");
    let words = part_words(&plan, Part::Work(6 * SECOND));
    assert!(words.starts_with("work for up to 7.5 s without a successful extend"), "{words}");
}
