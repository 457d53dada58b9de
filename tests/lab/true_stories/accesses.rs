//! Predicates of sentences about the guarded resource.

use std::collections::BTreeSet;

use lockstorm::history::{Access, AccessKind, OpKind};
use lockstorm::plan::WorkloadKind;
use lockstorm_platform::trace::Leg;

use crate::true_stories::facts::{Facts, Truth, ensure};
use crate::true_stories::templates::{Sentence, Template};

pub const TEMPLATES: &[Template] = &[
    ("{who} reads {number}{any}.", |facts, sentence| {
        let is = |a: &Access| {
            a.kind == AccessKind::Read && a.accepted && says(sentence.words[1], a.value)
        };
        with(facts, sentence, is, sentence.words[2])
    }),
    ("{who} writes {number} over {number}{any}.", |facts, sentence| {
        let is = |a: &Access| {
            a.kind == AccessKind::Write && a.accepted && says(sentence.words[1], a.value)
        };
        let (index, _) = find(facts, sentence, is).ok_or("no such write")?;
        ensure(
            says(sentence.words[2], held_before(facts, index)),
            "the resource held another value",
        )?;
        with(facts, sentence, is, sentence.words[3])
    }),
    ("{who} appends an entry{any}.", |facts, sentence| {
        with(facts, sentence, |a| a.kind == AccessKind::Append && a.accepted, sentence.words[1])
    }),
    ("{who} turns its buyer away, with {number} left in all{any}.", |facts, sentence| {
        let is = |a: &Access| {
            a.kind == AccessKind::Append && a.accepted && says(sentence.words[1], a.value)
        };
        let (index, access) = find(facts, sentence, is).ok_or("no such entry")?;
        ensure(access.value == left(facts, index), "the segments had another number of items")?;
        with(facts, sentence, is, sentence.words[2])
    }),
    ("{who}'s {number} makes {number}{any}.", |facts, sentence| {
        let is = |a: &Access| {
            a.kind == AccessKind::Add && a.accepted && adds(facts, a, sentence.words[1])
        };
        let it = |a: &Access| is(a) && says(sentence.words[2], a.value);
        with(facts, sentence, it, sentence.words[3])
    }),
    ("The resource refuses {who}'s {number} at {number}{any}.", |facts, sentence| {
        let is = |a: &Access| {
            a.kind == AccessKind::Add && !a.accepted && adds(facts, a, sentence.words[1])
        };
        let it = |a: &Access| is(a) && says(sentence.words[2], a.value);
        with(facts, sentence, it, sentence.words[3])
    }),
    ("{who} sets the end of the counter{any}.", |facts, sentence| {
        with(facts, sentence, |a| a.kind == AccessKind::Expire && a.accepted, sentence.words[1])
    }),
    ("The resource refuses {who}'s expiry{any}.", |facts, sentence| {
        with(facts, sentence, |a| a.kind == AccessKind::Expire && !a.accepted, sentence.words[1])
    }),
    ("The resource refuses {who}'s read{any}.", |facts, sentence| {
        with(facts, sentence, |a| a.kind == AccessKind::Read && !a.accepted, sentence.words[1])
    }),
    ("The resource refuses {who}'s entry{any}.", |facts, sentence| {
        with(facts, sentence, |a| a.kind == AccessKind::Append && !a.accepted, sentence.words[1])
    }),
    ("The resource refuses {who}'s write of {number}{any}.", |facts, sentence| {
        let is = |a: &Access| {
            a.kind == AccessKind::Write && !a.accepted && says(sentence.words[1], a.value)
        };
        with(facts, sentence, is, sentence.words[2])
    }),
];

/// Whether an addition adds what a word says, with its sign.
fn adds(facts: &Facts, access: &Access, word: &str) -> bool {
    let kind = facts.op(access.op).map(|op| &op.kind);
    matches!(kind, Some(OpKind::Add { by, .. }) if word == format!("{by:+}"))
}

fn says(word: &str, value: i64) -> bool {
    word.parse() == Ok(value)
}

fn find<'a>(
    facts: &Facts<'a>,
    sentence: &Sentence,
    is: impl Fn(&Access) -> bool,
) -> Option<(usize, &'a Access)> {
    let mut accesses = facts.history.accesses.iter().enumerate();
    accesses.find(|(_, a)| a.at == sentence.at && a.caller == sentence.words[0] && is(a))
}

