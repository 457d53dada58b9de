//! The bodies of the fuzz targets; the test `truth` runs them on random bytes.

use bytes::{Bytes, BytesMut};
use lockstorm_redis::effects::Effects;
use lockstorm_redis::frame::decode::decode_reply;
use lockstorm_redis::frame::request::RequestReader;
use lockstorm_redis::frame::{Arguments, encode_request};
use lockstorm_redis::node::{Node, NodeConfig};
use lockstorm_redis::requests;
use lockstorm_redis::session::Closing;
use lockstorm_redis::specification;

/// The maximum length of an argument of a random request, in bytes: some commands produce as much
/// output as requested.
const MAX_WORD: usize = 6;

/// A node without a machine, and a connection of raw bytes.
pub struct Wire {
    node: Node,
    id: u64,
    reader: RequestReader,
    input: BytesMut,
    requires_password: bool,
}

impl Wire {
    /// A node with this password, and a connection.
    pub fn new(password: &str) -> Wire {
        let requires_password = !password.is_empty();
        let password = Bytes::from(password.to_owned());
        let config = NodeConfig { password, ..NodeConfig::default() };
        let mut node = Node::new(config, 1_900_000_000_000, [1, 2, 3]);
        let id = node.connect(nowhere());
        let (reader, input) = (RequestReader::default(), BytesMut::new());
        Wire { node, id, reader, input, requires_password }
    }

    /// Adds bytes and executes complete requests while the connection is open and not blocked.
    /// Returns whether it is open.
    pub fn feed(&mut self, bytes: &[u8]) -> bool {
        self.input.extend_from_slice(bytes);
        loop {
            let session = self.node.clients.get_mut(self.id).expect("it is connected");
            if session.replies.closing.is_some() {
                return false;
            }
            if session.blocked.is_some() {
                return true;
            }
            self.reader.unauthenticated = self.requires_password && session.user.is_none();
            match self.reader.next(&mut self.input) {
                Ok(Some(args)) => requests::request(&mut self.node, self.id, &args),
                Ok(None) => return true,
                Err(error) => {
                    session.replies.push(&error.reply());
                    session.replies.closing = Some(Closing::AfterOutput);
                }
            }
            self.node.effects = Effects::default();
        }
    }

    /// The replies since the previous call.
    pub fn answered(&mut self) -> Vec<u8> {
        let session = self.node.clients.get_mut(self.id).expect("it is connected");
        let output = std::mem::take(&mut session.replies.buffer);
        if session.replies.closing == Some(Closing::AtOnce) { Vec::new() } else { output.to_vec() }
    }

    /// Bytes that are kept although they form no request yet.
    pub fn kept(&self) -> usize {
        self.input.capacity()
    }

    /// Whether another connection receives replies.
    pub fn serves_others(&mut self) -> bool {
        let id = self.node.connect(nowhere());
        requests::request(&mut self.node, id, &[Bytes::from_static(b"PING")]);
        let session = self.node.clients.get_mut(id).expect("it is connected");
        let answered = session.replies.buffer.clone();
        self.node.clients.disconnect(id);
        answered.starts_with(b"+PONG") || answered.starts_with(b"-NOAUTH")
    }
}

fn nowhere() -> [std::net::SocketAddrV4; 2] {
    [std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0); 2]
}

/// All requests in bytes that arrive in pieces of these lengths, and the final error, if any.
fn requests(bytes: &[u8], pieces: &[u8]) -> (Vec<Arguments>, Option<Bytes>) {
    let (mut reader, mut buffer, mut found) = (RequestReader::default(), BytesMut::new(), vec![]);
    let mut rest = bytes;
    let mut lengths = pieces.iter().map(|length| usize::from(*length));
    while !rest.is_empty() {
        let (piece, behind) = rest.split_at(lengths.next().unwrap_or(rest.len()).min(rest.len()));
        buffer.extend_from_slice(piece);
        rest = behind;
        loop {
            match reader.next(&mut buffer) {
                Ok(Some(args)) => found.push(args),
                Ok(None) => break,
                Err(error) => return (found, Some(error.0)),
            }
        }
    }
    (found, None)
}

/// Any bytes, in any pieces: the same requests, no panic, and other connections are unaffected.
pub fn frame(data: &[u8]) {
    let Some((count, rest)) = data.split_first() else { return };
    let (pieces, bytes) = rest.split_at(usize::from(*count).min(rest.len()));
    assert_eq!(requests(bytes, pieces), requests(bytes, &[]));
    assert_eq!(requests(bytes, &vec![1; bytes.len().min(300)]), requests(bytes, &[]));
    let mut replies = BytesMut::from(bytes);
    while let Ok(Some(_)) = decode_reply(&mut replies) {}
    let mut wire = Wire::new("");
    let mut rest = bytes;
    for length in pieces {
        let (piece, behind) = rest.split_at(usize::from(*length).min(rest.len()));
        wire.feed(piece);
        rest = behind;
    }
    wire.feed(rest);
    assert!(wire.serves_others(), "a connection of garbage stopped the node");
    assert!(wire.kept() <= 4 * bytes.len() + 4096, "{} bytes are kept", wire.kept());
}

/// Any commands of the table with any arguments: no panic, and complete replies.
pub fn command(data: &[u8]) {
    let mut wire = Wire::new("");
    let mut rest = data;
    while let Some((request, behind)) = request(rest) {
        let mut bytes = BytesMut::new();
        encode_request(&mut bytes, &request);
        let open = wire.feed(&bytes);
        let _ = wire.answered();
        if !open {
            return;
        }
        rest = behind;
    }
}

/// A request from bytes: the command, the number of arguments, and their words or bytes.
fn request(data: &[u8]) -> Option<(Arguments, &[u8])> {
    const WORDS: [&str; 16] = [
        "a",
        "b",
        "0",
        "1",
        "-1",
        "x",
        "",
        "*",
        "2",
        "9223372036854775807",
        "1.5",
        "inf",
        "GET",
        "LEFT",
        "COUNT",
        "return 1",
    ];
    let (&[which, count], mut rest) = data.split_first_chunk::<2>()?;
    let table = specification::all();
    let command = &table[usize::from(which) % table.len()];
    let mut args = vec![Bytes::from_static(command.lower.as_bytes())];
    let parts = &command.subcommands;
    if !parts.is_empty() {
        let part = parts[usize::from(count) % parts.len()].lower.rsplit('|').next();
        args.push(Bytes::from_static(part.unwrap_or_default().as_bytes()));
    }
    for _ in 0..count % 8 {
        let Some((first, behind)) = rest.split_first() else { break };
        rest = behind;
        if *first < 200 {
            args.push(Bytes::from_static(WORDS[usize::from(*first) % 16].as_bytes()));
            continue;
        }
        let (word, behind) = rest.split_at(usize::from(*first - 200).min(rest.len()).min(MAX_WORD));
        args.push(Bytes::copy_from_slice(word));
        rest = behind;
    }
    Some((args, rest))
}
