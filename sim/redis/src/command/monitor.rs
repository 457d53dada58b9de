//! MONITOR: a line for every command that is executed.

use std::fmt::Write as _;
use std::ops::Range;

use bytes::Bytes;

use crate::call::{Call, Family, Outcome};
use crate::frame::Reply;
use crate::node::Node;
use crate::session::Session;
use crate::specification::Command;

/// The commands of this file, by name.
pub const FAMILY: Family = &[("monitor", monitor)];

/// MONITOR
pub fn monitor(call: &mut Call) -> Outcome {
    if call.session.may_not_wait() {
        return Err(Reply::error("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    if call.session.replication.from_master || call.session.monitors {
        return Ok(Reply::SILENCE);
    }
    call.session.monitors = true;
    call.node.clients.monitors.insert(call.session.id);
    Ok(Reply::OK)
}

/// Sends the current command to all sessions in MONITOR mode, without passwords.
pub fn show(node: &mut Node, session: &mut Session, command: &Command, args: &[Bytes]) {
    let (seconds, micros) = (node.clock.now_us / 1_000_000, node.clock.now_us % 1_000_000);
    let from = match session.script {
        Some(_) => "lua".to_owned(),
        None => session.client.addresses[0].to_string(),
    };
    let mut line = format!("{seconds}.{micros:06} [{} {from}]", session.db);
    let secret = secret_words(command, args);
    for (at, arg) in args.iter().enumerate() {
        let shown = if secret.contains(&at) { &b"(redacted)"[..] } else { arg };
        let _ = write!(line, " {}", quoted(shown));
    }
    node.clients.show(session, &Reply::Simple(Bytes::from(line)));
}

/// Which words of a request are credentials.
fn secret_words(command: &Command, args: &[Bytes]) -> Range<usize> {
    match command.name {
        "AUTH" => 1..args.len(),
        "HELLO" => {
            let at = args.iter().position(|arg| arg.eq_ignore_ascii_case(b"AUTH"));
            at.map_or(0..0, |at| at + 1..at + 3)
        }
        _ => 0..0,
    }
}

/// Bytes between quotes, as `sdscatrepr` writes them.
pub fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for byte in bytes {
        match byte {
            b'\\' | b'"' => {
                text.push('\\');
                text.push(char::from(*byte));
            }
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            7 => text.push_str("\\a"),
            8 => text.push_str("\\b"),
            b' '..=b'~' => text.push(char::from(*byte)),
            other => {
                let _ = write!(text, "\\x{other:02x}");
            }
        }
    }
    text.push('"');
    text
}
