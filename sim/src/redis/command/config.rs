//! CONFIG: the settings of a node.

use bytes::Bytes;

use crate::redis::command::key::matches;
use crate::redis::command::{Call, Family, Outcome, container};
use crate::redis::frame::{Reply, integer};
use crate::redis::node::{Append, Node};

/// What is here, by name.
pub const FAMILY: Family = &[
    ("config", container),
    ("config|get", get),
    ("config|resetstat", resetstat),
    ("config|set", set),
];

/// CONFIG GET pattern ...
pub fn get(call: &mut Call) -> Outcome {
    let wanted = |name: &str| call.from(2).iter().any(|p| matches(p, name.as_bytes()));
    let settings = settings(call.node).into_iter().filter(|(name, _)| wanted(name));
    let pairs = settings.flat_map(|(name, value)| [name.to_owned(), value]);
    Ok(Reply::Map(pairs.map(|text| Reply::Bulk(Bytes::from(text))).collect()))
}

/// CONFIG SET name value ...
pub fn set(call: &mut Call) -> Outcome {
    for pair in call.from(2).chunks_exact(2) {
        change_setting(call.node, &pair[0], &pair[1])?;
    }
    Ok(Reply::OK)
}

/// CONFIG RESETSTAT
pub fn resetstat(_: &mut Call) -> Outcome {
    Ok(Reply::OK)
}

fn settings(node: &Node) -> Vec<(&'static str, String)> {
    let appends = node.config.append != Append::None;
    vec![
        ("appendfsync", append_word(node.config.append).to_owned()),
        ("appendonly", if appends { "yes" } else { "no" }.to_owned()),
        ("min-replicas-max-lag", node.config.min_replicas_max_lag.to_string()),
        ("min-replicas-to-write", node.config.min_replicas_to_write.to_string()),
        ("port", node.config.port.to_string()),
        ("save", String::new()),
    ]
}

fn append_word(append: Append) -> &'static str {
    match append {
        Append::None | Append::Everysec => "everysec",
        Append::No => "no",
        Append::Always => "always",
    }
}

fn change_setting(node: &mut Node, name: &[u8], value: &[u8]) -> Result<(), Reply> {
    let failed = |why: &str| {
        let name = String::from_utf8_lossy(name);
        let text = format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}");
        Err(Reply::Error(text.into()))
    };
    let number = integer(value).and_then(|value| u32::try_from(value).ok());
    match (&name.to_ascii_lowercase()[..], number) {
        (b"min-replicas-to-write" | b"min-slaves-to-write", Some(number)) => {
            node.config.min_replicas_to_write = number;
        }
        (b"min-replicas-max-lag" | b"min-slaves-max-lag", Some(number)) => {
            node.config.min_replicas_max_lag = u64::from(number);
        }
        (b"min-replicas-to-write" | b"min-replicas-max-lag", None) => {
            return failed("argument couldn't be parsed into an integer");
        }
        (b"appendfsync", _) => match (&value.to_ascii_lowercase()[..], node.config.append) {
            (b"always" | b"everysec" | b"no", Append::None) => {}
            (b"always", _) => node.config.append = Append::Always,
            (b"everysec", _) => node.config.append = Append::Everysec,
            (b"no", _) => node.config.append = Append::No,
            _ => return failed("argument(s) must be one of the following: everysec, always, no"),
        },
        (b"save", _) => {}
        _ => {
            let name = String::from_utf8_lossy(name);
            let text =
                format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'");
            return Err(Reply::Error(text.into()));
        }
    }
    node.recount_good_replicas();
    Ok(())
}
