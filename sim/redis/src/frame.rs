//! Bytes to requests, replies to bytes and back. The only user of `redis-protocol`.
//!
//! The package's encoder writes RESP2 scalars, and its decoder reads replies, but only after they
//! are known to be complete and not nested too deep: it recurses.
//!
//! - `request`: requests from bytes
//! - `decode`: replies from bytes

pub mod decode;
pub mod request;

use bytes::{Bytes, BytesMut};
use redis_protocol::resp2::encode::extend_encode_borrowed;
use redis_protocol::resp2::types::BorrowedFrame;

use crate::digits::in_digits;

/// Maximum number of bytes in one argument: `proto-max-bulk-len`.
pub(crate) const MAX_BULK_LEN: i64 = 512 * 1024 * 1024;
/// Maximum number of arguments that a request may announce: `INT_MAX`.
const MAX_ARGUMENTS: i64 = 0x7fff_ffff;

/// One request: the command's name and its arguments.
pub type Arguments = Vec<Bytes>;

/// A word that is a constant.
pub fn word(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

/// The bytes of a number.
pub(crate) fn digits(value: impl ToString) -> Bytes {
    Bytes::from(value.to_string())
}

/// What is wrong with the bytes of a peer: Redis's text after `Protocol error: `. The connection
/// must be closed after this reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolError(pub Bytes);

impl ProtocolError {
    fn new(text: &'static str) -> ProtocolError {
        ProtocolError(Bytes::from_static(text.as_bytes()))
    }

    /// The reply that Redis sends before it closes the connection.
    pub fn reply(&self) -> Reply {
        Reply::Error([b"ERR Protocol error: ", &self.0[..]].concat().into())
    }
}

/// Reads an integer as Redis's `string2ll` does: no plus sign, no leading zero, no blank.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [] => return None,
        [b'0'] => return (!negative).then_some(0),
        [b'0', ..] => return None,
        _ => {}
    }
    digits.iter().try_fold(0_i64, |sum, digit| {
        let digit = i64::from(digit.is_ascii_digit().then(|| digit - b'0')?);
        let sum = sum.checked_mul(10)?;
        if negative { sum.checked_sub(digit) } else { sum.checked_add(digit) }
    })
}

/// Appends a request as clients send it: an array of bulk strings.
pub fn encode_request(out: &mut BytesMut, arguments: &[impl AsRef<[u8]>]) {
    head(out, b'*', arguments.len());
    arguments.iter().for_each(|argument| bulk(out, argument.as_ref()));
}

/// Appends a command with its arguments, as [`encode_request`] does.
pub(crate) fn encode_command(out: &mut BytesMut, command: &[u8], arguments: &[&[u8]]) {
    head(out, b'*', 1 + arguments.len());
    bulk(out, command);
    arguments.iter().for_each(|argument| bulk(out, argument));
}

fn bulk(out: &mut BytesMut, word: &[u8]) {
    head(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// The protocol of a connection's replies; HELLO selects it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// RESP2, the default of every connection.
    #[default]
    Two,
    /// RESP3.
    Three,
}

/// A reply of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// `+OK`
    Simple(Bytes),
    /// `-ERR text`: code and text, without the dash.
    Error(Bytes),
    /// `:1`
    Integer(i64),
    /// `$2`
    Bulk(Bytes),
    /// `$-1`; in RESP3 `_`
    Nil,
    /// `*2`
    Array(Vec<Reply>),
    /// `*-1`; in RESP3 `_`
    NilArray,
    /// `%1`: names and values in turn; in RESP2 an array of them
    Map(Vec<Reply>),
    /// `~2`; in RESP2 an array
    Set(Vec<Reply>),
    /// `>3`: a push message; in RESP2 an array
    Push(Vec<Reply>),
    /// `,1.5`; in RESP2 a bulk string
    Double(f64),
    /// `#t`; in RESP2 1 or 0
    Boolean(bool),
    /// `(1234`; in RESP2 a bulk string
    BigNumber(Bytes),
    /// `=15`: plain text; in RESP2 a bulk string
    Verbatim([u8; 3], Bytes),
    /// Several replies to one request, or none.
    Several(Vec<Reply>),
    /// A reply encoded before the connection changed its protocol.
    Encoded(Bytes),
}

impl Reply {
    /// `+OK`.
    pub const OK: Reply = Reply::Simple(Bytes::from_static(b"OK"));
    /// No reply at all.
    pub const SILENCE: Reply = Reply::Several(Vec::new());

    /// A simple string that is a constant.
    pub fn simple(text: &'static str) -> Reply {
        Reply::Simple(Bytes::from_static(text.as_bytes()))
    }

    /// An error that is a constant, code included.
    pub fn error(text: &'static str) -> Reply {
        Reply::Error(Bytes::from_static(text.as_bytes()))
    }

    /// A bulk string with a copy of `bytes`.
    pub(crate) fn bulk(bytes: &[u8]) -> Reply {
        Reply::Bulk(Bytes::copy_from_slice(bytes))
    }

    /// A bulk string that is a constant.
    pub fn word(text: &'static str) -> Reply {
        Reply::Bulk(Bytes::from_static(text.as_bytes()))
    }

