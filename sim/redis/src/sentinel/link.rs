//! The connections to all instances: opened, polled, closed.

use std::collections::VecDeque;
use std::net::SocketAddrV4;

use lockstorm_platform::time::Ms;

use crate::frame::Reply;
use crate::sentinel::instance::{
    Expect, InstanceKey, InstanceLink, SentinelConnection, State, Who,
};
use crate::sentinel::{Sentinel, SentinelAction, SentinelMoment};

/// The channel of hello messages.
pub(crate) const HELLO: &str = "__sentinel__:hello";
/// Maximum number of pending requests per link; no more are sent then.
const MAX_PENDING: usize = 100;

impl Sentinel {
    /// Opens missing connections, at most once a second.
    pub(crate) fn reconnect(&mut self, place: &InstanceKey, now: Ms) {
        let period = self.times.ping;
        let Some(instance) = self.get_mut(place) else { return };
        let link = &mut instance.link;
        if !link.disconnected || instance.address.port() == 0 || now - link.tried_at < period {
            return;
        }
        link.tried_at = now;
        let (lacks_commands, lacks_channel) = (link.commands.is_none(), link.channel.is_none());
        let (address, short) = (instance.address, self.id[..8].to_owned());
        if lacks_commands {
            let line = self.open(place, address, now);
            self.link_of(place, |link| link.commands = Some(line));
            // First, because an instance with a password refuses all other commands.
            self.authenticate(place);
            let name = format!("sentinel-{short}-cmd");
            self.send(place, &["CLIENT", "SETNAME", &name], Expect::Nothing);
            // At once, as in Redis: silence on the new connection counts from its start.
            self.ping(place, now);
        }
        if lacks_channel && !matches!(place.who, Who::Sentinel(_)) {
            let mut line = self.open(place, address, now);
            line.expected.push_back(Expect::Nothing);
            let name = format!("sentinel-{short}-pubsub");
            self.put(line.id, &["CLIENT", "SETNAME", &name]);
            self.put(line.id, &["SUBSCRIBE", HELLO]);
            self.link_of(place, |link| link.channel = Some(line));
        }
        self.link_of(place, |link| link.disconnected = false);
    }

    /// Authenticates with another Sentinel, if credentials are set (`sentinelSendAuthIfNeeded`).
    fn authenticate(&mut self, place: &InstanceKey) {
        let (user, password) = (self.globals.user.clone(), self.globals.password.clone());
        if matches!(place.who, Who::Sentinel(_)) && !password.is_empty() {
            let words = ["AUTH", &user, &password];
            let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
            self.send(place, &words, Expect::Nothing);
        }
    }

    fn open(&mut self, place: &InstanceKey, address: SocketAddrV4, now: Ms) -> SentinelConnection {
        self.last_line += 1;
        let id = self.last_line;
        debug_assert!(!self.lines.contains_key(&id), "numbers of connections are never reused");
        self.lines.insert(id, place.clone());
        self.actions.push(SentinelAction::Open(id, address));
        SentinelConnection { id, since: now, expected: VecDeque::new() }
    }

    fn link_of(&mut self, place: &InstanceKey, change: impl FnOnce(&mut InstanceLink)) {
        if let Some(instance) = self.get_mut(place) {
            change(&mut instance.link);
        }
    }

    fn put(&mut self, line: u64, words: &[&str]) {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        self.actions.push(SentinelAction::Send(line, words));
    }

    /// Sends a command; whether there is a connection for it.
    pub(crate) fn send(&mut self, place: &InstanceKey, words: &[&str], expect: Expect) -> bool {
        let line = self.get_mut(place).and_then(|instance| instance.link.commands.as_mut());
        let Some(line) = line else { return false };
        line.expected.push_back(expect);
        let id = line.id;
        self.put(id, words);
        true
    }

    /// Sends a transaction that makes a node follow another one, or none, and closes its clients'
    /// connections so that they reconnect and learn its role (`sentinelSendSlaveOf`).
    pub(crate) fn send_slaveof(
        &mut self,
        place: &InstanceKey,
        master: Option<SocketAddrV4>,
    ) -> bool {
        let (host, port) = match master {
            Some(master) => (master.ip().to_string(), master.port().to_string()),
            None => ("NO".to_owned(), "ONE".to_owned()),
        };
        [
            &["MULTI"][..],
            &["SLAVEOF", &host, &port],
            &["CONFIG", "REWRITE"],
            &["CLIENT", "KILL", "TYPE", "normal"],
            &["CLIENT", "KILL", "TYPE", "pubsub"],
            &["EXEC"],
        ]
        .iter()
        .all(|words| self.send(place, words, Expect::Nothing))
    }

    fn ping(&mut self, place: &InstanceKey, now: Ms) {
        if self.send(place, &["PING"], Expect::Ping) {
            self.link_of(place, |link| {
                link.pinged_at = now;
                // An earlier PING may still be pending: silence counts from the oldest.
                if link.waits_since == 0 {
                    link.waits_since = now;
                }
            });
        }
    }

