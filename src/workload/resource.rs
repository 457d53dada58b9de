//! The guarded resource: a value and a log, on its own host, reached over the network.
//!
//! It speaks RESP: `READ`, `WRITE` and `APPEND` with the caller and its grant. Its data is durable:
//! it outlives the process. It knows fences, but no locks.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use lockstorm_platform::host::{Host, Stream};
use lockstorm_platform::trace::{Event, Leg, Request};
use lockstorm_redis::frame::request::RequestReader;
use lockstorm_redis::frame::{Arguments, Reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::history::{Access, AccessKind, OpId};
use crate::plan::Workload;
use crate::workload::fence::{FenceGuard, RequestedAccess};
use crate::workload::recorder::Recorder;

/// The word for "none" in a request.
pub const NONE: &str = "-";
/// The beginning of every refusal of an access.
pub const REFUSED: &str = "REFUSED ";

/// The data of the resource. Cheap to clone: all clones share it.
#[derive(Clone)]
pub struct Resource(Rc<RefCell<Store>>);

struct Store {
    value: i64,
    guard: FenceGuard,
    recorder: Recorder,
}

/// A requested access.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ResourceOrder {
    command: &'static str,
    kind: AccessKind,
    op: OpId,
    caller: String,
    grant: Option<OpId>,
    fence: Option<u64>,
    /// The value to write, for a write.
    value: i64,
    /// The value that the caller has read, for a write.
    read: Option<i64>,
}

impl Resource {
    /// The resource of a workload before its first access, with this value.
    pub fn new(workload: &Workload, value: i64, recorder: Recorder) -> Resource {
        let guard = FenceGuard::new(workload.fence, workload.fence_on);
        Resource(Rc::new(RefCell::new(Store { value, guard, recorder })))
    }

    /// The resource's process: serves every connection until it dies.
    pub async fn run(self, host: Host) {
        let known = host.resolve(host.name()).expect("every host has an address");
        let mut listener = host.listen(known.port()).expect("the resource's port is free");
        while let Ok(stream) = listener.accept().await {
            let (resource, own) = (self.clone(), host.clone());
            host.spawn(async move { resource.serve(own, stream).await.unwrap_or(()) });
        }
    }

    async fn serve(self, host: Host, mut stream: Stream) -> std::io::Result<()> {
        let (mut inbox, mut reader, mut nth) = (BytesMut::new(), RequestReader::default(), 0);
        loop {
            let wrong = |_| std::io::ErrorKind::InvalidData;
            let Some(arguments) = reader.next(&mut inbox).map_err(wrong)? else {
                if stream.read_buf(&mut inbox).await? == 0 {
                    return Ok(());
                }
                continue;
            };
            let request = Request { connection: stream.connection(), nth };
            nth += 1;
            let reply = self.answer(&host, request, &arguments).await;
            stream.write_all(&reply).await?;
        }
    }

    /// Decides on one request, records it and returns the bytes of the reply.
    async fn answer(&self, host: &Host, request: Request, arguments: &Arguments) -> BytesMut {
        let mut bytes = BytesMut::new();
        let Some(order) = order(arguments) else {
            Reply::error("ERR no such access").encode(&mut bytes);
            return bytes;
        };
        let command = order.command;
        let message = |leg| Event::Message { request, leg, command, op: None };
        let at = host.record(message(Leg::Applied)).instant();
        self.0.borrow_mut().decide(order, at).encode(&mut bytes);
        // Faults that are anchored to the applied leg strike now: the access took effect, and no
        // reply has left.
        host.struck().await;
        host.mark(message(Leg::Replied)).await;
        bytes
    }
}

impl Store {
    fn decide(&mut self, order: ResourceOrder, at: lockstorm_platform::time::Instant) -> Reply {
        let ResourceOrder { kind, op, caller, grant, fence, value, read, .. } = order;
        let admitted = self.guard.admit(RequestedAccess { kind, fence, read }, self.value);
        let seen = match kind {
            AccessKind::Read => self.value,
            AccessKind::Write | AccessKind::Append => value,
        };
        if kind == AccessKind::Write && admitted.is_ok() {
            self.value = value;
        }
        let accepted = admitted.is_ok();
        self.recorder.access(Access { at, op, caller, grant, kind, fence, value: seen, accepted });
        match (admitted, kind) {
            (Err(why), _) => Reply::Error(format!("{REFUSED}{why}").into()),
            (Ok(()), AccessKind::Read) => Reply::Integer(seen),
            (Ok(()), AccessKind::Write | AccessKind::Append) => Reply::OK,
        }
    }
}

/// Parses `READ|WRITE|APPEND op caller grant fence [value read]`.
fn order(arguments: &Arguments) -> Option<ResourceOrder> {
    let words: Vec<&str> = arguments.iter().map(text).collect::<Option<_>>()?;
    let (command, kind, op, caller, grant, fence, rest) = match words.as_slice() {
        ["READ", op, caller, grant, fence] => {
            ("READ", AccessKind::Read, op, caller, grant, fence, None)
        }
        ["APPEND", op, caller, grant, fence] => {
            ("APPEND", AccessKind::Append, op, caller, grant, fence, None)
        }
        ["WRITE", op, caller, grant, fence, value, read] => {
            ("WRITE", AccessKind::Write, op, caller, grant, fence, Some((value, read)))
        }
        _ => return None,
    };
    let (value, read) =
        rest.map_or(Some((0, None)), |(value, read)| Some((value.parse().ok()?, optional(read)?)))?;
    let (op, caller) = (op.parse().ok()?, (*caller).to_owned());
    let (grant, fence) = (optional(grant)?, optional(fence)?);
    Some(ResourceOrder { command, kind, op, caller, grant, fence, value, read })
}

fn text(word: &Bytes) -> Option<&str> {
    std::str::from_utf8(word).ok()
}

/// A number or [`NONE`]; `None` if it is neither.
fn optional<T: std::str::FromStr>(word: &str) -> Option<Option<T>> {
    if word == NONE { Some(None) } else { word.parse().ok().map(Some) }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::order;

    fn is_order(line: &'static str) -> bool {
        order(&line.split(' ').map(|word| Bytes::from_static(word.as_bytes())).collect()).is_some()
    }

    #[test]
    fn an_order_names_who_asks_under_which_grant() {
        assert!(is_order("READ 7 c1 3 -"));
        assert!(is_order("WRITE 8 c1 3 12 -1 0"));
        assert!(is_order("APPEND 9 c1 - -"));
        for wrong in ["READ 7 c1 3", "READ x c1 3 -", "WRITE 8 c1 3 12 1", "GET 1 c1 3 -"] {
            assert!(!is_order(wrong), "{wrong}");
        }
    }
}
