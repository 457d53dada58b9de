//! What a test can observe of a server: the executed requests and the keys.
//!
//! An observation is not a request: it uses a copy of the node, so it changes nothing, is invisible
//! to clients, and works while the server is paused or cut off.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::time::Duration;

use lockstorm_platform::time::Nanos;
use lockstorm_platform::trace::{Connection, Request};
use lockstorm_redis::frame::{Arguments, Reply};
use lockstorm_redis::node::NodeConfig;
use lockstorm_redis::process::serve_shown;
use lockstorm_redis::server::Server;
use lockstorm_world::engine::interface::Process;

use crate::builder::Builder;
use crate::local_request::{query, said};

/// The maximum number of recorded requests.
const MAX_REMEMBERED: usize = 100_000;

/// The requests that servers executed, in order. Clones share one record.
#[derive(Clone, Default)]
pub struct Requests(Rc<RefCell<VecDeque<(Connection, Arguments)>>>);

impl Requests {
    fn hear(&self, request: Request, args: &Arguments) {
        let mut heard = self.0.borrow_mut();
        // Replicas and the operator are not clients. Earlier requests of such a connection, such as
        // AUTH, are removed too.
        let is_client = !["REPLCONF", "PSYNC", "REPLICAOF"]
            .iter()
            .any(|word| args[0].eq_ignore_ascii_case(word.as_bytes()));
        if !is_client {
            heard.retain(|(connection, _)| *connection != request.connection);
            return;
        }
        if heard.len() == MAX_REMEMBERED {
            heard.pop_front();
        }
        heard.push_back((request.connection, args.clone()));
        debug_assert!(heard.len() <= MAX_REMEMBERED, "the record of requests is bounded");
    }

    /// One line per request: its words separated by spaces.
    pub fn lines(&self) -> Vec<String> {
        let line =
            |args: &Arguments| args.iter().map(|word| said(word)).collect::<Vec<_>>().join(" ");
        self.0.borrow().iter().map(|(_, args)| line(args)).collect()
    }

    /// The number of requests of this command.
    #[cfg(feature = "live")]
    pub fn count(&self, command: &str) -> usize {
        let heard = self.0.borrow();
        heard.iter().filter(|(_, args)| args[0].eq_ignore_ascii_case(command.as_bytes())).count()
    }
}

/// A server, observed from outside its machine. Clones observe the same server.
#[derive(Clone, Default)]
pub struct Look(Rc<RefCell<Shown>>);

#[derive(Default)]
struct Shown {
    server: Weak<Server>,
    starts: u32,
}

impl Look {
    /// The process of an observed server; `config` is called at each start.
    pub fn process(
        &self,
        builder: &Builder,
        requests: &Requests,
        config: impl Fn() -> NodeConfig + 'static,
    ) -> Process {
        let (look, builder, requests) = (self.clone(), builder.clone(), requests.clone());
        Rc::new(move |host| {
            let (look, builder, requests) = (look.clone(), builder.clone(), requests.clone());
            let show = move |server: &Rc<Server>| {
                // Before the first request: each one meets the settings and is recorded.
                builder.configure(&mut server.node.borrow_mut());
                let ear = move |request, args: &Arguments| requests.hear(request, args);
                server.observer.replace(Some(Rc::new(ear)));
                look.show(server);
            };
            Box::pin(serve_shown(host, config(), show))
        })
    }

    fn show(&self, server: &Rc<Server>) {
        let mut shown = self.0.borrow_mut();
        shown.server = Rc::downgrade(server);
        shown.starts += 1;
    }

    /// The node's reply at this reading of its wall clock; `None` if it is down.
    fn query(&self, wall: Nanos, words: &[&str]) -> Option<Reply> {
        let server = self.0.borrow().server.upgrade()?;
        let mut node = server.node.borrow().clone();
        node.set_time(wall);
        // Whatever prevents requests of clients (users, a busy script, loading) must not prevent
        // observations.
        node.users = Default::default();
        (node.scripts.busy, node.startup.since_ms) = (None, None);
        query(&mut node, words).0
    }

    /// The keys of database 0, sorted; empty if the server is down.
    pub fn keys(&self, wall: Nanos) -> Vec<String> {
        let Some(Reply::Array(keys)) = self.query(wall, &["KEYS", "*"]) else { return Vec::new() };
        let text = |key| match key {
            Reply::Bulk(key) => said(&key),
            other => format!("{other:?}"),
        };
        let mut keys: Vec<String> = keys.into_iter().map(text).collect();
        keys.sort();
        keys
    }

    /// The string of a key in database 0.
    pub fn get(&self, wall: Nanos, key: &str) -> Option<String> {
        match self.query(wall, &["GET", key])? {
            Reply::Bulk(value) => Some(said(&value)),
            _ => None,
        }
    }

    /// The remaining time to live of a key in database 0; `None` without a key or an expiry.
    pub fn ttl(&self, wall: Nanos, key: &str) -> Option<Duration> {
        match self.query(wall, &["PTTL", key])? {
            Reply::Integer(ms) => u64::try_from(ms).ok().map(Duration::from_millis),
            _ => None,
        }
    }
}

/// What the driver of a live world must know.
#[cfg(feature = "live")]
impl Look {
    /// The number of starts of its process.
    pub fn starts(&self) -> u32 {
        self.0.borrow().starts
    }

    /// Whether it is running.
    pub fn is_up(&self) -> bool {
        self.0.borrow().server.strong_count() > 0
    }

    /// Whether it is running as a master.
    pub fn is_master(&self) -> bool {
        let server = self.0.borrow().server.upgrade();
        server.is_some_and(|server| server.node.borrow().peers.master.is_none())
    }

    /// The number of online replicas: those that have loaded its keys and receive its stream.
    pub fn replicas(&self) -> usize {
        let server = self.0.borrow().server.upgrade();
        server.map_or(0, |server| {
            let node = server.node.borrow();
            node.peers.replicas.iter().filter(|replica| replica.online).count()
        })
    }
}
