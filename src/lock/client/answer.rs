//! What a node's answer means to the caller of a lock. A time-out is unknown, never refused;
//! an error reply says that the node did nothing.

use lockstorm_redis::frame::Reply;

use crate::lock::client::RequestError;
use crate::lock::{Acquired, Deadline, Extended, Grant, Released};

/// What a node said.
pub type Answer = Result<Reply, RequestError>;

/// What every lock says to a caller that comes second.
pub const HELD: &str = "held by another";

/// A node's answer, as far as locks tell answers apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// It did what was asked: OK, or a number above zero.
    Yes,
    /// It had nothing to do: nil or zero.
    No,
    /// It refused with an error, or was never reached: nothing was done, and why.
    Refused(String),
    /// Nobody knows whether it did it.
    Unknown,
}

/// Sorts an answer.
pub fn said(answer: &Answer) -> Said {
    match answer {
        Ok(Reply::Error(why)) => Said::Refused(String::from_utf8_lossy(why).into_owned()),
        Ok(Reply::Nil | Reply::Integer(0)) => Said::No,
        Ok(_) => Said::Yes,
        Err(error) => error.refusal().map_or(Said::Unknown, Said::Refused),
    }
}

/// The outcome of an acquire whose one deciding request got this answer.
pub fn acquired(answer: &Answer, grant: Grant) -> Acquired {
    match said(answer) {
        Said::Yes => Acquired::Granted(grant),
        Said::No => Acquired::Refused(HELD.to_owned()),
        Said::Refused(why) => Acquired::Refused(why),
        Said::Unknown => Acquired::Unknown(grant),
    }
}

/// The outcome of an extend whose one request got this answer.
pub fn extended(answer: &Answer, deadline: Deadline) -> Extended {
    match said(answer) {
        Said::Yes => Extended::Kept(Some(deadline)),
        Said::No => Extended::Lost,
        Said::Refused(_) | Said::Unknown => Extended::Unknown,
    }
}

/// The outcome of a release whose one request got this answer.
pub fn released(answer: &Answer) -> Released {
    match said(answer) {
        Said::Yes => Released::Released,
        Said::No => Released::NotMine,
        Said::Refused(_) | Said::Unknown => Released::Unknown,
    }
}
