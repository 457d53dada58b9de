//! EVAL, EVALSHA, SCRIPT. What a script does inside is `script`'s.

use bytes::Bytes;
use sha1::{Digest, Sha1};

use crate::redis::command::{Call, Family, Outcome, container};
use crate::redis::frame::Reply;
use crate::redis::script;

/// What is here, by name.
pub const FAMILY: Family = &[
    ("eval", eval),
    ("evalsha", evalsha),
    ("script", container),
    ("script|exists", exists),
    ("script|flush", flush),
    ("script|kill", kill),
    ("script|load", load),
];

/// EVAL script numkeys key ... arg ...
pub fn eval(call: &mut Call) -> Outcome {
    let words = split_words(call)?;
    let body = &call.args[1];
    let sha = sha1_hex(body);
    if !call.node.scripts.contains_key(&sha) {
        script::check(&sha, body)?;
        call.node.scripts.insert(sha.clone(), Bytes::copy_from_slice(body));
    }
    Ok(run(call, &sha, body, words))
}

/// Runs a script; what it told its own connection stands before its reply.
fn run(call: &mut Call, sha: &Bytes, body: &[u8], words: (&[Bytes], &[Bytes])) -> Reply {
    let reply = script::run(call.node, call.session, sha, body, words);
    for told in call.node.clients.take_said() {
        call.session.push(&told);
    }
    reply
}

/// EVALSHA sha1 numkeys key ... arg ...
pub fn evalsha(call: &mut Call) -> Outcome {
    let words = split_words(call)?;
    let sha = Bytes::from(call.args[1].to_ascii_lowercase());
    let Some(body) = call.node.scripts.get(&sha).cloned() else {
        return Err(Reply::error("NOSCRIPT No matching script. Please use EVAL."));
    };
    Ok(run(call, &sha, &body, words))
}

/// Keys and arguments of an EVAL.
fn split_words<'a>(call: &Call<'a>) -> Result<(&'a [Bytes], &'a [Bytes]), Reply> {
    let number = call.integer(2)?;
    let words = call.from(3);
    let keys = usize::try_from(number)
        .map_err(|_| Reply::error("ERR Number of keys can't be negative"))?;
    words
        .split_at_checked(keys)
        .ok_or(Reply::error("ERR Number of keys can't be greater than number of args"))
}

/// SCRIPT LOAD script
pub fn load(call: &mut Call) -> Outcome {
    let body = &call.args[2];
    let sha = sha1_hex(body);
    script::check(&sha, body)?;
    call.node.scripts.insert(sha.clone(), Bytes::copy_from_slice(body));
    Ok(Reply::Bulk(sha))
}

/// SCRIPT EXISTS sha1 ...
pub fn exists(call: &mut Call) -> Outcome {
    let known = |sha: &Bytes| call.node.scripts.contains_key(&sha.to_ascii_lowercase()[..]);
    let replies = call.from(2).iter().map(|sha| Reply::Integer(i64::from(known(sha))));
    Ok(Reply::Array(replies.collect()))
}

/// SCRIPT FLUSH [ASYNC | SYNC]
pub fn flush(call: &mut Call) -> Outcome {
    let known = |word: &Bytes| matches!(&word.to_ascii_uppercase()[..], b"SYNC" | b"ASYNC");
    if call.from(3).is_empty() && call.from(2).iter().all(known) {
        call.node.scripts.clear();
        return Ok(Reply::OK);
    }
    Err(Reply::error("ERR SCRIPT FLUSH only support SYNC|ASYNC option"))
}

/// SCRIPT KILL
pub fn kill(_: &mut Call) -> Outcome {
    Err(Reply::error("NOTBUSY No scripts in execution right now."))
}

/// The SHA1 of a script in lower-case hexadecimal.
pub fn sha1_hex(body: &[u8]) -> Bytes {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digest = Sha1::digest(body);
    let nibbles = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    Bytes::from_iter(nibbles.map(|nibble| DIGITS[usize::from(nibble)]))
}
