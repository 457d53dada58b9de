//! The guarded resource: a value and a log, on its own host, reached over the network.
//!
//! It speaks RESP: `READ`, `WRITE`, `APPEND`, `ADD` and `EXPIRE` with the caller and its grant. Its
//! data is durable: it outlives the process. It knows fences, but no locks.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use lockstorm_platform::host::{Host, Stream};
use lockstorm_platform::time::{Instant, Nanos};
use lockstorm_platform::trace::{Event, Leg, Request};
use lockstorm_redis::frame::request::RequestReader;
use lockstorm_redis::frame::{Arguments, Reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::history::{Access, AccessKind, OpId};
use crate::plan::Workload;
use crate::workload::addition::{Addition, optional};
use crate::workload::fence::{FenceGuard, RequestedAccess};
use crate::workload::recorder::Recorder;

/// The beginning of every refusal of an access.
pub const REFUSED: &str = "REFUSED ";

/// The data of the resource. Cheap to clone: all clones share it.
#[derive(Clone)]
pub struct Resource(Rc<RefCell<Store>>);

struct Store {
    /// The whole resource, or the segments in which it is.
    segments: Vec<GuardedValue>,
    recorder: Recorder,
}

/// A value that one lock guards.
struct GuardedValue {
    value: i64,
    /// When the value ends, ns of true time; `None` if it does not.
    ends: Option<Nanos>,
    guard: FenceGuard,
}

/// A requested access.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ResourceOrder {
    command: &'static str,
    op: OpId,
    caller: String,
    grant: Option<OpId>,
    fence: Option<u64>,
    /// The place of the segment that it accesses.
    segment: usize,
    deed: Deed,
}

/// What an access is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Read,
    /// Writes the value over the one that the caller has read.
    Write(i64, Option<i64>),
    Append,
    Add(Addition),
    /// Ends the value after so many ns.
    Expire(Nanos),
}

impl Deed {
    fn kind(self) -> AccessKind {
        match self {
            Deed::Read => AccessKind::Read,
            Deed::Write(..) => AccessKind::Write,
            Deed::Append => AccessKind::Append,
            Deed::Add(_) => AccessKind::Add,
            Deed::Expire(_) => AccessKind::Expire,
        }
    }
}

