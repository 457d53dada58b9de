//! A connection for another client library: it forwards the library's bytes, and records every
//! request as [`crate::lock::client`] does for its own.
//!
//! A checker needs the operation that created a key. The bytes do not show it: this connection
//! takes it from the caller's current operation when the library writes a request. Bytes that it
//! cannot parse (replies in RESP3) are forwarded as well.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddrV4;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::BytesMut;
use lockstorm_platform::host::Stream;
use lockstorm_platform::time::Nanos;
use lockstorm_platform::trace::{Event, Leg, Request};
use lockstorm_redis::frame::decode::ReplyReader;
use lockstorm_redis::frame::request::RequestReader;
use lockstorm_redis::specification;
use tokio::io::{AsyncRead, AsyncWriteExt, DuplexStream, ReadBuf};

use crate::lock::Setting;
use crate::lock::client::Attempts;
use crate::lock::client::other_keys::other_keys;
use crate::lock::client::route::Route;

/// Maximum number of buffered bytes between the library and the wire in each direction.
const ROOM: usize = 64 * 1024;
/// The command of a request whose connection failed: the actual command is unknown.
const CONNECT: &str = "CONNECT";
/// Commands that libraries send to set up a connection, not for an operation of the caller.
const GREETINGS: [&str; 5] = ["AUTH", "CLIENT", "HELLO", "PING", "SELECT"];

/// The path from one caller's lock to one node, for a client library.
pub struct Wire {
    setting: Setting,
    route: Route,
    attempts: Rc<Cell<Attempts>>,
}

impl Wire {
    /// The path to the node with this name. It is resolved at each connect, since a failover moves
    /// it.
    pub fn new(setting: &Setting, node: &str) -> Wire {
        Wire { setting: setting.clone(), route: Route::of(node), attempts: Rc::default() }
    }

    /// Opens a connection, waiting at most `within` ns, and returns the library's end of it.
    /// Dropping that end closes the connection.
    ///
    /// # Errors
    /// `ConnectionRefused` if no process listens, `TimedOut`, and what the network reports.
    pub async fn open(&self, within: Nanos) -> io::Result<DuplexStream> {
        let host = &self.setting.host;
        let to = self.route.find(host, 0).await?;
        let connected = host.timeout(within, host.connect(to)).await;
        let opened_by = self.setting.call.get().op;
        match connected.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into())) {
            Ok(stream) => {
                let (library, end) = tokio::io::duplex(ROOM);
                host.spawn(Proxy::new(self, stream, end).run(to, opened_by));
                Ok(library)
            }
            Err(error) => {
                host.mark(Event::Unreached { to, command: CONNECT, op: opened_by }).await;
                Err(error)
            }
        }
    }
}

/// A request with a pending reply.
struct Awaited {
    request: Request,
    command: &'static str,
    op: Option<u32>,
}

/// The source of bytes.
enum WireSide {
    Library,
    Node,
}

/// One connection, with a record of its requests.
struct Proxy {
    setting: Setting,
    attempts: Rc<Cell<Attempts>>,
    stream: Stream,
    library: DuplexStream,
    reader: RequestReader,
    replies: ReplyReader,
    outbox: BytesMut,
    inbox: BytesMut,
    awaited: VecDeque<Awaited>,
    requests: u32,
    /// Whether any request other than a greeting was sent.
    used: bool,
}

impl Proxy {
    fn new(wire: &Wire, stream: Stream, library: DuplexStream) -> Proxy {
        Proxy {
            setting: wire.setting.clone(),
            attempts: Rc::clone(&wire.attempts),
            stream,
            library,
            reader: RequestReader::default(),
            replies: ReplyReader::default(),
            outbox: BytesMut::new(),
            inbox: BytesMut::new(),
            awaited: VecDeque::new(),
            requests: 0,
            used: false,
        }
    }

    /// Forwards bytes until one side is closed. A connection with nothing but greetings was opened
    /// for a request that was never sent: the record of that attempt is evidence.
    async fn run(mut self, to: SocketAddrV4, opened_by: u32) {
        loop {
            let passed = match self.next().await {
                Ok((_, bytes)) if bytes.is_empty() => break,
                Ok((WireSide::Library, bytes)) => self.forward(&bytes).await,
                Ok((WireSide::Node, bytes)) => self.answer(&bytes).await,
                Err(_) => break,
            };
            if passed.is_err() {
                break;
            }
        }
        if !self.used {
            let unreached = Event::Unreached { to, command: CONNECT, op: opened_by };
            self.setting.host.mark(unreached).await;
        }
    }

    /// The next bytes of either side; empty at its end.
    async fn next(&mut self) -> io::Result<(WireSide, Vec<u8>)> {
        let mut room = [0; 4096];
        poll_fn(|cx| {
            let mut buffer = ReadBuf::new(&mut room);
            let read = Pin::new(&mut self.library).poll_read(cx, &mut buffer);
            if let Poll::Ready(read) = read {
                return Poll::Ready(read.map(|()| (WireSide::Library, buffer.filled().to_vec())));
            }
            let read = Pin::new(&mut self.stream).poll_read(cx, &mut buffer);
            read.map(|read| read.map(|()| (WireSide::Node, buffer.filled().to_vec())))
        })
        .await
    }

    /// Forwards the bytes of the library; requests written together travel together.
    async fn forward(&mut self, bytes: &[u8]) -> io::Result<()> {
        // Read before the write, which may wait: the caller may begin another operation meanwhile.
        let call = self.setting.call.get();
        let mut attempts = self.attempts.get();
        self.stream.tag(attempts.tag(call));
        self.attempts.set(attempts);
        self.stream.write_all(bytes).await?;
        self.outbox.extend_from_slice(bytes);
        while let Ok(Some(words)) = self.reader.next(&mut self.outbox) {
            let command = specification::name(&words[0]).unwrap_or("UNKNOWN");
            let op = call.operation().filter(|_| !GREETINGS.contains(&command));
            let request = Request { connection: self.stream.connection(), nth: self.requests };
            self.requests += 1;
            self.used |= op.is_some();
            self.awaited.push_back(Awaited { request, command, op });
            let host = &self.setting.host;
            host.mark(Event::Message { request, leg: Leg::Sent, command, op }).await;
            let args: Vec<&[u8]> = words.iter().skip(1).map(AsRef::as_ref).collect();
            let lock_key = Some(self.setting.config.key.as_str());
            let keys = op.map_or(Vec::new(), |_| other_keys(lock_key, command, &args));
            if !keys.is_empty() {
                host.record(Event::Names { request, keys });
            }
        }
        Ok(())
    }

    /// Forwards the bytes of the node. Faults that are anchored to a reply strike before the
    /// library receives it.
    async fn answer(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.inbox.extend_from_slice(bytes);
        while let Ok(Some(_)) = self.replies.next(&mut self.inbox) {
            let Some(Awaited { request, command, op }) = self.awaited.pop_front() else { break };
            let delivered = Event::Message { request, leg: Leg::Delivered, command, op };
            self.setting.host.mark(delivered).await;
        }
        self.library.write_all(bytes).await
    }
}
