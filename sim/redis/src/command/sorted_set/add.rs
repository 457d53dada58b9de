//! ZADD and ZINCRBY, which is one of its forms.

use bytes::Bytes;

use crate::call::{Call, Outcome};
use crate::errors::SYNTAX;
use crate::float;
use crate::frame::Reply;
use crate::keyspace::Value;
use crate::keyspace::sorted_set::SortedSet;

/// The options of ZADD.
#[derive(Clone, Copy, Default)]
struct ZaddOptions {
    only_new: bool,
    only_old: bool,
    only_greater: bool,
    only_less: bool,
    counts_changes: bool,
    increments: bool,
}

/// The outcome for one member.
#[derive(Clone, Copy, PartialEq)]
enum Addition {
    /// Unchanged, because of an option.
    Refused,
    /// It already had that score.
    Same(f64),
    Updated(f64),
    Added(f64),
}

/// ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member ...
pub fn zadd(call: &mut Call) -> Outcome {
    add(call, false)
}

/// ZINCRBY key increment member: Redis accepts the options of ZADD here too.
pub fn zincrby(call: &mut Call) -> Outcome {
    add(call, true)
}

fn add(call: &mut Call, increments: bool) -> Outcome {
    let (options, pairs) = options(call.from(2), increments)?;
    let mut scores = Vec::new();
    for pair in pairs.chunks_exact(2) {
        let score = float::number(&pair[0]);
        scores.push((score.ok_or(Reply::error("ERR value is not a valid float"))?, &pair[1]));
    }
    let key = &call.args[1];
    let created = call.sorted_set(key)?.is_none();
    if created && options.only_old {
        return Ok(if options.increments { Reply::Nil } else { Reply::Integer(0) });
    }
    if created {
        let set = Value::SortedSet(SortedSet::default());
        call.node.keyspace.db_mut(call.session.db).set(key, set, None);
    }
    let Some(set) = call.sorted_set_mut(key) else { return Err(Reply::error(SYNTAX)) };
    let (mut added, mut updated, mut last) = (0, 0, Addition::Refused);
    for (score, member) in scores {
        last = add_one(set, options, score, member)?;
        added += usize::from(matches!(last, Addition::Added(_)));
        updated += usize::from(matches!(last, Addition::Updated(_)));
    }
    if added + updated > 0 {
        call.note_grown(key, created);
        call.event(b'z', if options.increments { "zincr" } else { "zadd" }, key);
        call.propagate_verbatim();
    }
    Ok(match last {
        Addition::Refused if options.increments => Reply::Nil,
        Addition::Same(score) | Addition::Updated(score) | Addition::Added(score)
            if options.increments =>
        {
            Reply::Double(score)
        }
        _ => Reply::count(if options.counts_changes { added + updated } else { added }),
    })
}

/// The options, and the words after them.
fn options(words: &[Bytes], increments: bool) -> Result<(ZaddOptions, &[Bytes]), Reply> {
    let mut options = ZaddOptions { increments, ..ZaddOptions::default() };
    let mut at = 0;
    while let Some(word) = words.get(at) {
        match &word.to_ascii_uppercase()[..] {
            b"NX" => options.only_new = true,
            b"XX" => options.only_old = true,
            b"GT" => options.only_greater = true,
            b"LT" => options.only_less = true,
            b"CH" => options.counts_changes = true,
            b"INCR" => options.increments = true,
            _ => break,
        }
        at += 1;
    }
    let pairs = &words[at..];
    let wrong = |text| Err(Reply::error(text));
    if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
        return wrong(SYNTAX);
    }
    if options.only_new && options.only_old {
        return wrong("ERR XX and NX options at the same time are not compatible");
    }
    let (greater, less) = (options.only_greater, options.only_less);
    if (options.only_new && (greater || less)) || (greater && less) {
        return wrong("ERR GT, LT, and/or NX options at the same time are not compatible");
    }
    if options.increments && pairs.len() > 2 {
        return wrong("ERR INCR option supports a single increment-element pair");
    }
    Ok((options, pairs))
}

fn add_one(
    set: &mut SortedSet,
    options: ZaddOptions,
    score: f64,
    member: &[u8],
) -> Result<Addition, Reply> {
    let Some(old) = set.score(member) else {
        if options.only_old {
            return Ok(Addition::Refused);
        }
        set.insert(member, score);
        return Ok(Addition::Added(score));
    };
    if options.only_new {
        return Ok(Addition::Refused);
    }
    let score = if options.increments { old + score } else { score };
    if score.is_nan() {
        return Err(Reply::error("ERR resulting score is not a number (NaN)"));
    }
    if (options.only_less && score >= old) || (options.only_greater && score <= old) {
        return Ok(Addition::Refused);
    }
    if score == old {
        return Ok(Addition::Same(score));
    }
    set.insert(member, score);
    Ok(Addition::Updated(score))
}
