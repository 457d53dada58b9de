//! The expectation of a scenario: a verdict, and limits on how well callers are served.

use std::collections::BTreeSet;

use lockstorm_platform::time::Nanos;
use toml::de::DeValue;

use crate::check::availability::Availability;
use crate::check::judge::Judgement;
use crate::check::verdict::{Kind, Verdict};
use crate::refusal::Refusal;
use crate::scenario::section::{Section, other_type, text_of};
use crate::{length, quantity};

/// The expected result of a scenario, on each of its seeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The verdict.
    pub answer: ExpectedVerdict,
    /// How well callers must be served.
    pub limits: Limits,
}

/// The verdict that a scenario expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedVerdict {
    /// The file specifies none.
    Unstated,
    /// Nothing is violated, and something was tested.
    Holds,
    /// Exactly these kinds are violated.
    Violated {
        /// The exact set.
        kinds: BTreeSet<Kind>,
        /// The class of the violation, if the file specifies it.
        class: Option<ExpectedClass>,
    },
    /// The verdict is unknown.
    Unknown,
}

/// How well callers must be served; absent limits do not apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The maximum wait of any caller, ns.
    pub longest_wait: Option<Nanos>,
    /// The maximum stretch for which the lock may be unavailable, ns.
    pub longest_unavailable: Option<Nanos>,
    /// The minimum number of grants per minute.
    pub least_grants_per_minute: Option<u32>,
}

impl Limits {
    /// Each limit in the notation of a scenario.
    fn words(&self) -> Vec<String> {
        let lengths = [
            ("longest_wait", self.longest_wait),
            ("longest_unavailable", self.longest_unavailable),
        ];
        let write = |(key, limit): (&str, Option<Nanos>)| Some((key.to_owned(), limit?));
        let lengths = lengths.into_iter().filter_map(write);
        let lengths = lengths.map(|(key, limit)| format!("{key} {}", length::write(limit)));
        let least = self.least_grants_per_minute;
        lengths.chain(least.map(|least| format!("least_grants_per_minute {least}"))).collect()
    }

    /// Each limit that was not met, with the actual value.
    pub fn missed(&self, found: &Availability) -> Vec<String> {
        let mut missed = Vec::new();
        let waited = found.waits.longest;
        if let Some(limit) = self.longest_wait.filter(|limit| waited > *limit) {
            let who = found.waits.callers.first().map_or("nobody", |caller| &caller.caller);
            let (waited, limit) = (quantity::length(waited), quantity::length(limit));
            missed.push(format!("{who} waited {waited}, longest_wait is {limit}"));
        }
        let out = found.unavailable.as_ref().map_or(0, |stretch| stretch.length());
        if let Some(limit) = self.longest_unavailable.filter(|limit| out > *limit) {
            let (out, limit) = (quantity::length(out), quantity::length(limit));
            missed.push(format!("nobody got the lock for {out}, longest_unavailable is {limit}"));
        }
        let given = found.grants_per_minute;
        if let Some(limit) = self.least_grants_per_minute.filter(|limit| given < *limit) {
            let given = quantity::count(given.into(), "grant");
            missed.push(format!("{given} a minute, least_grants_per_minute is {limit}"));
        }
        missed
    }
}

/// Whether a violation is the lock's bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExpectedClass {
    /// It occurs within the lock's assumptions: a bug.
    InModel,
    /// It needs a breached assumption.
    OutOfModel,
}

impl ExpectedClass {
    /// The name of the class in scenarios and reports.
    pub fn word(self) -> &'static str {
        match self {
            ExpectedClass::InModel => "in-model",
            ExpectedClass::OutOfModel => "out-of-model",
        }
    }
}

/// How a verdict compares with the expectation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fulfilled {
    /// As expected, or nothing was expected and nothing is violated.
    Yes,
    /// The verdict is unknown, and that was not expected.
    Unknown,
    /// The result differs.
    No,
}

impl Expectation {
    /// Compares a judgement, and the class of its violations, with the expectation.
    pub fn met_by(&self, judgement: &Judgement, found: Option<ExpectedClass>) -> Fulfilled {
        match self.answer.met_by(&judgement.verdict, found) {
            Fulfilled::Yes if !self.limits.missed(&judgement.availability).is_empty() => {
                Fulfilled::No
            }
            met => met,
        }
    }

    /// The expectation in a few words.
    pub fn words(&self) -> String {
        let mut words = vec![self.answer.words()];
        words.extend(self.limits.words());
        words.join(", ")
    }

    /// The expectation in a few words, and each limit that was not met.
    pub fn held_against(&self, judgement: &Judgement) -> String {
        let mut words = vec![self.words()];
        words.extend(self.limits.missed(&judgement.availability));
        words.join("; ")
    }
}

