//! The persistent state of a Sentinel: the lines that Redis adds to `sentinel.conf`.

use std::fmt::Write as _;
use std::net::SocketAddrV4;

use lockstorm_platform::time::Ms;

use crate::sentinel::Sentinel;
use crate::sentinel::globals::Globals;
use crate::sentinel::instance::Master;
use crate::sentinel::known::{replica_line, sentinel_line};

/// The file's name on the host's disk.
pub const FILE: &str = "sentinel.conf";

impl Sentinel {
    /// The whole file.
    pub fn write_file(&self) -> String {
        let mut text = format!("sentinel myid {}\n", self.id);
        let default = Globals::default().all();
        for ((name, value), _) in
            self.globals.all().iter().zip(default).filter(|(set, default)| **set != *default)
        {
            let _ = writeln!(text, "sentinel {name} {value}");
        }
        for (name, master) in &self.masters {
            write_master(&mut text, name, master);
        }
        let _ = writeln!(text, "sentinel current-epoch {}", self.epoch);
        text
    }

    /// Restores the state from a file; invalid lines are ignored.
    pub fn read_file(&mut self, text: &str, now: Ms) {
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let _ = self.read_line(&words, now);
        }
        self.unsaved = false;
    }

    fn read_line(&mut self, words: &[&str], now: Ms) -> Option<()> {
        match *words {
            ["sentinel", "myid", id] => id.clone_into(&mut self.id),
            ["sentinel", "current-epoch", epoch] => self.epoch = epoch.parse().ok()?,
            ["sentinel", "monitor", name, ip, port, quorum] => {
                let master = Master::new(address(ip, port)?, quorum.parse().ok()?, now);
                self.masters.insert(name.to_owned(), master);
            }
            ["sentinel", word, ref values @ ..]
                if self.globals.set(word, &values.join(" ")).is_ok() => {}
            ["sentinel", word, name, ref values @ ..] => {
                let master = self.masters.get_mut(name)?;
                match (word, values) {
                    ("down-after-milliseconds", [ms]) => master.down_after = ms.parse().ok()?,
                    ("failover-timeout", [ms]) => master.failover_timeout = ms.parse().ok()?,
                    ("parallel-syncs", [many]) => master.parallel_syncs = many.parse().ok()?,
                    ("config-epoch", [epoch]) => master.config_epoch = epoch.parse().ok()?,
                    ("leader-epoch", [epoch]) => master.leader_epoch = epoch.parse().ok()?,
                    ("known-replica", [ip, port]) => {
                        master.add_replica(address(ip, port)?, now);
                    }
                    ("known-sentinel", [ip, port, id]) => {
                        master.add_sentinel(id, address(ip, port)?, now);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        Some(())
    }
}

fn address(ip: &str, port: &str) -> Option<SocketAddrV4> {
    Some(SocketAddrV4::new(ip.parse().ok()?, port.parse().ok()?))
}

/// A replica that is being promoted is already written as the master, and the master as a replica.
fn write_master(text: &mut String, name: &str, master: &Master) {
    let (at, old) = (master.current_address(), master.instance.address);
    // First, because the other lines of a master are read into its entry.
    let _ = writeln!(text, "sentinel monitor {name} {} {} {}", at.ip(), at.port(), master.quorum);
    for (word, value) in [
        ("down-after-milliseconds", master.down_after.to_string()),
        ("failover-timeout", master.failover_timeout.to_string()),
        ("parallel-syncs", master.parallel_syncs.to_string()),
        ("config-epoch", master.config_epoch.to_string()),
        ("leader-epoch", master.leader_epoch.to_string()),
    ] {
        let _ = writeln!(text, "sentinel {word} {name} {value}");
    }
    for replica in master.replicas.keys() {
        let replica = if *replica == at { old } else { *replica };
        let _ = writeln!(text, "{}", replica_line(name, replica));
    }
    for (id, peer) in &master.sentinels {
        let _ = writeln!(text, "{}", sentinel_line(name, peer.instance.address, id));
    }
}
