//! Which requests of an operation were answered, for the sentences about its outcome.

use crate::quantity::list;

/// Which requests of an operation got a reply.
pub enum Answers<'a> {
    /// Every request.
    All,
    /// No request.
    None,
    /// There was no request to reply to.
    NoRequest,
    /// No request was sent, because no connection was established.
    Unsent,
    /// Each node replied, but not to every request: the command of the last one without a reply.
    NotTo(&'a str),
    /// These nodes replied to no request.
    NotOf(Vec<String>),
}

impl Answers<'_> {
    /// How an operation without an outcome was answered: "was not answered by n1 and n2".
    pub fn in_words(&self) -> String {
        match self {
            Answers::All => "had an unknown outcome".to_owned(),
            Answers::None => "was not answered".to_owned(),
            Answers::NoRequest => "sent nothing".to_owned(),
            Answers::Unsent => "found no connection".to_owned(),
            Answers::NotTo(command) => format!("had no answer to its {command}"),
            Answers::NotOf(nodes) => format!("was not answered by {}", list(nodes)),
        }
    }
}
