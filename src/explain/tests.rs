//! Every sentence depends on the events that it names: if one is removed, the sentence disappears.

use crate::check::verdict::{Verdict, Violation};
use crate::explain::evidence::Evidence;
use crate::explain::explanation::explain;
use crate::explain::finding::Finding;
use crate::explain::fixture;
use crate::explain::fixture::sketch::{self, Sketch, granted};
use crate::explain::selection::MAX_LINES;
use crate::history::{OpKind, Outcome};

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