impl ExpectedVerdict {
    /// Compares a verdict, and the class of its violations, with the expectation.
    pub fn met_by(&self, verdict: &Verdict, found: Option<ExpectedClass>) -> Fulfilled {
        match (self, verdict) {
            (ExpectedVerdict::Unknown, Verdict::Unknown(_)) => Fulfilled::Yes,
            (_, Verdict::Unknown(_)) => Fulfilled::Unknown,
            (ExpectedVerdict::Holds | ExpectedVerdict::Unstated, Verdict::Holds) => Fulfilled::Yes,
            (ExpectedVerdict::Violated { kinds, class }, Verdict::Violated(violations)) => {
                let seen: BTreeSet<Kind> = violations.iter().map(|found| found.kind).collect();
                let same_class = class.is_none() || *class == found;
                if seen == *kinds && same_class { Fulfilled::Yes } else { Fulfilled::No }
            }
            _ => Fulfilled::No,
        }
    }

    fn words(&self) -> String {
        match self {
            ExpectedVerdict::Unstated | ExpectedVerdict::Holds => "holds".to_owned(),
            ExpectedVerdict::Unknown => "unknown".to_owned(),
            ExpectedVerdict::Violated { kinds, class } => {
                let kinds: Vec<&str> = kinds.iter().map(|kind| kind.word()).collect();
                let class = class.map_or(String::new(), |class| format!(" ({})", class.word()));
                kinds.join(", ") + &class
            }
        }
    }
}

/// The keys of `expect` that limit how callers are served.
const LIMITS: [&str; 3] = ["longest_wait", "longest_unavailable", "least_grants_per_minute"];

/// Reads `expect` of a scenario.
pub fn read(scenario: &Section) -> Result<Expectation, Refusal> {
    let keys: Vec<&str> =
        ["holds", "violated", "class", "unknown"].into_iter().chain(LIMITS).collect();
    let Some(expect) = scenario.section("expect", &keys)? else {
        return Ok(Expectation { answer: ExpectedVerdict::Unstated, limits: Limits::default() });
    };
    let answer = answer(&expect)?;
    let limits = limits(&expect)?;
    let limited = LIMITS.into_iter().find_map(|key| Some((key, expect.get(key)?)));
    match limited {
        Some((key, value)) if answer == ExpectedVerdict::Unknown => {
            let what = format!("'{key}' limits a run of which nothing can be said");
            Err(Refusal::at(value.span(), what, "remove it, or write holds = true"))
        }
        _ => Ok(Expectation { answer, limits }),
    }
}

fn answer(expect: &Section) -> Result<ExpectedVerdict, Refusal> {
    let said: Vec<&str> =
        ["holds", "violated", "unknown"].into_iter().filter(|k| expect.get(k).is_some()).collect();
    let [said] = said[..] else {
        let what = match said.len() {
            0 => "'expect' says nothing of a verdict".to_owned(),
            _ => format!("'expect' cannot be both {}", said.join(" and ")),
        };
        let label = "write { holds = true }, { violated = [...] } or { unknown = true }";
        return Err(Refusal::at(expect.span(), what, label));
    };
    let class = expect.word(
        "class",
        &[ExpectedClass::InModel, ExpectedClass::OutOfModel].map(|c| (c.word(), c)),
    )?;
    if said == "violated" {
        return Ok(ExpectedVerdict::Violated { kinds: kinds(expect)?, class });
    }
    if class.is_some() {
        let what = format!("'{said}' has no class");
        return Err(Refusal::at(expect.span(), what, "only 'violated' has one: remove it"));
    }
    if expect.flag(said)? == Some(false) {
        let label = "write { violated = [\"stale-holder\"] } or the like";
        return Err(Refusal::at(expect.span(), format!("'{said} = false' says nothing"), label));
    }
    Ok(if said == "holds" { ExpectedVerdict::Holds } else { ExpectedVerdict::Unknown })
}

fn limits(expect: &Section) -> Result<Limits, Refusal> {
    let longest = |key| match expect.length(key)? {
        Some(0) => Err(nothing(expect, key, "no lock serves anybody in no time", "\"5s\"")),
        limit => Ok(limit),
    };
    let least = "least_grants_per_minute";
    let limits = Limits {
        longest_wait: longest("longest_wait")?,
        longest_unavailable: longest("longest_unavailable")?,
        least_grants_per_minute: expect.number(least)?,
    };
    match limits.least_grants_per_minute {
        Some(0) => Err(nothing(expect, least, "no run has fewer grants than none", "60")),
        _ => Ok(limits),
    }
}

/// The refusal of a limit of zero.
fn nothing(expect: &Section, key: &str, why: &str, example: &str) -> Refusal {
    let span = expect.get(key).map_or(expect.span(), |value| value.span());
    let label = format!("write {key} = {example} or the like, or remove it");
    Refusal::at(span, format!("'{key}' cannot be zero: {why}"), label)
}

fn kinds(expect: &Section) -> Result<BTreeSet<Kind>, Refusal> {
    let value = expect.get("violated").expect("the caller has seen it");
    let DeValue::Array(list) = value.get_ref() else {
        return Err(other_type("violated", value, "a list: [\"stale-holder\", \"corruption\"]"));
    };
    let words = Kind::ALL.map(Kind::word);
    let mut kinds = BTreeSet::new();
    for entry in list.iter() {
        let word = text_of("violated", entry)?;
        let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.word() == word) else {
            return Err(Refusal::word(entry.span(), word, "violation", &words));
        };
        if !kinds.insert(kind) {
            return Err(Refusal::at(entry.span(), format!("'{word}' is there twice"), "remove it"));
        }
    }
    if kinds.is_empty() {
        let what = "a violation of nothing";
        return Err(Refusal::at(value.span(), what, "name kinds, or write { holds = true }"));
    }
    Ok(kinds)
}

