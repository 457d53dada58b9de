//! A report as a list of chapters: data, which each format renders in its own way.

use lockstorm_platform::time::Nanos;

use crate::report::content::Table;

/// A chapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chapter {
    /// Its title.
    pub title: &'static str,
    /// What it says, in order.
    pub blocks: Vec<Block>,
}

/// A part of a chapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// The title of what follows.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// Sentences in a list.
    Items(Vec<String>),
    /// What happened, each with its time.
    Story(Vec<(Nanos, String)>),
    /// Lines as they are: what went over the wire, or a script.
    Code(String),
    /// A table; without rows it is left out.
    Table(Table),
}
