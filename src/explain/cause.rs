//! What made the difference, in words: the results of the experiments.

use std::collections::BTreeSet;

use lockstorm_platform::fault::verbs::Figure;
use lockstorm_platform::fault::{Fault, Target};
use lockstorm_platform::network::Latency;
use lockstorm_platform::time::{MILLISECOND, Nanos};

use crate::check::signature::Signature;
use crate::check::verdict::Kind;
use crate::explain::experiment::{Causes, Changed, Cut, OtherEffect, PlanChange};
use crate::explain::finding::Finding;
use crate::explain::threshold::healed;
use crate::explain::witness::violations;
use crate::ledger::overwork::{fit, works};
use crate::ledger::part::{Part, clock_at, lasting, link_at, strikes};
use crate::plan::buggy_caller::BuggyCaller;
use crate::plan::extend::Extend;
use crate::plan::{Persistence, Plan};
use crate::quantity::{figure, length, list, row, signed};
use crate::scenario::tables::PERSISTENCES;
use crate::workload::reentry;

/// What is necessary, what suffices, and what made no difference: one sentence each.
pub fn sentences(finding: &Finding) -> Vec<String> {
    let Some(experiments) = &finding.experiments else { return Vec::new() };
    let plan = &lasting(&finding.plan, &strikes(&finding.history));
    let causes = &experiments.causes;
    let mut sentences: Vec<String> = needed(plan, causes).into_iter().collect();
    sentences.extend(still(plan, causes));
    sentences.extend(enough(plan, causes));
    let may_be_more = "Other sets of parts may be enough, too: not all were tried.";
    sentences.extend(causes.may_be_more.then(|| may_be_more.to_owned()));
    sentences.extend(needed_here(plan, causes));
    sentences.extend(idle(finding, plan, causes));
    if let Some(own) = &finding.signature {
        let others = experiments.other_effects.iter();
        sentences.extend(others.map(|other| other_effect(plan, own, other)));
    }
    sentences.extend(untested(plan, causes));
    if !experiments.undone.is_empty() {
        let undone = list(&experiments.undone);
        let why = if experiments.is_stopped { Cut::Stopped } else { Cut::Budget }.words();
        sentences.push(format!("Not done, because {why}: {undone}."));
    }
    sentences
}

fn names(plan: &Plan, parts: &[Part]) -> Vec<String> {
    parts.iter().map(|part| part_words(plan, *part)).collect()
}

fn needed(plan: &Plan, causes: &Causes) -> Option<String> {
    let needed = names(plan, &causes.necessary);
    Some(match &needed[..] {
        [] => return None,
        [one] => format!("Necessary: {one}. Without it the violation does not occur."),
        _ => format!(
            "Necessary: {}. Without any one of them the violation does not occur.",
            list(&needed)
        ),
    })
}

/// The parts that are needed only because others hide the violation.
fn needed_here(plan: &Plan, causes: &Causes) -> Option<String> {
    let needed = names(plan, &causes.needed_here);
    let without = match needed.len() {
        0 => return None,
        1 => "Without it alone",
        _ => "Without any one of them alone",
    };
    Some(format!(
        "Needed only beside the others: {}. {without} the violation does not occur: what is left \
         hides it.",
        list(&needed)
    ))
}

/// What is still violated without a necessary part: kinds other than the headline violation.
fn still(plan: &Plan, causes: &Causes) -> Vec<String> {
    let without = |part: &Part| {
        let change = PlanChange::Without(*part);
        let changed = causes.changes.iter().find(|changed| changed.change == change)?;
        let kinds: Vec<String> = changed.kinds.iter().map(|kind| kind.word().to_owned()).collect();
        let part = replaced_words(plan, *part);
        (!kinds.is_empty()).then(|| format!("Without {part} there is still {}.", list(&kinds)))
    };
    causes.necessary.iter().filter_map(without).collect()
}

