//! A small RESP client: a connection to one node, with a timeout for each request.
//!
//! It opens its connection when it needs one and drops it on every timeout or error, since replies
//! would then no longer match their requests. Unless the lock's configuration says how often it
//! sends a request again that had no reply, it never does: that is the lock's decision. In a
//! cluster it sends a request to the node that serves the key's slot, and follows redirects: a
//! redirected request had no effect on the node that redirected it.
//!
//! What a node keeps for a connection (`WATCH`, `MULTI`) ends with the connection: after a failed
//! request, a transaction has to start anew. If a connection breaks while no request is pending,
//! the next request notices that and replaces it.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddrV4;
use std::pin::{Pin, pin};
use std::task::Poll;

use lockstorm_platform::host::Host;
use lockstorm_platform::time::{MILLISECOND, Nanos, SECOND};
use lockstorm_platform::trace::{Event, Leg, Request};
use lockstorm_redis::frame::Reply;
use lockstorm_redis::resp_client::RespClient;
use tokio::io::{AsyncRead, ReadBuf};

use crate::lock::client::other_keys::other_keys;
use crate::lock::client::route::Route;
use crate::lock::client::slot_map::SlotMap;
use crate::lock::client::subscription::Subscription;
use crate::lock::client::switch_master::{News, SwitchMaster};
use crate::lock::config::{DiscoveryShape, ScriptShape};
use crate::lock::{Call, Setting};

pub mod answer;
pub mod join;
pub mod route;
pub mod scripts;
pub mod slot_map;
pub mod subscription;
pub mod switch_master;
pub mod wire;

mod other_keys;

/// How long a client waits before it sends a request again that had no reply, ns: longer each time,
/// up to a second.
pub fn resend_pause(nth: u32) -> Nanos {
    (10 * MILLISECOND).saturating_mul(1 << nth.min(7)).min(SECOND)
}

/// The maximum number of redirects to follow before the reply is returned as it is.
const MAX_REDIRECTS: u32 = 4;

/// A client of one node, or of a cluster.
pub struct Client {
    host: Host,
    route: Route,
    /// The target of the last request, whether it was reached or not.
    to: Option<SocketAddrV4>,
    line: Option<Connection>,
    /// Connections to other nodes of the cluster.
    parked: BTreeMap<SocketAddrV4, Connection>,
    attempts: Attempts,
    discovery: DiscoveryShape,
    /// The subscriptions to Sentinels, if any.
    switches: Option<SwitchMaster>,
    scripts: ScriptShape,
    /// How often a request that had no reply is sent again.
    resend: u32,
    /// The key of the client's lock, if it is known.
    lock_key: Option<String>,
    /// Scripts that this process has loaded, with their SHA1.
    loaded: BTreeMap<&'static str, String>,
    /// Whether a request is pending. It stays set if the request was dropped before its reply.
    is_asking: bool,
}

/// Numbers the requests of each operation of a caller to one node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attempts {
    nth: u32,
    attempt: u32,
}

impl Attempts {
    /// The address of a request's draws: the number of its caller's operation, and its own number
    /// among the requests of that operation to this node.
    pub fn tag(&mut self, call: Call) -> u32 {
        self.attempt = if call.nth == self.nth { self.attempt + 1 } else { 0 };
        self.nth = call.nth;
        // Those of operations that follow each other are near, because near draws are cheap.
        let attempt = self.attempt.min(0xff);
        ((attempt >> 2) << 26) | (call.nth << 2) | (attempt & 3)
    }
}

/// An open connection, and the number of requests on it.
struct Connection {
    node: RespClient,
    requests: u32,
}

/// Why there is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The request was never sent: the node certainly did not receive it.
    NotSent,
    /// No reply came in time. Whether the request took effect is unknown.
    TimedOut,
    /// The connection broke, or its bytes were no RESP. Whether the request took effect is unknown.
    Broken,
}

impl RequestError {
    /// The text of a refusal, if the request certainly had no effect.
    pub fn refusal(self) -> Option<String> {
        (self == RequestError::NotSent).then(|| "no connection".to_owned())
    }
}

impl Client {
    /// A client of the node with this name. It connects on its first request.
    pub fn new(host: Host, node: &str) -> Client {
        Client {
            host,
            route: Route::of(node),
            to: None,
            line: None,
            parked: BTreeMap::new(),
            attempts: Attempts::default(),
            discovery: DiscoveryShape::AtConnect,
            switches: None,
            scripts: ScriptShape::Eval,
            resend: 0,
            lock_key: None,
            loaded: BTreeMap::new(),
            is_asking: false,
        }
    }

