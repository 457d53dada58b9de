//! `[[fault]]`: what goes wrong, to whom, when and for how long.

use lockstorm_sim::fault::{Anchor, Fault, Pattern, Target, Verb};
use lockstorm_sim::trace::{Edge, Leg};
use toml::de::DeValue;

use crate::history::WORDS;
use crate::refusal::Wrong;
use crate::scenario::section::{Section, other_type, table_of};
use crate::scenario::tables::loss;

/// Every verb that a scenario may name, the field of its own that it needs, and what it does.
pub const VERBS: [(&str, Option<&str>, &str); 23] = [
    ("partition", None, "no message passes the target links"),
    ("delay", Some("extra"), "messages on the target links take longer"),
    ("jitter", Some("extra"), "messages on the target links take up to so much longer"),
    ("loss", Some("loss"), "messages on the target links are lost and sent again"),
    ("cut-reply", None, "what was applied is not answered: the connection breaks"),
    ("reset", None, "connections on the target links are reset"),
    ("pause", None, "the process is not scheduled; its kernel goes on"),
    ("suspend", None, "the machine sleeps, its monotonic clock stands"),
    ("crash", None, "the process dies; the machine lives"),
    ("power-loss", None, "the machine dies; what was not synced is gone"),
    ("restart", None, "the process dies and starts again at once"),
    ("clock-step", Some("by"), "the wall clock jumps"),
    ("clock-rate", Some("ppm"), "all clocks of the host run at another rate"),
    ("clock-freeze", None, "the wall clock stands still"),
    ("slow-node", Some("extra"), "each command on the node takes longer"),
    ("slow-script", Some("extra"), "each script on the node takes longer and blocks it"),
    ("replica-lag", Some("extra"), "what the master sends to the replica arrives later"),
    ("failover", None, "the replica is made master by command"),
    ("evict", Some("key"), "the node drops a key as if memory had run out"),
    ("flush", None, "FLUSHALL on the node"),
    ("lying-disk", None, "fsync answers at once and does nothing"),
    ("tearing-disk", None, "a loss of power leaves half of the last write"),
    ("full-disk", None, "the disk takes nothing more"),
];

/// The words of legs, steps and faults that an anchor may wait for, beside the outcomes.
const LEGS: [(&str, Leg); 4] = [
    ("sent", Leg::Sent),
    ("applied", Leg::Applied),
    ("replied", Leg::Replied),
    ("delivered", Leg::Delivered),
];

/// Reads every `[[fault]]`. The first is number 1.
pub fn read(scenario: &Section) -> Result<Vec<Fault>, Wrong> {
    let Some(value) = scenario.get("fault") else { return Ok(Vec::new()) };
    let DeValue::Array(list) = value.get_ref() else {
        return Err(other_type("fault", value, "[[fault]], with two brackets"));
    };
    let mut faults = Vec::new();
    for (id, entry) in (1..).zip(list.iter()) {
        let every = ["kind", "target", "at", "after", "for", "extra", "loss", "by", "ppm", "key"];
        let section = table_of(&format!("fault.{id}"), entry, &every)?;
        faults.push(fault(id, &section)?);
    }
    Ok(faults)
}

fn fault(id: u32, section: &Section) -> Result<Fault, Wrong> {
    let target = section.text("target")?.ok_or_else(|| section.lacks("target", "\"n1\""))?;
    let target = Target::try_from(target.to_owned()).map_err(|what| {
        let span = section.get("target").expect("it was read").span();
        Wrong::at(span, what, "hosts and one arrow")
    })?;
    let verb = verb(section)?;
    Ok(Fault { id, verb, target, anchor: anchor(section)?, length: section.length("for")? })
}

