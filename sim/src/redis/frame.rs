//! Bytes to requests, replies to bytes and back. The one door to `redis-protocol`.
//!
//! Requests are walked here (inline commands, limits, Redis's error texts, a resume point), since
//! the package knows none of these. Replies are written by its RESP2 encoder and read by its
//! RESP2 decoder, but only once they are known to be whole and not too deep: it recurses.

use bytes::{Buf, Bytes, BytesMut};
use redis_protocol::resp2::decode::decode_range;
use redis_protocol::resp2::encode::extend_encode_borrowed;
use redis_protocol::resp2::types::{BorrowedFrame, RangeFrame};

/// Bytes after which a line without an end is refused: `PROTO_INLINE_MAX_SIZE`.
const LONGEST_LINE: usize = 64 * 1024;
/// The most bytes in one argument: `proto-max-bulk-len`.
const LONGEST_BULK: i64 = 512 * 1024 * 1024;
/// The most arguments that a request may announce: `INT_MAX`.
const MOST_ARGUMENTS: i64 = 0x7fff_ffff;
/// The deepest nesting that a reply may have.
const DEEPEST: usize = 128;

/// One request: the command's name and its arguments.
pub type Arguments = Vec<Bytes>;

/// What is wrong with the bytes of a peer: Redis's text behind `Protocol error: `. The connection
/// is to be closed after it is told.
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

/// Takes requests from the front of a buffer. A partial request is not parsed again from its
/// start when more bytes have come.
#[derive(Debug, Default)]
pub struct RequestReader {
    /// Where the next unread line or bulk starts, from the request's start.
    at: usize,
    /// How far the line at `at` was searched for its end.
    searched: usize,
    /// Arguments still to come; `None` before the `*n` line.
    missing: Option<usize>,
    /// Length of the bulk that starts at `at`, once its `$n` line was read.
    bulk: Option<usize>,
    /// Where the arguments so far lie, from the request's start.
    ranges: Vec<(usize, usize)>,
}

impl RequestReader {
    /// The next whole request; `None` if more bytes are needed. Empty requests are skipped.
    ///
    /// # Errors
    /// What Redis refuses, in its words.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Arguments>, ProtocolError> {
        while !buffer.is_empty() {
            let request = match buffer[0] {
                b'*' => self.array(buffer)?,
                _ => self.inline(buffer)?,
            };
            match request {
                Some(request) if request.is_empty() => {}
                other => return Ok(other),
            }
        }
        Ok(None)
    }

    fn inline(&mut self, buffer: &mut BytesMut) -> Result<Option<Arguments>, ProtocolError> {
        let Some(end) = self.find(buffer, b'\n') else {
            if buffer.len() > LONGEST_LINE {
                return Err(ProtocolError::new("too big inline request"));
            }
            return Ok(None);
        };
        let line = buffer[..end].strip_suffix(b"\r").unwrap_or(&buffer[..end]);
        let request = split_line(line);
        self.finish(buffer, end + 1);
        request.map(Some).ok_or_else(|| ProtocolError::new("unbalanced quotes in request"))
    }

    fn array(&mut self, buffer: &mut BytesMut) -> Result<Option<Arguments>, ProtocolError> {
        let mut missing = match self.missing {
            Some(missing) => missing,
            None => match self.announced(buffer)? {
                None => return Ok(None),
                Some(0) => {
                    self.finish(buffer, self.at);
                    return Ok(Some(Vec::new()));
                }
                Some(count) => count,
            },
        };
        while missing > 0 {
            self.missing = Some(missing);
            let Some(length) = self.bulk_length(buffer)? else { return Ok(None) };
            if buffer.len() - self.at < length + 2 {
                return Ok(None);
            }
            self.ranges.push((self.at, self.at + length));
            self.skip_to(self.at + length + 2);
            self.bulk = None;
            missing -= 1;
        }
        Ok(Some(self.take(buffer)))
    }

    /// Reads the `*n` line. A negative count is an empty request, as in Redis.
    fn announced(&mut self, buffer: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let wrong = || ProtocolError::new("invalid multibulk length");
        let Some(end) = self.line_end(buffer, "too big mbulk count string")? else {
            return Ok(None);
        };
        let count = integer(&buffer[1..end]).filter(|n| *n <= MOST_ARGUMENTS).ok_or_else(wrong)?;
        self.skip_to(end + 2);
        Ok(Some(usize::try_from(count).unwrap_or(0)))
    }

    /// Reads the `$n` line unless it was read before.
    fn bulk_length(&mut self, buffer: &[u8]) -> Result<Option<usize>, ProtocolError> {
        if self.bulk.is_none() {
            let Some(end) = self.line_end(buffer, "too big bulk count string")? else {
                return Ok(None);
            };
            let first = buffer[self.at];
            if first != b'$' {
                return Err(ProtocolError(
                    [b"expected '$', got '", &[first][..], b"'"].concat().into(),
                ));
            }
            let wrong = || ProtocolError::new("invalid bulk length");
            let length = integer(&buffer[self.at + 1..end]);
            let length = length.filter(|n| (0..=LONGEST_BULK).contains(n)).ok_or_else(wrong)?;
            self.bulk = Some(usize::try_from(length).map_err(|_| wrong())?);
            self.skip_to(end + 2);
        }
        Ok(self.bulk)
    }

    /// Where the `\r` of the line at `self.at` is, if the byte after it is there too.
    fn line_end(
        &mut self,
        buffer: &[u8],
        too_long: &'static str,
    ) -> Result<Option<usize>, ProtocolError> {
        match self.find(buffer, b'\r') {
            None if buffer.len() - self.at > LONGEST_LINE => Err(ProtocolError::new(too_long)),
            Some(end) if end + 1 < buffer.len() => Ok(Some(end)),
            _ => Ok(None),
        }
    }

    /// Redis searches with `strchr`: a NUL hides what comes after it.
    fn find(&mut self, buffer: &[u8], byte: u8) -> Option<usize> {
        let from = self.searched.max(self.at);
        let found = buffer[from..].iter().position(|b| *b == byte || *b == 0);
        self.searched = found.map_or(buffer.len(), |index| from + index);
        found.map(|index| from + index).filter(|index| buffer[*index] == byte)
    }

    fn skip_to(&mut self, at: usize) {
        self.at = at;
        self.searched = at;
    }

    fn take(&mut self, buffer: &mut BytesMut) -> Arguments {
        let whole = buffer.split_to(self.at).freeze();
        let arguments = self.ranges.iter().map(|(from, to)| whole.slice(*from..*to)).collect();
        self.reset();
        arguments
    }

    fn finish(&mut self, buffer: &mut BytesMut, length: usize) {
        buffer.advance(length);
        self.reset();
    }

    fn reset(&mut self) {
        self.ranges.clear();
        (self.at, self.searched, self.missing, self.bulk) = (0, 0, None, None);
    }
}

