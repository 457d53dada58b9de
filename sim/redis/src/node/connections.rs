//! New connections of a node.

use std::net::SocketAddrV4;

use crate::frame::word;
use crate::node::Node;
use crate::session::Session;

impl Node {
    /// Registers a connection; returns its id.
    pub fn connect(&mut self, addresses: [SocketAddrV4; 2]) -> u64 {
        let user = (!self.users.requires_password()).then(|| word("default"));
        let since_ms = [self.now_ms; 2];
        let session = Session { addresses, since_ms, user, ..Session::default() };
        self.clients.connect(session, self.limits.clients)
    }
}
