//! Reads `[[fault]]`: verb, target, time and length of each fault.

use lockstorm_platform::fault::verbs::{Figure, ROWS, Row};
use lockstorm_platform::fault::{Anchor, Becomes, Fault, Pattern, Target, Verb};
use lockstorm_platform::trace::{Edge, Leg};
use toml::de::DeValue;

use crate::history::words::WORDS;
use crate::refusal::Refusal;
use crate::scenario::section::{Section, other_type, table_of};
use crate::scenario::tables::loss;

/// The keys of verbs' figures.
const FIGURES: [&str; 5] = ["extra", "loss", "by", "ppm", "key"];

/// The names of legs, steps and faults to which a fault may be anchored, besides the outcomes.
const LEGS: [(&str, Leg); 4] = [
    ("sent", Leg::Sent),
    ("applied", Leg::Applied),
    ("replied", Leg::Replied),
    ("delivered", Leg::Delivered),
];

/// Reads every `[[fault]]`. Without an `id`, faults are numbered from 1. The draws of a fault
/// depend on its number, so a plan that was made smaller keeps those of the remaining faults.
pub fn read(scenario: &Section) -> Result<Vec<Fault>, Refusal> {
    let Some(value) = scenario.get("fault") else { return Ok(Vec::new()) };
    let DeValue::Array(list) = value.get_ref() else {
        return Err(other_type("fault", value, "[[fault]], with two brackets"));
    };
    let mut faults = Vec::new();
    for (place, entry) in (1..).zip(list.iter()) {
        let every = [&["kind", "target", "at", "after", "for", "id"], &FIGURES[..]].concat();
        let section = table_of(&format!("fault.{place}"), entry, &every)?;
        faults.push(fault(section.number("id")?.unwrap_or(place), &section)?);
    }
    Ok(faults)
}

fn fault(id: u32, section: &Section) -> Result<Fault, Refusal> {
    let target = section.text("target")?.ok_or_else(|| section.lacks("target", "\"n1\""))?;
    let target = Target::try_from(target.to_owned()).map_err(|what| {
        let span = section.get("target").expect("it was read").span();
        Refusal::at(span, what, "hosts and one arrow")
    })?;
    let verb = verb(section)?;
    Ok(Fault { id, verb, target, anchor: anchor(section)?, length: section.length("for")? })
}

fn verb(section: &Section) -> Result<Verb, Refusal> {
    let words: Vec<(&str, &Row)> = ROWS.iter().map(|row| (row.word, row)).collect();
    let row = section.word("kind", &words)?;
    let row = row.ok_or_else(|| section.lacks("kind", "\"pause\""))?;
    for (key, span, _) in section.fields() {
        let foreign = FIGURES.contains(&key) && row.figure != Some(key);
        if foreign {
            let label = match row.figure {
                Some(own) => format!("did you mean '{own}'?"),
                None => "remove it".to_owned(),
            };
            return Err(Refusal::at(span, format!("{} has no '{key}'", row.word), label));
        }
    }
    Ok(row.verb(figure(row, section)?).expect("a figure of the verb's own kind"))
}

/// The figure of a verb.
fn figure(row: &Row, section: &Section) -> Result<Figure, Refusal> {
    Ok(match (row.plain)().figure() {
        Figure::None => Figure::None,
        Figure::Length(_) => {
            let extra = section.length("extra")?;
            Figure::Length(extra.ok_or_else(|| section.lacks("extra", "\"50ms\""))?)
        }
        Figure::Share(_) => {
            let value = section.get("loss").ok_or_else(|| section.lacks("loss", "\"5%\""))?;
            Figure::Share(loss(value)?)
        }
        Figure::Shift(_) => {
            let by = section.shift("by")?;
            Figure::Shift(by.ok_or_else(|| section.lacks("by", "\"10s\""))?)
        }
        Figure::Rate(_) => {
            let ppm = section.number("ppm")?;
            Figure::Rate(ppm.ok_or_else(|| section.lacks("ppm", "1000"))?)
        }
        Figure::Key(_) => Figure::Key(section.text("key")?.unwrap_or("lock").to_owned()),
    })
}