/// Splits an inline request as `sdssplitargs` does; `None` if quotes do not match.
fn split_line(line: &[u8]) -> Option<Arguments> {
    let mut arguments = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Some(arguments);
        }
        let (argument, after) = split_argument(rest)?;
        arguments.push(Bytes::from(argument));
        rest = after;
    }
}

fn split_argument(line: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut argument = Vec::new();
    let mut rest = line;
    while let Some((first, after)) = rest.split_first() {
        match first {
            b'"' | b'\'' => {
                rest = quoted(*first, after, &mut argument)?;
                let closed = rest.first().is_none_or(u8::is_ascii_whitespace);
                return closed.then_some((argument, rest));
            }
            b' ' | b'\n' | b'\r' | b'\t' | 0 => break,
            other => argument.push(*other),
        }
        rest = after;
    }
    Some((argument, rest))
}

/// Reads up to the closing `quote`; returns what lies behind it.
fn quoted<'a>(quote: u8, mut rest: &'a [u8], into: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match (quote, rest) {
            (b'"', [b'\\', b'x', high, low, after @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                into.push(hex(*high) << 4 | hex(*low));
                rest = after;
            }
            (b'"', [b'\\', escaped, after @ ..]) => {
                into.push(unescaped(*escaped));
                rest = after;
            }
            (b'\'', [b'\\', b'\'', after @ ..]) => {
                into.push(b'\'');
                rest = after;
            }
            (_, [byte, after @ ..]) if *byte == quote => return Some(after),
            (_, [byte, after @ ..]) => {
                into.push(*byte);
                rest = after;
            }
            (_, []) => return None,
        }
    }
}

fn hex(digit: u8) -> u8 {
    char::from(digit).to_digit(16).map_or(0, |value| value.to_le_bytes()[0])
}

fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

