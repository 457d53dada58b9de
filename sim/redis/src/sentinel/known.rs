//! The lines of a Sentinel's file about the replicas and the other Sentinels of its master.

use std::net::SocketAddrV4;

/// The part of a Sentinel's file that its administrator did not write: all that it needs to fail
/// over a master that is dead when it starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Its id.
    pub id: String,
    /// The replicas of its master.
    pub replicas: Vec<SocketAddrV4>,
    /// The other Sentinels of its master, by id.
    pub sentinels: Vec<(String, SocketAddrV4)>,
}

impl Known {
    /// The lines of the file, for a master of this name that it already has.
    pub fn lines(&self, name: &str) -> Vec<String> {
        let mut lines = vec![format!("sentinel myid {}", self.id)];
        lines.extend(self.replicas.iter().map(|at| replica_line(name, *at)));
        lines.extend(self.sentinels.iter().map(|(id, at)| sentinel_line(name, *at, id)));
        lines
    }
}

/// The line for a replica of the master of this name.
pub(crate) fn replica_line(name: &str, at: SocketAddrV4) -> String {
    format!("sentinel known-replica {name} {} {}", at.ip(), at.port())
}

/// The line for another Sentinel of the master of this name.
pub(crate) fn sentinel_line(name: &str, at: SocketAddrV4, id: &str) -> String {
    format!("sentinel known-sentinel {name} {} {} {id}", at.ip(), at.port())
}
