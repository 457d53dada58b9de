//! One small RESP client: a connection to one node, a time-out a request.
//!
//! It opens its connection when it needs one and drops it on every time-out or error, since the
//! replies would then be out of step with the requests. It tries nothing twice: whether to ask
//! again is the lock's decision.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddrV4;
use std::pin::Pin;
use std::task::Poll;

use bytes::BytesMut;
use lockstorm_sim::platform::{Host, Stream};
use lockstorm_sim::redis::frame::decode::ReplyReader;
use lockstorm_sim::redis::frame::{self, Reply};
use lockstorm_sim::time::Nanos;
use lockstorm_sim::trace::{Event, Leg, Request};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};

use crate::lock::route::Route;
use crate::lock::{Call, ScriptShape};

/// A client of one node.
pub struct Client {
    host: Host,
    route: Route,
    /// Where the last connection went, or was to go.
    to: Option<SocketAddrV4>,
    line: Option<Line>,
    attempts: Attempts,
    scripts: ScriptShape,
    /// Scripts that were loaded by this process, with their SHA1.
    loaded: BTreeMap<&'static str, String>,
}

/// Numbers the requests of each operation of a caller to one node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attempts {
    nth: u32,
    attempt: u32,
}

impl Attempts {
    /// The address of a request's draws: its caller's nth operation, and the how-many-th
    /// request of that operation to this node it is.
    pub fn tag(&mut self, call: Call) -> u32 {
        self.attempt = if call.nth == self.nth { self.attempt + 1 } else { 0 };
        self.nth = call.nth;
        (call.nth << 8) | self.attempt.min(0xff)
    }
}

/// An open connection.
struct Line {
    stream: Stream,
    replies: ReplyReader,
    inbox: BytesMut,
    /// The request that was written last; kept for its room.
    outbox: BytesMut,
    requests: u32,
}

/// Why there is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The request never left: the node surely did not get it.
    NotSent,
    /// No reply in time. Whether the request took effect is unknown.
    TimedOut,
    /// The connection broke, or spoke no RESP. Whether the request took effect is unknown.
    Broken,
}

impl RequestError {
    /// The words of a refusal, where the request surely had no effect.
    pub fn refusal(self) -> Option<String> {
        (self == RequestError::NotSent).then(|| "no connection".to_owned())
    }
}

impl Client {
    /// A client of the node with this name. It connects with its first request.
    pub fn new(host: Host, node: &str) -> Client {
        let (route, attempts, scripts) = (Route::of(node), Attempts::default(), ScriptShape::Eval);
        Client { host, route, to: None, line: None, attempts, scripts, loaded: BTreeMap::new() }
    }

    /// The same, sending scripts in this way.
    #[must_use]
    pub fn sending(self, scripts: ScriptShape) -> Client {
        Client { scripts, ..self }
    }

    /// Sends `command` with `args` on behalf of `call` and waits at most `timeout` ns for the
    /// reply, the time to connect included. An error reply of the node is a reply.
    ///
    /// # Errors
    /// See [`RequestError`]: only `NotSent` says that nothing happened.
    pub async fn request(
        &mut self,
        call: Call,
        timeout: Nanos,
        command: &'static str,
        args: &[&[u8]],
    ) -> Result<Reply, RequestError> {
        let tag = self.attempts.tag(call);
        let host = self.host.clone();
        let mut sent = false;
        let exchange = self.exchange(call.op, tag, command, args, &mut sent);
        let error = match host.timeout(timeout, exchange).await {
            Some(Ok(reply)) => {
                if self.route.is_spent(&reply) {
                    self.line = None;
                }
                return Ok(reply);
            }
            _ if !sent => RequestError::NotSent,
            Some(Err(_)) => RequestError::Broken,
            None => RequestError::TimedOut,
        };
        self.line = None;
        if error == RequestError::NotSent {
            self.note_unreached(command, call.op).await;
        }
        Err(error)
    }

    /// That it was tried is evidence: a lock that tries to release has done its part.
    async fn note_unreached(&self, command: &'static str, op: u32) {
        let first = match &self.route {
            Route::Name(name) => name,
            Route::Sentinels { sentinels, .. } => &sentinels[0],
        };
        if let Some(to) = self.to.or_else(|| self.host.resolve(first)) {
            self.host.mark(Event::Unreached { to, command, op }).await;
        }
    }