impl Resource {
    /// The resource of a workload before its first access, with this value.
    pub fn new(workload: &Workload, value: i64, recorder: Recorder) -> Resource {
        let of = |value| {
            let guard = FenceGuard::new(workload.fence, workload.fence_on);
            GuardedValue { value, ends: None, guard }
        };
        let segments = match workload.segments {
            0 => vec![of(value)],
            count => (1..=count).map(|nth| of(workload.items_of(nth))).collect(),
        };
        Resource(Rc::new(RefCell::new(Store { segments, recorder })))
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
        let count = self.0.borrow().segments.len();
        let Some(order) = order(arguments).filter(|order| order.segment < count) else {
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
    fn decide(&mut self, order: ResourceOrder, at: Instant) -> Reply {
        let ResourceOrder { op, caller, grant, fence, segment, deed, .. } = order;
        let in_segments = self.segments.len() > 1;
        let left = if in_segments { self.segments.iter().map(|one| one.value).sum() } else { 0 };
        let kind = deed.kind();
        let (value, done) = match self.segments[segment].decide((deed, fence), at) {
            (_, Ok(())) if deed == Deed::Append => (left, Ok(())),
            decided => decided,
        };
        let accepted = done.is_ok();
        self.recorder.access(Access { at, op, caller, grant, kind, fence, value, accepted });
        match (done, kind) {
            (Err(why), _) => Reply::Error(format!("{REFUSED}{why}").into()),
            (Ok(()), AccessKind::Read | AccessKind::Add) => Reply::Integer(value),
            (Ok(()), AccessKind::Write | AccessKind::Append | AccessKind::Expire) => Reply::OK,
        }
    }
}

impl GuardedValue {
    /// Does what no fence refuses; returns the value that belongs to the access.
    fn decide(
        &mut self,
        (deed, fence): (Deed, Option<u64>),
        at: Instant,
    ) -> (i64, Result<(), &'static str>) {
        if self.ends.is_some_and(|ends| ends <= at.at) {
            (self.value, self.ends) = (0, None);
        }
        let kind = deed.kind();
        let read = if let Deed::Write(_, read) = deed { read } else { None };
        let admitted = self.guard.admit(RequestedAccess { kind, fence, read }, self.value);
        match (admitted, deed) {
            (Ok(()), _) => self.take(deed, at),
            (Err(why), Deed::Write(value, _)) => (value, Err(why)),
            (Err(why), Deed::Read | Deed::Add(_)) => (self.value, Err(why)),
            (Err(why), Deed::Append | Deed::Expire(_)) => (0, Err(why)),
        }
    }

    /// Does what no fence has refused; returns the value that belongs to the access.
    fn take(&mut self, deed: Deed, at: Instant) -> (i64, Result<(), &'static str>) {
        match deed {
            Deed::Read => (self.value, Ok(())),
            Deed::Append => (0, Ok(())),
            Deed::Write(value, _) => {
                self.value = value;
                (value, Ok(()))
            }
            Deed::Add(addition) => {
                let (sum, is_within) = addition.to(self.value);
                if self.value == 0 && sum != 0 {
                    self.ends = addition.lasts.map(|lasts| at.at.saturating_add(lasts));
                }
                self.value = sum;
                (sum, if is_within { Ok(()) } else { Err("the result is beyond the limit") })
            }
            Deed::Expire(lasts) => {
                // A value that has ended has no end to set.
                if self.value != 0 {
                    self.ends = Some(at.at.saturating_add(lasts));
                }
                (0, Ok(()))
            }
        }
    }
}

/// Parses `READ|WRITE|APPEND|ADD|EXPIRE op caller grant fence [@segment] ...`: a write has its
/// value and the one that was read, an addition what [`Addition`] has, an expiry its length.
/// Segments are counted from 1.
fn order(arguments: &Arguments) -> Option<ResourceOrder> {
    let words: Vec<&str> = arguments.iter().map(text).collect::<Option<_>>()?;
    let [command, op, caller, grant, fence, rest @ ..] = words.as_slice() else { return None };
    let named = rest.split_first().and_then(|(first, rest)| Some((first.strip_prefix('@')?, rest)));
    let (segment, rest) = match named {
        Some((nth, rest)) => (nth.parse::<usize>().ok()?.checked_sub(1)?, rest),
        None => (0, rest),
    };
    let (command, deed) = match (*command, rest) {
        ("READ", []) => ("READ", Deed::Read),
        ("APPEND", []) => ("APPEND", Deed::Append),
        ("WRITE", [value, read]) => ("WRITE", Deed::Write(value.parse().ok()?, optional(read)?)),
        ("ADD", addition) => ("ADD", Deed::Add(Addition::read(addition)?)),
        ("EXPIRE", [lasts]) => ("EXPIRE", Deed::Expire(lasts.parse().ok()?)),
        _ => return None,
    };
    let (op, caller) = (op.parse().ok()?, (*caller).to_owned());
    let (grant, fence) = (optional(grant)?, optional(fence)?);
    Some(ResourceOrder { command, op, caller, grant, fence, segment, deed })
}

fn text(word: &Bytes) -> Option<&str> {
    std::str::from_utf8(word).ok()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use lockstorm_platform::time::{Instant, SECOND};
    use lockstorm_redis::frame::Reply;

    use super::{Deed, GuardedValue, ResourceOrder, Store, order};
    use crate::plan::{FenceMode, FenceOn};
    use crate::workload::addition::Addition;
    use crate::workload::fence::FenceGuard;
    use crate::workload::recorder::Recorder;

    fn is_order(line: &'static str) -> bool {
        order(&line.split(' ').map(|word| Bytes::from_static(word.as_bytes())).collect()).is_some()
    }

    #[test]
    fn a_counter_lives_for_its_window_and_then_begins_anew() {
        let guard = FenceGuard::new(FenceMode::None, FenceOn::All);
        let segments = vec![GuardedValue { value: 0, ends: None, guard }];
        let mut store = Store { segments, recorder: Recorder::default() };
        let mut count = |at: u64, lasts: Option<u64>| {
            let deed = Deed::Add(Addition { lasts, ..Addition::of(1) });
            let (caller, grant, fence) = ("c1".to_owned(), None, None);
            let (command, op, segment) = ("ADD", 0, 0);
            let order = ResourceOrder { command, op, caller, grant, fence, segment, deed };
            store.decide(order, Instant { seq: 0, at: at * SECOND })
        };
        for (at, counted) in [(0, 1), (4, 2), (9, 3), (10, 1), (19, 2), (20, 1)] {
            assert_eq!(count(at, Some(10 * SECOND)), Reply::Integer(counted), "at {at} s");
        }
    }

    #[test]
    fn an_order_names_who_asks_under_which_grant() {
        assert!(is_order("READ 7 c1 3 -"));
        assert!(is_order("WRITE 8 c1 3 12 -1 0"));
        assert!(is_order("APPEND 9 c1 - -"));
        assert!(is_order("ADD 9 c1 3 - -1 0 - test-first -"));
        assert!(is_order("EXPIRE 9 c1 3 - 60"));
        assert!(is_order("READ 7 c1 3 - @2"));
        assert!(is_order("WRITE 8 c1 3 12 @1 -1 0"));
        for wrong in [
            "READ 7 c1 3",
            "READ 7 c1 3 - 1",
            "ADD 9 c1 3 - -1",
            "READ x c1 3 -",
            "WRITE 8 c1 3 12 1",
            "GET 1 c1 3 -",
            "READ 7 c1 3 - @0",
            "READ 7 c1 3 - @",
        ] {
            assert!(!is_order(wrong), "{wrong}");
        }
    }
}
