//! A Sentinel as a process: the tasks that tick, write its file and move its bytes.

use std::io;
use std::net::SocketAddrV4;
use std::rc::Rc;

use bytes::BytesMut;
use lockstorm_platform::host::Host;
use lockstorm_platform::time::{Clock, MILLISECOND};

use crate::files::sentinel::save;
use crate::frame::decode::ReplyReader;
use crate::frame::encode_request;
use crate::lines::{Line, Lines};
use crate::node::sentinel::to_ms;
use crate::node::{Node, NodeConfig};
use crate::process::{accept_all, ids};
use crate::replication::follow::follow_anew;
use crate::sentinel::file::FILE;
use crate::sentinel::{Sentinel, SentinelAction, SentinelConfig, SentinelMoment};
use crate::server::Server;

/// `hz` of a Sentinel: drawn for each tick, from this value up to less than twice as much.
const HZ: usize = 10;

/// A running Sentinel.
struct Watch {
    server: Rc<Server>,
    /// The connections that this node has opened.
    open: Lines,
}

/// Runs a Sentinel until its process stops.
///
/// # Panics
/// If its port is in use: a world gives each process its own ports.
pub async fn serve(host: Host, config: SentinelConfig) {
    let listener = host.listen(config.port).expect("the Sentinel's port is free");
    let server = Rc::new(Server::new(&host, node(&host, &config), follow_anew));
    let watch = Rc::new(Watch { server: Rc::clone(&server), open: Lines::default() });
    host.spawn(tick(watch));
    accept_all(server, listener).await;
    host.exit();
}

/// The initial state of the process: from its file, or from its configuration.
fn node(host: &Host, config: &SentinelConfig) -> Node {
    let wall = host.now(Clock::Wall);
    let config_of_node = NodeConfig { port: config.port, ..NodeConfig::default() };
    let mut node = Node::new(config_of_node, wall / MILLISECOND, ids(host));
    let own = host.resolve(host.name()).expect("a host knows its own address");
    let address = SocketAddrV4::new(*own.ip(), config.port);
    let now = to_ms(node.clock.now_ms);
    let mut sentinel = Sentinel::new(node.history.id.clone(), address, now);
    let file = host.disk().read(FILE);
    if file.is_empty() {
        sentinel.set_up(config, now);
    } else {
        sentinel.read_file(&String::from_utf8_lossy(&file), now);
    }
    node.sentinel = Some(Box::new(sentinel));
    node
}

async fn tick(watch: Rc<Watch>) {
    loop {
        // Drawn for each tick, so that Sentinels do not start elections in step.
        let hz = HZ + watch.server.node.borrow_mut().dice.draw(HZ);
        let pause = 1_000 / u64::try_from(hz).unwrap_or(10);
        watch.server.host.sleep(pause * MILLISECOND).await;
        watch.handle(Sentinel::tick).await;
    }
}

impl Watch {
    /// Passes an event to the state and carries out the resulting actions.
    async fn handle(self: &Rc<Watch>, handler: impl FnOnce(&mut Sentinel, SentinelMoment)) {
        {
            let mut node = self.server.node.borrow_mut();
            node.set_time(self.server.host.now(Clock::Wall));
            let now = node.moment();
            let Some(sentinel) = &mut node.sentinel else { return };
            handler(sentinel, now);
            node.publish_events();
        }
        self.server.wake();
        // Before the actions: a vote or a new configuration must survive a crash once a peer knows
        // it.
        save(&self.server).await;
        if self.server.node.borrow().sentinel.as_ref().is_some_and(|own| own.crashes.now) {
            return self.server.ended.raise();
        }
        self.take_actions().into_iter().for_each(|action| self.act(action));
    }

    fn take_actions(&self) -> Vec<SentinelAction> {
        let mut node = self.server.node.borrow_mut();
        debug_assert!(
            node.sentinel.as_ref().is_none_or(|own| !own.unsaved),
            "no action leaves before its change is in the file"
        );
        node.sentinel.as_mut().map(|own| std::mem::take(&mut own.actions)).unwrap_or_default()
    }

    fn act(self: &Rc<Watch>, action: SentinelAction) {
        match action {
            SentinelAction::Open(id, to) => {
                let line = self.open.open(id);
                self.server.host.spawn(Rc::clone(self).carry(id, to, line));
            }
            SentinelAction::Send(id, words) => {
                self.open.send(id, |outbox| encode_request(outbox, &words));
            }
            SentinelAction::Close(id) => self.open.close(id),
        }
    }

    /// Serves one connection from its opening to its close.
    async fn carry(self: Rc<Watch>, id: u64, to: SocketAddrV4, line: Rc<Line>) {
        let _ = self.converse(id, to, &line).await;
        if self.open.is_lost(id, &line) {
            self.handle(|sentinel, _| sentinel.lost(id)).await;
        }
    }

    async fn converse(self: &Rc<Watch>, id: u64, to: SocketAddrV4, line: &Line) -> io::Result<()> {
        let Some(mut stream) = line.connect(&self.server.host, to).await? else { return Ok(()) };
        let (mut replies, mut inbox) = (ReplyReader::default(), BytesMut::with_capacity(1024));
        let mut handler = async |inbox: &mut BytesMut| {
            while let Some(reply) = replies.next(inbox).map_err(|_| io::ErrorKind::InvalidData)? {
                self.handle(|sentinel, now| sentinel.heard(id, &reply, now)).await;
            }
            Ok(())
        };
        while line.turn(&mut stream, &mut inbox, &mut handler).await? {}
        Ok(())
    }
}
