//! Hello messages: how Sentinels find each other, and how the newest configuration wins.

use std::net::SocketAddrV4;

use lockstorm_platform::time::Ms;

use crate::frame::Reply;
use crate::sentinel::Sentinel;
use crate::sentinel::instance::InstanceKey;

/// The contents of a hello message.
struct Hello<'a> {
    address: SocketAddrV4,
    id: &'a str,
    epoch: u64,
    name: &'a str,
    master: SocketAddrV4,
    config_epoch: u64,
}

impl<'a> Hello<'a> {
    /// Eight words between commas; any other text is not a hello.
    fn read(text: &'a str) -> Option<Hello<'a>> {
        let words: Vec<&str> = text.split(',').collect();
        let &[ip, port, id, epoch, name, master_ip, master_port, config_epoch] = &words[..] else {
            return None;
        };
        let address =
            |ip: &str, port: &str| Some(SocketAddrV4::new(ip.parse().ok()?, port.parse().ok()?));
        Some(Hello {
            address: address(ip, port)?,
            id,
            epoch: epoch.parse().ok()?,
            name,
            master: address(master_ip, master_port)?,
            config_epoch: config_epoch.parse().ok()?,
        })
    }
}

impl Sentinel {
    /// The hello message about a master and this Sentinel.
    pub fn hello(&self, name: &str) -> String {
        let Some(master) = self.masters.get(name) else { return String::new() };
        let at = master.current_address();
        let ip = match &self.globals.announce_ip[..] {
            "" => self.address.ip().to_string(),
            announced => announced.to_owned(),
        };
        let port = match self.globals.announce_port {
            0 => self.address.port(),
            announced => announced,
        };
        format!(
            "{ip},{port},{},{},{name},{},{},{}",
            self.id,
            self.epoch,
            at.ip(),
            at.port(),
            master.config_epoch
        )
    }

    /// A message on a channel. A Sentinel also receives its own.
    pub fn hear_channel(&mut self, reply: &Reply, now: Ms) {
        let Reply::Array(items) = reply else { return };
        let [Reply::Bulk(kind), Reply::Bulk(_), Reply::Bulk(text)] = &items[..] else { return };
        let text = String::from_utf8_lossy(text);
        if &kind[..] == b"message" && !text.contains(&self.id) {
            self.hear_hello(&text, now);
        }
    }

    /// Takes a hello message: adds an unknown Sentinel, adopts a newer configuration.
    pub fn hear_hello(&mut self, text: &str, now: Ms) {
        let Some(hello) = Hello::read(text) else { return };
        let Some(master) = self.masters.get(hello.name) else { return };
        let known = master.sentinels.get(hello.id);
        if known.is_none_or(|peer| peer.instance.address != hello.address) {
            self.meet(&hello, known.is_some(), now);
        }
        if hello.epoch > self.epoch {
            self.raise_epoch(hello.epoch);
        }
        let peer = InstanceKey::sentinel(hello.name, hello.id);
        let Some(master) = self.masters.get_mut(hello.name) else { return };
        if let Some(peer) = master.sentinels.get_mut(hello.id) {
            peer.hello_at = now;
        }
        // Of two configurations the one with the higher epoch wins; an equal one is not newer.
        if master.config_epoch >= hello.config_epoch {
            return;
        }
        master.config_epoch = hello.config_epoch;
        let old = master.instance.address;
        if old != hello.master {
            self.emit("+config-update-from", &peer, "");
            self.emit_switch(hello.name, old, hello.master);
            self.change_address(hello.name, hello.master, now);
        }
    }

    /// Adds the sender. If it moved, or its address belonged to another Sentinel, it replaces the
    /// old entry.
    fn meet(&mut self, hello: &Hello, moved: bool, now: Ms) {
        let name = hello.name;
        let same_address = self.masters[name].sentinels.iter();
        let same_address = same_address.filter(|(_, peer)| peer.instance.address == hello.address);
        let same_address: Vec<String> = same_address.map(|(id, _)| id.clone()).collect();
        if moved {
            let (ip, port) = (hello.address.ip(), hello.address.port());
            let more = format!(" ip {ip} port {port} for {}", hello.id);
            self.emit("+sentinel-address-switch", &InstanceKey::master(name), &more);
            self.forget_sentinel(name, hello.id);
        } else if let Some(other) = same_address.first() {
            self.emit("+sentinel-invalid-addr", &InstanceKey::sentinel(name, other), "");
            for name in self.masters.keys().cloned().collect::<Vec<_>>() {
                self.forget_sentinel(&name, other);
            }
        }
        if let Some(master) = self.masters.get_mut(name) {
            master.add_sentinel(hello.id, hello.address, now);
        }
        if !moved {
            self.emit("+sentinel", &InstanceKey::sentinel(name, hello.id), "");
        }
        self.unsaved = true;
    }

    fn forget_sentinel(&mut self, name: &str, id: &str) {
        self.close_all(&InstanceKey::sentinel(name, id));
        if let Some(master) = self.masters.get_mut(name) {
            master.sentinels.remove(id);
        }
    }

    /// Adopts an epoch higher than any previous one.
    pub fn raise_epoch(&mut self, epoch: u64) {
        debug_assert!(epoch > self.epoch, "epochs rise");
        self.epoch = epoch;
        self.unsaved = true;
        self.events.push(("+new-epoch", epoch.to_string()));
    }
}
