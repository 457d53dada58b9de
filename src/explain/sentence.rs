//! The verdict in one sentence, and a sentence for each breached assumption.

use lockstorm_platform::time::Nanos;
use lockstorm_platform::trace::KeyChange;

use crate::check::verdict::{Cause, Kind, Verdict, Violation};
use crate::explain::cause::{leaves_time, replaced_words};
use crate::explain::deed::{amount, breached_by, deeds};
use crate::explain::finding::{BrokenAssumption, Class, Either, Finding};
use crate::explain::hold::op;
use crate::explain::mechanism::alone::kept_out;
use crate::explain::mechanism::how::How;
use crate::explain::witness::{Witness, kinds};
use crate::history::{Outcome, PROBE};
use crate::ledger::part::{lasting, strikes};
use crate::plan::WorkloadKind;
use crate::promise::{Assumption, Bounded};
use crate::quantity::{count, length, list, moment, rounded, row, span};

/// The verdict in one sentence.
pub fn verdict(witness: &Witness<'_>) -> String {
    let judgement = &witness.finding.judgement;
    match (&judgement.verdict, witness.primary) {
        (Verdict::Unknown(why), _) => format!("Unknown: {why}."),
        (_, Some(violation)) => format!("{}{}.", charge(witness, violation), harm(witness)),
        (_, None) => {
            let counts = &judgement.counts;
            let miss = judgement.nearest_miss.map_or_else(String::new, |miss| {
                let by = rounded(miss.unsigned_abs());
                match miss < 0 {
                    true => format!(
                        "; a write came {by} after another could have been granted the lock, and \
                         nobody was"
                    ),
                    false => format!("; the nearest miss was {by}"),
                }
            });
            format!(
                "The lock held: {}, {}, {} struck{miss}.",
                count(counts.grants.into(), "grant"),
                count(counts.contended.into(), "contended acquire"),
                count(counts.struck.into(), "fault"),
            )
        }
    }
}

/// A sentence for each breached assumption, or one that says that there is none. Empty if there is
/// nothing to explain.
pub fn assumptions(finding: &Finding) -> Vec<String> {
    match &finding.class {
        None => Vec::new(),
        Some(class) => {
            let mut sentences: Vec<String> = breach_of_contract(class).into_iter().collect();
            sentences.extend(bug(finding, class));
            let alone =
                class.broken.iter().filter(|b| !b.goes.is_empty() || class.either.is_empty());
            sentences.extend(alone.map(|broken| broken_sentence(finding, broken)));
            sentences.extend(class.either.iter().map(|set| either_sentence(finding, class, set)));
            sentences
        }
    }
}

/// A sentence for the assumption that the mechanism breaches, if it is none of those that made the
/// difference. `None` otherwise.
pub fn other_way(finding: &Finding, how: How) -> Option<String> {
    let class = finding.class.as_ref().filter(|class| class.in_model.is_empty())?;
    let strained = how.strains();
    let is_notified = class.broken.iter().any(|broken| strained.contains(&broken.what));
    let mut breaches = finding.breaches.iter().filter(|breach| strained.contains(&breach.what));
    let broken = BrokenAssumption::from(breaches.next().filter(|_| !is_notified)?);
    let (bound, deeds) = (bound(broken.what, broken.bound), deeds(finding, &broken));
    Some(format!(
        "{bound}: {deeds}; the violation came about in this way here, and without it arises in \
         another way."
    ))
}

/// States that a broken contract is the lock's fault, without a trial.
fn breach_of_contract(class: &Class) -> Option<String> {
    let is_broken = class.in_model.contains(&Kind::BrokenContract);
    let text = "no fault excuses a lock that breaks its contract: this is a bug in its code.";
    is_broken.then(|| text.to_owned())
}

