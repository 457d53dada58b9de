//! The replica's side of replication: the link to a master, and the stream that arrives on it.

use std::io;
use std::net::SocketAddrV4;
use std::rc::Rc;

use bytes::{Buf, Bytes, BytesMut};
use lockstorm_platform::host::Stream;
use lockstorm_platform::time::{Clock, Nanos, SECOND};
use lockstorm_platform::trace::{Event, Origin};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::compat::Difference;
use crate::execution::apply;
use crate::frame::decode::decode_reply;
use crate::frame::request::RequestReader;
use crate::frame::{Arguments, Reply, encode_request, integer};
use crate::node::Append;
use crate::peers::LinkState;
use crate::persistence::restore;
use crate::requests::settle;
use crate::server::Server;
use crate::session::Session;
use crate::signal::{First, first};

/// Starts to follow the node's master, until its role changes again.
pub fn follow_anew(server: &Rc<Server>) {
    let server = Rc::clone(server);
    // Read before the task is spawned, so that any later change of role ends it.
    let role = server.role.count();
    server.host.clone().spawn(async move {
        first(server.role.past(role), follow(&server)).await;
    });
}

/// A link that was up is retried at once, one that was not at the next tick of `replicationCron`.
async fn follow(server: &Rc<Server>) {
    loop {
        let Some(master) = server.node.borrow().peers.master else { return };
        let _ = follow_once(server, master).await;
        // The replica could not be reached or refused: this node leads again.
        if server.hands_over() {
            return server.abort_failover();
        }
        // Read before `lose_master` resets the state.
        let was_up = server.node.borrow().peers.is_linked();
        lose_master(server);
        if !was_up {
            server.host.sleep(SECOND).await;
        }
    }
}

fn lose_master(server: &Server) {
    let mut node = server.node.borrow_mut();
    node.set_time(server.host.now(Clock::Wall));
    node.lose_master();
}

/// One link to a master: until the connection fails or the master's bytes are invalid.
async fn follow_once(server: &Rc<Server>, master: SocketAddrV4) -> io::Result<()> {
    let late = || io::Error::from(io::ErrorKind::TimedOut);
    set_state(server, LinkState::Connecting);
    let connect = server.host.connect(master);
    let stream = server.host.timeout(link_timeout(server), connect).await.ok_or_else(late)??;
    set_state(server, LinkState::Handshake);
    let input = BytesMut::with_capacity(4096);
    let mut link =
        FollowLink { server, stream, input, stream_bytes: BytesMut::new(), taken: 0, queued: None };
    link.introduce().await?;
    let granted = link.request_stream().await?;
    let text = std::str::from_utf8(&granted).map_err(|_| io::ErrorKind::InvalidData)?;
    let mut words = text.split(' ');
    match (words.next(), words.next(), words.next().map(str::parse)) {
        (Some("FULLRESYNC"), Some(id), Some(Ok(offset))) => {
            // The other node leads now: the delayed requests run against a replica.
            server.end_failover();
            set_state(server, LinkState::Sync);
            link.load_everything(id.to_owned(), offset).await?;
        }
        (Some("CONTINUE"), id, _) => {
            server.end_failover();
            go_on(server, id);
        }
        _ => return Err(io::ErrorKind::InvalidData.into()),
    }
    set_state(server, LinkState::Connected);
    link.follow_stream().await
}

/// `repl-timeout`: a link that is silent for this long is closed.
fn link_timeout(server: &Server) -> Nanos {
    let seconds = server.node.borrow().settings.number("repl-timeout");
    u64::try_from(seconds).unwrap_or(0).saturating_mul(SECOND)
}

fn set_state(server: &Server, state: LinkState) {
    let mut node = server.node.borrow_mut();
    node.set_time(server.host.now(Clock::Wall));
    debug_assert!(node.peers.master.is_some(), "only a replica has a link to a master");
    node.peers.link.state = state;
    node.peers.link.heard_s = node.clock.now_ms / 1_000;
}

/// The master continues the node's history. If it does so under another id, the node adopts it, and
/// its own replicas have to learn it.
fn go_on(server: &Server, id: Option<&str>) {
    let mut node = server.node.borrow_mut();
    if let Some(id) = id.filter(|id| *id != node.history.id) {
        node.history.go_on_as(id.to_owned());
        node.peers.replicas.clear();
        server.feeds.borrow_mut().cut_all();
    }
}

/// A replica's connection to its master.
struct FollowLink<'a> {
    server: &'a Rc<Server>,
    stream: Stream,
    input: BytesMut,
    /// The stream as received, starting at the last command that was applied.
    stream_bytes: BytesMut,
    /// How many of its bytes were parsed as commands.
    taken: usize,
    /// A transaction whose EXEC has not arrived: commands with the offsets after them.
    queued: Option<Vec<(u64, Arguments)>>,
}

