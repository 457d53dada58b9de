//! Every kind of sentence: its form, and its predicate.

use lockstorm::explain::story::StoryLine;
use lockstorm_platform::time::Instant;

use crate::true_stories::facts::{Facts, Truth};
use crate::true_stories::{
    accesses, answers, calm, faults, grants, keys, liveness, orders, pattern, places, roles, shared,
};

/// A form, and its predicate.
pub type Template = (&'static str, fn(&Facts, &Sentence) -> Truth);

/// A sentence that matches a form.
pub struct Sentence<'a> {
    /// The time of the sentence.
    pub at: Instant,
    /// The texts at the placeholders of the form.
    pub words: Vec<&'a str>,
}

/// Every template.
pub fn all() -> impl Iterator<Item = &'static Template> {
    let tables = [
        accesses::TEMPLATES,
        answers::TEMPLATES,
        calm::TEMPLATES,
        faults::TEMPLATES,
        grants::TEMPLATES,
        keys::TEMPLATES,
        liveness::TEMPLATES,
        orders::TEMPLATES,
        places::TEMPLATES,
        shared::TEMPLATES,
        roles::TEMPLATES,
    ];
    tables.into_iter().flatten()
}

/// The form of a true sentence; otherwise the form and what is wrong.
pub fn judge(facts: &Facts, line: &StoryLine) -> Result<&'static str, (&'static str, String)> {
    judge_text(facts, line.at, &line.text)
}

/// The same for a text at an instant.
pub fn judge_text(
    facts: &Facts,
    at: Instant,
    text: &str,
) -> Result<&'static str, (&'static str, String)> {
    let mut wrong = None;
    for (form, is_true) in all() {
        let Some(words) = pattern::read(form, text) else { continue };
        match is_true(facts, &Sentence { at, words }) {
            Ok(()) => return Ok(form),
            Err(why) => wrong = wrong.or(Some((*form, why))),
        }
    }
    Err(wrong.unwrap_or(("no template", "it has the form of none".to_owned())))
}