fn verb(section: &Section) -> Result<Verb, Wrong> {
    let words = VERBS.map(|verb| (verb.0, verb));
    let verb = section.word("kind", &words)?;
    let (word, own, _) = verb.ok_or_else(|| section.lacks("kind", "\"pause\""))?;
    for (key, span, _) in section.fields() {
        let foreign = ["extra", "loss", "by", "ppm", "key"].contains(&key) && own != Some(key);
        if foreign {
            let label = match own {
                Some(own) => format!("did you mean '{own}'?"),
                None => "take it out".to_owned(),
            };
            return Err(Wrong::at(span, format!("{word} has no '{key}'"), label));
        }
    }
    let extra = || section.length("extra")?.ok_or_else(|| section.lacks("extra", "\"50ms\""));
    Ok(match word {
        "partition" => Verb::Partition,
        "delay" => Verb::Delay { extra: extra()? },
        "jitter" => Verb::Jitter { extra: extra()? },
        "loss" => {
            let value = section.get("loss").ok_or_else(|| section.lacks("loss", "\"5%\""))?;
            Verb::Loss { per_million: loss(value)? }
        }
        "cut-reply" => Verb::CutReply,
        "reset" => Verb::Reset,
        "pause" => Verb::Pause,
        "suspend" => Verb::Suspend,
        "crash" => Verb::Crash,
        "power-loss" => Verb::PowerLoss,
        "restart" => Verb::Restart,
        "clock-step" => {
            let by = section.shift("by")?;
            Verb::ClockStep { by: by.ok_or_else(|| section.lacks("by", "\"10s\""))? }
        }
        "clock-rate" => {
            let ppm = section.number("ppm")?;
            Verb::ClockRate { ppm: ppm.ok_or_else(|| section.lacks("ppm", "1000"))? }
        }
        "clock-freeze" => Verb::ClockFreeze,
        "slow-node" => Verb::SlowNode { extra: extra()? },
        "slow-script" => Verb::SlowScript { extra: extra()? },
        "replica-lag" => Verb::ReplicaLag { extra: extra()? },
        "failover" => Verb::Failover,
        "evict" => Verb::Evict { key: section.text("key")?.unwrap_or("lock").to_owned() },
        "flush" => Verb::Flush,
        "lying-disk" => Verb::LyingDisk,
        "tearing-disk" => Verb::TearingDisk,
        "full-disk" => Verb::FullDisk,
        _ => unreachable!("every word of VERBS is above"),
    })
}

fn anchor(section: &Section) -> Result<Anchor, Wrong> {
    let keys = ["event", "nth", "plus", "by", "label", "from", "to", "command", "id", "edge"];
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
            Err(Wrong::at(after.span(), what, "take one of them out"))
        }
        (None, None) => {
            let example = "at = \"3s\", or after = { event = \"acquired\", by = \"c1\" }";
            let what = "nothing says when this fault strikes";
            Err(Wrong::at(section.span(), what, format!("add {example}")))
        }
    }
}

fn pattern(after: &Section) -> Result<Pattern, Wrong> {
    let mut words: Vec<(&str, &str)> = WORDS.map(|word| (word, word)).to_vec();
    words.extend([("step", "step"), ("fault", "fault")]);
    words.extend(LEGS.map(|(word, _)| (word, word)));
    let word = after.word("event", &words)?;
    let word = word.ok_or_else(|| after.lacks("event", "\"acquired\""))?;
    let named = |key, example| {
        let text = after.text(key)?;
        text.map(str::to_owned).ok_or_else(|| after.lacks(key, example))
    };
    let leg = LEGS.iter().find(|(leg, _)| *leg == word);
    let own: &[&str] = match (word, leg) {
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
fn no_others(after: &Section, word: &str, own: &[&str]) -> Result<(), Wrong> {
    for (key, span, _) in after.fields() {
        if !own.contains(&key) && !["event", "nth", "plus"].contains(&key) {
            let what = format!("the event '{word}' has no '{key}'");
            return Err(Wrong::at(span, what, format!("it has: {}", own.join(", "))));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::VERBS;
    use crate::scenario::Scenario;

    /// A scenario with one fault of the verb, its own field included.
    fn with_verb(word: &str, own: Option<&str>) -> String {
        let links = ["partition", "delay", "jitter", "loss", "cut-reply", "reset"];
        let target = if links.contains(&word) { "c1 <-> n2" } else { "n2" };
        let own = match own {
            Some("extra") => "extra = '50ms'",
            Some("loss") => "loss = '5%'",
            Some("by") => "by = '-3s'",
            Some("ppm") => "ppm = -100",
            Some("key") => "key = 'lock'",
            _ => "",
        };
        format!(
            "name = 'x'\nask = 'x'\n[topology]\nkind = 'replicated'\npersistence = 'aof-no'\n\
             [lock]\nalgorithm = 'setnx'\n[[fault]]\nkind = '{word}'\ntarget = '{target}'\n\
             at = '3s'\n{own}\n"
        )
    }

    #[test]
    fn every_verb_has_its_word() {
        for (word, own, _) in VERBS {
            let scenario = Scenario::parse("x", &with_verb(word, own)).expect(word);
            assert_eq!(scenario.plan(1).faults[0].verb.word(), word);
            if own.is_some() && word != "evict" {
                assert!(Scenario::parse("x", &with_verb(word, None)).is_err(), "{word}");
            }
        }
    }
}