    /// Runs a Lua script: with EVAL unless [`Client::sending`] says otherwise. Not EVALSHA by
    /// itself: the script cache saves bytes only, and loading the script and falling back would
    /// shift the count of messages that anchors refer to.
    ///
    /// # Errors
    /// As [`Client::request`].
    pub async fn eval(
        &mut self,
        call: Call,
        timeout: Nanos,
        script: &'static str,
        keys: &[&[u8]],
        args: &[&[u8]],
    ) -> Result<Reply, RequestError> {
        let count = keys.len().to_string();
        if self.scripts != ScriptShape::Eval {
            let sha = self.load(call, timeout, script).await?;
            let words = script_words(&sha, &count, keys, args);
            let reply = self.request(call, timeout, "EVALSHA", &words).await?;
            if self.scripts == ScriptShape::Evalsha || !is_noscript(&reply) {
                return Ok(reply);
            }
        }
        let words = script_words(script, &count, keys, args);
        self.request(call, timeout, "EVAL", &words).await
    }

    /// The SHA1 of a script, which the node is given when the process first needs it.
    async fn load(
        &mut self,
        call: Call,
        timeout: Nanos,
        script: &'static str,
    ) -> Result<String, RequestError> {
        if let Some(sha) = self.loaded.get(script) {
            return Ok(sha.clone());
        }
        let words: [&[u8]; 2] = [b"LOAD", script.as_bytes()];
        let reply = self.request(call, timeout, "SCRIPT", &words).await?;
        let Reply::Bulk(sha) = reply else { return Err(RequestError::Broken) };
        let sha = String::from_utf8_lossy(&sha).into_owned();
        self.loaded.insert(script, sha.clone());
        Ok(sha)
    }

    async fn exchange(
        &mut self,
        op: u32,
        tag: u32,
        command: &'static str,
        args: &[&[u8]],
        sent: &mut bool,
    ) -> io::Result<Reply> {
        let host = self.host.clone();
        let line = self.line(tag).await?;
        let request = Request { connection: line.stream.connection(), nth: line.requests };
        let message = |leg| Event::Message { request, leg, command, op: Some(op) };
        line.requests += 1;
        line.stream.tag(tag);
        *sent = true;
        line.write(command, args).await?;
        host.mark(message(Leg::Sent)).await;
        let reply = line.reply().await?;
        host.mark(message(Leg::Delivered)).await;
        Ok(reply)
    }

    /// The open connection, or a new one.
    async fn line(&mut self, tag: u32) -> io::Result<&mut Line> {
        let open = match self.line.take() {
            Some(line) => line.if_quiet().await,
            None => None,
        };
        let line = match open {
            Some(line) => line,
            None => self.connect(tag).await?,
        };
        Ok(self.line.insert(line))
    }

    /// The node is looked for each time, since a failover moves it.
    async fn connect(&mut self, tag: u32) -> io::Result<Line> {
        let to = self.route.find(&self.host, tag).await?;
        self.to = Some(to);
        let (stream, requests) = self.route.open(&self.host, to, tag).await?;
        Ok(Line { requests, ..Line::new(stream) })
    }
}

/// The words behind EVAL or EVALSHA.
fn script_words<'a>(
    script: &'a str,
    count: &'a str,
    keys: &[&'a [u8]],
    args: &[&'a [u8]],
) -> Vec<&'a [u8]> {
    [script.as_bytes(), count.as_bytes()].iter().chain(keys).chain(args).copied().collect()
}

/// Whether a node does not know the script: after a restart, or a failover.
pub fn is_noscript(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(text) if text.starts_with(b"NOSCRIPT"))
}

impl Line {
    fn new(stream: Stream) -> Line {
        let replies = ReplyReader::default();
        Line { stream, replies, inbox: BytesMut::new(), outbox: BytesMut::new(), requests: 0 }
    }

    /// The connection if it is open and nothing waits to be read: the other end may have closed
    /// it since the last request, and a request written to it then would be lost.
    async fn if_quiet(mut self) -> Option<Line> {
        let mut byte = [0_u8; 1];
        let stream = &mut self.stream;
        let quiet = poll_fn(|cx| {
            let mut buffer = ReadBuf::new(&mut byte);
            Poll::Ready(Pin::new(&mut *stream).poll_read(cx, &mut buffer).is_pending())
        });
        quiet.await.then_some(self)
    }

    async fn write(&mut self, command: &'static str, args: &[&[u8]]) -> io::Result<()> {
        let words: Vec<&[u8]> =
            std::iter::once(command.as_bytes()).chain(args.iter().copied()).collect();
        self.outbox.clear();
        frame::encode_request(&mut self.outbox, &words);
        self.stream.write_all(&self.outbox).await
    }

    async fn reply(&mut self) -> io::Result<Reply> {
        loop {
            let decoded = self.replies.next(&mut self.inbox);
            if let Some(reply) = decoded.map_err(|_| io::ErrorKind::InvalidData)? {
                return Ok(reply);
            }
            if self.stream.read_buf(&mut self.inbox).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}
