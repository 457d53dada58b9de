//! Which nodes suspected a master, which were promoted, and whether they had the key.

use std::collections::BTreeMap;

use lockstorm_platform::time::{Instant, Nanos, SECOND};
use lockstorm_platform::trace::Sight;

use crate::explain::evidence::Evidence;
use crate::explain::story::{Beat, Weight};
use crate::explain::story::{order, strike};
use crate::explain::witness::Witness;
use crate::history::{Seen, Sighting};
use crate::quantity::{length, list};

/// Observations of one master within this time are stated in one sentence.
const TOGETHER: Nanos = 2 * SECOND;

/// The observations of masters and the role changes since the first part that made the difference.
pub fn beats(witness: &Witness<'_>) -> Vec<Beat> {
    let Some((from, to)) = strike::span(witness) else { return Vec::new() };
    let since = strike::since(witness).unwrap_or(from);
    let in_time = |seen: &Sighting| since <= seen.at && seen.at <= to;
    let mut beats: Vec<Beat> = watched(witness, &in_time);
    beats.extend(offsets(witness));
    beats.extend(tilted(witness));
    let mut follows: BTreeMap<&str, &str> = BTreeMap::new();
    for (index, seen) in witness.history().sightings.iter().enumerate() {
        let by = seen.by.as_str();
        let before = follows.get(by).copied();
        // Sightings before the window count too: they show which master a node followed by then.
        match seen.what {
            Seen::Follows => drop(follows.insert(by, &seen.master)),
            Seen::Leads => drop(follows.insert(by, by)),
            Seen::Exited | Seen::Unreplicated | Seen::Watched(_) | Seen::Tilted => {}
        }
        if in_time(seen) {
            beats.extend(became(witness, (index, seen), before));
        }
    }
    beats
}

/// The initial clock offsets that made the difference in a trial.
fn offsets(witness: &Witness<'_>) -> Vec<Beat> {
    let (plan, tried) = (&witness.finding.plan, witness.finding.experiments.as_ref());
    let acting = tried.map_or_else(Vec::new, |tried| tried.causes.acting());
    let acts = |host: &str| acting.iter().any(|part| part.has_offset_of(plan, host));
    let off = plan.clocks.iter().filter(|(host, clock)| clock.wall_offset != 0 && acts(host));
    let sentence = |(host, by): (&String, i64)| {
        let side = if by < 0 { "behind" } else { "ahead" };
        let by = length(by.unsigned_abs());
        let text = format!("{host}'s wall clock is {by} {side} from the start.");
        Beat::new(Weight::Crux, Instant::default(), text, Vec::new())
    };
    off.map(|(host, clock)| sentence((host, clock.wall_offset))).collect()
}

/// Promotions and exits in a run that held, and the observations of Sentinels and cluster nodes.
pub fn calm(witness: &Witness<'_>) -> Vec<Beat> {
    let mut beats = watched(witness, &|_| true);
    let mut follows: BTreeMap<&str, &str> = BTreeMap::new();
    for (index, seen) in witness.history().sightings.iter().enumerate() {
        let by = seen.by.as_str();
        let before = match seen.what {
            Seen::Follows => follows.insert(by, &seen.master),
            Seen::Leads => follows.insert(by, by),
            Seen::Exited => None,
            Seen::Unreplicated | Seen::Watched(_) | Seen::Tilted => continue,
        };
        beats.extend(became(witness, (index, seen), before));
    }
    beats.extend(tilted(witness));
    beats
}

/// A node's change to another role: `before` is the master that it followed.
fn became(
    witness: &Witness<'_>,
    (index, seen): (usize, &Sighting),
    before: Option<&str>,
) -> Option<Beat> {
    let (by, mut evidence) = (&seen.by, vec![Evidence::Sighting(index)]);
    let (text, weight) = match (seen.what, before) {
        (Seen::Leads, Some(before)) if before != by && !by_hand(witness, seen) => {
            let news = order::news(witness, by, seen.at);
            let news = news.map_or_else(String::new, |(news, of)| {
                evidence.extend(of);
                format!(": {news}")
            });
            (
                format!("{by}, which followed {before}, is a master from now on{news}."),
                Weight::Cause,
            )
        }
        (Seen::Follows, Some(before)) if before == by => {
            (format!("{by}, which led, now follows {}.", seen.master), Weight::Detail)
        }
        (Seen::Follows, Some(before)) if before != seen.master && has_led(witness, seen) => {
            let text = format!("{by} now follows {} instead of {before}.", seen.master);
            (text, Weight::Detail)
        }
        (Seen::Exited, _) => (format!("{by}'s process ends by itself."), Weight::Cause),
        _ => return None,
    };
    Some(Beat::new(weight, seen.at, text, evidence))
}