fn anchor(section: &Section) -> Result<Anchor, Refusal> {
    let keys =
        ["event", "nth", "plus", "by", "label", "from", "to", "command", "id", "edge", "node"];
    let (at, after) = (section.length("at")?, section.section("after", &keys)?);
    match (at, after) {
        (Some(at), None) => Ok(Anchor::At(at)),
        (None, Some(after)) => Ok(Anchor::After {
            event: pattern(&after)?,
            nth: after.number("nth")?.unwrap_or(1),
            plus: after.length("plus")?.unwrap_or(0),
        }),
        (Some(_), Some(after)) => {
            let what = "a fault strikes 'at' a time or 'after' an event, not both";
            Err(Refusal::at(after.span(), what, "remove one of them"))
        }
        (None, None) => {
            let example = "at = \"3s\", or after = { event = \"acquired\", by = \"c1\" }";
            let what = "this fault has no time at which it strikes";
            Err(Refusal::at(section.span(), what, format!("add {example}")))
        }
    }
}

fn pattern(after: &Section) -> Result<Pattern, Refusal> {
    let mut words: Vec<(&str, &str)> = WORDS.map(|word| (word, word)).to_vec();
    words.extend([("step", "step"), ("fault", "fault")]);
    words.extend(LEGS.map(|(word, _)| (word, word)));
    words.extend(Becomes::WORDS.map(|(word, _)| (word, word)));
    let word = after.word("event", &words)?;
    let word = word.ok_or_else(|| after.lacks("event", "\"acquired\""))?;
    let named = |key, example| {
        let text = after.text(key)?;
        text.map(str::to_owned).ok_or_else(|| after.lacks(key, example))
    };
    let leg = LEGS.iter().find(|(leg, _)| *leg == word);
    let becomes = Becomes::WORDS.iter().find(|(becomes, _)| *becomes == word);
    let own: &[&str] = match (word, leg) {
        _ if becomes.is_some() => &["node"],
        ("step", _) => &["by", "label"],
        ("fault", _) => &["id", "edge"],
        (_, Some(_)) => &["from", "to", "command"],
        _ => &["by"],
    };
    no_others(after, word, own)?;
    if let Some((_, leg)) = leg {
        let command = after.text("command")?.map(str::to_owned);
        let (from, to) = (named("from", "\"c1\"")?, named("to", "\"n1\"")?);
        return Ok(Pattern::Message { from, to, command, leg: *leg });
    }
    if let Some((_, becomes)) = becomes {
        return Ok(Pattern::Node { who: named("node", "\"n1\"")?, becomes: *becomes });
    }
    match word {
        "step" => {
            let (who, label) = (named("by", "\"c1\"")?, named("label", "\"read\"")?);
            Ok(Pattern::Step { who, label })
        }
        "fault" => {
            let edge = after.word("edge", &[("start", Edge::Start), ("end", Edge::End)])?;
            let id = after.number("id")?.ok_or_else(|| after.lacks("id", "1"))?;
            Ok(Pattern::Fault { id, edge: edge.unwrap_or(Edge::Start) })
        }
        _ => Ok(Pattern::Outcome { who: named("by", "\"c1\"")?, what: word.to_owned() }),
    }
}

/// Refuses keys that belong to other events.
fn no_others(after: &Section, word: &str, own: &[&str]) -> Result<(), Refusal> {
    for (key, span, _) in after.fields() {
        if !own.contains(&key) && !["event", "nth", "plus"].contains(&key) {
            let what = format!("the event '{word}' has no '{key}'");
            return Err(Refusal::at(span, what, format!("it has: {}", own.join(", "))));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use lockstorm_platform::fault::verbs::{ActsOn, ROWS, Row};

    use crate::scenario::Scenario;

    /// A scenario with one fault of the verb, including its own figure if `figure` is set.
    fn with_verb(row: &Row, figure: bool) -> String {
        let target = if row.acts_on == ActsOn::Links { "c1 <-> n2" } else { "n2" };
        let own = match row.figure.filter(|_| figure) {
            Some("extra") => "extra = '50ms'",
            Some("loss") => "loss = '5%'",
            Some("by") => "by = '-3s'",
            Some("ppm") => "ppm = -100",
            Some("key") => "key = 'lock'",
            _ => "",
        };
        format!(
            "name = 'x'\nask = 'x'\n[topology]\nkind = 'replicated'\npersistence = 'aof-no'\n\
             [lock]\nalgorithm = 'setnx'\n[[fault]]\nkind = '{}'\ntarget = '{target}'\n\
             at = '3s'\n{own}\n",
            row.word
        )
    }

    #[test]
    fn every_verb_is_read_with_its_figure() {
        for row in &ROWS {
            let scenario = Scenario::parse("x", &with_verb(row, true)).expect(row.word);
            assert_eq!(scenario.plan(1).faults[0].verb.word(), row.word);
            if row.figure.is_some_and(|figure| figure != "key") {
                assert!(Scenario::parse("x", &with_verb(row, false)).is_err(), "{}", row.word);
            }
        }
    }
}