    /// Sends PING, INFO and hello messages, each when it is due.
    pub(crate) fn send_periodic(&mut self, place: &InstanceKey, now: Ms) {
        let Some(master) = self.masters.get(&place.master) else { return };
        let Some(instance) = master.get(&place.who) else { return };
        let link = &instance.link;
        if link.disconnected || link.pending() >= MAX_PENDING {
            return;
        }
        let is_replica = matches!(place.who, Who::Replica(_));
        let in_trouble = master.instance.o_down || master.failover.state != State::None;
        let hurries = is_replica && (in_trouble || instance.report.link_down != 0);
        let info_period = if hurries { 1_000 } else { self.times.info };
        let ping_period = master.down_after.min(self.times.ping);
        let polls = !matches!(place.who, Who::Sentinel(_))
            && (instance.report.at == 0 || now - instance.report.at > info_period);
        let pings = now - link.answered_at > ping_period && now - link.pinged_at > ping_period / 2;
        let publishes = now - instance.published_at > self.times.publish;
        if polls {
            self.send(place, &["INFO"], Expect::Info);
        }
        if pings {
            self.ping(place, now);
        }
        if publishes {
            let hello = self.hello(&place.master);
            self.send(place, &["PUBLISH", HELLO, &hello], Expect::Publish);
        }
    }

    /// Closes the connection for commands.
    pub(crate) fn close_commands(&mut self, place: &InstanceKey) {
        let line = self.get_mut(place).and_then(|instance| instance.link.commands.take());
        self.close(place, line);
    }

    /// Closes the connection for hello messages.
    pub(crate) fn close_channel(&mut self, place: &InstanceKey) {
        let line = self.get_mut(place).and_then(|instance| instance.link.channel.take());
        self.close(place, line);
    }

    fn close(&mut self, place: &InstanceKey, line: Option<SentinelConnection>) {
        let Some(line) = line else { return };
        debug_assert!(self.lines.contains_key(&line.id), "an open connection has an instance");
        self.link_of(place, |link| link.disconnected = true);
        self.lines.remove(&line.id);
        self.actions.push(SentinelAction::Close(line.id));
    }

    /// Closes the connections of an instance that is about to be removed.
    pub(crate) fn close_all(&mut self, place: &InstanceKey) {
        self.close_commands(place);
        self.close_channel(place);
    }

    /// A connection was closed, or could not be opened.
    pub(crate) fn lost(&mut self, line: u64) {
        let Some(place) = self.lines.remove(&line) else { return };
        self.link_of(&place, |link| {
            link.commands.take_if(|commands| commands.id == line);
            link.channel.take_if(|channel| channel.id == line);
            link.disconnected = true;
        });
    }

    /// A reply, or a message of a channel, arrived.
    pub(crate) fn heard(&mut self, line: u64, reply: &Reply, now: SentinelMoment) {
        let Some(place) = self.lines.get(&line).cloned() else { return };
        let Some(instance) = self.get_mut(&place) else { return };
        let link = &mut instance.link;
        if let Some(channel) = link.channel.as_mut().filter(|channel| channel.id == line) {
            // The reply to CLIENT SETNAME comes first; all that follows belongs to the channel.
            if channel.expected.pop_front().is_none() {
                link.channel_heard_at = now.ms;
                self.hear_channel(reply, now.ms);
            }
            return;
        }
        match link.commands.as_mut().and_then(|commands| commands.expected.pop_front()) {
            Some(Expect::Ping) => self.hear_ping(&place, reply, now.ms),
            Some(Expect::Info) => {
                if let Reply::Bulk(text) = reply {
                    let text = String::from_utf8_lossy(text);
                    self.refresh(&place, &text, now.ms);
                }
            }
            Some(Expect::Publish) if !reply.is_error() => instance.published_at = now.ms,
            Some(Expect::Down) => self.hear_opinion(&place, reply, now.ms),
            _ => {}
        }
    }

    /// PONG is a sign of life, and so are the errors of a node that is loading or has lost its
    /// master. A node that is down and busy with a script is sent SCRIPT KILL.
    fn hear_ping(&mut self, place: &InstanceKey, reply: &Reply, now: Ms) {
        let (Reply::Simple(text) | Reply::Error(text)) = reply else { return };
        let Some(instance) = self.get_mut(place) else { return };
        let link = &mut instance.link;
        link.answered_at = now;
        let counts = ["PONG", "LOADING", "MASTERDOWN"];
        if counts.iter().any(|word| text.starts_with(word.as_bytes())) {
            link.available_at = now;
            link.waits_since = 0;
        } else if text.starts_with(b"BUSY") && instance.s_down && !instance.script_kill_sent {
            instance.script_kill_sent = true;
            self.send(place, &["SCRIPT", "KILL"], Expect::Nothing);
        }
    }
}
