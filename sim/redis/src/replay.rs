//! The replay of an append-only file at the start of a node.

use bytes::BytesMut;

use crate::execution::apply;
use crate::frame::Arguments;
use crate::frame::request::RequestReader;
use crate::node::Node;
use crate::session::Session;

/// The result of loading an append-only file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// How many of its bytes form complete commands.
    pub whole: usize,
    /// How many key changes they made: the same number as when they were written.
    pub changes: u64,
}

/// Executes a file's commands on an empty node. A torn tail, or a transaction without EXEC, is left
/// out (`aof-load-truncated`).
pub fn load(node: &mut Node, bytes: &[u8]) -> Replayed {
    let mut session = Session::of_master();
    let mut reader = RequestReader::default();
    let mut buffer = BytesMut::from(bytes);
    let mut whole = 0;
    let mut queued: Option<Vec<Arguments>> = None;
    node.startup.replays = true;
    while let Ok(Some(args)) = reader.next(&mut buffer) {
        match (&args[0].to_ascii_uppercase()[..], &mut queued) {
            (b"MULTI", _) => queued = Some(Vec::new()),
            // Executed only now, so that a transaction without its end has no effect at all.
            (b"EXEC", _) => {
                for args in queued.take().unwrap_or_default() {
                    apply(node, &mut session, &args);
                }
            }
            (_, Some(queued)) => queued.push(args),
            (_, None) => drop(apply(node, &mut session, &args)),
        }
        if queued.is_none() {
            whole = bytes.len() - buffer.len();
        }
    }
    node.startup.replays = false;
    // The changes are only counted: the trace has the resulting keys as one record.
    let effects = std::mem::take(&mut node.effects);
    Replayed { whole, changes: effects.changes.len() as u64 }
}
