//! CONFIG: the settings of a node.

use bytes::Bytes;

use crate::call::{Call, Family, Outcome, container};
use crate::cluster::Rules;
use crate::command::introspection::help;
use crate::command::replication::NO_FILE;
use crate::errors::SYNTAX;
use crate::frame::Reply;
use crate::glob::matches;
use crate::keyspace::limits::Limits;
use crate::node::{Append, Node};
use crate::session::After;
use crate::settings::{Parameter, ParameterKind, all, find};

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("config", container),
    ("config|get", get),
    ("config|help", help),
    ("config|resetstat", resetstat),
    ("config|rewrite", rewrite),
    ("config|set", set),
];

/// Minimum size of the backlog, whatever is requested.
const MIN_BACKLOG: u64 = 16 * 1024;

/// CONFIG GET pattern ...: a name that is not a pattern is returned as the client wrote it.
pub fn get(call: &mut Call) -> Outcome {
    let mut found: Vec<(Bytes, String)> = Vec::new();
    for parameter in all() {
        let name = parameter.name.as_bytes();
        let wanted = call.from(2).iter().find(|pattern| {
            name.eq_ignore_ascii_case(pattern) || matches(&pattern.to_ascii_lowercase(), name)
        });
        let Some(pattern) = wanted else { continue };
        let plain = !pattern.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['));
        let name = if plain { pattern.clone() } else { Bytes::from_static(name) };
        found.push((name, current(call.node, parameter)));
    }
    let pairs = found.into_iter().flat_map(|(name, value)| [name, Bytes::from(value)]);
    Ok(Reply::Map(pairs.map(Reply::Bulk).collect()))
}

/// CONFIG SET name value ...: all of them, or none.
pub fn set(call: &mut Call) -> Outcome {
    let words = call.from(2);
    if !words.len().is_multiple_of(2) {
        return Err(Reply::error(SYNTAX));
    }
    let mut parameters: Vec<&'static Parameter> = Vec::new();
    for pair in words.chunks_exact(2) {
        let parameter = find(&pair[0]).ok_or_else(|| unknown(&pair[0]))?;
        let repeated = parameters.iter().any(|known| known.name == parameter.name);
        match parameter.kind {
            ParameterKind::Immutable => return Err(failed(&pair[0], "can't set immutable config")),
            ParameterKind::Protected => return Err(failed(&pair[0], "can't set protected config")),
            _ if repeated => return Err(failed(&pair[0], "duplicate parameter")),
            _ => parameters.push(parameter),
        }
    }
    // All values are validated before the first takes effect: CONFIG SET sets all or none.
    let mut values = Vec::new();
    for (parameter, pair) in parameters.iter().zip(words.chunks_exact(2)) {
        let value = parameter.read(&pair[1], &current(call.node, parameter));
        values.push(value.map_err(|why| failed(parameter.name.as_bytes(), &why))?);
    }
    for (parameter, value) in parameters.into_iter().zip(values) {
        take_effect(call, parameter, value);
    }
    // The maximum lag may have changed, which decides which replicas are good.
    call.node.recount_good_replicas();
    call.node.limits = Limits::of(&call.node.settings);
    if let Some(cluster) = &mut call.node.cluster {
        cluster.rules = Rules::of(&call.node.settings);
    }
    Ok(Reply::OK)
}

fn unknown(name: &[u8]) -> Reply {
    let head = &b"ERR Unknown option or number of arguments for CONFIG SET - '"[..];
    Reply::Error([head, name, b"'"].concat().into())
}

fn failed(name: &[u8], why: &str) -> Reply {
    let head = &b"ERR CONFIG SET failed (possibly related to argument '"[..];
    Reply::Error([head, name, b"') - ", why.as_bytes()].concat().into())
}

/// CONFIG RESETSTAT
pub fn resetstat(call: &mut Call) -> Outcome {
    call.node.figures = crate::figures::Figures::default();
    Ok(Reply::OK)
}

/// CONFIG REWRITE: a node has no file of parameters.
pub fn rewrite(_: &mut Call) -> Outcome {
    Err(Reply::error("ERR The server is running without a config file"))
}

/// The current value of a parameter: one that affects the node is kept where it is used.
fn current(node: &Node, parameter: &Parameter) -> String {
    let config = &node.config;
    match parameter.kept_as {
        "busy-reply-threshold" => config.busy_after_ms.to_string(),
        "appendonly" => if config.append == Append::None { "no" } else { "yes" }.to_owned(),
        "appendfsync" => match config.append {
            Append::None => node.settings.get(parameter).to_owned(),
            Append::No => "no".to_owned(),
            Append::Everysec => "everysec".to_owned(),
            Append::Always => "always".to_owned(),
        },
        "maxmemory" => config.max_memory.to_string(),
        "repl-backlog-size" => config.backlog_bytes.to_string(),
        "min-replicas-max-lag" => config.min_replicas_max_lag.to_string(),
        "min-replicas-to-write" => config.min_replicas_to_write.to_string(),
        "notify-keyspace-events" => listed_classes(&config.notify),
        "port" => config.port.to_string(),
        "replicaof" => match node.peers.master {
            Some(master) => format!("{} {}", master.ip(), master.port()),
            None => String::new(),
        },
        "requirepass" => String::from_utf8_lossy(&config.password).into_owned(),
        _ => node.settings.get(parameter).to_owned(),
    }
}

/// Misses (`n`) are not listed beside `A`, though they are enabled.
fn listed_classes(classes: &str) -> String {
    classes.chars().filter(|class| *class != 'n' || !classes.starts_with('A')).collect()
}

fn take_effect(call: &mut Call, parameter: &'static Parameter, value: String) {
    let node = &mut *call.node;
    let number = || value.parse().unwrap_or(0_u64);
    match parameter.kept_as {
        "busy-reply-threshold" => node.config.busy_after_ms = number(),
        "maxmemory" => node.config.max_memory = number(),
        "min-replicas-max-lag" => node.config.min_replicas_max_lag = number(),
        "min-replicas-to-write" => {
            node.config.min_replicas_to_write = u32::try_from(number()).unwrap_or(u32::MAX);
        }
        "notify-keyspace-events" => node.config.notify.clone_from(&value),
        "requirepass" => {
            node.users.require(value.as_bytes());
            node.config.password = Bytes::from(value);
            return;
        }
        "timeout" => node.clients.close_idle_after(number()),
        "save" if !value.is_empty() => call.session.after = After::WatchSaves,
        "aof-load-truncated" => node.config.truncates_torn_file = value == "yes",
        "hz" => {
            node.settings.set(parameter, number().clamp(1, 500).to_string());
            return;
        }
        "repl-backlog-size" => {
            let bytes = number().max(MIN_BACKLOG);
            node.config.backlog_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        "appendonly" | "appendfsync" => {
            set_append(call, parameter, value);
            return;
        }
        _ => {}
    }
    node.settings.set(parameter, value);
}

/// Combines `appendonly` and `appendfsync`; a new file begins with all keys of the node.
fn set_append(call: &mut Call, parameter: &'static Parameter, value: String) {
    let node = &mut *call.node;
    let before = node.config.append;
    let turned = parameter.name == "appendonly";
    let on = if turned { value == "yes" } else { before != Append::None };
    if !turned || before == Append::None {
        node.settings.set(parameter, value);
    }
    let wanted = match node.settings.text("appendfsync") {
        _ if !on => Append::None,
        _ if turned && before != Append::None => before,
        "always" => Append::Always,
        "no" => Append::No,
        _ => Append::Everysec,
    };
    node.config.append = wanted;
    if !on {
        node.clients.end_waits_for_file(&Reply::error(NO_FILE));
    }
    if before == Append::None && on {
        node.propagation.is_consumed = true;
        call.session.after = After::BeginFile;
    }
}
