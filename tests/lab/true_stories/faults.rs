//! Predicates of sentences about faults of hosts and links.

use lockstorm::history::{FaultInterval, OpKind};
use lockstorm_platform::fault::{Target, Verb};
use lockstorm_platform::time::Instant;

use crate::true_stories::facts::{Facts, Truth, ensure, is_death};
use crate::true_stories::pattern::{is_length, is_moment, read};
use crate::true_stories::templates::{Sentence, Template};

/// Each verb's sentence without its tail: the target and, if there is one, the figure.
pub const TEMPLATES: &[Template] = &[
    ("No message passes {any}.", |f, t| fault(f, t, "partition", 0, None)),
    ("Messages {any} take {length} longer{any}.", |f, t| fault(f, t, "delay", 0, Some(1))),
    ("Messages {any} take up to {length} longer{any}.", |f, t| fault(f, t, "jitter", 0, Some(1))),
    ("{any} of all messages {any} are lost{any}.", |f, t| fault(f, t, "loss", 1, Some(0))),
    ("Connections {any} break{any}.", |f, t| fault(f, t, "cut-reply", 0, None)),
    ("Connections {any} are reset{any}.", |f, t| fault(f, t, "reset", 0, None)),
    ("{node} is paused{any}.", |f, t| fault(f, t, "pause", 0, None)),
    ("{node}'s machine sleeps{any}.", |f, t| fault(f, t, "suspend", 0, None)),
    ("{node}'s process dies, and is down{any}.", |f, t| fault(f, t, "crash", 0, None)),
    ("{node} loses power: what was not synced is gone; down{any}.", |f, t| {
        fault(f, t, "power-loss", 0, None)
    }),
    ("{node} is started again{any}.", |f, t| fault(f, t, "restart", 0, None)),
    ("{node}'s wall clock steps by {signed}{any}.", |f, t| fault(f, t, "clock-step", 0, Some(1))),
    ("{node}'s clocks run {number} ppm fast{any}.", |f, t| rate(f, t, true)),
    ("{node}'s clocks run {number} ppm slow{any}.", |f, t| rate(f, t, false)),
    ("{node}'s wall clock stands still{any}.", |f, t| fault(f, t, "clock-freeze", 0, None)),
    ("Each command on {node} takes {length} longer{any}.", |f, t| {
        fault(f, t, "slow-node", 0, Some(1))
    }),
    ("Each script on {node} takes {length} longer{any}.", |f, t| {
        fault(f, t, "slow-script", 0, Some(1))
    }),
    ("Replication to {node} lags by {length}{any}.", |f, t| fault(f, t, "replica-lag", 0, Some(1))),
    ("{node}'s disk lies about fsync{any}.", |f, t| fault(f, t, "lying-disk", 0, None)),
    ("A loss of power would tear what {node} wrote last{any}.", |f, t| {
        fault(f, t, "tearing-disk", 0, None)
    }),
    ("{node}'s disk is full{any}.", |f, t| fault(f, t, "full-disk", 0, None)),
];

/// A fault interval of this verb, on these targets, with that figure and tail, from then on.
fn fault(
    facts: &Facts,
    sentence: &Sentence,
    word: &str,
    who: usize,
    figure: Option<usize>,
) -> Truth {
    let began = facts.history.fault_intervals.iter().filter(|c| c.from == sentence.at);
    let mut wrong = format!("no {word} strikes then");
    for interval in began.filter(|c| word_of(&c.verb) == word) {
        match is_stated(facts, sentence, interval, who, figure) {
            Ok(()) => return Ok(()),
            Err(why) => wrong = why,
        }
    }
    Err(wrong)
}

/// The same of clocks that run fast, or slow.
fn rate(facts: &Facts, sentence: &Sentence, is_fast: bool) -> Truth {
    let mut began = facts.history.fault_intervals.iter().filter(|c| c.from == sentence.at);
    let is_it = |verb: &Verb| match verb {
        Verb::ClockRate { ppm } => {
            (*ppm >= 0) == is_fast && ppm.unsigned_abs().to_string() == sentence.words[1]
        }
        _ => false,
    };
    let interval = began.find(|c| is_it(&c.verb)).ok_or("no such rate begins then")?;
    is_stated(facts, sentence, interval, 0, None)
}