    /// A client of one of a lock's nodes, with the lock's configuration.
    pub fn of(setting: &Setting, node: &str) -> Client {
        let (scripts, discovery) = (setting.config.scripts, setting.config.discovery);
        let lock_key = Some(setting.config.key.clone());
        let resend = setting.config.resend;
        Client { scripts, discovery, resend, lock_key, ..Client::new(setting.host.clone(), node) }
    }

    /// Sends `command` with `args` on behalf of `call` and waits at most `timeout` ns for the
    /// reply, including the time to connect. An error reply of the node is a reply.
    ///
    /// # Errors
    /// See [`RequestError`]: only `NotSent` means that nothing happened.
    pub async fn request(
        &mut self,
        call: Call,
        timeout: Nanos,
        command: &'static str,
        args: &[&[u8]],
    ) -> Result<Reply, RequestError> {
        let host = self.host.clone();
        // What was sent once may have taken effect, whatever becomes of the last.
        let mut last = RequestError::NotSent;
        for nth in 0..=self.resend {
            // Boxed, as all that is rare: the future of each request has room for it otherwise.
            if let Some(before) = nth.checked_sub(1) {
                Box::pin(host.sleep(resend_pause(before))).await;
            }
            let tag = self.attempts.tag(call);
            // Otherwise the reply to a request that was dropped before its reply answers this one.
            if std::mem::replace(&mut self.is_asking, true) {
                self.drop_line();
            }
            let mut sent = false;
            let answer = {
                // Pinned here: a large future that is passed on by value is copied each time.
                let exchange = pin!(self.travel(call.operation(), tag, command, args, &mut sent));
                host.timeout(timeout, exchange).await
            };
            self.is_asking = false;
            let error = match answer {
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
            self.drop_line();
            match error {
                RequestError::NotSent => Box::pin(self.note_unreached(command, call)).await,
                sent => last = sent,
            }
        }
        Err(last)
    }

    /// Records a request that reached no node: it is evidence that a lock which tries to release
    /// has done its part.
    async fn note_unreached(&self, command: &'static str, call: Call) {
        let first = || self.host.resolve(self.route.first());
        if let (Some(to), Some(op)) = (self.to.or_else(first), call.operation()) {
            self.host.mark(Event::Unreached { to, command, op }).await;
        }
    }

    /// Runs a Lua script, with EVAL unless the lock's configuration selects another
    /// [`ScriptShape`]. The default is not EVALSHA: the script cache saves only bytes, and loading
    /// the script and falling back would change the count of messages that anchors refer to.
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
            let sha = Box::pin(self.load(call, timeout, script)).await?;
            let words = script_words(&sha, &count, keys, args);
            let reply = self.request(call, timeout, "EVALSHA", &words).await?;
            if self.scripts == ScriptShape::Evalsha || !is_noscript(&reply) {
                return Ok(reply);
            }
        }
        let words = script_words(script, &count, keys, args);
        self.request(call, timeout, "EVAL", &words).await
    }

    /// Subscribes to a channel of the node that received the last request, on a separate
    /// connection; `None` if that is not confirmed within `timeout` ns.
    pub async fn listen(
        &mut self,
        call: Call,
        timeout: Nanos,
        channel: &str,
    ) -> Option<Subscription> {
        let tag = self.attempts.tag(call);
        let open = Subscription::open(&self.host, self.to?, tag, channel);
        self.host.timeout(timeout, open).await?.ok()
    }

    /// The SHA1 of a script, which is loaded into the node when the process first needs it.
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

    /// Drops the connection. In a cluster, another node is then queried for the slots.
    fn drop_line(&mut self) {
        self.line = None;
        if let Route::Cluster(slots) = &mut self.route {
            slots.doubt(self.to);
        }
    }

    /// Sends the request to the node that serves the key's slot, and follows redirects.
    async fn travel(
        &mut self,
        op: Option<u32>,
        tag: u32,
        command: &'static str,
        args: &[&[u8]],
        sent: &mut bool,
    ) -> io::Result<Reply> {
        for _ in 0..MAX_REDIRECTS {
            let answer = self.exchange(op, tag, command, args, sent).await;
            let Route::Cluster(slots) = &mut self.route else { return answer };
            match &answer {
                // A node that redirects a request has not executed it.
                Ok(reply) if slots.follow(reply) => *sent = false,
                Err(_) if !*sent => self.drop_line(),
                _ => return answer,
            }
        }
        self.exchange(op, tag, command, args, sent).await
    }

    async fn exchange(
        &mut self,
        op: Option<u32>,
        tag: u32,
        command: &'static str,
        args: &[&[u8]],
        sent: &mut bool,
    ) -> io::Result<Reply> {
        let host = self.host.clone();
        let keys = op.map_or(Vec::new(), |_| other_keys(self.lock_key.as_deref(), command, args));
        let line = self.line(tag, command, args).await?;
        let request = Request { connection: line.node.stream.connection(), nth: line.requests };
        let message = |leg| Event::Message { request, leg, command, op };
        line.requests += 1;
        line.node.stream.tag(tag);
        // Set before the write: once a byte may have left, the outcome of the request is unknown.
        *sent = true;
        line.node.send_command(command, args).await?;
        host.mark(message(Leg::Sent)).await;
        if !keys.is_empty() {
            host.record(Event::Names { request, keys });
        }
        let reply = line.node.reply().await?;
        host.mark(message(Leg::Delivered)).await;
        Ok(reply)
    }

    /// The connection for a request: the open one or, in a cluster, the one to the node of its key.
    async fn line(
        &mut self,
        tag: u32,
        command: &'static str,
        args: &[&[u8]],
    ) -> io::Result<&mut Connection> {
        let Route::Cluster(slots) = &mut self.route else { return self.open(tag).await };
        let slot = SlotMap::slot_of(command, args);
        // A request without a key goes to the node of the last request, or to any node.
        let is_redirected = match (slot, self.to) {
            (None, Some(_)) => false,
            (slot, _) => {
                let found = Box::pin(slots.find(&self.host, tag, slot.unwrap_or(0)));
                let (to, is_redirected) = found.await?;
                self.turn_to(to);
                is_redirected
            }
        };
        let line = self.open(tag).await?;
        if is_redirected {
            line.node.stream.tag(tag);
            line.requests += 1;
            line.node.request(&["ASKING"]).await?;
        }
        Ok(line)
    }

    /// Switches to the connection to another node, and keeps the current one.
    fn turn_to(&mut self, to: SocketAddrV4) {
        if self.to == Some(to) {
            return;
        }
        if let (Some(before), Some(line)) = (self.to.replace(to), self.line.take()) {
            self.parked.insert(before, line);
        }
        self.line = self.parked.remove(&to);
    }

    /// The open connection, or a new one.
    async fn open(&mut self, tag: u32) -> io::Result<&mut Connection> {
        let news = self.news().await;
        let is_open = match &mut self.line {
            Some(line) if news == News::None => line.is_quiet().await,
            _ => false,
        };
        if !is_open {
            self.line = None;
            self.line = Some(Box::pin(self.connect(tag, news)).await?);
        }
        Ok(self.line.as_mut().expect("it is open"))
    }

    /// What Sentinels have reported of the master since the last call.
    async fn news(&mut self) -> News {
        let Some(switches) = &mut self.switches else { return News::None };
        match switches.news().await {
            News::Switched(to) if self.to == Some(to) => News::None,
            news => news,
        }
    }

    /// Resolves the node at each connect, since a failover moves it. If Sentinels have reported an
    /// address, that is used. In a cluster the request's slot has already decided.
    async fn connect(&mut self, tag: u32, news: News) -> io::Result<Connection> {
        self.listen_to_sentinels(tag).await;
        let to = match (&self.route, self.to, news) {
            (Route::Cluster(_), Some(to), _) | (_, _, News::Switched(to)) => to,
            (route, ..) => route.find(&self.host, tag).await?,
        };
        self.to = Some(to);
        let (node, requests) = self.route.open(&self.host, to, tag).await?;
        Ok(Connection { node, requests })
    }

    /// The subscription precedes the query for the master, so that no news is missed.
    async fn listen_to_sentinels(&mut self, tag: u32) {
        if let (Route::Sentinels { sentinels, master }, DiscoveryShape::SwitchMaster) =
            (&self.route, self.discovery)
        {
            self.switches = Some(SwitchMaster::listen(&self.host, tag, sentinels, master).await);
        }
    }
}

/// The arguments of EVAL or EVALSHA.
fn script_words<'a>(
    script: &'a str,
    count: &'a str,
    keys: &[&'a [u8]],
    args: &[&'a [u8]],
) -> Vec<&'a [u8]> {
    [script.as_bytes(), count.as_bytes()].iter().chain(keys).chain(args).copied().collect()
}

/// A length in milliseconds as a command's argument; at least 1.
pub fn milliseconds(length: Nanos) -> String {
    (length / MILLISECOND).max(1).to_string()
}

/// Whether a node does not have the script, as after a restart or a failover.
pub fn is_noscript(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(text) if text.starts_with(b"NOSCRIPT"))
}

impl Connection {
    /// Whether it is open and nothing is readable on it: the peer may have closed it since the last
    /// request, and a request written to it would then be lost.
    async fn is_quiet(&mut self) -> bool {
        let mut byte = [0_u8; 1];
        let stream = &mut self.node.stream;
        let quiet = poll_fn(|cx| {
            let mut buffer = ReadBuf::new(&mut byte);
            Poll::Ready(Pin::new(&mut *stream).poll_read(cx, &mut buffer).is_pending())
        });
        quiet.await
    }
}
