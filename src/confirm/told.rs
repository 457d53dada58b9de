//! What a server tells those who listen: a line for each command that it executes (MONITOR), and a
//! word for each effect on a key (keyspace events), on one connection and so in their true order.
//!
//! The effects of a command come before its line; those of a script's commands come between the
//! script's line and their own. So an effect belongs to the next line, and a script's line to the
//! line before.

use std::net::SocketAddrV4;

use bytes::{Bytes, BytesMut};
use lockstorm_redis::frame::Reply;
use lockstorm_redis::frame::decode::ReplyReader;

/// What makes a server tell.
pub const ASK: &[u8] = b"HELLO 3\r\nPSUBSCRIBE __keyevent@0__:*\r\nMONITOR\r\n";
/// How its answer to that ends.
pub const BEGUN: &[u8] = b":1\r\n+OK\r\n";
/// How the channels of effects begin.
const CHANNEL: &[u8] = b"__keyevent@0__:";

/// One thing that was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A key was affected.
    Effect {
        /// How: `set`, `expire`, `del`, ...
        what: String,
        /// The key.
        key: Bytes,
    },
    /// A command was executed.
    Command {
        /// Who asked; `None`: a script.
        by: Option<SocketAddrV4>,
        /// The command in upper case.
        name: String,
    },
}

/// Takes what was told from the front of a buffer.
#[derive(Debug, Default)]
pub struct ToldReader(ReplyReader);

impl ToldReader {
    /// The next whole thing; `None` if more bytes are needed. What is neither is skipped.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Option<Told> {
        loop {
            // A push of RESP3 is an array in all but its first byte.
            if buffer.first() == Some(&b'>') {
                buffer[0] = b'*';
            }
            match self.0.next(buffer).ok()?? {
                Reply::Simple(line) => {
                    if let Some(told) = command(&String::from_utf8_lossy(&line)) {
                        return Some(told);
                    }
                }
                Reply::Array(items) => {
                    if let [_, _, Reply::Bulk(channel), Reply::Bulk(key)] = &items[..]
                        && let Some(what) = channel.strip_prefix(CHANNEL)
                    {
                        let what = String::from_utf8_lossy(what).into_owned();
                        return Some(Told::Effect { what, key: Bytes::copy_from_slice(key) });
                    }
                }
                _ => {}
            }
        }
    }
}

/// Reads `1700000000.123456 [0 127.0.0.1:5000] "SET" "k" "v"`.
fn command(line: &str) -> Option<Told> {
    let (_, rest) = line.split_once(" [")?;
    let (place, words) = rest.split_once("] ")?;
    let (_, by) = place.split_once(' ')?;
    let name = words.trim_start_matches('"').split('"').next()?.to_ascii_uppercase();
    let by = if by == "lua" { None } else { Some(by.parse().ok()?) };
    Some(Told::Command { by, name })
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::{Told, ToldReader};

    fn check(text: &str, wanted: &[&str]) {
        let mut reader = ToldReader::default();
        // Bytes trickle in: what is told must not depend on where they are cut.
        let (mut buffer, mut told) = (BytesMut::new(), Vec::new());
        for byte in text.bytes() {
            buffer.extend_from_slice(&[byte]);
            while let Some(next) = reader.next(&mut buffer) {
                told.push(match next {
                    Told::Effect { what, key } => {
                        format!("{what} {}", String::from_utf8_lossy(&key))
                    }
                    Told::Command { by, name } => {
                        by.map_or("script".to_owned(), |by| by.to_string()) + " " + &name
                    }
                });
            }
        }
        assert_eq!(told, wanted);
    }

    #[test]
    fn effects_and_commands_are_told_apart() {
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
