//! EVAL, EVALSHA, SCRIPT. What a script does inside is `script`'s.

use bytes::Bytes;
use sha1::{Digest, Sha1};

use crate::redis::command::{Call, Outcome, unknown_subcommand, wrong_arity};
use crate::redis::frame::Reply;
use crate::redis::script;

/// EVAL script numkeys key ... arg ...
pub fn eval(call: &mut Call) -> Outcome {
    let words = split_words(call)?;
    let body = &call.args[1];
    let sha = sha1_hex(body);
    if !call.node.scripts.contains_key(&sha) {
        script::check(&sha, body)?;
        call.node.scripts.insert(sha.clone(), Bytes::copy_from_slice(body));
    }
    Ok(script::run(call.node, call.session, &sha, body, words))
}

/// EVALSHA sha1 numkeys key ... arg ...
pub fn evalsha(call: &mut Call) -> Outcome {
    let words = split_words(call)?;
    let sha = Bytes::from(call.args[1].to_ascii_lowercase());
    let Some(body) = call.node.scripts.get(&sha).cloned() else {
        return Err(Reply::error("NOSCRIPT No matching script. Please use EVAL."));
    };
    Ok(script::run(call.node, call.session, &sha, &body, words))
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

/// SCRIPT LOAD | EXISTS | FLUSH
pub fn script(call: &mut Call) -> Outcome {
    match (&call.word(1)[..], call.from(2)) {
        (b"LOAD", [body]) => {
            let sha = sha1_hex(body);
            script::check(&sha, body)?;
            call.node.scripts.insert(sha.clone(), Bytes::copy_from_slice(body));
            Ok(Reply::Bulk(sha))
        }
        (b"EXISTS", shas @ [_, ..]) => {
            let known = |sha: &Bytes| call.node.scripts.contains_key(&sha.to_ascii_lowercase()[..]);
            let replies = shas.iter().map(|sha| Reply::Integer(i64::from(known(sha))));
            Ok(Reply::Array(replies.collect()))
        }
        (b"FLUSH", how @ ([] | [_])) => {
            let known = |word: &Bytes| matches!(&word.to_ascii_uppercase()[..], b"SYNC" | b"ASYNC");
            if !how.iter().all(known) {
                return Err(Reply::error("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
            }
            call.node.scripts.clear();
            Ok(Reply::OK)
        }
        (b"KILL", []) => Err(Reply::error("NOTBUSY No scripts in execution right now.")),
        (b"FLUSH", _) => Err(Reply::error("ERR SCRIPT FLUSH only support SYNC|ASYNC option")),
        (b"LOAD" | b"EXISTS" | b"KILL", _) => {
            let name = String::from_utf8_lossy(&call.args[1]).to_ascii_lowercase();
            Err(wrong_arity(&format!("script|{name}")))
        }
        _ => Err(unknown_subcommand(call.args)),
    }
}

/// The SHA1 of a script in lower-case hexadecimal.
pub fn sha1_hex(body: &[u8]) -> Bytes {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digest = Sha1::digest(body);
    let nibbles = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    Bytes::from_iter(nibbles.map(|nibble| DIGITS[usize::from(nibble)]))
}