/// States that some kinds are the lock's fault.
fn bug(finding: &Finding, class: &Class) -> Option<String> {
    let tried = class.in_model.iter().filter(|kind| **kind != Kind::BrokenContract);
    let in_model: Vec<Kind> = tried.copied().collect();
    let others = class.in_model.len() + class.out_of_model.len() - in_model.len();
    let plan = lasting(&finding.plan, &strikes(&finding.history));
    let without = class.without.iter().map(|part| replaced_words(&plan, *part));
    let needless = list(&without.collect::<Vec<_>>());
    let (what, why) = match (class.without.is_empty(), finding.plan.faults.is_empty()) {
        (false, _) => {
            ("none is needed", format!("without {needless} the violation occurs as well"))
        }
        (true, true) => ("none broke", "the violation occurs without any fault".to_owned()),
        (true, false) => {
            let why = "the violation occurs even if every fault stays within what the lock assumes";
            ("none broke", why.to_owned())
        }
    };
    let what = match (in_model.is_empty(), others) {
        (true, _) => return None,
        (false, 0) => what.to_owned(),
        (false, _) => format!("{what} for {}", words(&in_model)),
    };
    Some(format!("{what}: {why}. This is a bug in the lock, or in how it is used."))
}

fn words(kinds: &[Kind]) -> String {
    kinds.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(", ")
}

/// The lock's assumptions, one sentence each, with a remark if a run that held exceeded them.
pub fn ledger(finding: &Finding) -> Vec<String> {
    let holds = finding.judgement.verdict == Verdict::Holds;
    let assumes = finding.promise.assumes.iter();
    let sentence = |assumption: &Assumption| {
        let said = bound(assumption.what, assumption.bound);
        let is_broken = finding.breaches.iter().any(|breach| breach.what == assumption.what);
        match holds && is_broken {
            true => format!("{said}: this run exceeded it without harm."),
            false => format!("{said}."),
        }
    };
    let mut sentences: Vec<String> = assumes.map(sentence).collect();
    // Assumptions of every lock about its topology are listed only if the run exceeded them.
    let beyond = beyond(finding).into_iter();
    let others: Vec<String> = beyond.filter(|said| !sentences.contains(said)).collect();
    sentences.extend(others);
    sentences
}

/// The assumptions that a run exceeded although it held, one sentence each.
pub fn beyond(finding: &Finding) -> Vec<String> {
    let holds = finding.judgement.verdict == Verdict::Holds;
    let beyond = finding.breaches.iter().filter(|_| holds).map(|breach| {
        let said = bound(breach.what, breach.bound);
        format!("{said}: this run exceeded it without harm.")
    });
    let mut sentences: Vec<String> = beyond.collect();
    sentences.dedup();
    sentences
}

/// The name of a corruption under the plan's workload.
pub fn damage(workload: WorkloadKind) -> &'static str {
    match workload {
        WorkloadKind::Counter => "an update was lost",
        WorkloadKind::Stock => "an item was sold twice",
        WorkloadKind::AppendLog => "a stale entry was accepted",
    }
}

/// The cause of a corruption, for a table.
pub fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Overlap => "two holds overlapped",
        Cause::InFlight => "a write arrived after its hold",
        Cause::Caller => "a caller without a grant",
        Cause::None => "no cause was found",
    }
}

fn charge(witness: &Witness<'_>, violation: &Violation) -> String {
    let who = callers(witness, violation);
    let span = span(violation.to.at.saturating_sub(violation.from.at));
    let first = who.first().map_or("a caller", String::as_str);
    let second = who.get(1).map_or("another", String::as_str);
    match violation.kind {
        Kind::BrokenContract => broken_contract(witness, violation),
        Kind::DoubleGrant => format!(
            "{} held the lock at once for {span}",
            at_once(&who, witness.finding.promise.holders)
        ),
        Kind::StaleHolder => {
            let (stale, other) = stale(witness).unwrap_or((first, second));
            match who.len() {
                ..=2 => format!(
                    "{stale} held on past its lease while {other} held the lock, for {span}"
                ),
                _ => format!(
                    "{} held the lock at once for {span}, {stale} past its lease",
                    at_once(&who, witness.finding.promise.holders)
                ),
            }
        }
        Kind::Corruption => {
            let late = witness.late_access(violation);
            let late = late.map(|index| witness.history().accesses[index].caller.clone());
            format!("{} spoilt the resource", late.unwrap_or_else(|| list(&who)))
        }
        Kind::ForeignRelease => {
            let mut changes =
                violation.keys.iter().filter_map(|key| witness.history().keys.get(*key));
            let last = changes.next_back().map(|key| key.change);
            let did = if last == Some(KeyChange::Set) { "overwrote" } else { "removed" };
            let who = thief(witness, violation).unwrap_or(first);
            format!("{who} {did} a lock that was not its own")
        }
        Kind::ForeignExtend => format!(
            "{} prolonged a lock that was not its own",
            thief(witness, violation).unwrap_or(first)
        ),
        Kind::Leak => format!("A key that nobody owned kept {} out", kept_out(witness, first)),
        Kind::RenewalAfterRelease => match witness.release(violation).is_some() {
            true => format!("{first}'s renewal took effect after its release had returned"),
            false => format!("{first}'s renewal set the key again after it had ended"),
        },
        Kind::Stuck => stuck(witness),
        Kind::NeverSettles => format!("{first} never got an answer"),
        Kind::LateLoss => match violation.late {
            Some(late) if !witness.is_notified(violation) => {
                format!("{first} did not learn of its loss, and held on for {}", length(late))
            }
            Some(by) => format!("{first} learned of its loss {}", late(by)),
            None => format!("{first} learned of its loss too late"),
        },
        Kind::LostEarly => format!("{first} lost its key before its lease had ended"),
        Kind::FenceRegress => {
            let named = witness.regress(violation);
            let named = named.map(|[larger, smaller]| [larger.0, smaller.0].map(|op| &*op.caller));
            let [first, second] = named.unwrap_or([first, second]);
            format!("{second} got a fence that was not above {first}'s")
        }
        Kind::NotLinearizable => "No order of the operations is legal for this lock".to_owned(),
    }
}

