//! What a scenario says will be found.

use std::collections::BTreeSet;

use crate::check::{Kind, Verdict};
use crate::refusal::Wrong;
use crate::scenario::section::{Section, other_type, text_of};
use toml::de::DeValue;

/// What a scenario says will be found, on each of its seeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// The file does not say.
    Unstated,
    /// Nothing is violated, and something was tested.
    Holds,
    /// Exactly these kinds are violated.
    Violated {
        /// The exact set.
        kinds: BTreeSet<Kind>,
        /// Whose fault it is, where the file says so.
        class: Option<Class>,
    },
    /// Nothing can be said.
    Unknown,
}

/// Whether a violation is the lock's bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// It happens within what the lock assumes: a bug.
    InModel,
    /// It takes a broken assumption.
    OutOfModel,
}

impl Class {
    /// The word that stands for the class in scenarios and reports.
    pub fn word(self) -> &'static str {
        match self {
            Class::InModel => "in-model",
            Class::OutOfModel => "out-of-model",
        }
    }
}

/// How a verdict stands to what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Met {
    /// As expected; or nothing was expected and nothing is violated.
    Yes,
    /// Nothing can be said, and that was not expected.
    Unknown,
    /// Something else was found.
    No,
}

impl Expectation {
    /// Compares a verdict, and the class of what it violates, with what was expected.
    pub fn met_by(&self, verdict: &Verdict, found: Option<Class>) -> Met {
        match (self, verdict) {
            (Expectation::Unknown, Verdict::Unknown(_)) => Met::Yes,
            (_, Verdict::Unknown(_)) => Met::Unknown,
            (Expectation::Holds | Expectation::Unstated, Verdict::Holds) => Met::Yes,
            (Expectation::Violated { kinds, class }, Verdict::Violated(violations)) => {
                let seen: BTreeSet<Kind> = violations.iter().map(|found| found.kind).collect();
                let same_class = class.is_none() || *class == found;
                if seen == *kinds && same_class { Met::Yes } else { Met::No }
            }
            _ => Met::No,
        }
    }

    /// The expectation in a few words.
    pub fn words(&self) -> String {
        match self {
            Expectation::Unstated => "-".to_owned(),
            Expectation::Holds => "holds".to_owned(),
            Expectation::Unknown => "unknown".to_owned(),
            Expectation::Violated { kinds, class } => {
                let kinds: Vec<&str> = kinds.iter().map(|kind| kind.word()).collect();
                let class = class.map_or(String::new(), |class| format!(" ({})", class.word()));
                kinds.join(", ") + &class
            }
        }
    }
}

/// Reads `expect` of a scenario.
pub fn read(scenario: &Section) -> Result<Expectation, Wrong> {
    let keys = ["holds", "violated", "class", "unknown"];
    let Some(expect) = scenario.section("expect", &keys)? else {
        return Ok(Expectation::Unstated);
    };
    let said: Vec<&str> =
        ["holds", "violated", "unknown"].into_iter().filter(|k| expect.get(k).is_some()).collect();
    let [said] = said[..] else {
        let what = match said.len() {
            0 => "'expect' says nothing".to_owned(),
            _ => format!("'expect' cannot be both {}", said.join(" and ")),
        };
        let label = "write { holds = true }, { violated = [...] } or { unknown = true }";
        return Err(Wrong::at(expect.span(), what, label));
    };
    let class =
        expect.word("class", &[Class::InModel, Class::OutOfModel].map(|c| (c.word(), c)))?;
    if said == "violated" {
        return Ok(Expectation::Violated { kinds: kinds(&expect)?, class });
    }
    if class.is_some() {
        let what = format!("'{said}' has no class");
        return Err(Wrong::at(expect.span(), what, "only 'violated' has one: take it out"));
    }
    if expect.flag(said)? == Some(false) {
        let label = "write { violated = [\"stale-holder\"] } or the like";
        return Err(Wrong::at(expect.span(), format!("'{said} = false' says nothing"), label));
    }
    Ok(if said == "holds" { Expectation::Holds } else { Expectation::Unknown })
}

fn kinds(expect: &Section) -> Result<BTreeSet<Kind>, Wrong> {
    let value = expect.get("violated").expect("the caller has seen it");
    let DeValue::Array(list) = value.get_ref() else {
        return Err(other_type("violated", value, "a list: [\"stale-holder\", \"corruption\"]"));
    };
    let words = Kind::ALL.map(Kind::word);
    let mut kinds = BTreeSet::new();
    for entry in list.iter() {
        let word = text_of("violated", entry)?;
        let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.word() == word) else {
            return Err(Wrong::word(entry.span(), word, "violation", &words));
        };
        if !kinds.insert(kind) {
            return Err(Wrong::at(entry.span(), format!("'{word}' is there twice"), "take it out"));
        }
    }
    if kinds.is_empty() {
        let what = "a violation of nothing";
        return Err(Wrong::at(value.span(), what, "name kinds, or write { holds = true }"));
    }
    Ok(kinds)
}

#[cfg(test)]
mod tests {
    use super::{Class, Expectation, Met};
    use crate::check::{Kind, Verdict, Violation};
    use lockstorm_sim::time::Instant;

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
        let expected = |class| Expectation::Violated { kinds: [Kind::StaleHolder].into(), class };
        let (inside, outside) = (Some(Class::InModel), Some(Class::OutOfModel));
        for (expect, verdict, class, met) in [
            (Expectation::Holds, &Verdict::Holds, None, Met::Yes),
            (Expectation::Holds, &unknown, None, Met::Unknown),
            (Expectation::Holds, &stale, inside, Met::No),
            (Expectation::Unknown, &unknown, None, Met::Yes),
            (Expectation::Unknown, &Verdict::Holds, None, Met::No),
            (Expectation::Unstated, &Verdict::Holds, None, Met::Yes),
            (Expectation::Unstated, &stale, inside, Met::No),
            (expected(outside), &stale, outside, Met::Yes),
            (expected(None), &stale, inside, Met::Yes),
            (expected(outside), &stale, inside, Met::No),
            (expected(outside), &both, outside, Met::No),
            (expected(outside), &unknown, None, Met::Unknown),
            (expected(outside), &Verdict::Holds, None, Met::No),
        ] {
            assert_eq!(expect.met_by(verdict, class), met, "{expect:?} {verdict:?} {class:?}");
        }
    }
}
