//! The assumptions of a lock in words: which ones were breached, by what, and which violations
//! disappear without that.

use crate::check::verdict::{Kind, Verdict};
use crate::explain::cause::{leaves_time, replaced_words};
use crate::explain::deed::{amount, deeds};
use crate::explain::finding::{BrokenAssumption, Class, Either, Finding};
use crate::explain::mechanism::how::How;
use crate::explain::naming::words;
use crate::explain::witness::Witness;
use crate::ledger::part::{Part, lasting, strikes};
use crate::plan::Plan;
use crate::plan::buggy_caller::BuggyCaller;
use crate::promise::{Assumption, Bounded};
use crate::quantity::{list, row};

/// A sentence for each breached assumption, or one that says that there is none. Empty if there is
/// nothing to explain.
pub fn assumptions(witness: &Witness<'_>) -> Vec<String> {
    match &witness.finding.class {
        None => Vec::new(),
        Some(class) => {
            let mut sentences: Vec<String> = breach_of_contract(class).into_iter().collect();
            sentences.extend(bug(witness.finding, class));
            let alone =
                class.broken.iter().filter(|b| !b.goes.is_empty() || class.either.is_empty());
            sentences.extend(alone.map(|broken| broken_sentence(witness, broken)));
            sentences.extend(class.either.iter().map(|set| either_sentence(witness, class, set)));
            sentences
        }
    }
}

/// A sentence for the assumption that the mechanism breaches, if it is none of those that made the
/// difference. `None` otherwise.
pub fn other_way(witness: &Witness<'_>, how: How) -> Option<String> {
    let finding = witness.finding;
    let class = finding.class.as_ref().filter(|class| class.in_model.is_empty())?;
    let possible = how.may_breach();
    let is_stated = class.broken.iter().any(|broken| possible.contains(&broken.what));
    let mut breaches = finding.breaches.iter().filter(|breach| possible.contains(&breach.what));
    let broken = BrokenAssumption::from(breaches.next().filter(|_| !is_stated)?);
    let (bound, deeds) = (bound(broken.what, broken.bound), deeds(witness, &broken));
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
    let (what, why) = match (class.without.is_empty(), finding.plan.faults.is_empty()) {
        (false, _) => {
            let spared = spared(&plan, &class.without);
            ("none is needed", format!("{spared} the violation occurs as well"))
        }
        (true, true) => ("none", "the violation occurs without any fault".to_owned()),
        (true, false) => {
            let why = "the violation occurs even if every fault stays within what the lock assumes";
            ("none", why.to_owned())
        }
    };
    let what = match (in_model.is_empty(), others) {
        (true, _) => return None,
        (false, 0) => what.to_owned(),
        (false, _) => format!("{what} for {}", words(&in_model)),
    };
    Some(format!("{what}: {why}. This is a bug in the lock, or in how it is used."))
}

/// What is not needed, in words: `without c1's pause of 2 s`, `with a time-out of 12 ms`.
fn spared(plan: &Plan, parts: &[Part]) -> String {
    let (with, without): (Vec<Part>, Vec<Part>) =
        parts.iter().partition(|part| matches!(part, Part::Timeout(_) | Part::Latency));
    let without: Vec<String> = without.iter().map(|part| replaced_words(plan, *part)).collect();
    let with = leaves_time(plan, &with);
    let each = [("without", without), ("with", with)];
    let said = each.iter().filter(|(_, words)| !words.is_empty());
    let said: Vec<String> = said.map(|(word, words)| format!("{word} {}", list(words))).collect();
    said.join(", and ")
}