fn enough(plan: &Plan, causes: &Causes) -> Option<String> {
    let each: Vec<String> = causes.sufficient.iter().map(|set| list(&names(plan, set))).collect();
    Some(match &causes.sufficient[..] {
        [] => return None,
        [set] if set.is_empty() && causes.idle.is_empty() && causes.needed_here.is_empty() => {
            "Nothing is needed for it.".to_owned()
        }
        [set] if set.is_empty() && !causes.needed_here.is_empty() => {
            "Nothing is needed for it: it occurs without all of these parts as well.".to_owned()
        }
        [set] if set.is_empty() => {
            "Nothing is needed for it: it occurs without all that makes no difference.".to_owned()
        }
        [set] if *set == causes.necessary && set.len() == 1 => "It is enough by itself.".to_owned(),
        [set] if *set == causes.necessary => "Together they are enough.".to_owned(),
        [set] if set.len() == 1 => format!("Enough by itself: {}.", each[0]),
        [_] => format!("Enough together: {}.", each[0]),
        sets if sets.iter().all(|set| set.len() == 1) => {
            format!("Each of these is enough by itself: {}.", list(&each))
        }
        _ => format!("Any of these is enough: {}.", each.join("; or ")),
    })
}

/// The parts that make no difference to the headline violation; they may make one to other kinds.
fn idle(finding: &Finding, plan: &Plan, causes: &Causes) -> Option<String> {
    let idle = names(plan, &causes.idle);
    let kinds: Vec<Kind> = violations(&finding.judgement.verdict).iter().map(|v| v.kind).collect();
    let to = match kinds.first() {
        Some(first) if kinds.iter().any(|kind| kind != first) => format!(" to {}", first.word()),
        _ => String::new(),
    };
    (!idle.is_empty()).then(|| format!("No difference{to}: {}.", list(&idle)))
}

/// How the violation comes about without the parts that make no difference, if that is another way
/// than any in the run.
pub fn without_idle(finding: &Finding) -> Option<String> {
    let tried = finding.experiments.as_ref()?;
    let plan = &lasting(&finding.plan, &strikes(&finding.history));
    let words = |part: &Part| replaced_words(plan, *part);
    let idle: Vec<String> = tried.causes.idle.iter().map(words).collect();
    let way = tried.without_idle.as_ref()?;
    let makes = if idle.len() == 1 { "makes" } else { "make" };
    let without = row(&idle, "and");
    Some(format!(" Without {without}, which {makes} no difference, the way is another: {way}"))
}

