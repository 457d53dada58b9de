//! Compare and set, compare and delete: SET .. IFEQ and its variants, DELIFEQ, DELEX, DIGEST. Only
//! later servers have them, each a different subset.

use bytes::Bytes;
use lockstorm_platform::trace::hash_of;

use crate::call::{Call, Family, Outcome};
use crate::compat::Difference;
use crate::errors::wrong_arity;
use crate::frame::Reply;
use crate::frame::word;

/// The commands of this file, by name.
pub const FAMILY: Family = &[("delex", delex), ("delifeq", delifeq), ("digest", digest)];

/// How many digits a digest has.
const DIGITS: usize = 16;

/// A condition on a string, required for a command to take effect.
#[derive(Clone, Copy, Debug)]
pub struct Condition<'a> {
    /// Whether its digest is compared instead of the string itself.
    by_digest: bool,
    /// Whether it must differ.
    differs: bool,
    /// The value that it is compared with.
    operand: &'a Bytes,
}

impl<'a> Condition<'a> {
    /// The condition of a word in upper case; `None` for another word.
    fn of(word: &[u8], operand: &'a Bytes) -> Option<Condition<'a>> {
        let (by_digest, differs) = match word {
            b"IFEQ" => (false, false),
            b"IFNE" => (false, true),
            b"IFDEQ" => (true, false),
            b"IFDNE" => (true, true),
            _ => return None,
        };
        Some(Condition { by_digest, differs, operand })
    }

    /// The condition of SET from a word in upper case and its operand, if the node has it.
    pub fn of_set(call: &Call<'a>, word: &[u8], operand: usize) -> Option<Condition<'a>> {
        let condition = Condition::of(word, call.args.get(operand)?)?;
        let only_equal = !condition.by_digest && !condition.differs;
        let needed = if only_equal { Difference::SetIfEqual } else { Difference::SetIfOther };
        call.node.differs(needed).then_some(condition)
    }

    /// Whether it holds for the string of a key. If the key is missing, only "differs" holds.
    ///
    /// # Errors
    /// Another type, or a digest of another length.
    pub fn holds(self, call: &mut Call, key: &[u8]) -> Result<bool, Reply> {
        match call.string(key)? {
            None => Ok(self.differs),
            Some(value) => self.holds_for(&value),
        }
    }

    fn holds_for(self, value: &Bytes) -> Result<bool, Reply> {
        if !self.by_digest {
            return Ok((value == self.operand) != self.differs);
        }
        if self.operand.len() != DIGITS {
            return Err(Reply::error("ERR must be exactly 16 hexadecimal characters"));
        }
        Ok(digest_of(value).eq_ignore_ascii_case(self.operand) != self.differs)
    }
}

/// The XXH3 of a string in hexadecimal digits.
fn digest_of(value: &[u8]) -> Bytes {
    Bytes::from(format!("{:016x}", hash_of(value)))
}

/// DIGEST key
pub fn digest(call: &mut Call) -> Outcome {
    let value = call.string(&call.args[1])?;
    Ok(value.map_or(Reply::Nil, |value| Reply::Bulk(digest_of(&value))))
}

/// DELIFEQ key value
pub fn delifeq(call: &mut Call) -> Outcome {
    match call.string(&call.args[1])? {
        Some(value) if value == call.args[2] => Ok(delete(call)),
        _ => Ok(Reply::Integer(0)),
    }
}

/// DELEX key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]: a condition is checked only
/// if the key exists, and only for strings.
pub fn delex(call: &mut Call) -> Outcome {
    if !matches!(call.args.len(), 2 | 4) {
        return Err(wrong_arity(call.command.lower));
    }
    if call.entry(&call.args[1]).is_none() {
        return Ok(Reply::Integer(0));
    }
    if call.args.len() == 2 {
        return Ok(delete(call));
    }
    let value = call.string(&call.args[1]).ok().flatten();
    let no_string = "ERR Key should be of string type if conditions are specified";
    let value = value.ok_or(Reply::error(no_string))?;
    let condition = Condition::of(&call.word(2), &call.args[3]);
    let wrong = Reply::error("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE");
    let holds = condition.ok_or(wrong)?.holds_for(&value)?;
    Ok(if holds { delete(call) } else { Reply::Integer(0) })
}

/// Deletes the command's key: propagated as DEL, which needs no comparison.
fn delete(call: &mut Call) -> Reply {
    let key = &call.args[1];
    call.remove(key);
    call.event(b'g', "del", key);
    let key = key.clone();
    call.propagate(|| vec![word("DEL"), key]);
    Reply::Integer(1)
}

#[cfg(test)]
mod tests {
    use super::digest_of;

    #[test]
    fn digests_are_those_of_redis() {
        for (value, expected) in [
            ("hello", "9555e8555c62dcfd"),
            ("", "2d06800538d394c2"),
            ("123", "404a763b3f4c8c9a"),
            ("v8", "0cc76dbb41381419"),
        ] {
            assert_eq!(digest_of(value.as_bytes()), expected, "{value}");
        }
    }
}