/// The simultaneous holders. If there are more callers than a violation needs, the text does not
/// claim that all of them held the lock at once.
fn at_once(who: &[String], holders: u32) -> String {
    let needed = holders as usize + 1;
    match who.len() {
        len if len <= needed => list(who),
        _ if needed == 2 => format!("Two or more of {}", list(who)),
        _ => format!("{needed} or more of {}", list(who)),
    }
}

/// The caller whose lock broke a line of the contract, and that line.
fn broken_contract(witness: &Witness<'_>, violation: &Violation) -> String {
    let mut breaches = witness.history().breaches.iter();
    breaches.find(|breach| breach.at == violation.from).map_or_else(
        || "The lock broke its contract".to_owned(),
        |breach| {
            let op = breach.op.and_then(|id| op(witness.history(), id));
            let op = op.filter(|op| op.ret.is_none_or(|ret| ret.instant() >= breach.at));
            let call = op.map_or_else(String::new, |op| {
                format!(" in its {} of {}", op.kind.noun(), moment(op.call.at))
            });
            format!("The lock of {} broke its contract{call}: {}", breach.process, breach.text())
        },
    )
}

/// The holder past its lease in an overlap, and the other one.
fn stale<'a>(witness: &'a Witness<'_>) -> Option<(&'a str, &'a str)> {
    let bare = witness.stale()?;
    let other = witness.actors.iter().find(|grant| grant.id != bare.grant.id)?;
    Some((&bare.grant.caller, &other.caller))
}

/// The caller that changed another's key, by the last change that the violation names.
fn thief<'a>(witness: &Witness<'a>, violation: &Violation) -> Option<&'a str> {
    let keys = &witness.finding.history.keys;
    let by = violation.keys.iter().filter_map(|index| keys.get(*index)?.by).next_back()?;
    witness.caller(by)
}

/// That nobody could get the lock, with the caller whose leftover key was the reason, if one was.
fn stuck(witness: &Witness<'_>) -> String {
    let nobody = "nobody held the lock, and nobody could get it";
    match witness.left().next() {
        Some((life, owner)) if life.until_ms.is_none() => {
            let when = if witness.stays(life) { "any more" } else { "in time" };
            format!(
                "{} left its key on {} with no time to live: {nobody} {when}",
                owner.caller, life.node
            )
        }
        Some((life, owner)) => {
            format!("{} left its key on {}: {nobody} in time", owner.caller, life.node)
        }
        None => {
            let mut probes = witness.history().ops.iter().filter(|op| op.process == PROBE);
            let is_granted = probes.any(|op| matches!(op.outcome, Outcome::Granted { .. }));
            let mut ops = witness.history().ops.iter();
            let was_granted = ops.any(|op| matches!(op.outcome, Outcome::Granted { .. }));
            let when = match (is_granted, was_granted) {
                (true, _) => "in time",
                (false, true) => "before the run ended",
                (false, false) => "at all",
            };
            format!("Nobody held the lock, and nobody could get it {when}")
        }
    }
}