/// The lock's assumptions, one sentence each, with a remark if a run that held exceeded them.
pub fn ledger(finding: &Finding) -> Vec<String> {
    let holds = finding.judgement.verdict == Verdict::Holds;
    let assumes = finding.promise.assumes.iter();
    let sentence = |assumption: &Assumption| {
        let said = bound(assumption.what, assumption.bound);
        let is_broken = finding.breaches.iter().any(|breach| breach.what == assumption.what);
        if holds && is_broken { harmless(&said) } else { format!("{said}.") }
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
    let beyond = finding.breaches.iter().filter(|_| holds);
    let mut sentences: Vec<String> =
        beyond.map(|breach| harmless(&bound(breach.what, breach.bound))).collect();
    sentences.dedup();
    sentences
}

/// An assumption that a run exceeded although it held.
fn harmless(assumption: &str) -> String {
    format!("{assumption}: this run broke it, without harm.")
}

fn broken_sentence(witness: &Witness<'_>, broken: &BrokenAssumption) -> String {
    // The trial removed all of them at once, so the sentence does not claim that each is needed.
    let all = if broken.faults.len() + broken.initial.len() > 1 { "all of this" } else { "this" };
    let away = match (broken.what, broken.bound) {
        (Bounded::Work, 0) => {
            format!("with {}", list(&leaves_time(&witness.finding.plan, &broken.initial)))
        }
        _ => format!("take {all} away, and"),
    };
    let without = match (broken.goes.is_empty(), broken.stays.is_empty()) {
        (true, _) => String::new(),
        (false, true) => format!("; {away} nothing is violated"),
        (false, false) => format!("; {away} there is no {}", all_of(&broken.goes, "or")),
    };
    let keeps = if without.is_empty() { String::new() } else { keeps(&broken.keeps) };
    let said = match (broken.what, witness.finding.plan.workload.buggy_caller) {
        (Bounded::Misuse, BuggyCaller::OneSegment) => {
            "no caller takes an empty segment for an empty stock".to_owned()
        }
        _ => bound(broken.what, broken.bound),
    };
    format!("{said}: {}{without}{keeps}.", deeds(witness, broken))
}

/// The other broken assumptions that the same trial kept.
fn keeps(others: &[Assumption]) -> String {
    let bounds: Vec<String> = others.iter().map(|other| bound(other.what, other.bound)).collect();
    match bounds.len() {
        0 => String::new(),
        1 => format!(" (then this is kept: {})", bounds[0]),
        _ => format!(" (then these are kept: {})", bounds.join("; ")),
    }
}

/// A list of kinds.
fn all_of(kinds: &[Kind], word: &str) -> String {
    let names: Vec<String> = kinds.iter().map(|kind| kind.word().to_owned()).collect();
    row(&names, word)
}

/// Several breaches of which each suffices, or of which more than one is needed.
fn either_sentence(witness: &Witness<'_>, class: &Class, either: &Either) -> String {
    let broken = || either.broken.iter().filter_map(|index| class.broken.get(*index));
    let bounds: Vec<String> = broken().map(|b| bound(b.what, b.bound)).collect();
    let same = bounds.windows(2).all(|pair| pair[0] == pair[1]);
    let mut each = broken().zip(&bounds).map(|(broken, bound)| match same {
        true => deeds(witness, broken),
        false => format!("{bound} ({})", deeds(witness, broken)),
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
            "{head}{}; take all of these away, and {what}; preventing one of these breaches alone \
             is not enough.",
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
        (Bounded::HoldPause, 0) => "no client pauses while it holds the lock".to_owned(),
        (Bounded::HoldPause, _) => {
            format!("no client pauses for longer than {most} while it holds the lock")
        }
        (Bounded::ClientCrash, 0) => {
            "no client dies while it acquires or holds the lock".to_owned()
        }
        (Bounded::ClientCrash, _) => format!("at most {most} of clients"),
        (Bounded::NodeClockStep, 0) => "no node's clock steps".to_owned(),
        (Bounded::NodeClockStep, _) => format!("no node's clock steps by more than {most}"),
        (Bounded::ClientClockStep, 0) => "no client's clock steps".to_owned(),
        (Bounded::ClientClockStep, _) => format!("no client's clock steps by more than {most}"),
        (Bounded::Skew, 0) => "all clocks show the same time at the start".to_owned(),
        (Bounded::Skew, _) => {
            format!("all clocks are within {most} of each other and of true time at the start")
        }
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
            format!("no caller works for longer than {most} without extending its grant")
        }
        (Bounded::Leaderless, _) => {
            format!("for at most {most} after the heal clients find too few masters")
        }
        (Bounded::Unreplicated, _) => {
            format!("replicas have what is written to their master {most} after the heal")
        }
        (Bounded::Misuse, _) => {
            "every caller heeds the lock's answers: it works only while it has a grant, and \
             releases only what it was granted"
                .to_owned()
        }
        (Bounded::AccessDelay, 0) => "no access reaches the resource late".to_owned(),
        (Bounded::AccessDelay, _) => {
            format!("the accesses of one hold are at most {most} late in all")
        }
    }
}
