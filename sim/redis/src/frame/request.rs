//! Requests from bytes. Parsed here and not by the package, which has no inline commands, no limits
//! and none of Redis's error texts, and reparses a partial request from its start each time.

use bytes::{Buf, Bytes, BytesMut};

use crate::frame::{Arguments, MAX_ARGUMENTS, MAX_BULK_LEN, ProtocolError, integer};

/// Maximum length of a line without an end: `PROTO_INLINE_MAX_SIZE`.
const MAX_LINE_LEN: usize = 64 * 1024;

/// Maximum number of words, and length of a word, in a request before authentication.
const MAX_UNAUTHENTICATED_WORDS: i64 = 10;
const MAX_UNAUTHENTICATED_WORD_LEN: i64 = 16_384;

/// Takes requests from the front of a buffer. A partial request is not parsed again from its start
/// when more bytes arrive.
#[derive(Debug, Default)]
pub struct RequestReader {
    /// Start of the next unread line or bulk, relative to the request's start.
    at: usize,
    /// How far the line at `at` was searched for its end.
    searched: usize,
    /// Arguments still to come; `None` before the `*n` line.
    missing: Option<usize>,
    /// Length of the bulk that starts at `at`, once its `$n` line was read.
    bulk: Option<usize>,
    /// Whether the peer is not yet authenticated: then lower limits apply.
    pub unauthenticated: bool,
    /// Maximum length of a word, if it differs from Redis's default.
    pub(crate) longest_word: Option<usize>,
    /// Positions of the arguments so far, relative to the request's start.
    ranges: Vec<(usize, usize)>,
    /// Bytes inspected in the search for line ends.
    #[cfg(test)]
    pub(crate) looked: usize,
}

impl RequestReader {
    /// The next complete request; `None` if more bytes are needed. Empty requests are skipped.
    ///
    /// # Errors
    /// Protocol errors, with Redis's texts.
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
            if buffer.len() > MAX_LINE_LEN {
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
        let count = integer(&buffer[1..end]).filter(|n| *n <= MAX_ARGUMENTS).ok_or_else(wrong)?;
        if self.unauthenticated && count > MAX_UNAUTHENTICATED_WORDS {
            return Err(ProtocolError::new("unauthenticated multibulk length"));
        }
        self.skip_to(end + 2);
        Ok(Some(usize::try_from(count).unwrap_or(0)))
    }

    /// Reads the `$n` line unless it was already read.
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
            let longest = self.longest_word.and_then(|longest| i64::try_from(longest).ok());
            let allowed = 0..=longest.unwrap_or(MAX_BULK_LEN);
            let length = length.filter(|n| allowed.contains(n)).ok_or_else(wrong)?;
            if self.unauthenticated && length > MAX_UNAUTHENTICATED_WORD_LEN {
                return Err(ProtocolError::new("unauthenticated bulk length"));
            }
            self.bulk = Some(usize::try_from(length).map_err(|_| wrong())?);
            self.skip_to(end + 2);
        }
        Ok(self.bulk)
    }

    /// Position of the `\r` of the line at `self.at`, if the byte after it has arrived too.
    fn line_end(
        &mut self,
        buffer: &[u8],
        too_long: &'static str,
    ) -> Result<Option<usize>, ProtocolError> {
        match self.find(buffer, b'\r') {
            None if buffer.len() - self.at > MAX_LINE_LEN => Err(ProtocolError::new(too_long)),
            Some(end) if end + 1 < buffer.len() => Ok(Some(end)),
            _ => Ok(None),
        }
    }

    /// Redis searches with `strchr`: a NUL hides all bytes after it.
    fn find(&mut self, buffer: &[u8], byte: u8) -> Option<usize> {
        let from = self.searched.max(self.at);
        let found = buffer[from..].iter().position(|b| *b == byte || *b == 0);
        self.searched = found.map_or(buffer.len(), |index| from + index);
        #[cfg(test)]
        {
            self.looked += self.searched - from;
        }
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
pub(crate) fn split_line(line: &[u8]) -> Option<Arguments> {
    let mut arguments = Vec::new();
    let mut rest = line;
    loop {
        let blanks = rest.iter().take_while(|byte| is_blank(**byte)).count();
        rest = &rest[blanks..];
        if rest.is_empty() {
            return Some(arguments);
        }
        let (argument, after) = split_argument(rest)?;
        arguments.push(Bytes::from(argument));
        rest = after;
    }
}

/// C's `isspace`, which includes the vertical tab.
fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn split_argument(line: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut argument = Vec::new();
    let mut rest = line;
    while let Some((first, after)) = rest.split_first() {
        match first {
            b'"' | b'\'' => {
                rest = quoted(*first, after, &mut argument)?;
                let closed = rest.first().is_none_or(|byte| is_blank(*byte));
                return closed.then_some((argument, rest));
            }
            b' ' | b'\n' | b'\r' | b'\t' | 0 => break,
            other => argument.push(*other),
        }
        rest = after;
    }
    Some((argument, rest))
}

/// Reads up to the closing `quote`; returns the rest.
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