fn is_stated(
    facts: &Facts,
    sentence: &Sentence,
    interval: &FaultInterval,
    who: usize,
    figure: Option<usize>,
) -> Truth {
    ensure(interval.met != Some(0), "it met nothing")?;
    let last = sentence.words.len() - 1;
    // The end of a link target is not marked: the tail follows its names directly.
    let rest = match &interval.target {
        Target::Host(host) => {
            ensure(sentence.words[who] == host, "it struck another")?;
            if last == who { "" } else { sentence.words[last] }
        }
        Target::Links { .. } => {
            let text = sentence.words[who];
            let rest = text.strip_prefix(&*parties(&interval.target)).ok_or("it struck others")?;
            if last == who { rest } else { sentence.words[last] }
        }
    };
    if let Some(at) = figure {
        ensure(is_figure(&interval.verb, sentence.words[at]), "it has another figure")?;
    }
    tail(facts, interval, rest)
}

/// When a fault is over, with those of the same kind that strike the same host before that.
fn over(facts: &Facts, interval: &FaultInterval) -> Option<Instant> {
    let Target::Host(host) = &interval.target else { return interval.to };
    if matches!(interval.verb, Verb::Pause | Verb::Suspend) {
        // A process that is killed while it stands still does not stand still any more. Its machine
        // sleeps on, until it has no power or starts another.
        let deaths = facts.struck(host).filter(|other| is_death(&other.verb));
        let ends = deaths.filter(|death| death.from > interval.from).filter_map(|death| {
            let is_off = interval.verb == Verb::Pause || death.verb == Verb::PowerLoss;
            if is_off { Some(death.from) } else { death.to }
        });
        let end = ends.min().filter(|at| interval.to.is_none_or(|to| *at < to));
        if end.is_some() {
            return end;
        }
    }
    let alike = |other: &FaultInterval| {
        let both = |is: fn(&Verb) -> bool| is(&interval.verb) && is(&other.verb);
        let stands = matches!(interval.verb, Verb::Pause | Verb::Suspend);
        both(is_death) || stands && interval.verb == other.verb
    };
    let mut over = interval.to?;
    loop {
        let mut others = facts
            .struck(host)
            .filter(|other| alike(other) && other.met != Some(0) && other.from > interval.from);
        let more = others.find(|other| other.from <= over && other.to.is_none_or(|to| to > over));
        let Some(more) = more else { return Some(over) };
        over = more.to?;
    }
}

/// How long it lasts, and what its target was doing as it struck.
fn tail(facts: &Facts, interval: &FaultInterval, text: &str) -> Truth {
    let rest = match over(facts, interval) {
        None => text.strip_prefix(" to the end of the run").ok_or("it lasts to the end")?,
        Some(to) if to.at == interval.from.at => text,
        Some(to) => {
            let words = read(" for {length}, until {moment}{any}", text).ok_or("it has no end")?;
            ensure(is_length(words[0], to.at - interval.from.at), "it lasts otherwise")?;
            ensure(is_moment(words[1], to.at), "it ends otherwise")?;
            words[2]
        }
    };
    let rest = match rest.split_once("; its machine loses power at ") {
        Some((rest, at)) => {
            let Target::Host(host) = &interval.target else {
                return Err("links have none".into());
            };
            let mut losses = facts.struck(host).filter(|other| other.verb == Verb::PowerLoss);
            let is_then =
                losses.any(|loss| interval.from < loss.from && is_moment(at, loss.from.at));
            ensure(is_then, "it loses none then")?;
            rest
        }
        None => rest,
    };
    let added = rest.strip_prefix(", in addition");
    ensure(added.is_some() == is_added(facts, interval), "another delay lasts there, or none")?;
    let rest = added.unwrap_or(rest);
    if rest.is_empty() {
        return Ok(());
    }
    let holds = |name: &str| {
        let held = facts
            .holds
            .iter()
            .any(|h| h.op.caller == name && h.from < interval.from && interval.from <= h.until);
        ensure(held, "who is named does not hold the lock then")
    };
    if rest == ", while holding the lock" {
        let Target::Host(host) = &interval.target else { return Err("links hold nothing".into()) };
        return holds(host);
    }
    if let Some(words) = read(", while {who} holds the lock", rest) {
        return holds(words[0]);
    }
    if let Some(words) = read(", before {who}'s acquire is over", rest) {
        let asking = facts.history.ops.iter().any(|op| {
            op.caller == words[0]
                && op.kind == OpKind::Acquire
                && op.call.instant() < interval.from
                && op.ret.is_none_or(|ret| ret.instant() > interval.from)
        });
        return ensure(asking, "it is not in an acquire then");
    }
    Err(format!("'{rest}' is unknown"))
}