fn late(ns: Nanos) -> String {
    format!("{} late", length(ns))
}

/// What the violation did to the resource, as the end of a sentence.
fn harm(witness: &Witness<'_>) -> String {
    if witness.of_kind(Kind::Corruption).next().is_none() {
        return spared(witness).unwrap_or_default();
    }
    format!(", and {}", damage(witness.finding.plan.workload.kind))
}

/// What protected the resource, as the end of a sentence.
fn spared(witness: &Witness<'_>) -> Option<String> {
    let mut accesses = witness.finding.history.accesses.iter();
    if let Some(hold) = witness.idle() {
        return Some(format!("; {} made no access in that time", hold.grant.caller));
    }
    let refused = accesses.find(|access| {
        !access.accepted && access.grant.is_some_and(|grant| witness.is_actor(grant))
    })?;
    let by = refused.fence.map_or_else(String::new, |fence| format!(" by its fence {fence}"));
    let hold = refused.grant.and_then(|grant| witness.hold(grant));
    let mut covered = hold.into_iter().flat_map(|hold| &hold.covered);
    let in_time = covered.any(|(from, to)| *from <= refused.at.at && refused.at.at < *to);
    let late = if in_time { "" } else { "late " };
    Some(format!("; the resource refused {}'s {late}access{by}", refused.caller))
}

/// The callers that a violation is about: those of its grants, otherwise those of its operations.
pub fn callers(witness: &Witness<'_>, violation: &Violation) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for op in violation.ops.iter().filter_map(|id| op(witness.history(), *id)) {
        if !names.contains(&op.caller) {
            names.push(op.caller.clone());
        }
    }
    names
}

fn broken_sentence(finding: &Finding, broken: &BrokenAssumption) -> String {
    // The trial removed all of them at once, so the sentence does not claim that each is needed.
    let all = if broken.faults.len() + broken.initial.len() > 1 { "all of this" } else { "this" };
    let away = match (broken.what, broken.bound) {
        (Bounded::Work, 0) => {
            format!("with {}", list(&leaves_time(&finding.plan, &broken.initial)))
        }
        _ => format!("take {all} away, and"),
    };
    let without = match (broken.goes.is_empty(), broken.stays.is_empty()) {
        (true, _) => String::new(),
        (false, true) => format!("; {away} nothing is violated"),
        (false, false) => format!("; {away} there is no {}", all_of(&broken.goes, "or")),
    };
    let beside = match (without.as_str(), &broken.faults[..]) {
        ("", _) => "",
        _ if !breaks_another(finding, broken) => "",
        (_, [_]) => " (the same fault broke another assumption as well)",
        _ => " (at least one of these faults broke another assumption as well)",
    };
    format!("{}: {}{without}{beside}.", bound(broken.what, broken.bound), deeds(finding, broken))
}

/// Whether a fault that broke this assumption broke another one in the run as well: the trial that
/// removed it removed both breaches.
fn breaks_another(finding: &Finding, broken: &BrokenAssumption) -> bool {
    let own = breached_by(finding, broken.what).unwrap_or_default();
    let mut others = finding.breaches.iter().filter(|breach| breach.what != broken.what);
    others.any(|other| {
        let faults = breached_by(finding, other.what).unwrap_or_default();
        faults.iter().any(|fault| own.contains(fault))
    })
}

/// A list of kinds.
fn all_of(kinds: &[Kind], word: &str) -> String {
    let names: Vec<String> = kinds.iter().map(|kind| kind.word().to_owned()).collect();
    row(&names, word)
}