impl FollowLink<'_> {
    async fn read(&mut self) -> io::Result<()> {
        let read = self.stream.read_buf(&mut self.input);
        let read = self.server.host.timeout(link_timeout(self.server), read).await;
        match read {
            Some(Ok(0)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(result) => result.map(drop),
            None => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Sends a request and waits for its reply.
    async fn request(&mut self, words: &[&str]) -> io::Result<Reply> {
        let mut request = BytesMut::new();
        encode_request(&mut request, words);
        self.stream.write_all(&request).await?;
        self.reply().await
    }

    /// The next reply. Empty lines mean that the master is still alive.
    async fn reply(&mut self) -> io::Result<Reply> {
        loop {
            while self.input.first() == Some(&b'\n') {
                self.input.advance(1);
            }
            match decode_reply(&mut self.input) {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => self.read().await?,
                Err(_) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    /// The handshake before PSYNC. A master too old for one of the words is accepted.
    async fn introduce(&mut self) -> io::Result<()> {
        match self.request(&["PING"]).await? {
            Reply::Error(text) if !text.starts_with(b"NOAUTH") => {
                return Err(io::ErrorKind::InvalidData.into());
            }
            _ => {}
        }
        let [user, password, ip] =
            self.settings(["masteruser", "masterauth", "replica-announce-ip"]);
        if !password.is_empty() {
            let words = ["AUTH", &user, &password];
            let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
            if self.request(&words).await?.is_error() {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
        }
        self.request(&["REPLCONF", "listening-port", &self.announced_port()]).await?;
        if !ip.is_empty() {
            self.request(&["REPLCONF", "ip-address", &ip]).await?;
        }
        self.request(&["REPLCONF", "capa", "eof", "capa", "psync2"]).await.map(drop)
    }

    fn settings<const N: usize>(&self, names: [&str; N]) -> [String; N] {
        let node = self.server.node.borrow();
        names.map(|name| node.settings.text(name).to_owned())
    }

    fn announced_port(&self) -> String {
        let node = self.server.node.borrow();
        match node.settings.number("replica-announce-port") {
            0 => node.config.port.to_string(),
            port => port.to_string(),
        }
    }

    /// The arguments of PSYNC: the id of the history that the node could continue, and the next
    /// offset.
    fn wanted(&self) -> (String, String) {
        let node = self.server.node.borrow();
        match node.peers.link.resumes_in {
            Some(_) => (node.history.id.clone(), (node.history.offset + 1).to_string()),
            None => ("?".to_owned(), "-1".to_owned()),
        }
    }

    /// Requests the stream from the node's offset, if it can continue there. Returns the master's
    /// reply.
    async fn request_stream(&mut self) -> io::Result<Bytes> {
        let (id, next) = self.wanted();
        let mut words = vec!["PSYNC", &id, &next];
        if self.server.hands_over() {
            words.push("FAILOVER");
        }
        match self.request(&words).await? {
            Reply::Simple(text) => Ok(text),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Replaces the node's keys by the master's; its own are lost. Its own replicas have to
    /// reconnect.
    async fn load_everything(&mut self, id: String, offset: u64) -> io::Result<()> {
        // Received completely before any key is dropped: if the link fails, nothing is lost.
        let bytes = self.payload().await?;
        let server = self.server;
        server.feeds.borrow_mut().cut_all();
        let keys = {
            let mut node = server.node.borrow_mut();
            node.set_time(server.host.now(Clock::Wall));
            node.peers.replicas.clear();
            restore(&mut node, &bytes).map_err(|_| io::ErrorKind::InvalidData)?;
            // After `restore`, which adopts the id and the offset that the RDB itself contains.
            node.history.take_over(id, offset);
            node.propagation.is_consumed = true;
            node.peers.link.resumes_in = Some(0);
            node.keyspace.keys()
        };
        let connection = self.stream.connection();
        let resync = Some(connection);
        server.host.record(Event::Loaded { keys: keys.clone(), resync, file: None });
        server.report_contents(&server.node.borrow(), keys, true);
        // The file on disk does not match the new keys: it is replaced before the stream is
        // applied.
        server.rewrite_log().await;
        Ok(())
    }

    /// Reads an RDB: a length line and that many bytes, without a line end after them; or, from a
    /// master that does not know the length, a mark of 40 bytes and all bytes until it recurs.
    async fn payload(&mut self) -> io::Result<Bytes> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidData);
        let end = loop {
            while self.input.first() == Some(&b'\n') {
                self.input.advance(1);
            }
            if let Some(end) = self.input.windows(2).position(|pair| pair == b"\r\n") {
                break end;
            }
            self.read().await?;
        };
        let line = self.input.split_to(end + 2);
        let line = line[..end].strip_prefix(b"$").ok_or_else(wrong)?;
        if let Some(mark) = line.strip_prefix(b"EOF:") {
            return self.payload_before(mark).await;
        }
        let length = integer(line).and_then(|length| usize::try_from(length).ok());
        let length = length.ok_or_else(wrong)?;
        while self.input.len() < length {
            self.read().await?;
        }
        Ok(self.input.split_to(length).freeze())
    }

    async fn payload_before(&mut self, mark: &[u8]) -> io::Result<Bytes> {
        loop {
            let at = self.input.windows(mark.len().max(1)).position(|bytes| bytes == mark);
            if let Some(at) = at {
                let bytes = self.input.split_to(at).freeze();
                self.input.advance(mark.len());
                return Ok(bytes);
            }
            self.read().await?;
        }
    }

    /// Applies the master's stream and acknowledges it each second.
    async fn follow_stream(&mut self) -> io::Result<()> {
        let db = self.server.node.borrow().peers.link.resumes_in.unwrap_or(0);
        let mut session = Session { db, ..Session::of_master() };
        let mut reader = RequestReader::default();
        // The bytes after the RDB or the reply already belong to the stream.
        self.stream_bytes = self.input.clone();
        // The first acknowledgement is due at once: the master counts the replica only after it.
        let mut acknowledge_at = 0;
        let mut heard_at = self.server.host.now(Clock::Monotonic);
        loop {
            while self.apply_next(&mut reader, &mut session).await? {}
            let now = self.server.host.now(Clock::Monotonic);
            if now >= acknowledge_at {
                self.acknowledge().await?;
                acknowledge_at = now + SECOND;
            }
            if now >= heard_at.saturating_add(link_timeout(self.server)) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let tick = self.server.host.sleep_until(Clock::Monotonic, acknowledge_at);
            let before = self.input.len();
            if let First::This(read) = first(self.stream.read_buf(&mut self.input), tick).await {
                if read? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                self.stream_bytes.extend_from_slice(&self.input[before..]);
                heard_at = self.server.host.now(Clock::Monotonic);
                self.server.node.borrow_mut().peers.link.heard_s =
                    self.server.host.now(Clock::Wall) / SECOND;
            }
        }
    }

    /// Applies the next complete command, if there is one. A transaction is applied, counted and
    /// passed on at its EXEC, so that no client sees half of it.
    async fn apply_next(
        &mut self,
        reader: &mut RequestReader,
        session: &mut Session,
    ) -> io::Result<bool> {
        let before = self.input.len();
        let args = reader.next(&mut self.input).map_err(|_| io::ErrorKind::InvalidData)?;
        self.taken += before - self.input.len();
        debug_assert_eq!(
            self.stream_bytes.len(),
            self.taken + self.input.len(),
            "every received byte was applied, was parsed or awaits parsing"
        );
        let Some(args) = args else { return Ok(false) };
        let offset = self.server.node.borrow().history.offset + self.taken as u64;
        let mut due = Vec::new();
        match (&args[0].to_ascii_uppercase()[..], &mut self.queued) {
            (b"MULTI", _) => self.queued = Some(Vec::new()),
            (b"EXEC", queued) => due = queued.take().unwrap_or_default(),
            (_, Some(queued)) => queued.push((offset, args)),
            (b"PING", _) => {}
            // The acknowledged offset excludes this request, which is counted below.
            (b"REPLCONF", _) => self.acknowledge().await?,
            _ => due.push((offset, args)),
        }
        // In its turn: a slow command or script of a client holds up the stream too.
        let turn = self.server.turn.clone().lock().await;
        for (offset, args) in due {
            self.apply(session, offset, &args);
        }
        // The offset advances only now, so an acknowledgement never covers a command not yet
        // applied.
        if self.queued.is_none() {
            self.pass_on(session.db);
        }
        self.server.wake();
        self.server.write_log().await;
        drop(turn);
        Ok(true)
    }

    fn apply(&self, session: &mut Session, offset: u64, args: &Arguments) {
        let mut node = self.server.node.borrow_mut();
        node.set_time(self.server.host.now(Clock::Wall));
        let reply = apply(&mut node, session, args);
        debug_assert!(!reply.is_error(), "what a master did, its replica can do");
        settle(&mut node);
        let history = node.history.number();
        drop(node);
        self.server.publish(Origin::Replication { history, offset });
    }

    /// Counts what was applied and passes it to the node's own replicas byte for byte.
    fn pass_on(&mut self, db: usize) {
        let bytes = self.stream_bytes.split_to(std::mem::take(&mut self.taken));
        let mut node = self.server.node.borrow_mut();
        node.peers.link.resumes_in = Some(db);
        self.server.feeds.borrow_mut().pass(&mut node, &bytes);
    }

    async fn acknowledge(&mut self) -> io::Result<()> {
        let (offset, synced, reports_synced) = {
            let node = self.server.node.borrow();
            let (offset, synced) = (node.history.offset, node.saving.synced);
            let reports_synced =
                node.differs(Difference::WaitAof) && node.config.append != Append::None;
            (offset.to_string(), synced.to_string(), reports_synced)
        };
        let words = ["REPLCONF", "ACK", &offset, "FACK", &synced];
        let mut request = BytesMut::new();
        encode_request(&mut request, if reports_synced { &words } else { &words[..3] });
        self.stream.write_all(&request).await
    }
}