/// Whether a delay strikes where an earlier one still lasts.
fn is_added(facts: &Facts, interval: &FaultInterval) -> bool {
    let is_delay = |verb: &Verb| matches!(verb, Verb::Delay { .. });
    let all = &facts.history.fault_intervals;
    let mut before = all.iter().take_while(|other| !std::ptr::eq(*other, interval));
    let lasts = |other: &FaultInterval| other.to.is_none_or(|to| interval.from < to);
    is_delay(&interval.verb)
        && before
            .any(|other| is_delay(&other.verb) && other.target == interval.target && lasts(other))
}

fn parties(target: &Target) -> String {
    let names = |names: &[String]| match names {
        [one] => one.clone(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
        [] => String::new(),
    };
    match target {
        Target::Host(host) => host.clone(),
        Target::Links { from, to, both: true } => {
            format!("between {} and {}", names(from), names(to))
        }
        Target::Links { from, to, both: false } => format!("from {} to {}", names(from), names(to)),
    }
}

fn is_figure(verb: &Verb, text: &str) -> bool {
    match verb {
        Verb::Delay { extra } | Verb::Jitter { extra } => is_length(text, *extra),
        Verb::SlowNode { extra } | Verb::SlowScript { extra } => is_length(text, *extra),
        Verb::ReplicaLag { extra } => is_length(text, *extra),
        Verb::ClockRate { ppm } => text.parse() == Ok(*ppm),
        Verb::ClockStep { by } => {
            let sign = if *by < 0 { '-' } else { '+' };
            text.strip_prefix(sign).is_some_and(|length| is_length(length, by.unsigned_abs()))
        }
        Verb::Loss { per_million } => share(text) == Some(*per_million),
        _ => false,
    }
}

fn share(text: &str) -> Option<u32> {
    if let Some(ppm) = text.strip_suffix(" ppm") {
        return ppm.parse().ok();
    }
    let (whole, part) = {
        let number = text.strip_suffix(" %")?;
        number.split_once('.').unwrap_or((number, ""))
    };
    let part = format!("{part:0<4}");
    Some(whole.parse::<u32>().ok()? * 10_000 + part.parse::<u32>().ok()?)
}

/// The name of a verb in scenarios.
pub fn word_of(verb: &Verb) -> &'static str {
    match verb {
        Verb::Partition => "partition",
        Verb::Delay { .. } => "delay",
        Verb::Jitter { .. } => "jitter",
        Verb::Loss { .. } => "loss",
        Verb::CutReply => "cut-reply",
        Verb::Reset => "reset",
        Verb::Pause => "pause",
        Verb::Suspend => "suspend",
        Verb::Crash => "crash",
        Verb::PowerLoss => "power-loss",
        Verb::Restart => "restart",
        Verb::ClockStep { .. } => "clock-step",
        Verb::ClockRate { .. } => "clock-rate",
        Verb::ClockFreeze => "clock-freeze",
        Verb::SlowNode { .. } => "slow-node",
        Verb::SlowScript { .. } => "slow-script",
        Verb::ReplicaLag { .. } => "replica-lag",
        Verb::Failover => "failover",
        Verb::Evict { .. } => "evict",
        Verb::Flush => "flush",
        Verb::LyingDisk => "lying-disk",
        Verb::TearingDisk => "tearing-disk",
        Verb::FullDisk => "full-disk",
    }
}

/// Whether a node is back at an instant after a fault that killed its process.
pub fn is_back(facts: &Facts, node: &str, sentence: &Sentence) -> bool {
    facts.struck(node).any(|c| is_death(&c.verb) && c.to.is_some_and(|to| to <= sentence.at))
}
