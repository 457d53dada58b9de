//! The other end of a connection to a node.

use std::net::SocketAddrV4;

/// See the module documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A client of the plan, or its probe.
    Client,
    /// The operator, which sends the commands of faults.
    Operator,
    /// Another server.
    Server,
}

impl Peer {
    /// Classifies an address. The run has network 127.n: nodes are in 127.n.0.0/24, Sentinels in
    /// 127.n.3.0/24, and all other machines of the plan elsewhere in it. The operator is in 127.0.
    pub fn of(address: SocketAddrV4) -> Peer {
        match address.ip().octets() {
            [127, 1..=255, 0 | 3, _] => Peer::Server,
            [127, 1..=255, ..] => Peer::Client,
            _ => Peer::Operator,
        }
    }
}
