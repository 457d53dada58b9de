//! The meaning of a node's reply for the caller of a lock. A timeout means unknown, never refused;
//! an error reply means that the node did nothing.

pub use lockstorm_redis::frame::Reply;

use crate::lock::client::RequestError;
use crate::lock::{Acquired, Deadline, Extended, Grant, Released};

/// The reply of a node.
pub type Answer = Result<Reply, RequestError>;

/// The refusal that every lock gives to a caller that comes second.
pub const HELD: &str = "held by another";

/// A node's reply, as far as locks distinguish replies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// It executed the request: OK, or a number above zero.
    Yes,
    /// It had nothing to do: nil or zero.
    No,
    /// It rejected the request with an error (the text), or was never reached: nothing was done.
    Refused(String),
    /// Whether it executed the request is unknown.
    Unknown,
}

/// Classifies a reply.
pub fn said(answer: &Answer) -> Said {
    match answer {
        Ok(Reply::Error(why)) => Said::Refused(String::from_utf8_lossy(why).into_owned()),
        Ok(Reply::Nil | Reply::NilArray | Reply::Integer(0)) => Said::No,
        Ok(_) => Said::Yes,
        Err(error) => error.refusal().map_or(Said::Unknown, Said::Refused),
    }
}

/// The outcome of an acquire whose one deciding request had this reply.
pub fn acquired(answer: &Answer, grant: Grant) -> Acquired {
    match said(answer) {
        Said::Yes => Acquired::Granted(grant),
        Said::No => Acquired::Refused(HELD.to_owned()),
        Said::Refused(why) => Acquired::Refused(why),
        Said::Unknown => Acquired::Unknown(grant),
    }
}

/// The outcome of an extend whose one request had this reply.
pub fn extended(answer: &Answer, deadline: Deadline) -> Extended {
    match said(answer) {
        Said::Yes => Extended::Kept(Some(deadline)),
        Said::No => Extended::Lost,
        Said::Refused(_) | Said::Unknown => Extended::Unknown,
    }
}

/// The outcome of a release whose one request had this reply.
pub fn released(answer: &Answer) -> Released {
    match said(answer) {
        Said::Yes => Released::Released,
        Said::No => Released::NotMine,
        Said::Refused(_) | Said::Unknown => Released::Unknown,
    }
}
