//! Parses what a server reports to a tap: a line for each executed command (MONITOR), and a word
//! for each effect on a key (keyspace events), on one connection and so in their true order.
//!
//! The effects of a command come before its line; those of a script's commands come between the
//! script's line and their own lines. So an effect belongs to the next line, and the lines of a
//! script's commands belong to the script's line before them.

use std::net::SocketAddrV4;

use bytes::{Bytes, BytesMut};
use lockstorm_redis::frame::Reply;
use lockstorm_redis::frame::decode::ReplyReader;

/// The commands that start the reports.
pub const ASK: &[u8] = b"HELLO 3\r\nPSUBSCRIBE __keyevent@0__:*\r\nMONITOR\r\n";
/// The end of the replies to them.
pub const BEGUN: &[u8] = b":1\r\n+OK\r\n";
/// The prefix of the channels of effects.
const CHANNEL: &[u8] = b"__keyevent@0__:";

/// One report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TapEvent {
    /// A key was affected.
    Effect {
        /// The effect: `set`, `expire`, `del`, ...
        what: String,
        /// The key.
        key: Bytes,
    },
    /// A command was executed.
    Command {
        /// The client's address; `None` for a script.
        by: Option<SocketAddrV4>,
        /// The command in upper case.
        name: String,
    },
}

/// Parses reports from the front of a buffer.
#[derive(Debug, Default)]
pub struct TapReader(ReplyReader);

impl TapReader {
    /// The next complete report; `None` if more bytes are needed. Other replies are skipped.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Option<TapEvent> {
        loop {
            // A RESP3 push differs from an array only in its first byte.
            if buffer.first() == Some(&b'>') {
                buffer[0] = b'*';
            }
            match self.0.next(buffer).ok()?? {
                Reply::Simple(line) => {
                    if let Some(event) = command(&String::from_utf8_lossy(&line)) {
                        return Some(event);
                    }
                }
                Reply::Array(items) => {
                    if let [_, _, Reply::Bulk(channel), Reply::Bulk(key)] = &items[..]
                        && let Some(what) = channel.strip_prefix(CHANNEL)
                    {
                        let what = String::from_utf8_lossy(what).into_owned();
                        return Some(TapEvent::Effect { what, key: Bytes::copy_from_slice(key) });
                    }
                }
                _ => {}
            }
        }
    }
}

/// Parses `1700000000.123456 [0 127.0.0.1:5000] "SET" "k" "v"`.
fn command(line: &str) -> Option<TapEvent> {
    let (_, rest) = line.split_once(" [")?;
    let (place, words) = rest.split_once("] ")?;
    let (_, by) = place.split_once(' ')?;
    let name = words.trim_start_matches('"').split('"').next()?.to_ascii_uppercase();
    let by = if by == "lua" { None } else { Some(by.parse().ok()?) };
    Some(TapEvent::Command { by, name })
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::{TapEvent, TapReader};

    fn check(text: &str, wanted: &[&str]) {
        let mut reader = TapReader::default();
        // The bytes arrive one at a time, because the reports must not depend on where they are
        // cut.
        let (mut buffer, mut events) = (BytesMut::new(), Vec::new());
        for byte in text.bytes() {
            buffer.extend_from_slice(&[byte]);
            while let Some(next) = reader.next(&mut buffer) {
                events.push(match next {
                    TapEvent::Effect { what, key } => {
                        format!("{what} {}", String::from_utf8_lossy(&key))
                    }
                    TapEvent::Command { by, name } => {
                        by.map_or("script".to_owned(), |by| by.to_string()) + " " + &name
                    }
                });
            }
        }
        assert_eq!(events, wanted);
    }

    #[test]
    fn effects_and_commands_are_distinguished() {
        let event = |what: &str, key: &str| {
            let channel = format!("__keyevent@0__:{what}");
            format!(
                ">4\r\n$8\r\npmessage\r\n$16\r\n__keyevent@0__:*\r\n${}\r\n{channel}\r\n${}\r\n\
                 {key}\r\n",
                channel.len(),
                key.len()
            )
        };
        let set = "+1795292449.703338 [0 127.0.0.1:55142] \"set\" \"a] \\\"b\" \"t1\"\r\n";
        check(&(event("set", "a") + set), &["set a", "127.0.0.1:55142 SET"]);
        let script = "+1.5 [0 127.0.0.1:9] \"EVAL\" \"return 1\" \"0\"\r\n\
                      +1.6 [0 lua] \"del\" \"k\"\r\n";
        check(script, &["127.0.0.1:9 EVAL", "script DEL"]);
        check("+OK\r\n:1\r\n", &[]);
    }
}