/// An access of this caller at that time, with this fence and this damage.
fn with(facts: &Facts, sentence: &Sentence, is: impl Fn(&Access) -> bool, tail: &str) -> Truth {
    let (index, access) = find(facts, sentence, is).ok_or("no such access")?;
    let fence = access.fence.map_or_else(String::new, |fence| format!(" (fence {fence})"));
    let rest = tail.strip_prefix(&fence).ok_or("it carried another fence")?;
    match rest {
        "" => Ok(()),
        ": an update was lost" => ensure(
            access.value != held_before(facts, index) + 1,
            "the write is one more than what it replaced",
        ),
        ": an item was sold twice" => ensure(
            access.value != held_before(facts, index) - 1 || access.value < 0,
            "the write is one less than what it replaced",
        ),
        ": more was sold than there was" => ensure(access.value < 0, "there was one to sell"),
        ": the count is above its limit" | ": more passed than the limit allows" => ensure(
            access.value > facts.finding.plan.workload.items,
            "the count is within its limit",
        ),
        ": the counter never ends" => ensure(
            access.value == 1 && !is_ended(facts, index),
            "somebody sets the end of the counter",
        ),
        ": a job ran twice in a period" => ensure(
            facts.history.accesses[..index]
                .iter()
                .any(|a| a.kind == AccessKind::Write && a.accepted && a.value == access.value),
            "nobody has registered this period before",
        ),
        ": items were left" => ensure(left(facts, index) > 0, "there was nothing to sell"),
        ": a stale entry was accepted" => ensure(is_stale(facts, index), "the entry is not stale"),
        ": too many were inside at once" => ensure(
            inside(facts, index) >= facts.finding.promise.holders as usize,
            "there was room for one more",
        ),
        ": the latch was open before all had counted down" => {
            let parties = facts.finding.plan.lock.parties.unwrap_or(3) as usize;
            ensure(counted_down(facts, index) < parties, "all had counted down")
        }
        other => Err(format!("'{other}' is unknown")),
    }
}

/// Whether the end of the counter was set after an access.
fn is_ended(facts: &Facts, index: usize) -> bool {
    let mut later = facts.history.accesses[index..].iter();
    later.any(|a| a.kind == AccessKind::Expire && a.accepted)
}

/// How many other grants had made an entry and made another one later.
fn inside(facts: &Facts, index: usize) -> usize {
    let accesses = &facts.history.accesses;
    let entries = |of: &[Access]| -> BTreeSet<Option<u32>> {
        let entries = of.iter().filter(|a| a.kind == AccessKind::Append && a.accepted);
        entries.map(|a| a.grant).collect()
    };
    let (before, after) = (entries(&accesses[..index]), entries(&accesses[index + 1..]));
    before.intersection(&after).filter(|grant| **grant != accesses[index].grant).count()
}

/// How many processes had a request of an acquire executed before the grant of an access.
fn counted_down(facts: &Facts, index: usize) -> usize {
    let grant = facts.history.accesses[index].grant.and_then(|id| facts.op(id));
    let Some(opened) = grant.and_then(|op| op.ret).map(|ret| ret.instant()) else { return 0 };
    let executed = facts.history.requests.iter().filter(|request| {
        let is_acquire = facts.op(request.op).is_some_and(|op| op.kind == OpKind::Acquire);
        is_acquire
            && !request.declined
            && request.at(Leg::Applied).is_some_and(|applied| applied < opened)
    });
    executed.map(|request| request.from.clone()).collect::<BTreeSet<_>>().len()
}

/// The value of the resource before an access.
fn held_before(facts: &Facts, index: usize) -> i64 {
    let workload = &facts.finding.plan.workload;
    let object = |access: &Access| facts.op(access.op).map(|op| op.object.as_str());
    let own = object(&facts.history.accesses[index]).unwrap_or_default();
    let first = match workload.kind {
        WorkloadKind::Stock => workload.items,
        WorkloadKind::StockSegments => {
            let nth = own.rsplit(':').next().and_then(|nth| nth.parse().ok());
            nth.map_or(0, |nth| workload.items_of(nth))
        }
        _ => 0,
    };
    let earlier = facts.history.accesses[..index].iter();
    let is_write = |a: &&Access| a.kind == AccessKind::Write && a.accepted;
    let mut written = earlier.filter(is_write).filter(|a| object(a) == Some(own));
    written.next_back().map_or(first, |a| a.value)
}

/// How many items all segments had at an access: what the last write to each has left.
fn left(facts: &Facts, index: usize) -> i64 {
    let workload = &facts.finding.plan.workload;
    let of = |nth: u32| {
        let earlier = facts.history.accesses[..index].iter();
        let mut own = earlier.filter(|a| {
            let object = facts.op(a.op).map(|op| op.object.clone());
            a.kind == AccessKind::Write && a.accepted && object == Some(format!("resource:{nth}"))
        });
        own.next_back().map_or(workload.items_of(nth), |a| a.value)
    };
    (1..=workload.segments).map(of).sum()
}

/// Whether an entry of a later grant precedes it, or it has no grant.
fn is_stale(facts: &Facts, index: usize) -> bool {
    let access = &facts.history.accesses[index];
    let began = |grant: Option<u32>| {
        grant.and_then(|id| facts.op(id)).and_then(|op| op.ret).map(|ret| ret.instant())
    };
    let own = began(access.grant);
    let earlier = facts.history.accesses[..index].iter();
    let mut entries = earlier.filter(|a| a.kind == AccessKind::Append && a.accepted);
    own.is_none() || entries.any(|a| began(a.grant) > own)
}
