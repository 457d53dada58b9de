//! Every sentence rests on the events that it names: take one out, and the sentence goes.

use crate::check::{Verdict, Violation};
use crate::explain::finding::Finding;
use crate::explain::story::{Evidence, LONGEST};
use crate::explain::{explain, fixture};

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
        Evidence::Condition(index) => drop(history.conditions.remove(index)),
        Evidence::Request(index) => drop(history.requests.remove(index)),
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
                // The value that a write replaced may have been seen by two accesses.
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
        assert!((4..=LONGEST).contains(&lines.len()), "{}: {}", finding.scenario, lines.len());
        assert!(lines.is_sorted_by_key(|line| line.at));
    }
}
