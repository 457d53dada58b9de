//! The line of CLIENT LIST for a connection.
//!
//! Sizes of buffers are those of an idle connection: nothing depends on them.

use std::fmt::Write as _;

use crate::compat::{Compat, Difference};
use crate::frame::Protocol;
use crate::node::Node;
use crate::session::{Closing, Session};

/// Types of connections, as in CLIENT LIST TYPE and CLIENT KILL TYPE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// A client of none of the other types.
    Normal,
    /// The node's master.
    Master,
    /// A replica.
    Replica,
    /// A client with subscriptions.
    PubSub,
}

impl ClientKind {
    /// The type of this name, ignoring case.
    pub fn of_name(name: &[u8]) -> Option<ClientKind> {
        match name.to_ascii_lowercase().as_slice() {
            b"normal" => Some(ClientKind::Normal),
            b"master" => Some(ClientKind::Master),
            b"slave" | b"replica" => Some(ClientKind::Replica),
            b"pubsub" => Some(ClientKind::PubSub),
            _ => None,
        }
    }

    /// The type of a session.
    pub fn of(node: &Node, session: &Session) -> ClientKind {
        if session.replication.from_master {
            ClientKind::Master
        } else if is_replica(node, session) {
            ClientKind::Replica
        } else if session.subscriptions.is_empty() {
            ClientKind::Normal
        } else {
            ClientKind::PubSub
        }
    }
}

fn is_replica(node: &Node, session: &Session) -> bool {
    node.peers.replicas.iter().any(|replica| replica.session == session.id)
}

/// One connection's line, without its end.
pub fn line(node: &Node, session: &Session) -> String {
    let seconds_since = |ms: u64| node.clock.now_ms.saturating_sub(ms) / 1_000;
    let [client, own] = session.client.addresses;
    let [since, used] = session.client.since_ms;
    let mut text = format!("id={} addr={client} laddr={own} fd={}", session.id, session.id + 7);
    let name = String::from_utf8_lossy(&session.client.name);
    let (age, idle) = (seconds_since(since), seconds_since(used));
    let _ = write!(text, " name={name} age={age} idle={idle} flags={}", flags(node, session));
    if node.config.compat == Compat::Valkey90 {
        text.push_str(" capa=");
    }
    let subscriptions = &session.subscriptions;
    let multi = session.transaction.commands().map_or("-1".to_owned(), |n| n.to_string());
    let shows_library = node.differs(Difference::ClientSetInfo);
    let watched = session.transaction.watched().len();
    let watch = if shows_library { format!(" watch={watched}") } else { String::new() };
    let _ = write!(
        text,
        " db={} sub={} psub={} ssub={} multi={multi}{watch} qbuf=26 qbuf-free=20448 argv-mem=10 \
         multi-mem=0 rbs=1024 rbp=0 obl=0 oll=0 omem=0 tot-mem=22298 events=r",
        session.db,
        subscriptions.channels.len(),
        subscriptions.patterns.len(),
        subscriptions.shards.len(),
    );
    let command = session.last_command.map_or("NULL", |command| command.lower);
    let user = session.user.as_deref().unwrap_or(b"default");
    let user = if session.replication.from_master {
        "(superuser)".into()
    } else {
        String::from_utf8_lossy(user)
    };
    let protocol = if session.replies.protocol == Protocol::Three { 3 } else { 2 };
    let _ = write!(text, " cmd={command} user={user} redir=-1 resp={protocol}");
    if shows_library {
        let [name, version] =
            session.client.library.each_ref().map(|text| String::from_utf8_lossy(text));
        let _ = write!(text, " lib-name={name} lib-ver={version}");
        let thread = if node.config.compat.server() == "redis" { " io-thread=0" } else { "" };
        let _ = write!(text, "{thread} tot-net-in=26 tot-net-out=0 tot-cmds=0");
    }
    text
}

fn flags(node: &Node, session: &Session) -> String {
    let letters = [
        ('O', session.monitors),
        ('S', is_replica(node, session)),
        ('M', session.replication.from_master),
        ('P', !session.subscriptions.is_empty()),
        ('x', session.transaction.commands().is_some()),
        ('b', session.blocked.is_some()),
        ('d', session.transaction.is_touched()),
        ('c', session.replies.closing == Some(Closing::AfterOutput)),
        ('A', session.replies.closing == Some(Closing::AtOnce)),
        ('r', session.routing.reads_here),
        ('e', session.stays),
    ];
    let flags: String = letters.iter().filter(|(_, is)| *is).map(|(letter, _)| *letter).collect();
    if flags.is_empty() { "N".to_owned() } else { flags }
}
