//! The selection of the lines of a story.
//!
//! Each file of `story/` offers beats, each with a weight. The nine most important appear in order
//! of time, the others are folded away. If two beats show the same event, the more important one is
//! kept.

use std::collections::BTreeSet;

use crate::check::verdict::Verdict;
use crate::explain::evidence::Evidence;
use crate::explain::story::{Beat, Story, StoryLine, Weight};
use crate::explain::story::{
    access, answer, calm, contract, deadlock, grant, liveness, lost, own, queue, renewal, role,
    shared, strike, theft, torn,
};
use crate::explain::witness::Witness;

/// The maximum number of lines of a story.
pub const MAX_LINES: usize = 9;

/// Selects the story of a finding. `proof` has the events that prove its mechanism.
pub fn select(witness: &Witness<'_>, proof: &[Evidence]) -> Story {
    let mut beats = match witness.finding.judgement.verdict {
        Verdict::Violated(_) => violated(witness),
        Verdict::Holds | Verdict::Unknown(_) => calm::beats(witness),
    };
    // The story must show the events that prove the mechanism. Grants have weights of their own.
    let is_link = |event: &Evidence| {
        matches!(event, Evidence::FaultInterval(_) | Evidence::Sighting(_) | Evidence::Key(_))
    };
    let proves = |event: &Evidence| proof.contains(event) && is_link(event);
    for beat in beats.iter_mut().filter(|beat| beat.line.evidence.iter().any(proves)) {
        beat.weight = Weight::Crux;
    }
    // `once` keeps the first of two beats that show one event: the more important one comes first.
    beats.sort_by_key(|beat| (beat.weight, beat.line.at));
    let mut lines = once(witness, beats);
    let folded = lines.split_off(MAX_LINES.min(lines.len()));
    Story { lines: in_order(lines), folded: in_order(folded) }
}

fn in_order(beats: Vec<Beat>) -> Vec<StoryLine> {
    let mut lines: Vec<StoryLine> = beats.into_iter().map(|beat| beat.line).collect();
    lines.sort_by_key(|line| line.at);
    lines
}

/// Drops each beat that has the time and the text of an earlier one, or that shows an end of a key
/// that an earlier one shows.
fn once(witness: &Witness<'_>, beats: Vec<Beat>) -> Vec<Beat> {
    let (mut said, mut events) = (BTreeSet::new(), BTreeSet::new());
    let mut lines = Vec::new();
    for beat in beats {
        let evidence = beat.line.evidence.iter().copied();
        let single: Vec<Evidence> =
            evidence.filter(|event| is_shown_once(witness, *event)).collect();
        let is_new = single.iter().all(|event| !events.contains(event));
        if is_new && said.insert((beat.line.at.at, beat.line.text.clone())) {
            events.extend(single);
            lines.push(beat);
        }
    }
    lines
}

/// Whether only one line may show an event: the end of a key.
fn is_shown_once(witness: &Witness<'_>, event: Evidence) -> bool {
    match event {
        Evidence::Key(index) => {
            witness.history().keys.get(index).is_some_and(|key| !key.change.leaves_key())
        }
        _ => false,
    }
}

fn violated(witness: &Witness<'_>) -> Vec<Beat> {
    let horizon = witness.horizon();
    let mut beats = contract::beats(witness);
    beats.extend(grant::beats(witness));
    beats.extend(strike::beats(witness));
    beats.extend(theft::beats(witness));
    beats.extend(shared::beats(witness));
    beats.extend(lost::beats(witness));
    beats.extend(torn::beats(witness));
    beats.extend(renewal::beats(witness));
    beats.extend(role::beats(witness));
    beats.extend(answer::beats(witness));
    beats.extend(access::beats(witness));
    beats.retain(|beat| beat.line.at <= horizon);
    // The horizon does not limit these: liveness is judged after the heal, and so may a check of
    // one's own.
    beats.extend(liveness::beats(witness));
    beats.extend(queue::beats(witness));
    beats.extend(deadlock::beats(witness));
    beats.extend(own::beats(witness));
    beats
}
