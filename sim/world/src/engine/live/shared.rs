//! What tasks, streams and timers of the live engine share: listening addresses, open connections,
//! and the sockets of machines without power.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use lockstorm_platform::trace::{Connection, HostId};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::engine::live::ports::Ports;
use crate::engine::live::recorder::Recorder;
use crate::engine::live::wire::{Ends, Wire, Wires};
use crate::engine::tasks::Tasks;

/// See the head of this file.
pub(crate) struct LiveShared {
    pub(crate) tasks: Rc<Tasks>,
    pub(crate) recorder: Rc<Recorder>,
    pub(crate) wires: Rc<Wires>,
    pub(crate) ports: RefCell<Ports>,
    /// The listening address of each machine, as its peers know it.
    pub(crate) addresses: RefCell<BTreeMap<HostId, SocketAddrV4>>,
    /// Sockets of machines without power: silent until the machine is up again.
    pub(crate) silent: RefCell<BTreeMap<HostId, SilentSockets>>,
    pub(crate) listeners: RefCell<BTreeMap<HostId, Vec<Weak<TcpListener>>>>,
    /// Whether every client belongs to this world: see
    /// [`crate::engine::live::LiveEngine::closed`].
    pub(crate) is_closed: bool,
    /// See [`crate::engine::live::LiveEngine::bell`].
    pub(crate) bell: Arc<Notify>,
}

/// The sockets of a machine without power.
#[derive(Default)]
pub(crate) struct SilentSockets {
    streams: Vec<TcpStream>,
    _listeners: Vec<Rc<TcpListener>>,
}

impl Drop for SilentSockets {
    fn drop(&mut self) {
        // A rebooted machine does not know its old connections: it replies with a reset.
        for stream in &self.streams {
            let _ = stream.set_zero_linger();
        }
    }
}

impl LiveShared {
    /// A world without machines.
    pub(crate) fn new(tasks: Tasks, ports: Ports, is_closed: bool) -> LiveShared {
        let tasks = Rc::new(tasks);
        LiveShared {
            recorder: Rc::new(Recorder::new(Rc::clone(&tasks), is_closed)),
            tasks,
            wires: Rc::default(),
            ports: RefCell::new(ports),
            addresses: RefCell::default(),
            silent: RefCell::default(),
            listeners: RefCell::default(),
            is_closed,
            bell: Arc::default(),
        }
    }

    /// Wraps an established connection.
    pub(crate) fn open(&self, ends: Ends, connection: Connection, stream: TcpStream) -> Rc<Wire> {
        self.wires.open(&self.tasks, &self.recorder, ends, (connection, stream))
    }

    /// The IP address from which a machine connects to another.
    pub(crate) fn source(&self, own: HostId, to: SocketAddrV4) -> Ipv4Addr {
        let ip = *self.addresses.borrow()[&own].ip();
        match (self.is_closed && ip.is_loopback(), to.ip().is_loopback()) {
            (true, _) => ip,
            (_, true) => Ipv4Addr::LOCALHOST,
            _ => Ipv4Addr::UNSPECIFIED,
        }
    }

    /// Keeps the sockets of a machine that loses power: silent until the machine is up again.
    pub(crate) fn silence(&self, host: HostId) {
        let own = |wire: &Rc<Wire>| wire.own == host;
        let streams = self.wires.all().into_iter().filter(own).filter_map(|wire| wire.detach());
        let listeners = self.listeners.borrow_mut().remove(&host).unwrap_or_default();
        let sockets = SilentSockets {
            streams: streams.collect(),
            // Kept open: connects to the machine meet silence instead of a refusal.
            _listeners: listeners.iter().filter_map(Weak::upgrade).collect(),
        };
        self.silent.borrow_mut().insert(host, sockets);
    }
}