#[cfg(test)]
mod tests {
    use super::{Expectation, ExpectedClass, ExpectedVerdict, Fulfilled, Limits};
    use crate::check::availability::{Availability, CallerWaits, Unavailable, Waits};
    use crate::check::counts::Counts;
    use crate::check::judge::Judgement;
    use crate::check::verdict::{Kind, Verdict, Violation};
    use lockstorm_platform::time::{Instant, SECOND};

    fn violated(kinds: &[Kind]) -> Verdict {
        let (from, to) = (Instant::default(), Instant::default());
        let violation = |kind: &Kind| Violation::new(*kind, from, to);
        Verdict::Violated(kinds.iter().map(violation).collect())
    }

    #[test]
    fn only_the_exact_set_and_class_is_as_expected() {
        let unknown = Verdict::Unknown("nothing was tested".to_owned());
        let stale = violated(&[Kind::StaleHolder, Kind::StaleHolder]);
        let both = violated(&[Kind::StaleHolder, Kind::Corruption]);
        let expected =
            |class| ExpectedVerdict::Violated { kinds: [Kind::StaleHolder].into(), class };
        let (inside, outside) = (Some(ExpectedClass::InModel), Some(ExpectedClass::OutOfModel));
        for (expect, verdict, class, met) in [
            (ExpectedVerdict::Holds, &Verdict::Holds, None, Fulfilled::Yes),
            (ExpectedVerdict::Holds, &unknown, None, Fulfilled::Unknown),
            (ExpectedVerdict::Holds, &stale, inside, Fulfilled::No),
            (ExpectedVerdict::Unknown, &unknown, None, Fulfilled::Yes),
            (ExpectedVerdict::Unknown, &Verdict::Holds, None, Fulfilled::No),
            (ExpectedVerdict::Unstated, &Verdict::Holds, None, Fulfilled::Yes),
            (ExpectedVerdict::Unstated, &stale, inside, Fulfilled::No),
            (expected(outside), &stale, outside, Fulfilled::Yes),
            (expected(None), &stale, inside, Fulfilled::Yes),
            (expected(outside), &stale, inside, Fulfilled::No),
            (expected(outside), &both, outside, Fulfilled::No),
            (expected(outside), &unknown, None, Fulfilled::Unknown),
            (expected(outside), &Verdict::Holds, None, Fulfilled::No),
        ] {
            assert_eq!(expect.met_by(verdict, class), met, "{expect:?} {verdict:?} {class:?}");
        }
    }

    /// c2 waited 7 s, for 4 s of which the lock was unavailable; 30 grants per minute.
    fn served() -> Judgement {
        let (from, to) = (Instant::default(), Instant { seq: 9, at: 4 * SECOND });
        let longest = 7 * SECOND;
        let callers = vec![CallerWaits { caller: "c2".into(), longest, from, grants: 1 }];
        let waits = Waits { longest: 7 * SECOND, callers, ..Waits::default() };
        let unavailable = Some(Unavailable { from, to, reasons: Vec::new() });
        let availability =
            Availability { grants_per_minute: 30, unavailable, waits, ..Availability::default() };
        let (counts, verdict) = (Counts::default(), Verdict::Holds);
        Judgement {
            verdict,
            counts,
            untested: Vec::new(),
            nearest_miss: None,
            nearest: None,
            availability,
        }
    }

    #[test]
    fn a_limit_is_kept_up_to_itself_and_said_where_it_is_not() {
        let judgement = served();
        for (wait, out, least, missed) in [
            (7 * SECOND, 4 * SECOND, 30, ""),
            (7 * SECOND - 1, 4 * SECOND, 30, "; c2 waited 7 s, longest_wait is 6.999 s"),
            (
                7 * SECOND,
                3 * SECOND,
                30,
                "; nobody got the lock for 4 s, longest_unavailable is 3 s",
            ),
            (7 * SECOND, 4 * SECOND, 31, "; 30 grants a minute, least_grants_per_minute is 31"),
        ] {
            let limits = Limits {
                longest_wait: Some(wait),
                longest_unavailable: Some(out),
                least_grants_per_minute: Some(least),
            };
            let expect = Expectation { answer: ExpectedVerdict::Holds, limits };
            let met = if missed.is_empty() { Fulfilled::Yes } else { Fulfilled::No };
            assert_eq!(expect.met_by(&judgement, None), met, "{limits:?}");
            let words = expect.words();
            assert_eq!(expect.held_against(&judgement), format!("{words}{missed}"));
        }
        let expect = Expectation { answer: ExpectedVerdict::Holds, limits: Limits::default() };
        assert_eq!(
            (expect.met_by(&judgement, None), expect.words()),
            (Fulfilled::Yes, "holds".into())
        );
    }
}
