//! Keys of any type: DEL, EXISTS, TYPE, KEYS, RANDOMKEY.
//!
//! - `transfer`: renaming, copying, moving to another database
//! - `dump`: a value as bytes, and back
//! - `object`: the encoding of a value

pub mod dump;
pub mod object;
pub mod transfer;

use crate::command::{Call, Family, Outcome, container};
use crate::frame::Reply;
use crate::keyspace::Key;

/// The commands of this file, by name.
pub const FAMILY: Family = &[
    ("copy", transfer::copy),
    ("del", del),
    ("dump", dump::dump),
    ("exists", exists),
    ("keys", keys),
    ("move", transfer::move_key),
    ("object", container),
    ("object|encoding", object::encoding),
    ("object|freq", object::freq),
    ("object|help", object::help),
    ("object|idletime", object::idletime),
    ("object|refcount", object::refcount),
    ("randomkey", randomkey),
    ("rename", transfer::rename),
    ("renamenx", transfer::renamenx),
    ("restore", dump::restore),
    ("swapdb", transfer::swapdb),
    ("touch", touch),
    ("type", kind),
    ("unlink", del),
];

/// DEL key ... and UNLINK key ...
pub fn del(call: &mut Call) -> Outcome {
    let mut removed = 0;
    for key in call.from(1) {
        if call.entry(key).is_some() && call.remove(key) {
            call.event(b'g', "del", key);
            removed += 1;
        }
    }
    if removed > 0 {
        call.tell_verbatim();
    }
    Ok(Reply::Integer(removed))
}

/// EXISTS key ...: a key that is named twice counts twice.
pub fn exists(call: &mut Call) -> Outcome {
    let there = call.from(1).iter().filter(|key| call.glance(key).is_some()).count();
    Ok(Reply::count(there))
}

/// TOUCH key ...: the same, and updates the access time of each.
pub fn touch(call: &mut Call) -> Outcome {
    let there = call.from(1).iter().filter(|key| call.entry(key).is_some()).count();
    Ok(Reply::count(there))
}

/// TYPE key
pub fn kind(call: &mut Call) -> Outcome {
    let kind = call.glance(&call.args[1]).map_or("none", |entry| entry.value.kind());
    Ok(Reply::simple(kind))
}

/// KEYS pattern: in the order of the keys, where Redis has no order.
pub fn keys(call: &mut Call) -> Outcome {
    let db = call.node.keyspace.db(call.session.db);
    let keys: Vec<Key> = db.iter().map(|(key, _)| Key::clone(key)).collect();
    let mut found = Vec::new();
    for key in keys {
        if matches(&call.args[1], &key) && call.node.live(call.session, &key).is_some() {
            found.push(Reply::bulk(&key));
        }
    }
    Ok(Reply::Array(found))
}

/// RANDOMKEY: an expired key is deleted and another one is picked.
pub fn randomkey(call: &mut Call) -> Outcome {
    // A replica hides expired keys without deleting them, and may have no others.
    for _ in 0..100 {
        let size = call.node.keyspace.db(call.session.db).len();
        let place = call.node.draw(size);
        let key = call.node.keyspace.db(call.session.db).iter().nth(place);
        let Some(key) = key.map(|(key, _)| Key::clone(key)) else { break };
        if call.node.live(call.session, &key).is_some() {
            return Ok(Reply::bulk(&key));
        }
    }
    Ok(Reply::Nil)
}

/// Redis's glob: `*`, `?`, `[a-z]`, `[^a]`, `\x`.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            retry = Some((at + 1, seen));
            at += 1;
            continue;
        }
        let step = text.get(seen).and_then(|byte| matches_one(&pattern[at..], *byte));
        if let Some(length) = step {
            at += length;
            seen += 1;
        } else if at == pattern.len() && seen == text.len() {
            return true;
        } else {
            let Some((star, from)) = retry.filter(|(_, from)| *from < text.len()) else {
                return false;
            };
            retry = Some((star, from + 1));
            (at, seen) = (star, from + 1);
        }
    }
}

/// How much of the pattern matches the byte, if it does.
fn matches_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => matches_class(rest, byte).map(|length| length + 1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [plain, ..] => (*plain == byte).then_some(1),
    }
}

fn matches_class(class: &[u8], byte: u8) -> Option<usize> {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match &class[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                at += 2;
            }
            [from, b'-', to, ..] => {
                let (low, high) = (from.min(to), from.max(to));
                found |= (low..=high).contains(&&byte);
                at += 3;
            }
            [plain, ..] => {
                found |= *plain == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("*a*b", "xaxxab", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[a-e]llo", "hello", true),
            ("h[^e]llo", "hello", false),
            ("h\\*", "h*", true),
            ("h\\*", "hx", false),
            ("abc", "ab", false),
            ("ab", "abc", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