/// What a fault does besides the headline violation.
fn other_effect(plan: &Plan, own: &Signature, other: &OtherEffect) -> String {
    let OtherEffect { fault, without, waits } = other;
    let all: BTreeSet<Kind> = own.kinds.iter().chain(&without.kinds).copied().collect();
    let of = |is: &dyn Fn(&Kind) -> bool, how: &str| {
        let kinds: Vec<String> =
            all.iter().filter(|kind| is(kind)).map(|kind| kind.word().to_owned()).collect();
        let be = if kinds.len() == 1 { "is" } else { "are" };
        (!kinds.is_empty()).then(|| format!("{} {be} {how}", list(&kinds)))
    };
    let (was, is) =
        (|kind: &Kind| own.kinds.contains(kind), |kind: &Kind| without.kinds.contains(kind));
    let was_bug = |kind: &Kind| own.in_model.contains(kind);
    let is_bug = |kind: &Kind| without.in_model.contains(kind);
    let what: Vec<String> = [
        of(&|kind| is(kind) && !was(kind), "violated as well"),
        of(&|kind| was(kind) && !is(kind), "not violated"),
        of(&|kind| was(kind) && is_bug(kind) && !was_bug(kind), "in the lock's model"),
        of(&|kind| is(kind) && was_bug(kind) && !is_bug(kind), "not in the lock's model"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let what = if what.is_empty() {
        "other assumptions are broken".to_owned()
    } else {
        what.join(", and ")
    };
    let fault = part_words(plan, Part::Fault(*fault));
    let waits: Vec<String> = waits.iter().map(|id| part_words(plan, Part::Fault(*id))).collect();
    let never = match waits.len() {
        0 => String::new(),
        1 => format!(" {} never strikes, and", waits[0]),
        _ => format!(" {} never strike, and", list(&waits)),
    };
    format!("Another effect: without {fault},{never} {what}.")
}

fn untested(plan: &Plan, causes: &Causes) -> Option<String> {
    let untested = names(plan, &causes.untested);
    let it = if untested.len() == 1 { "it" } else { "any one of them" };
    (!untested.is_empty()).then(|| {
        let list = list(&untested);
        let stays = if untested.len() == 1 { "it stays" } else { "they stay" };
        format!(
            "Not tested: {list}. Without {it} nobody is granted the lock, so {stays} in all trials."
        )
    })
}

/// A part of a plan in words, and what replaces it if it is not just removed: `c1's pause of 15 s`,
/// `work of 9.9 s instead of 8.97 s`. The plan should come from [`lasting`], so that each fault has
/// the length that it had in the run.
pub fn part_words(plan: &Plan, part: Part) -> String {
    let instead = instead(plan, part).map(|instead| format!(" instead of {instead}"));
    subject(plan, part) + &instead.unwrap_or_default()
}

/// The same after "without": `work of 9.9 s (8.97 s instead)`.
pub fn replaced_words(plan: &Plan, part: Part) -> String {
    let instead = instead(plan, part).map(|instead| format!(" ({instead} instead)"));
    subject(plan, part) + &instead.unwrap_or_default()
}

/// A part of a plan in words, without what replaces it.
pub fn subject(plan: &Plan, part: Part) -> String {
    let links = &plan.links;
    match part {
        Part::Fault(id) => {
            let Some(fault) = plan.faults.iter().find(|fault| fault.id == id) else {
                return format!("fault {id}");
            };
            let words = fault_words(fault);
            let alike = plan.faults.iter().filter(|other| fault_words(other) == words).count();
            if alike > 1 { format!("{words} (fault {id})") } else { words }
        }
        Part::Clocks => "clocks at wrong rates".to_owned(),
        Part::Rate(place) => clock_at(plan, place).map_or_else(String::new, |(host, clock)| {
            format!("{host}'s clock rate {:+} ppm off", clock.rate_ppm)
        }),
        Part::Loss => "lost messages".to_owned(),
        Part::Work(0) => "time-outs, messages and work that leave nothing of the lease".to_owned(),
        Part::Work(_) => work_words(plan),
        Part::Timeout(_) => plan.lock.timeout.map_or_else(
            || "the default time-out".to_owned(),
            |timeout| format!("a time-out of {}", length(timeout)),
        ),
        Part::Offsets => offsets(plan),
        Part::Offset(place) => clock_at(plan, place).map_or_else(String::new, |(host, clock)| {
            format!("{host}'s clock {} off", signed(clock.wall_offset))
        }),
        Part::Jitter(_) => match links.latency {
            Latency::Uniform { .. } => format!("messages that take {}", latency(links.latency)),
            _ => "messages that do not all take the same time".to_owned(),
        },
        Part::Links => {
            let named: Vec<String> = links.named.keys().cloned().collect();
            format!("links with latencies of their own ({})", list(&named))
        }
        Part::Link(place) => link_words(plan, place),
        Part::Latency => format!("links that take {}", length(links.latency.median())),
        Part::Persistence => format!("persistence {}", persistence(plan.topology.persistence)),
        Part::Compat => "another server than Redis 7.0".to_owned(),
        Part::Misuse => misuse(plan.workload.buggy_caller).to_owned(),
    }
}

/// What replaces a part in a run without it; `None` if nothing does or the part's words say it.
fn instead(plan: &Plan, part: Part) -> Option<String> {
    match part {
        Part::Work(bound) if bound > 0 => {
            let mut fitted = plan.clone();
            fit(&mut fitted, bound);
            Some(length(works(&fitted)))
        }
        Part::Timeout(to) => Some(length(to)),
        Part::Jitter(to) => Some(format!("{} each", length(to))),
        Part::Links | Part::Link(_) => Some(latency(plan.links.latency)),
        Part::Latency => Some(length(MILLISECOND)),
        Part::Persistence => Some(persistence(Persistence::AofAlways).to_owned()),
        _ => None,
    }
}

/// The settings that replace these parts and leave time of the lease for work, in words.
pub fn leaves_time(plan: &Plan, parts: &[Part]) -> Vec<String> {
    let set = |part: &Part| {
        let takes = instead(plan, *part).unwrap_or_default();
        match part {
            Part::Timeout(_) => format!("a time-out of {takes}"),
            Part::Latency => format!("messages of {takes}"),
            Part::Work(bound) if *bound > 0 => format!("work of {takes}"),
            _ => "time-outs, messages and work that leave time".to_owned(),
        }
    };
    parts.iter().map(set).collect()
}

fn work_words(plan: &Plan) -> String {
    let joins = if plan.workload.extend == Extend::Never { "of" } else { "for" };
    format!("work {joins} {}", worked(plan, works(plan)))
}

/// So much work under one grant. A caller that extends its grant stops in time before the lease
/// ends, whatever its extends return. The work of one that re-enters includes the time that a
/// re-entry may wait, which is no setting.
pub fn worked(plan: &Plan, works: Nanos) -> String {
    let (workload, again) = (&plan.workload, reentry(&plan.workload, plan.lock.ttl));
    let is_sum = workload.reenter && works == workload.hold.saturating_add(again);
    match workload.extend {
        Extend::Never if is_sum => format!(
            "{} ({}, and a re-entry that may wait for {})",
            length(works),
            length(workload.hold),
            length(again)
        ),
        Extend::Never => length(works),
        _ => format!("up to {} without a successful extend", length(works)),
    }
}

fn offsets(plan: &Plan) -> String {
    let off = plan.clocks.iter().filter(|(_, clock)| clock.wall_offset != 0);
    let each = off.map(|(host, clock)| format!("{host} {}", signed(clock.wall_offset)));
    format!("clocks with a wrong time ({})", list(&each.collect::<Vec<_>>()))
}

fn link_words(plan: &Plan, place: usize) -> String {
    let Some((name, back, takes)) = link_at(plan, place) else { return String::new() };
    let name = if back.is_some() { name.replace(" -> ", " <-> ") } else { name };
    format!("a latency of {} on {name}", latency(takes))
}

fn latency(latency: Latency) -> String {
    match latency {
        Latency::Constant(takes) => length(takes),
        Latency::Uniform { min, max } => format!("{} to {}", length(min), length(max)),
        Latency::Exponential { mean } => format!("{} on average", length(mean)),
        Latency::LongTail { median } => format!("{} as a median", length(median)),
    }
}

/// Callers that do something wrong, in words.
fn misuse(buggy: BuggyCaller) -> &'static str {
    match buggy {
        BuggyCaller::None => "callers that heed the lock's answers",
        BuggyCaller::ReleasesRefused => "callers that release what they were refused",
        BuggyCaller::IgnoresRefusal => "callers that work although they were refused",
        BuggyCaller::OneSegment => "callers that look into one segment only",
        BuggyCaller::IgnoresLoss => "callers that work on after they were notified of the loss",
    }
}

fn persistence(persistence: Persistence) -> &'static str {
    let kept = PERSISTENCES.iter().find(|(_, kept)| *kept == persistence);
    kept.map_or("", |(word, _)| word)
}

