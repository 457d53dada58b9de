//! The output of a node to its replicas.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use bytes::BytesMut;
use lockstorm_platform::host::Host;
use lockstorm_platform::trace::{Event, Origin};

use crate::compat::Difference;
use crate::effects::PropagatedCommand;
use crate::frame::encode_request;
use crate::node::Node;
use crate::persistence::Script;
use crate::signal::Signal;

/// The replicas that a node feeds. All of them receive the same stream.
#[derive(Default)]
pub struct Feeds {
    script: Script,
    outboxes: Vec<Rc<Outbox>>,
    /// Whether the task `tend` runs.
    tended: bool,
}

/// The output to one replica.
pub struct Outbox {
    session: u64,
    bytes: RefCell<BytesMut>,
    filled: Signal,
    cut: Cell<bool>,
}

impl Outbox {
    fn cut(&self) {
        self.cut.set(true);
        self.filled.raise();
    }

    /// Whether its link must close.
    pub fn is_cut(&self) -> bool {
        self.cut.get()
    }

    /// Takes the pending output; if there is none, waits until there is.
    pub async fn next(&self) -> BytesMut {
        let seen = self.filled.count();
        let bytes = self.bytes.borrow_mut().split();
        if bytes.is_empty() {
            self.filled.past(seen).await;
        }
        bytes
    }
}

impl Feeds {
    /// Begins to feed a replica, with these bytes first. From here on it receives the whole stream.
    pub fn open(&mut self, session: u64, bytes: BytesMut) -> Rc<Outbox> {
        debug_assert!(
            self.outboxes.iter().all(|outbox| outbox.session != session),
            "a session feeds one replica"
        );
        let outbox = Rc::new(Outbox {
            session,
            bytes: RefCell::new(bytes),
            filled: Signal::default(),
            cut: Cell::new(false),
        });
        self.outboxes.push(Rc::clone(&outbox));
        outbox
    }

    /// Stops feeding a replica.
    pub fn close(&mut self, session: u64) {
        self.outboxes.retain(|outbox| outbox.session != session);
    }

    /// Whether the caller must start the task that tends the replicas.
    pub fn begin_tending(&mut self) -> bool {
        !std::mem::replace(&mut self.tended, true)
    }

    /// Whether no replica is left, so that this task stops.
    pub fn end_tending(&mut self) -> bool {
        if self.outboxes.is_empty() {
            self.tended = false;
        }
        !self.tended
    }

    /// Makes the next command begin with SELECT.
    pub fn forget_database(&mut self) {
        self.script.forget_database();
    }

    /// Propagates the effects of a master to every replica and advances the replication offset.
    pub fn send(
        &mut self,
        host: &Host,
        node: &mut Node,
        commands: &[PropagatedCommand],
        origin: Origin,
    ) {
        if !node.history.is_kept() {
            return count(node, Script::length(commands));
        }
        // Read before `pass` advances the offset.
        let (history, before) = (node.history.number(), node.history.offset);
        debug_assert!(
            node.peers.master.is_none(),
            "a replica adds nothing of its own to its master's stream"
        );
        let mut stream = BytesMut::new();
        self.script.write(commands, &mut stream, |command, written| {
            let offset = before + written.len() as u64;
            let origin = if command.by_node { Origin::Node } else { origin };
            host.record(Event::Propagated { history, offset, origin });
        });
        self.pass(node, &stream);
        debug_assert_eq!(
            node.history.offset,
            before + stream.len() as u64,
            "the offset counts every byte of the stream"
        );
    }

    /// Requests an acknowledgement from every replica: REPLCONF GETACK.
    pub fn request_acknowledgement(&mut self, node: &mut Node) {
        if !node.history.is_kept() {
            return count(node, 1);
        }
        self.say(node, &["REPLCONF", "GETACK", "*"]);
    }

    /// Adds a command without an effect on keys to the stream, if there is a replica.
    pub fn say(&mut self, node: &mut Node, words: &[&str]) {
        if !self.outboxes.is_empty() {
            let mut stream = BytesMut::new();
            debug_assert!(node.peers.master.is_none(), "only a master adds commands to the stream");
            encode_request(&mut stream, words);
            self.pass(node, &stream);
        }
    }

    /// Adds bytes to the stream of every replica.
    pub fn pass(&mut self, node: &mut Node, stream: &[u8]) {
        node.stream(stream);
        for outbox in &self.outboxes {
            outbox.bytes.borrow_mut().extend_from_slice(stream);
            outbox.filled.raise();
        }
    }

    /// Closes every replica's link: each has to resynchronise, since the history has changed.
    pub fn cut_all(&mut self) {
        // A replica's stream is its master's, whose last SELECT is unknown here.
        self.script.forget_database();
        for outbox in self.outboxes.drain(..) {
            outbox.cut();
        }
    }

    /// Closes the link of one replica.
    pub fn cut(&self, session: u64) {
        for outbox in self.outboxes.iter().filter(|outbox| outbox.session == session) {
            outbox.cut();
        }
    }
}

/// Counts commands that reach no replica, where WAITAOF may need the offset.
fn count(node: &mut Node, commands: u64) {
    if node.differs(Difference::WaitAof) {
        node.history.count(commands);
    }
}
