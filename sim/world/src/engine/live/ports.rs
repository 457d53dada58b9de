//! Ports that are bound before a world begins: an occupied port is refused at once, and a port that
//! the system chooses is known before it is needed.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};

/// How many ports of the system's choice are tried for a pair.
const MAX_TRIES: u32 = 1_000;

/// See the head of this file. Addresses are those by which peers know a machine.
#[derive(Default)]
pub struct Ports {
    bound: BTreeMap<SocketAddrV4, TcpListener>,
    /// Known addresses of machines that listen on all interfaces, with the bound address.
    everywhere: BTreeMap<SocketAddrV4, SocketAddrV4>,
}

impl Ports {
    /// Binds a port; 0 lets the system choose. Returns the address by which peers reach it: the
    /// loopback address for the unspecified IP.
    ///
    /// # Errors
    /// `AddrInUse` if the port is in use, and other errors of the system.
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

    /// Binds a port and the port `above` higher; 0 lets the system choose until both are free.
    /// Returns the address of the lower port.
    ///
    /// # Errors
    /// As [`Ports::bind`], of either.
    pub fn bind_pair(&mut self, at: SocketAddrV4, above: u16) -> io::Result<SocketAddrV4> {
        let mut tries = if at.port() == 0 { MAX_TRIES } else { 1 };
        loop {
            let known = self.bind(at)?;
            tries -= 1;
            let upper = known.port().checked_add(above);
            let upper = upper.ok_or(io::Error::from(io::ErrorKind::InvalidInput));
            let bound = upper.and_then(|port| self.bind(SocketAddrV4::new(*at.ip(), port)));
            let Err(error) = bound else { return Ok(known) };
            self.bound.remove(&known);
            if tries == 0 {
                return Err(error);
            }
        }
    }

    /// The listener that was bound for this address, at the first call; otherwise a new one.
    ///
    /// # Errors
    /// As [`Ports::bind`].
    pub(crate) fn listener(&mut self, known: SocketAddrV4) -> io::Result<TcpListener> {
        if let Some(listener) = self.bound.remove(&known) {
            return Ok(listener);
        }
        let listener = TcpListener::bind(self.everywhere.get(&known).unwrap_or(&known))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};

    use super::Ports;

    #[test]
    fn a_pair_is_bound_as_a_whole_or_not_at_all() {
        let at = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let mut ports = Ports::default();
        let known = ports.bind_pair(at(0), 10_000).expect("some pair is free");
        let upper = at(known.port() + 10_000);
        assert!(TcpListener::bind(upper).is_err(), "the upper port is bound too");
        drop(ports.listener(known));
        assert!(ports.bind_pair(known, 10_000).is_err(), "the upper port is taken");
        assert!(TcpListener::bind(known).is_ok(), "and the lower one is free again");
        assert!(Ports::default().bind_pair(at(60_000), 10_000).is_err(), "there is no port 70,000");
    }
}