/// Whether a node had led before this report.
fn has_led(witness: &Witness<'_>, seen: &Sighting) -> bool {
    let mut earlier = witness.history().sightings.iter().take_while(|role| role.at < seen.at);
    earlier.any(|role| role.by == seen.by && role.what == Seen::Leads)
}

/// Whether a fault promoted the node; another sentence already states that.
fn by_hand(witness: &Witness<'_>, seen: &Sighting) -> bool {
    witness.reading.promoters(seen).next().is_some()
}

/// Observations of a master by Sentinels and cluster nodes, each kind once per `TOGETHER`.
fn watched(witness: &Witness<'_>, in_time: &dyn Fn(&Sighting) -> bool) -> Vec<Beat> {
    let mut views: Vec<View<'_>> = Vec::new();
    for (index, seen) in witness.history().sightings.iter().enumerate() {
        let Seen::Watched(sight) = seen.what else { continue };
        if !in_time(seen) {
            continue;
        }
        let same = views.iter_mut().rev().find(|view| {
            let soon = seen.at.at - view.at.at <= TOGETHER;
            view.sight == sight && view.of == seen.master && soon
        });
        match same {
            Some(view) if view.by.iter().any(|(_, name)| *name == seen.by) => {}
            Some(view) => view.by.push((index, &seen.by)),
            None => {
                let (of, by) = (seen.master.as_str(), vec![(index, seen.by.as_str())]);
                views.push(View { sight, of, at: seen.at, by });
            }
        }
    }
    views.iter().map(saw).collect()
}

/// The Sentinels that see their clocks jump, grouped by time. For a while such a Sentinel takes no
/// part in a failover.
fn tilted(witness: &Witness<'_>) -> Vec<Beat> {
    let mut groups: Vec<Vec<(usize, &Sighting)>> = Vec::new();
    let sightings = witness.history().sightings.iter().enumerate();
    for seen in sightings.filter(|(_, seen)| seen.what == Seen::Tilted) {
        let is_of = |group: &&mut Vec<(usize, &Sighting)>| {
            let soon = seen.1.at.at - group[0].1.at.at <= TOGETHER;
            soon && group.iter().all(|(_, other)| other.by != seen.1.by)
        };
        match groups.last_mut().filter(is_of) {
            Some(group) => group.push(seen),
            None => groups.push(vec![seen]),
        }
    }
    groups.iter().map(|group| tilt(group)).collect()
}

fn tilt(group: &[(usize, &Sighting)]) -> Beat {
    let names: Vec<String> = group.iter().map(|(_, seen)| seen.by.clone()).collect();
    let text = match &names[..] {
        [one] => format!("{one} sees its clock jump and acts on nothing for 30 s: TILT."),
        _ => format!("{} see their clocks jump and act on nothing for 30 s: TILT.", list(&names)),
    };
    let evidence = group.iter().map(|(index, _)| Evidence::Sighting(*index)).collect();
    Beat::new(Weight::Cause, group[0].1.at, text, evidence)
}

/// The same observation of a master by several nodes, with their indices in the history.
struct View<'a> {
    sight: Sight,
    of: &'a str,
    at: Instant,
    by: Vec<(usize, &'a str)>,
}

fn saw(view: &View<'_>) -> Beat {
    let View { sight, of, at, by } = view;
    let names: Vec<String> = by.iter().map(|(_, name)| (*name).to_owned()).collect();
    let who = list(&names);
    let s = if names.len() == 1 { "s" } else { "" };
    let text = match sight {
        Sight::Suspected => format!("{who} suspect{s} that {of} is down."),
        Sight::Down => format!("{who} report{s} that {of} is down: enough agree."),
        Sight::Named => format!("{who} name{s} {of} as the master from now on."),
    };
    let evidence = by.iter().map(|(index, _)| Evidence::Sighting(*index)).collect();
    Beat::new(Weight::Detail, *at, text, evidence)
}
