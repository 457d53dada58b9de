//! A refusal of a user's input: the place, what is wrong, and what to write instead.
//!
//! One type serves lengths, scenarios, plans, orders and command lines. It renders itself and
//! prints nothing.

use std::error::Error;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, NamedSource, SourceSpan};

/// A refused input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The place of the mistake.
    pub place: Place,
    /// What is wrong, in one sentence.
    pub what: String,
    /// What to write instead, in a few words.
    pub instead: String,
    /// The values that could be written there.
    pub help: Option<String>,
    file: Option<Arc<File>>,
}

/// The place of refused input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The whole input: a length, an option, a path.
    Whole,
    /// A range of bytes of a text.
    Bytes(Range<usize>),
    /// The path in a plan: `lock.quorum`. Faults are identified by their id: `fault.2.target`.
    Field(String),
}

/// A text with its name.
#[derive(Debug, PartialEq, Eq)]
struct File {
    name: String,
    text: String,
}

impl Refusal {
    /// A refusal of input without lines: a length, an order, an option, a path.
    pub fn new(what: impl Into<String>, instead: impl Into<String>) -> Refusal {
        let (what, instead) = (what.into(), instead.into());
        Refusal { place: Place::Whole, what, instead, help: None, file: None }
    }

    /// A refusal of these bytes of a text.
    pub fn at(span: Range<usize>, what: impl Into<String>, instead: impl Into<String>) -> Refusal {
        Refusal::new(what, instead).on(Place::Bytes(span))
    }

    /// A refusal of a word that is not one of `words`; `kind` names what it should be.
    pub fn word(span: Range<usize>, word: &str, kind: &str, words: &[&str]) -> Refusal {
        let instead = match nearest(word, words) {
            Some(near) => format!("did you mean '{near}'?"),
            None => "not known".to_owned(),
        };
        let help = format!("one of: {}", words.join(", "));
        Refusal::at(span, format!("there is no {kind} '{word}'"), instead).help(help)
    }

    /// The same for a word that stands in no text.
    pub fn choice(word: &str, kind: &str, words: &[&str]) -> Refusal {
        // Without lines there is no place for a label beside the help.
        let instead = one_of(word, words);
        Refusal::new(format!("there is no {kind} '{word}'"), instead)
    }

    /// The same refusal at another place.
    pub fn on(self, place: Place) -> Refusal {
        Refusal { place, ..self }
    }

    /// The same refusal with the values that could be written there.
    pub fn help(self, help: impl Into<String>) -> Refusal {
        Refusal { help: Some(help.into()), ..self }
    }

    /// The same refusal in the file `name` with this text.
    pub fn in_file(self, name: &str, text: &str) -> Refusal {
        let file = Arc::new(File { name: name.to_owned(), text: text.to_owned() });
        Refusal { file: Some(file), ..self }
    }

    /// The text for a person, with the lines around the place; `colour` adds terminal colours.
    pub fn render(&self, colour: bool) -> String {
        let mut theme = GraphicalTheme::unicode_nocolor();
        if colour {
            theme = GraphicalTheme::unicode();
        }
        let mut text = String::new();
        let handler = GraphicalReportHandler::new_themed(theme).with_width(100).with_links(false);
        handler.render_report(&mut text, &self.shown()).expect("a string takes all");
        text
    }

    fn shown(&self) -> Shown {
        let (name, text) =
            self.file.as_ref().map_or(("", ""), |file| (file.name.as_str(), file.text.as_str()));
        let span = match &self.place {
            Place::Bytes(span) => Some(SourceSpan::from(within(span, text))),
            Place::Whole | Place::Field(_) => None,
        };
        Shown {
            what: format!("{}{}", self.field(), self.what),
            help: if span.is_some() { self.help.clone() } else { Some(self.instead.clone()) },
            label: self.instead.clone(),
            span,
            source_text: NamedSource::new(name, text.to_owned()),
        }
    }

    /// The path in a plan, as the beginning of the refusal.
    fn field(&self) -> String {
        match &self.place {
            Place::Field(path) => format!("{path}: "),
            Place::Whole | Place::Bytes(_) => String::new(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{} ({})", self.field(), self.what, self.instead)
    }
}

impl Error for Refusal {}

/// The parts of a rendered refusal.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{what}")]
struct Shown {
    what: String,
    label: String,
    #[label("{label}")]
    span: Option<SourceSpan>,
    #[help]
    help: Option<String>,
    #[source_code]
    source_text: NamedSource<String>,
}

/// A span limited to the text and to whole characters.
fn within(span: &Range<usize>, text: &str) -> Range<usize> {
    let start = text.floor_char_boundary(span.start.min(text.len()));
    let end = text.ceil_char_boundary(span.end.clamp(start, text.len()));
    start..end
}

/// What to write instead of an unknown word: the most similar of `words`, or any of them.
pub(crate) fn one_of(word: &str, words: &[&str]) -> String {
    match nearest(word, words) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("one of: {}", words.join(", ")),
    }
}

/// The most similar of `words`, if one is similar enough.
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
