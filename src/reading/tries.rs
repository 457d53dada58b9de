//! The tries of an operation: another try begins whenever a command is repeated.

use crate::history::Request;
use crate::reading::moment::Moment;

/// Commands that name no key and change none: a release that sends one afterwards did not meet a
/// key by it. A script that names none may use any.
pub const KEYLESS: [&str; 49] = [
    "ACL",
    "ASKING",
    "AUTH",
    "BGREWRITEAOF",
    "BGSAVE",
    "CLIENT",
    "CLUSTER",
    "COMMAND",
    "CONFIG",
    "DBSIZE",
    "DEBUG",
    "DISCARD",
    "ECHO",
    "FAILOVER",
    "FUNCTION",
    "HELLO",
    "INFO",
    "KEYS",
    "LASTSAVE",
    "LATENCY",
    "MONITOR",
    "MULTI",
    "PING",
    "PSUBSCRIBE",
    "PSYNC",
    "PUBLISH",
    "PUBSUB",
    "PUNSUBSCRIBE",
    "QUIT",
    "RANDOMKEY",
    "READONLY",
    "READWRITE",
    "REPLCONF",
    "REPLICAOF",
    "RESET",
    "ROLE",
    "SAVE",
    "SCAN",
    "SCRIPT",
    "SELECT",
    "SHUTDOWN",
    "SLAVEOF",
    "SLOWLOG",
    "SUBSCRIBE",
    "TIME",
    "UNSUBSCRIBE",
    "UNWATCH",
    "WAIT",
    "WAITAOF",
];

/// How a try met a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    /// When its first request was applied.
    pub at: Moment,
    /// Whether no try of the acquire followed.
    pub was_last: bool,
}

/// The requests of an operation to a node, by its tries. A request that names only other keys
/// belongs to none: of a group, each key has tries of its own.
pub fn tries<'a>(requests: &[&'a Request], node: &str) -> Vec<Vec<&'a Request>> {
    let to_node = requests.iter().copied().filter(|request| request.to == node);
    let named =
        to_node.filter(|request| !request.other_keys && !KEYLESS.contains(&&*request.command));
    let named = named.skip_while(|request| request.declined);
    let mut tries: Vec<Vec<&Request>> = Vec::new();
    for request in named {
        let is_new = |earlier: &&Request| earlier.command != request.command;
        match tries.last_mut() {
            Some(attempt) if attempt.iter().all(is_new) => attempt.push(request),
            _ => tries.push(vec![request]),
        }
    }
    tries
}
