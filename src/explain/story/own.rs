//! What checks of one's own found, in their own words.

use crate::check::verdict::Kind;
use crate::explain::evidence::cited;
use crate::explain::naming;
use crate::explain::story::{Beat, Weight};
use crate::explain::witness::Witness;

/// The maximum number of lines of each check.
const MAX_LINES: usize = 2;

/// The first findings of each check, the first of them as the crux.
pub fn beats(witness: &Witness<'_>) -> Vec<Beat> {
    let mut beats: Vec<Beat> = Vec::new();
    let mut told: Vec<&str> = Vec::new();
    for violation in witness.of_kind(Kind::OwnCheck) {
        let Some(own) = &violation.own else { continue };
        let earlier = told.iter().filter(|check| **check == own.check).count();
        if earlier >= MAX_LINES {
            continue;
        }
        told.push(&own.check);
        let weight = if earlier == 0 { Weight::Crux } else { Weight::Effect };
        let text = format!("{}.", naming::own(own));
        beats.push(Beat::new(weight, violation.to, text, cited(violation)));
    }
    beats
}
