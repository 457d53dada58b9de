//! Master and replica: which node follows which, and the effects of a change.
//!
//! As in Redis: PING, REPLCONF, PSYNC, then a full or a partial resynchronisation, then every write
//! as the master executed it, with the same replication offset on all sides. A replica passes the
//! stream unchanged to its own replicas. `feed` is the master's side, `follow` the replica's,
//! `failover` the change between the two by command.

pub mod failover;
pub mod feed;
pub mod follow;

use std::net::SocketAddrV4;
use std::rc::Rc;

use lockstorm_platform::time::Clock;
use lockstorm_platform::trace::Event;

use crate::server::Server;

impl Server {
    /// Makes the node follow `master`, or become a master. Replicas of a new master reconnect to
    /// learn the history's new id; those of a new replica stay until its keys change.
    pub fn change_role(self: &Rc<Server>, master: Option<SocketAddrV4>) {
        let mut node = self.node.borrow_mut();
        node.set_time(self.host.now(Clock::Wall));
        match master {
            Some(master) => node.follow(master),
            None => node.lead(),
        }
        let continued = node.history.continued().filter(|_| master.is_none());
        drop(node);
        self.host.record(Event::Role { master });
        if let Some(continued) = continued {
            self.host.record(continued);
        }
        if master.is_none() {
            self.feeds.borrow_mut().cut_all();
        }
        // Raised before the new task starts: this ends the previous one, and the new one counts
        // from here.
        self.role.raise();
        self.acknowledged.raise();
        self.ends.raise();
        if master.is_some() {
            (self.follow)(self);
        }
        // Clients whose wait ended with the role have output by now.
        self.wake();
    }
}
