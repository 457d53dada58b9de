//! Refusals of user input: the place, what was meant, and the nearest valid word.
//!
//! They have one form for scenarios, plans and command lines. A refusal renders itself only.

use std::ops::Range;
use std::sync::Arc;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, NamedSource, SourceSpan};
use thiserror::Error;

/// A refused input.
#[derive(Clone, Debug, Error, Diagnostic)]
#[error("{what}")]
pub struct Refusal {
    what: String,
    label: String,
    #[label("{label}")]
    span: Option<SourceSpan>,
    #[help]
    help: Option<String>,
    #[source_code]
    source_text: Arc<NamedSource<String>>,
}

/// A refusal before its file is known: the place, what is wrong, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Bytes of the text.
    pub span: Option<Range<usize>>,
    /// What is wrong, in one sentence.
    pub what: String,
    /// What to write instead, beside the place.
    pub label: String,
    /// Everything that could be written there.
    pub help: Option<String>,
}

impl Wrong {
    /// Something wrong at a place.
    pub fn at(span: Range<usize>, what: impl Into<String>, label: impl Into<String>) -> Wrong {
        Wrong { span: Some(span), what: what.into(), label: label.into(), help: None }
    }

    /// The same with everything that could be written there.
    pub fn help(self, help: impl Into<String>) -> Wrong {
        Wrong { help: Some(help.into()), ..self }
    }

    /// A word that is not one of `words`; `kind` is what it should have been.
    pub fn word(span: Range<usize>, word: &str, kind: &str, words: &[&str]) -> Wrong {
        let label = match nearest(word, words) {
            Some(near) => format!("did you mean '{near}'?"),
            None => "not known".to_owned(),
        };
        let help = format!("one of: {}", words.join(", "));
        Wrong::at(span, format!("there is no {kind} '{word}'"), label).help(help)
    }
}

impl Refusal {
    /// The refusal of the file `name` with this text.
    pub fn new(name: &str, text: &str, wrong: Wrong) -> Refusal {
        let Wrong { span, what, label, help } = wrong;
        let span = span.map(|span| SourceSpan::from(within(&span, text)));
        let source_text = Arc::new(NamedSource::new(name, text.to_owned()));
        Refusal { what, label, span, help, source_text }
    }

    /// The refusal of something without lines: a path, an option.
    pub fn of_usage(what: impl Into<String>, help: impl Into<String>) -> Refusal {
        let wrong = Wrong { span: None, what: what.into(), label: String::new(), help: None };
        Refusal::new("", "", wrong.help(help))
    }

    /// The text for a person, with the lines around the place; `colour` adds terminal colours.
    pub fn render(&self, colour: bool) -> String {
        let mut theme = GraphicalTheme::unicode_nocolor();
        if colour {
            theme = GraphicalTheme::unicode();
        }
        let mut text = String::new();
        let handler = GraphicalReportHandler::new_themed(theme).with_width(100).with_links(false);
        handler.render_report(&mut text, self).expect("writing to a string does not fail");
        text
    }
}

/// A span limited to the text and to whole characters.
fn within(span: &Range<usize>, text: &str) -> Range<usize> {
    let start = text.floor_char_boundary(span.start.min(text.len()));
    let end = text.ceil_char_boundary(span.end.clamp(start, text.len()));
    start..end
}

/// The word that was probably meant, if one is near enough.
pub fn nearest<'a>(word: &str, words: &[&'a str]) -> Option<&'a str> {
    let distance = |known: &str| strsim::osa_distance(&word.to_lowercase(), known);
    let near = words.iter().min_by_key(|known| distance(known))?;
    let allowed = 1 + word.chars().count().min(near.chars().count()) / 3;
    (distance(near) <= allowed).then_some(near)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_nearest_word_is_found_and_a_far_one_is_not() {
        let words = ["ttl", "timeout", "token-lua", "redlock"];
        for (word, near) in [
            ("tll", Some("ttl")),
            ("TTL", Some("ttl")),
            ("redlok", Some("redlock")),
            ("token_lua", Some("token-lua")),
            ("zookeeper", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, &words), near, "{word}");
        }
    }
}
