//! Bytes to replies, as a client of a node needs them.

use bytes::{Buf, Bytes, BytesMut};
use redis_protocol::resp2::decode::decode_range;
use redis_protocol::resp2::types::RangeFrame;

use crate::frame::{MAX_ARGUMENTS, MAX_BULK_LEN, ProtocolError, Reply, integer};

/// Maximum nesting of a reply.
const DEEPEST: usize = 128;

/// Takes a complete reply from the front of the buffer; `None` if more bytes are needed.
///
/// # Errors
/// Bytes that are not a RESP2 reply, or one nested deeper than 128 levels.
pub fn decode_reply(buffer: &mut BytesMut) -> Result<Option<Reply>, ProtocolError> {
    ReplyReader::default().next(buffer)
}

/// Takes replies from the front of a buffer. A partial reply is not scanned again from its start
/// when more bytes arrive.
#[derive(Debug, Default)]
pub struct ReplyReader {
    /// Start of the next unread line.
    at: usize,
    /// How far the line at `at` was searched for its end.
    searched: usize,
    /// Missing items of the open arrays, the innermost last.
    missing: Vec<i64>,
    /// Bytes inspected in the search for line ends.
    #[cfg(test)]
    pub(crate) looked: usize,
}

impl ReplyReader {
    /// The next complete reply; `None` if more bytes are needed.
    ///
    /// # Errors
    /// Bytes that are not a RESP2 reply, or one nested deeper than 128 levels.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Reply>, ProtocolError> {
        let Some(length) = self.walk(buffer)? else { return Ok(None) };
        (self.at, self.searched) = (0, 0);
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

    /// The length of the reply at the buffer's front, if it is complete. Scans without recursion.
    fn walk(&mut self, buffer: &[u8]) -> Result<Option<usize>, ProtocolError> {
        loop {
            let Some(kind) = buffer.get(self.at) else { return Ok(None) };
            if !b"+-:$*".contains(kind) {
                return Err(ProtocolError::new("invalid reply"));
            }
            let Some(end) = self.line_end(buffer) else { return Ok(None) };
            let Some(behind) =
                self.step(*kind, &buffer[self.at + 1..end], end + 2, buffer.len())?
            else {
                return Ok(None);
            };
            (self.at, self.searched) = (behind, behind);
            if self.missing.len() > DEEPEST {
                return Err(ProtocolError::new("reply nested too deep"));
            }
            // Each array counts one more than its items, for itself.
            while let Some(left) = self.missing.last_mut() {
                *left -= 1;
                if *left > 0 {
                    break;
                }
                self.missing.pop();
            }
            if self.missing.is_empty() {
                return Ok(Some(self.at));
            }
        }
    }

    /// Where the line at `at` ends, if its end has arrived.
    fn line_end(&mut self, buffer: &[u8]) -> Option<usize> {
        let from = self.searched.max(self.at);
        let found = buffer[from..].windows(2).position(|pair| pair == b"\r\n");
        self.searched = found.map_or(buffer.len().saturating_sub(1), |index| from + index);
        #[cfg(test)]
        {
            self.looked += self.searched.saturating_sub(from) + 1;
        }
        found.map(|index| from + index)
    }

    /// Interprets a line: returns where the next one starts, or nothing if the bytes it announces
    /// are incomplete.
    fn step(
        &mut self,
        kind: u8,
        text: &[u8],
        behind: usize,
        there: usize,
    ) -> Result<Option<usize>, ProtocolError> {
        let wrong = || ProtocolError::new("invalid reply");
        match kind {
            b'+' | b'-' => {}
            b':' => drop(integer(text).ok_or_else(wrong)?),
            b'$' => {
                let length = integer(text).filter(|n| (-1..=MAX_BULK_LEN).contains(n));
                if let Ok(length) = usize::try_from(length.ok_or_else(wrong)?) {
                    let end = behind + length + 2;
                    return Ok((end <= there).then_some(end));
                }
            }
            _ => {
                let items = integer(text).filter(|n| (-1..=MAX_ARGUMENTS).contains(n));
                self.missing.push(items.ok_or_else(wrong)? + 1);
            }
        }
        Ok(Some(behind))
    }
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
