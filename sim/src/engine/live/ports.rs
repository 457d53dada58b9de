//! Ports that are bound before a world begins: what is taken is refused at once, and where the
//! system chooses a port, it is known before anybody has to be told.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};

/// See the head of this file. Addresses are those by which peers know a machine.
#[derive(Default)]
pub struct Ports {
    bound: BTreeMap<SocketAddrV4, TcpListener>,
    /// Addresses at which a machine listens on every address of the computer.
    everywhere: BTreeMap<SocketAddrV4, SocketAddrV4>,
}

impl Ports {
    /// Binds a port; 0 lets the system choose. Returns the address by which peers reach it: for
    /// the unspecified IP that of the loopback.
    ///
    /// # Errors
    /// `AddrInUse` if the port is taken, and what else the system refuses.
    pub fn bind(&mut self, at: SocketAddrV4) -> io::Result<SocketAddrV4> {
        let listener = TcpListener::bind(at)?;
        listener.set_nonblocking(true)?;
        let SocketAddr::V4(bound) = listener.local_addr()? else {
            unreachable!("an IPv4 socket has an IPv4 address");
        };
        let mut known = bound;
        if bound.ip().is_unspecified() {
            known.set_ip(Ipv4Addr::LOCALHOST);
            self.everywhere.insert(known, bound);
        }
        self.bound.insert(known, listener);
        Ok(known)
    }

    /// The listener that was bound for this address, the first time; else a new one.
    ///
    /// # Errors
    /// As [`Ports::bind`].
    pub fn listener(&mut self, known: SocketAddrV4) -> io::Result<TcpListener> {
        if let Some(listener) = self.bound.remove(&known) {
            return Ok(listener);
        }
        let listener = TcpListener::bind(self.everywhere.get(&known).unwrap_or(&known))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }
}