/// Several breaches of which each suffices, or of which more than one is needed.
fn either_sentence(finding: &Finding, class: &Class, either: &Either) -> String {
    let broken = || either.broken.iter().filter_map(|index| class.broken.get(*index));
    let bounds: Vec<String> = broken().map(|b| bound(b.what, b.bound)).collect();
    let same = bounds.windows(2).all(|pair| pair[0] == pair[1]);
    let mut each = broken().zip(&bounds).map(|(broken, bound)| match same {
        true => deeds(finding, broken),
        false => format!("{bound} ({})", deeds(finding, broken)),
    });
    let head = if same { format!("{}: ", bounds[0]) } else { String::new() };
    let is_all = either.kinds == class.out_of_model && class.in_model.is_empty();
    if !either.alone {
        let what = match is_all {
            true => "nothing is violated".to_owned(),
            false => format!("there is no {}", all_of(&either.kinds, "or")),
        };
        let each: Vec<String> = each.collect();
        return format!(
            "{head}{}; take all of these away, and {what}; no single one of them makes the \
             difference.",
            list(&each)
        );
    }
    let first = each.next().unwrap_or_default();
    let each = each.fold(format!("either {first}"), |text, next| format!("{text}, or {next}"));
    let what = match is_all {
        true => String::new(),
        false => format!(" for {}", all_of(&either.kinds, "and")),
    };
    let is_beside = class.broken.iter().any(|b| b.goes.iter().any(|k| either.kinds.contains(k)));
    let enough = match is_beside {
        true => "beside what is necessary, one of these is enough",
        false => "one of these alone is enough",
    };
    format!("{head}{each}; {enough}{what}.")
}

/// An assumption with its bound, in words.
pub fn bound(what: Bounded, bound: u64) -> String {
    let most = amount(what, bound);
    match (what, bound) {
        (Bounded::ClientPause, 0) => {
            "no client pauses while it acquires or holds the lock".to_owned()
        }
        (Bounded::ClientPause, _) => {
            format!("no client pauses for longer than {most} while it acquires or holds the lock")
        }
        (Bounded::ClientCrash, 0) => {
            "no client dies while it acquires or holds the lock".to_owned()
        }
        (Bounded::ClientCrash, _) => format!("at most {most} of clients"),
        (Bounded::NodeClockStep, 0) => "no node's clock steps".to_owned(),
        (Bounded::NodeClockStep, _) => format!("no node's clock steps by more than {most}"),
        (Bounded::ClientClockStep, 0) => "no client's clock steps".to_owned(),
        (Bounded::ClientClockStep, _) => format!("no client's clock steps by more than {most}"),
        (Bounded::Drift, 0) => "no clock runs fast or slow".to_owned(),
        (Bounded::Drift, _) => {
            format!("all clocks keep within {most} of each other and of true time")
        }
        (Bounded::AmnesiacRestart, _) => {
            format!("no node that forgets keys is back before {most} have passed")
        }
        (Bounded::Failover, 0) => "no replica is made master".to_owned(),
        (Bounded::Failover, _) => format!("at most {most}"),
        (Bounded::KeyRemoval, 0) => "no key is evicted or flushed".to_owned(),
        (Bounded::KeyRemoval, _) => format!("at most {most}"),
        (Bounded::Work, 0) => {
            "replies and accesses come within their time-out, and requests leave time of the lease \
             for work"
                .to_owned()
        }
        (Bounded::Work, _) => {
            format!("no caller works for longer than {most} under one grant")
        }
        (Bounded::Leaderless, _) => {
            format!("for at most {most} after the heal clients find too few masters")
        }
        (Bounded::Unreplicated, _) => {
            format!("replicas have what is written to their master {most} after the heal")
        }
        (Bounded::AccessDelay, 0) => "no access reaches the resource late".to_owned(),
        (Bounded::AccessDelay, _) => {
            format!("the accesses of one hold are at most {most} late in all")
        }
    }
}

/// The kinds of a verdict as words, or the verdict itself.
pub fn verdict_words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Holds => "holds".to_owned(),
        Verdict::Unknown(_) => "unknown".to_owned(),
        Verdict::Violated(_) => {
            kinds(verdict).iter().map(|kind| kind.word()).collect::<Vec<_>>().join(", ")
        }
    }
}

/// The class of a finding, in words.
pub fn class_words(finding: &Finding) -> String {
    let Some(class) = &finding.class else { return String::new() };
    let own = kinds(&finding.judgement.verdict);
    let is_here = class.in_model.iter().any(|kind| own.contains(kind));
    match (class.in_model.is_empty(), class.out_of_model.is_empty()) {
        (true, _) => "out of the lock's model".to_owned(),
        (false, true) => "in the lock's model: a bug".to_owned(),
        (false, false) => format!(
            "in the lock's model: a bug ({}{}); out of it: {}",
            words(&class.in_model),
            if is_here { "" } else { ", not in this run, but without what broke here" },
            words(&class.out_of_model)
        ),
    }
}
