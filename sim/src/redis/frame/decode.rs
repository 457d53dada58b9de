//! Bytes to replies, as a client of a node needs them.

use bytes::{Buf, Bytes, BytesMut};
use redis_protocol::resp2::decode::decode_range;
use redis_protocol::resp2::types::RangeFrame;

use crate::redis::frame::{LONGEST_BULK, MOST_ARGUMENTS, ProtocolError, Reply, integer};

/// The deepest nesting that a reply may have.
const DEEPEST: usize = 128;

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