fn fault_words(fault: &Fault) -> String {
    let (word, by) = (fault.verb.word(), fault.verb.figure());
    let by = match by {
        Figure::None | Figure::Key(_) => String::new(),
        by => format!(" of {}", figure(&by)),
    };
    let lasts = match fault.length {
        Some(ns) if by.is_empty() => format!(" of {}", length(ns)),
        Some(ns) => format!(" for {}", length(ns)),
        None => String::new(),
    };
    match &fault.target {
        Target::Host(host) => format!("{host}'s {word}{by}{lasts}"),
        links @ Target::Links { .. } => format!("the {word}{by} on {links}{lasts}"),
    }
}

/// A change of the plan of a finding in words.
pub fn change_words(finding: &Finding, changed: &Changed) -> String {
    let plan = &lasting(&finding.plan, &strikes(&finding.history));
    let later = changed.later.map_or_else(String::new, |later| format!(" ({})", healed(later)));
    words_of(plan, changed.change) + &later
}

fn words_of(plan: &Plan, change: PlanChange) -> String {
    let of = |id| part_words(plan, Part::Fault(id));
    match change {
        PlanChange::Without(part) => match instead(plan, part) {
            Some(instead) => format!("{}: {instead} instead", subject(plan, part)),
            None => format!("without {}", subject(plan, part)),
        },
        PlanChange::Halved(id) => format!("{}: half of it", of(id)),
        PlanChange::Doubled(id) => format!("{}: twice as much", of(id)),
        PlanChange::Earlier(id, by) => format!("{}: {} earlier", of(id), length(by)),
        PlanChange::Later(id, by) => format!("{}: {} later", of(id), length(by)),
    }
}

/// The result of a change, in words.
pub fn outcome_words(changed: &Changed) -> String {
    let kinds: Vec<&str> = changed.kinds.iter().map(|kind: &Kind| kind.word()).collect();
    match (changed.is_untested, changed.is_unknown, kinds.is_empty()) {
        (true, ..) => "nothing is tested: nobody is granted the lock".to_owned(),
        (_, true, _) => "nothing is violated, and the verdict is unknown".to_owned(),
        (_, _, true) => "nothing is violated".to_owned(),
        _ => kinds.join(", "),
    }
}