/// Reads an integer as Redis's `string2ll` does: no plus sign, no leading zero, no blank.
pub fn integer(text: &[u8]) -> Option<i64> {
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
    head(out, b"*", arguments.len());
    for argument in arguments {
        let argument = argument.as_ref();
        head(out, b"$", argument.len());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

/// What a node answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `+OK`
    Simple(Bytes),
    /// `-ERR text`: code and text, without the dash.
    Error(Bytes),
    /// `:1`
    Integer(i64),
    /// `$2`
    Bulk(Bytes),
    /// `$-1`
    Nil,
    /// `*2`
    Array(Vec<Reply>),
    /// `*-1`
    NilArray,
}

impl Reply {
    /// `+OK`.
    pub const OK: Reply = Reply::Simple(Bytes::from_static(b"OK"));

    /// A simple string that is known beforehand.
    pub fn simple(text: &'static str) -> Reply {
        Reply::Simple(Bytes::from_static(text.as_bytes()))
    }

    /// An error that is known beforehand, code included.
    pub fn error(text: &'static str) -> Reply {
        Reply::Error(Bytes::from_static(text.as_bytes()))
    }

    /// A bulk string with a copy of `bytes`.
    pub fn bulk(bytes: &[u8]) -> Reply {
        Reply::Bulk(Bytes::copy_from_slice(bytes))
    }

    /// Appends the reply's bytes.
    pub fn encode(&self, out: &mut BytesMut) {
        match self {
            Reply::Simple(text) => scalar(out, &BorrowedFrame::SimpleString(text)),
            Reply::Error(text) => encode_error(out, text),
            Reply::Integer(value) => scalar(out, &BorrowedFrame::Integer(*value)),
            Reply::Bulk(bytes) => scalar(out, &BorrowedFrame::BulkString(bytes)),
            Reply::Nil => scalar(out, &BorrowedFrame::Null),
            Reply::NilArray => out.extend_from_slice(b"*-1\r\n"),
            Reply::Array(items) => {
                head(out, b"*", items.len());
                items.iter().for_each(|item| item.encode(out));
            }
        }
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }
}

fn scalar(out: &mut BytesMut, frame: &BorrowedFrame) {
    extend_encode_borrowed(out, frame, false).expect("a scalar fits into a buffer that grows");
}

/// A line end inside would end the error early: Redis turns it into a blank. Text that is not
/// UTF-8 (an argument told back) is more than the package's error frame can carry.
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
fn head(out: &mut BytesMut, kind: &[u8], count: usize) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    let mut left = count;
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10).to_le_bytes()[0];
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(kind);
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}

/// Takes a whole reply from the front of the buffer; `None` if more bytes are needed.
///
/// # Errors
/// Bytes that are no RESP2 reply, or one nested deeper than 128 levels.
pub fn decode_reply(buffer: &mut BytesMut) -> Result<Option<Reply>, ProtocolError> {
    let Some(length) = reply_length(buffer)? else { return Ok(None) };
    let wrong = |_| ProtocolError::new("invalid reply");
    let decoded = decode_range(&buffer[..length]).map_err(wrong)?;
    let Some((frame, _)) = decoded else { return Err(ProtocolError::new("invalid reply")) };
    let plain = match frame {
        RangeFrame::Integer(value) => Reply::Integer(value),
        RangeFrame::Null if buffer[0] == b'*' => Reply::NilArray,
        RangeFrame::Null => Reply::Nil,
        RangeFrame::SimpleString(_) if buffer.starts_with(b"+OK\r\n") => Reply::OK,
        other => return Ok(Some(from_ranges(other, &buffer.split_to(length).freeze()))),
    };
    buffer.advance(length);
    Ok(Some(plain))
}

fn from_ranges(frame: RangeFrame, whole: &Bytes) -> Reply {
    match frame {
        RangeFrame::SimpleString((from, to)) => Reply::Simple(whole.slice(from..to)),
        RangeFrame::Error((from, to)) => Reply::Error(whole.slice(from..to)),
        RangeFrame::BulkString((from, to)) => Reply::Bulk(whole.slice(from..to)),
        RangeFrame::Integer(value) => Reply::Integer(value),
        RangeFrame::Null => Reply::Nil,
        RangeFrame::Array(items) => {
            Reply::Array(items.into_iter().map(|item| from_ranges(item, whole)).collect())
        }
    }
}

/// The length of the reply at the buffer's front, if it is all there. Walks without recursion.
fn reply_length(buffer: &[u8]) -> Result<Option<usize>, ProtocolError> {
    let wrong = || ProtocolError::new("invalid reply");
    let mut at = 0;
    let mut missing: Vec<i64> = Vec::new();
    loop {
        let Some(kind) = buffer.get(at) else { return Ok(None) };
        if !b"+-:$*".contains(kind) {
            return Err(wrong());
        }
        let Some(line) = buffer[at..].windows(2).position(|pair| pair == b"\r\n") else {
            return Ok(None);
        };
        let text = &buffer[at + 1..at + line];
        at += line + 2;
        match kind {
            b'+' | b'-' => {}
            b':' => drop(integer(text).ok_or_else(wrong)?),
            b'$' => {
                let length = integer(text).filter(|n| (-1..=LONGEST_BULK).contains(n));
                if let Ok(length) = usize::try_from(length.ok_or_else(wrong)?) {
                    at += length + 2;
                }
                if at > buffer.len() {
                    return Ok(None);
                }
            }
            _ => {
                let items = integer(text).filter(|n| (-1..=MOST_ARGUMENTS).contains(n));
                missing.push(items.ok_or_else(wrong)? + 1);
            }
        }
        if missing.len() > DEEPEST {
            return Err(ProtocolError::new("reply nested too deep"));
        }
        // Each array counts one more than its items, for itself.
        while let Some(left) = missing.last_mut() {
            *left -= 1;
            if *left > 0 {
                break;
            }
            missing.pop();
        }
        if missing.is_empty() {
            return Ok(Some(at));
        }
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
