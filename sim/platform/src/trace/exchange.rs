//! What went over a connection for one request. Nobody needs it to judge a run: a node records it
//! only for who reads what a lock sends.

use bytes::Bytes;

/// A request with its reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// The command and its arguments.
    pub words: Vec<Bytes>,
    /// The bytes of the reply; none if the request was blocked, or has no reply.
    pub reply: Bytes,
}