    /// A number of items.
    pub(crate) fn count(things: usize) -> Reply {
        Reply::Integer(i64::try_from(things).unwrap_or(i64::MAX))
    }

    /// Appends the reply's bytes in RESP2.
    pub fn encode(&self, out: &mut BytesMut) {
        self.encode_in(Protocol::Two, out);
    }

    /// Appends the reply's bytes.
    pub(crate) fn encode_in(&self, protocol: Protocol, out: &mut BytesMut) {
        match self {
            Reply::Simple(text) => scalar(out, &BorrowedFrame::SimpleString(text)),
            Reply::Error(text) => encode_error(out, text),
            Reply::Integer(value) => scalar(out, &BorrowedFrame::Integer(*value)),
            Reply::Bulk(bytes) => scalar(out, &BorrowedFrame::BulkString(bytes)),
            Reply::Array(items) => aggregate(out, b'*', items, items.len(), protocol),
            Reply::Encoded(bytes) => out.extend_from_slice(bytes),
            Reply::Several(items) => items.iter().for_each(|item| item.encode_in(protocol, out)),
            other if protocol == Protocol::Three => other.encode_new(out),
            other => other.encode_old(out),
        }
    }

    /// The types that RESP3 added, in RESP3.
    fn encode_new(&self, out: &mut BytesMut) {
        let line = |out: &mut BytesMut, kind: &[u8], text: &[u8]| {
            out.extend_from_slice(kind);
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        };
        match self {
            Reply::Map(items) => aggregate(out, b'%', items, items.len() / 2, Protocol::Three),
            Reply::Set(items) => aggregate(out, b'~', items, items.len(), Protocol::Three),
            Reply::Push(items) => aggregate(out, b'>', items, items.len(), Protocol::Three),
            Reply::Double(value) => line(out, b",", in_17_digits(*value).as_bytes()),
            Reply::Boolean(value) => line(out, b"#", if *value { b"t" } else { b"f" }),
            Reply::BigNumber(digits) => line(out, b"(", digits),
            Reply::Verbatim(format, text) => {
                head(out, b'=', text.len() + 4);
                out.extend_from_slice(format);
                line(out, b":", text);
            }
            _ => line(out, b"_", b""),
        }
    }

    /// The types that RESP3 added, as Redis writes them in RESP2.
    fn encode_old(&self, out: &mut BytesMut) {
        let bulk = |out: &mut BytesMut, text: &[u8]| scalar(out, &BorrowedFrame::BulkString(text));
        match self {
            Reply::Map(items) | Reply::Set(items) | Reply::Push(items) => {
                aggregate(out, b'*', items, items.len(), Protocol::Two);
            }
            Reply::Double(value) => bulk(out, in_17_digits(*value).as_bytes()),
            Reply::Boolean(value) => scalar(out, &BorrowedFrame::Integer(i64::from(*value))),
            Reply::BigNumber(text) | Reply::Verbatim(_, text) => bulk(out, text),
            Reply::NilArray => out.extend_from_slice(b"*-1\r\n"),
            _ => scalar(out, &BorrowedFrame::Null),
        }
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }
}

/// The first word of a reply's bytes, if it is an error: `READONLY`, `NOSCRIPT`.
pub fn error_word(reply: &[u8]) -> Option<String> {
    let words = reply.strip_prefix(b"-")?;
    let word = words.split(|byte| matches!(byte, b' ' | b'\r')).next()?;
    Some(String::from_utf8_lossy(word).into_owned())
}

fn aggregate(out: &mut BytesMut, kind: u8, items: &[Reply], count: usize, protocol: Protocol) {
    head(out, kind, count);
    items.iter().for_each(|item| item.encode_in(protocol, out));
}

/// `%.17g`, as C writes it.
pub(crate) fn in_17_digits(number: f64) -> String {
    in_digits(number, 17)
}

fn scalar(out: &mut BytesMut, frame: &BorrowedFrame) {
    extend_encode_borrowed(out, frame, false).expect("a scalar fits into a buffer that grows");
}

/// A line end inside would end the error early: Redis replaces it by a blank. The package's error
/// frame cannot carry text that is not UTF-8 (an argument in the message).
fn encode_error(out: &mut BytesMut, text: &[u8]) {
    match std::str::from_utf8(text) {
        Ok(line) if !line.contains(['\r', '\n']) => scalar(out, &BorrowedFrame::Error(line)),
        _ => {
            out.extend_from_slice(b"-");
            let blank = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
            out.extend(text.iter().map(blank));
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Appends the line that announces how many items or bytes follow.
fn head(out: &mut BytesMut, kind: u8, count: usize) {
    // So for most words. Of a known length, the line is written without a call.
    if count < 10 {
        let digit = b'0' + count.to_le_bytes()[0];
        return out.extend_from_slice(&[kind, digit, b'\r', b'\n']);
    }
    let mut line = [0_u8; 24];
    let mut at = line.len() - 2;
    line[at..].copy_from_slice(b"\r\n");
    let mut left = count;
    loop {
        at -= 1;
        line[at] = b'0' + (left % 10).to_le_bytes()[0];
        left /= 10;
        if left == 0 {
            break;
        }
    }
    at -= 1;
    line[at] = kind;
    out.extend_from_slice(&line[at..]);
}

#[cfg(test)]
mod tests;
