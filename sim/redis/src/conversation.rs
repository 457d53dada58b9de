//! One connection: requests in order, each followed by its replies, and what the node pushes
//! on its own.

use std::io;
use std::rc::Rc;

use bytes::BytesMut;
use lockstorm_platform::host::Stream;
use lockstorm_platform::time::Clock;
use lockstorm_platform::trace::exchange::Exchange;
use lockstorm_platform::trace::{Event, Leg, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::frame::request::RequestReader;
use crate::frame::{Arguments, Reply};
use crate::keyspace::limits::Limits;
use crate::permission::NOREPLICAS;
use crate::replication::feed::feed;
use crate::server::Server;
use crate::session::{After, Closing, Psync, Session};
use crate::signal::{First, Signal, first};
use crate::waits::wait;
use crate::{cycle, frame};

/// If less room is left in the buffer, [`ROOM`] is reserved: pipelines arrive in large pieces.
const MIN_ROOM: usize = 512;
const ROOM: usize = 16 * 1024;
/// Maximum number of bytes that are read ahead while a request is blocked.
const MAX_READ_AHEAD: usize = 1 << 20;

/// The state of one connection.
struct Conversation {
    server: Rc<Server>,
    id: u64,
    stream: Stream,
    reader: RequestReader,
    input: BytesMut,
    output: BytesMut,
    nth: u32,
    /// Executed requests whose replies are not yet written.
    unanswered: Vec<(Request, &'static str)>,
    /// The blocked request.
    waiting: Option<(Request, &'static str)>,
    wake: Rc<Signal>,
}

/// What follows a request.
enum Next {
    /// The next request.
    Go,
    /// The connection now feeds a replica.
    Feed(Psync),
}

/// Serves one connection until it closes.
pub async fn converse(server: Rc<Server>, stream: Stream) {
    let connection = stream.connection();
    server.node.borrow_mut().set_time(server.host.now(Clock::Wall));
    let id = server.node.borrow_mut().connect([connection.client, connection.server]);
    let talk = Conversation {
        id,
        stream,
        reader: RequestReader::default(),
        input: BytesMut::with_capacity(1024),
        output: BytesMut::with_capacity(1024),
        nth: 0,
        unanswered: Vec::new(),
        waiting: None,
        wake: server.wake_of(id),
        server: Rc::clone(&server),
    };
    server.wake();
    let _ = talk.go_on().await;
    server.disconnect(id);
}

/// What an execution appended to the output buffer.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    /// Nothing.
    None,
    /// A reply that is no error.
    Reply,
    /// An error with this first word, and whether it means too few good replicas for a write.
    Error { word: String, is_noreplicas: bool },
}

impl Answer {
    fn of(reply: &[u8]) -> Answer {
        match frame::error_word(reply) {
            Some(word) => Answer::Error { word, is_noreplicas: is_noreplicas(reply) },
            None if reply.is_empty() => Answer::None,
            None => Answer::Reply,
        }
    }
}

/// Whether a reply refuses a write because there are too few good replicas.
fn is_noreplicas(reply: &[u8]) -> bool {
    reply.strip_prefix(b"-").is_some_and(|error| error.starts_with(NOREPLICAS.as_bytes()))
}

impl Conversation {
    async fn go_on(mut self) -> io::Result<()> {
        loop {
            // Read first: output pushed while this task writes raises the signal, and the loop runs
            // again.
            let seen = self.wake.count();
            self.notice_answer();
            if let Next::Feed(psync) = self.serve_all().await? {
                // Replies to earlier requests precede the stream.
                self.flush().await?;
                feed(&self.server, self.id, self.stream, &psync).await;
                return Ok(());
            }
            self.flush().await?;
            match self.session(|session| session.replies.closing) {
                None => {}
                Some(Closing::AtOnce) => return Ok(()),
                Some(Closing::AfterOutput) => return self.stream.shutdown().await,
            }
            if self.input.len() > MAX_READ_AHEAD && self.waiting.is_some() {
                self.wake.past(seen).await;
                continue;
            }
            if self.input.capacity() - self.input.len() < MIN_ROOM {
                self.input.reserve(ROOM);
            }
            let read = self.stream.read_buf(&mut self.input);
            if let First::This(read) = first(read, self.wake.past(seen)).await
                && (read? == 0 || self.input.len() > self.limits().requests)
            {
                return Ok(());
            }
        }
    }

    fn session<T>(&self, look: impl FnOnce(&mut Session) -> T) -> T {
        let mut node = self.server.node.borrow_mut();
        look(node.clients.get_mut(self.id).expect("it is connected as long as it is served"))
    }

    fn limits(&self) -> Limits {
        self.server.node.borrow().limits
    }

    /// Whether requests are read. Sets the reader's length limits and whether AUTH must come first.
    fn listens(&mut self) -> bool {
        let node = self.server.node.borrow();
        let session = node.clients.get(self.id).expect("it is connected as long as it is served");
        self.reader.unauthenticated = session.user.is_none() && node.users.requires_password();
        self.reader.longest_word = Some(node.limits.word);
        self.waiting.is_none() && session.replies.closing.is_none()
    }

    /// Notices that the blocked request has received its reply meanwhile.
    fn notice_answer(&mut self) {
        if self.waiting.is_some() && self.session(|session| session.blocked.is_none()) {
            self.unanswered.extend(self.waiting.take());
        }
    }

    /// Serves every complete request that has arrived, until one of them blocks.
    async fn serve_all(&mut self) -> io::Result<Next> {
        while self.listens() {
            match self.reader.next(&mut self.input) {
                Ok(Some(args)) => {
                    if let Next::Feed(psync) = self.serve(&args).await? {
                        return Ok(Next::Feed(psync));
                    }
                }
                Ok(None) => break,
                Err(error) => self.session(|session| {
                    session.replies.push(&error.reply());
                    session.replies.closing = Some(Closing::AfterOutput);
                }),
            }
        }
        Ok(Next::Go)
    }

    /// Executes one request and carries out what it does to the connection.
    async fn serve(&mut self, args: &Arguments) -> io::Result<Next> {
        let request = Request { connection: self.stream.connection(), nth: self.nth };
        self.nth += 1;
        let before = self.session(|session| session.replies.buffer.len());
        self.server.execute(self.id, request, args).await;
        let (after, waits, answer, command) = self.session(|session| {
            let after = std::mem::take(&mut session.after);
            let command = session.last_command.map_or("UNKNOWN", |command| command.head);
            (
                after,
                session.blocked.is_some(),
                Answer::of(&session.replies.buffer[before..]),
                command,
            )
        });
        self.report(request, args, before);
        if let Answer::Error { word, is_noreplicas } = &answer {
            self.server.host.record(Event::Declined { request, word: word.clone() });
            if *is_noreplicas {
                self.server.host.record(Event::Unreplicated);
            }
        }
        // Before the mark, at which other tasks may run: REPLICAOF takes effect with its execution.
        if let After::Follow(master) = after {
            self.server.change_role(master);
        }
        self.mark(request, Leg::Applied, command).await;
        let has_reply = match after {
            After::Wait => {
                // Replies to earlier requests of a pipeline do not wait for this one.
                self.flush().await?;
                wait(&self.server, self.id, &self.wake).await;
                true
            }
            After::Feed(psync) => return Ok(Next::Feed(psync)),
            After::ShutDown { saves } => self.shut_down(saves).await,
            after => {
                let is_done = self.obey(after).await;
                if waits && !is_done {
                    debug_assert!(self.waiting.is_none(), "one request at a time is blocked");
                    self.waiting = Some((request, command));
                }
                is_done || (answer != Answer::None && !waits)
            }
        };
        if has_reply {
            self.unanswered.push((request, command));
        }
        Ok(Next::Go)
    }

    /// Records a request and what has been written in reply to it, if the node is configured to.
    fn report(&mut self, request: Request, args: &Arguments, before: usize) {
        if !self.server.node.borrow().config.reports_exchanges {
            return;
        }
        let reply = self.session(|session| session.replies.buffer[before..].to_vec().into());
        let exchange = Exchange { words: args.clone(), reply };
        self.server.host.record(Event::Exchanged(request, exchange));
    }

    /// Carries out what a command requires of the server; returns whether its reply is sent next.
    async fn obey(&mut self, after: After) -> bool {
        match after {
            After::FailOver => self.server.fail_over(),
            After::AbortFailover => self.server.abort_failover(),
            After::BeginFile => self.server.begin_log().await,
            After::Save { in_background: false } => {
                let reply = self.server.save().await;
                self.session(|session| session.replies.push(&reply));
            }
            After::Save { in_background: true } => self.server.save_in_background(),
            After::Rewrite => self.server.rewrite_in_background(),
            After::InTurn => self.server.begin_in_turn(),
            After::WatchSaves => cycle::save_from_now_on(&self.server),
            _ => return false,
        }
        true
    }

    /// Stops the process, unless a required save fails: then there is a reply.
    async fn shut_down(&mut self, saves: bool) -> bool {
        if saves && self.server.save().await.is_error() {
            let reply = Reply::error("ERR Errors trying to SHUTDOWN. Check logs.");
            self.session(|session| session.replies.push(&reply));
            return true;
        }
        self.server.ended.raise();
        false
    }

    /// Writes all pending output.
    async fn flush(&mut self) -> io::Result<()> {
        let mut output = std::mem::take(&mut self.output);
        self.session(|session| std::mem::swap(&mut session.replies.buffer, &mut output));
        self.output = output;
        if self.output.is_empty() {
            return Ok(());
        }
        // Before the output: under `appendfsync always` a reply promises a synced write.
        self.server.write_log().await;
        if self.server.has_broken_its_word() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.stream.write_all(&self.output).await?;
        self.output.clear();
        let mut answered = std::mem::take(&mut self.unanswered);
        for (request, command) in answered.drain(..) {
            self.mark(request, Leg::Replied, command).await;
        }
        self.unanswered = answered;
        Ok(())
    }

    async fn mark(&self, request: Request, leg: Leg, command: &'static str) {
        self.server.host.mark(Event::Message { request, leg, command, op: None }).await;
    }
}
