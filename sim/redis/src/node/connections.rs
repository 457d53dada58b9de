//! New connections of a node.

use std::net::SocketAddrV4;

use crate::frame::word;
use crate::node::Node;
use crate::session::{ClientIdentity, Session};

impl Node {
    /// Registers a connection; returns its id.
    pub fn connect(&mut self, addresses: [SocketAddrV4; 2]) -> u64 {
        let user = (!self.users.requires_password()).then(|| word("default"));
        let since_ms = [self.clock.now_ms; 2];
        let client = ClientIdentity { addresses, since_ms, ..ClientIdentity::default() };
        let session = Session { client, user, ..Session::default() };
        self.clients.connect(session, self.limits.clients)
    }
}
