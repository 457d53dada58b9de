//! A request that a node executes without a connection, for observations of a test and for the
//! settings of a builder.

use std::net::{Ipv4Addr, SocketAddrV4};

use bytes::Bytes;
use lockstorm_redis::frame::Reply;
use lockstorm_redis::frame::decode::decode_reply;
use lockstorm_redis::node::Node;
use lockstorm_redis::requests;

/// The reply of a node.
pub struct Answer(pub Option<Reply>);

impl Answer {
    /// The error, if it is one.
    pub fn error(&self) -> Option<String> {
        match &self.0 {
            Some(Reply::Error(text)) => Some(said(text)),
            _ => None,
        }
    }
}

/// Executes a request on a node without a client and returns the reply.
pub fn query(node: &mut Node, words: &[&str]) -> Answer {
    let nowhere = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    let args: Vec<Bytes> =
        words.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
    let id = node.connect([nowhere; 2]);
    // As a known user, because an observation must not require AUTH.
    if let Some(session) = node.clients.get_mut(id) {
        session.user.get_or_insert(Bytes::from_static(b"default"));
    }
    requests::request(node, id, &args);
    let output =
        node.clients.get_mut(id).map(|session| std::mem::take(&mut session.replies.buffer));
    node.clients.disconnect(id);
    Answer(output.and_then(|mut output| decode_reply(&mut output).ok().flatten()))
}

/// Bytes as text; bytes that are not UTF-8 are escaped.
pub fn said(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| bytes.escape_ascii().to_string(), str::to_owned)
}
