//! A cluster node as a process: the tasks that tick, write the file and move the bytes of the bus.

use std::io;
use std::net::SocketAddrV4;
use std::rc::Rc;

use bytes::BytesMut;
use lockstorm_platform::host::Stream;
use lockstorm_platform::time::{Clock, MILLISECOND};
use lockstorm_platform::trace::{Event, Origin, Sight};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::clients::Pause;
use crate::cluster::file::FILE;
use crate::cluster::message::Message;
use crate::cluster::{BUS, Cluster, ClusterAction, ClusterMoment};
use crate::frame::request::RequestReader;
use crate::lines::{Line, Lines};
use crate::server::Server;
use crate::session::{Channel, Session};

/// Time between two runs of `clusterCron`.
const TICK: u64 = 100 * MILLISECOND;

/// The bus of one node.
struct Bus {
    server: Rc<Server>,
    /// The connections that this node has opened.
    open: Lines,
}

/// Starts the cluster tasks of a node, if it is in a cluster.
///
/// # Panics
/// If the port of its bus is in use: a world gives each process its own ports.
pub fn start(server: &Rc<Server>) {
    let node = server.node.borrow();
    let (Some(_), port) = (&node.cluster, node.config.port.wrapping_add(BUS)) else { return };
    drop(node);
    let listener = server.host.listen(port).expect("the port of the bus is free");
    let bus = Rc::new(Bus { server: Rc::clone(server), open: Lines::default() });
    let host = &server.host;
    host.spawn(Rc::clone(&bus).tick());
    host.spawn(Rc::clone(&bus).carry_out());
    host.spawn(async move {
        let mut listener = listener;
        while let Ok(stream) = listener.accept().await {
            bus.server.host.spawn(Rc::clone(&bus).listen_to(stream));
        }
    });
}

impl Bus {
    /// Passes an event to the state; [`Bus::carry_out`] carries out the resulting actions.
    fn handle<T>(&self, handler: impl FnOnce(&mut Cluster, ClusterMoment) -> T) -> Option<T> {
        let mut node = self.server.node.borrow_mut();
        node.set_time(self.server.host.now(Clock::Wall));
        let cluster = node.cluster_now()?;
        let result = handler(cluster, cluster.moment);
        let failed = std::mem::take(&mut cluster.failed);
        drop(node);
        for master in failed {
            self.server.host.record(Event::Saw { sight: Sight::Down, master });
        }
        self.server.wake();
        Some(result)
    }

    async fn tick(self: Rc<Bus>) {
        loop {
            self.server.host.sleep(TICK).await;
            self.handle(Cluster::tick);
        }
    }

    /// Carries out the pending actions in order. The file is synced before any node learns of a
    /// change: a vote survives a crash.
    async fn carry_out(self: Rc<Bus>) {
        loop {
            let seen = self.server.bus.count();
            if self.save().await.is_err() {
                return self.server.ended.raise();
            }
            // No await since the file was last found up to date: no action precedes the save of its
            // change.
            let actions = self.take_actions();
            let idle = actions.is_empty();
            for action in actions {
                self.act(action).await;
            }
            if idle {
                self.server.bus.past(seen).await;
            }
        }
    }

    fn take_actions(&self) -> Vec<ClusterAction> {
        let mut node = self.server.node.borrow_mut();
        debug_assert!(
            node.cluster.as_ref().is_none_or(|cluster| !cluster.unsaved),
            "no action leaves before its change is in the file"
        );
        node.cluster.as_mut().map(|c| std::mem::take(&mut c.actions)).unwrap_or_default()
    }

    /// The file's text, if the one on disk is outdated.
    fn take_file(&self) -> Option<String> {
        let mut node = self.server.node.borrow_mut();
        let cluster = node.cluster.as_mut().filter(|cluster| cluster.unsaved)?;
        cluster.unsaved = false;
        Some(cluster.write_file())
    }

    /// Writes the file. A node that cannot stops (`clusterSaveConfigOrDie`).
    async fn save(&self) -> io::Result<()> {
        while let Some(text) = self.take_file() {
            self.server.host.disk().replace(FILE, text.as_bytes())?;
            self.server.host.disk().sync(FILE).await;
        }
        Ok(())
    }

    async fn act(self: &Rc<Bus>, action: ClusterAction) {
        match action {
            ClusterAction::Open(id, to) => {
                let line = self.open.open(id);
                self.server.host.spawn(Rc::clone(self).carry(id, to, line));
            }
            ClusterAction::Send(id, bytes) => {
                self.open.send(id, |outbox| outbox.extend_from_slice(&bytes));
            }
            ClusterAction::Close(id) => self.open.close(id),
            ClusterAction::Follow(master) => {
                // To follow the same master again would cut a link that works.
                if self.server.node.borrow().peers.master != master {
                    self.server.change_role(master);
                }
            }
            ClusterAction::Clear(slots) => {
                self.server.node.borrow_mut().clear_slots(&slots);
                self.server.publish(Origin::Node);
                self.server.write_log().await;
            }
            ClusterAction::Pause(until) => {
                let mut node = self.server.node.borrow_mut();
                let until_ms = until.and_then(|until| u64::try_from(until).ok());
                let until_ms = until_ms.unwrap_or(node.clock.now_ms);
                node.clients.set_pause(Some(Pause { until_ms, all: false }));
                drop(node);
                self.server.wake();
            }
            ClusterAction::Publish { channel, message, shard } => {
                let kind = if shard { Channel::Shard } else { Channel::Plain };
                let mut nobody = Session::default();
                let mut node = self.server.node.borrow_mut();
                node.clients.publish(&mut nobody, kind, &channel, &message);
                drop(node);
                self.server.wake();
            }
        }
    }

    /// Serves one outgoing connection from its opening to its close.
    async fn carry(self: Rc<Bus>, id: u64, to: SocketAddrV4, line: Rc<Line>) {
        let _ = self.converse(id, to, &line).await;
        if self.open.is_lost(id, &line) {
            self.handle(|cluster, _| cluster.lost(id));
        }
    }

    async fn converse(&self, id: u64, to: SocketAddrV4, line: &Line) -> io::Result<()> {
        let Some(mut stream) = line.connect(&self.server.host, to).await? else { return Ok(()) };
        self.handle(|cluster, moment| cluster.opened(moment, id));
        let (mut reader, mut inbox) = (RequestReader::default(), BytesMut::with_capacity(1024));
        let mut handler = async |inbox: &mut BytesMut| {
            while let Some(message) = next(&mut reader, inbox)? {
                self.handle(|cluster, moment| cluster.take(moment, Some(id), &message));
            }
            Ok(())
        };
        while line.turn(&mut stream, &mut inbox, &mut handler).await? {}
        Ok(())
    }

    /// Serves an incoming connection.
    async fn listen_to(self: Rc<Bus>, mut stream: Stream) {
        let (mut reader, mut inbox) = (RequestReader::default(), BytesMut::with_capacity(1024));
        while let Ok(1..) = stream.read_buf(&mut inbox).await {
            while let Ok(Some(message)) = next(&mut reader, &mut inbox) {
                let handler = |cluster: &mut Cluster, now| cluster.take(now, None, &message);
                let Some(Some(answer)) = self.handle(handler) else { continue };
                if stream.write_all(&answer).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// The next complete message.
fn next(reader: &mut RequestReader, inbox: &mut BytesMut) -> io::Result<Option<Message>> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let words = reader.next(inbox).map_err(|_| invalid())?;
    words.map(|words| Message::decode(&words).ok_or_else(invalid)).transpose()
}
