//! A scenario: a TOML file with one question and its expected answer.
//!
//! The input is text; the output is a plan for each seed. Every mistake is refused with its place.
//! [`crate::plan::contradiction`] finds contradictions between valid fields.

pub mod expectation;
pub mod fault;
pub mod section;
pub mod tables;
pub mod written;

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use lockstorm_platform::fault::{Anchor, Fault};
use lockstorm_platform::time::{Nanos, SECOND};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::history::PROBE_MARGIN;
use crate::lock::catalogue::Locks;
use crate::plan::{FORMAT, Plan};
use crate::refusal::{Place, Refusal};
use crate::scenario::expectation::Expectation;
use crate::scenario::section::{Places, Section, places, text_of};

/// One question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Its name: lower-case letters, digits and dashes.
    pub name: String,
    /// The question in one sentence.
    pub ask: String,
    /// What a reader should learn from it.
    pub note: Option<String>,
    /// Its expectation, on each seed.
    pub expect: Expectation,
    /// The scenarios, by name, that put the same question to a lock or a resource that tolerates
    /// it.
    pub remedies: Vec<String>,
    /// The range of bytes in the text that names the remedies.
    remedies_at: Range<usize>,
    /// The plans of the remedies, once [`link`] has found them.
    healed: Vec<Plan>,
    /// Why it cannot be confirmed on real servers, if no rule detects that.
    pub unconfirmable: Option<String>,
    /// The name of the file that it was read from.
    pub file: String,
    /// The file's text.
    pub text: String,
    seeds: Vec<u64>,
    plan: Plan,
}

/// The keys at the top of a file.
const KEYS: [&str; 17] = [
    "name", "ask", "note", "expect", "remedy", "confirm", "seed", "seeds", "drawn", "heal_at",
    "until", "topology", "lock", "workload", "links", "clocks", "fault",
];

/// The latest time at which a fault that is anchored to an event is assumed to strike, ns.
const EVENTS_BY: Nanos = 10 * SECOND;
/// Without `heal_at`, the minimum time of the heal, ns.
const HEAL: Nanos = 30 * SECOND;
/// Without `heal_at`, how long the workload continues after the last fault, ns.
const AFTER_FAULTS: Nanos = 20 * SECOND;
/// Without `until`, how long the run continues after the probe's time, ns.
const AFTER_PROBE: Nanos = 10 * SECOND;
/// The maximum number of seeds of a scenario.
const MAX_SEEDS: u64 = 100_000;

impl Scenario {
    /// Reads a scenario. `name` is the file's name, for refusals.
    pub fn parse(name: &str, text: &str) -> Result<Scenario, Refusal> {
        Scenario::parse_with(&Locks::default(), name, text)
    }

    /// Like [`Scenario::parse`]; the scenario may name each of `locks`.
    pub fn parse_with(locks: &Locks, name: &str, text: &str) -> Result<Scenario, Refusal> {
        if text.trim_start().starts_with('{') {
            let what = format!("{name} is not a scenario: it is JSON, as plans and logs are");
            let help = format!(
                "'lockstorm replay {name}' runs a plan, 'explain' explains it if its name ends \
                 with .json, and 'merge' reads the log of a shard"
            );
            return Err(Refusal::new(what, help));
        }
        read(locks, name, text).map_err(|refusal| refusal.in_file(name, text))
    }

    /// The plan for a seed.
    pub fn plan(&self, seed: u64) -> Plan {
        Plan { seed, ..self.plan.clone() }
    }

    /// The plans of its remedies for a seed; none before [`link`].
    pub fn healed(&self, seed: u64) -> Vec<Plan> {
        self.healed.iter().map(|plan| Plan { seed, ..plan.clone() }).collect()
    }

    /// The seeds on which the expectation must be met.
    pub fn seeds(&self) -> Vec<u64> {
        self.seeds.clone()
    }
}

/// Gives each scenario the plans of its remedies that are among `known`. Others may be missing,
/// since a file may be used alone; but a name that is almost a known one is refused.
pub fn link(scenarios: &mut [Scenario], known: &[Scenario]) -> Result<(), Refusal> {
    for scenario in scenarios {
        scenario.healed.clear();
        for name in &scenario.remedies {
            match known.iter().find(|other| other.name == *name) {
                Some(other) => scenario.healed.push(other.plan.clone()),
                None => is_no_slip(scenario, name, known)?,
            }
        }
    }
    Ok(())
}

/// The maximum number of wrong letters in a name that counts as a misspelling of a known one.
const SLIPS: usize = 2;

fn is_no_slip(scenario: &Scenario, name: &str, known: &[Scenario]) -> Result<(), Refusal> {
    let mut others = known.iter().map(|other| &other.name);
    let Some(near) = others.find(|other| strsim::osa_distance(name, other) <= SLIPS) else {
        return Ok(());
    };
    let what = format!("there is no scenario '{name}' that could be a remedy");
    let label = format!("did you mean '{near}'?");
    let refusal = Refusal::at(scenario.remedies_at.clone(), what, label)
        .help("a remedy is the name of a scenario of the same folder");
    Err(refusal.in_file(&scenario.file, &scenario.text))
}

fn read(locks: &Locks, file: &str, text: &str) -> Result<Scenario, Refusal> {
    let table = DeTable::parse(text).map_err(|error| no_toml(text, &error))?;
    let mut known = Places::new();
    places("", table.get_ref(), &mut known);
    let title = 0..text.lines().next().map_or(0, str::len);
    let top = Section::open("", title, table.get_ref(), &KEYS)?;
    let seeds = seeds(&top)?;
    let lacks = |key, example| top.lacks(key, example);
    let name = top.text("name")?.ok_or_else(|| lacks("name", "\"gc-pause\""))?.to_owned();
    let plan = plan(locks, &top, &name, seeds[0], &mut known)?;
    plan.validate_with(locks).map_err(|refusal| {
        let Place::Field(path) = &refusal.place else { return refusal };
        let place = Place::Bytes(place(&known, path));
        refusal.on(place)
    })?;
    Ok(Scenario {
        name,
        ask: top.text("ask")?.ok_or_else(|| lacks("ask", "\"Does ... ?\""))?.to_owned(),
        note: top.text("note")?.map(str::to_owned),
        expect: expectation::read(&top)?,
        remedies: remedies(&top)?,
        remedies_at: top.get("remedy").map_or(0..0, Spanned::span),
        healed: Vec::new(),
        unconfirmable: unconfirmable(&top)?,
        file: file.to_owned(),
        text: text.to_owned(),
        seeds,
        plan,
    })
}

/// The plan of a scenario with only the same kind of topology, the same lock and the same faults:
/// the base for a comparison of settings.
pub fn default_plan(plan: &Plan) -> Plan {
    let kind = tables::TOPOLOGIES.iter().find(|(_, kind)| *kind == plan.topology.kind);
    let (kind, _) = kind.expect("every kind has a word");
    let text = format!("topology = {{ kind = \"{kind}\" }}\nlock = {{ algorithm = \"none\" }}");
    let table = DeTable::parse(&text).expect("this is TOML");
    let top = Section::open("", 0..0, table.get_ref(), &KEYS).expect("its keys are known");
    let locks = Locks::default();
    let default = self::plan(&locks, &top, &plan.name, plan.seed, &mut Places::new());
    let mut default = default.expect("defaults are well-formed");
    default.format = plan.format;
    default.is_drawn = plan.is_drawn;
    default.lock.algorithm.clone_from(&plan.lock.algorithm);
    default.faults.clone_from(&plan.faults);
    default.heal_at = default_heal(&plan.faults);
    default.until = default_end(plan);
    default
}

/// When the run of a plan ends if its scenario sets no `until`, ns.
pub fn default_end(plan: &Plan) -> Nanos {
    let probed = plan.heal_at.saturating_add(plan.longest_ttl()).saturating_add(PROBE_MARGIN);
    probed.saturating_add(AFTER_PROBE)
}

fn plan(
    locks: &Locks,
    top: &Section,
    name: &str,
    seed: u64,
    known: &mut Places,
) -> Result<Plan, Refusal> {
    let mut plan = Plan {
        format: FORMAT,
        name: name.to_owned(),
        seed,
        topology: tables::topology(top)?,
        lock: tables::lock(top, locks)?,
        workload: tables::workload(top, locks)?,
        links: tables::links(top, known)?,
        clocks: tables::clocks(top)?,
        faults: fault::read(top)?,
        is_drawn: top.flag("drawn")?.unwrap_or(false),
        draws: BTreeMap::new(),
        heal_at: 0,
        until: 0,
    };
    plan.heal_at = top.length("heal_at")?.unwrap_or_else(|| default_heal(&plan.faults));
    plan.until = top.length("until")?.unwrap_or(default_end(&plan));
    Ok(plan)
}

/// `remedy = "a"` or `remedy = ["a", "b"]`.
fn remedies(top: &Section) -> Result<Vec<String>, Refusal> {
    let Some(value) = top.get("remedy") else { return Ok(Vec::new()) };
    let DeValue::Array(list) = value.get_ref() else {
        return Ok(vec![text_of("remedy", value)?.to_owned()]);
    };
    list.iter().map(|entry| Ok(text_of("remedy", entry)?.to_owned())).collect()
}

/// `confirm = "no: why"`.
fn unconfirmable(top: &Section) -> Result<Option<String>, Refusal> {
    let Some(text) = top.text("confirm")? else { return Ok(None) };
    let Some(why) = text.strip_prefix("no: ") else {
        let span = top.get("confirm").expect("it was read").span();
        let what = format!("'confirm' cannot be '{text}'");
        return Err(Refusal::at(span, what, "write \"no: why not\", or remove it"));
    };
    Ok(Some(why.to_owned()))
}

/// 30 s, or 20 s after the end of the last fault if that is later. A fault without a length lasts
/// to the heal.
pub fn default_heal(faults: &[Fault]) -> Nanos {
    let over = |fault: &Fault| {
        let strikes = match &fault.anchor {
            Anchor::At(at) => *at,
            Anchor::After { plus, .. } => EVENTS_BY.saturating_add(*plus),
        };
        strikes.saturating_add(fault.length.unwrap_or(0)).saturating_add(AFTER_FAULTS)
    };
    faults.iter().map(over).max().unwrap_or(0).max(HEAL)
}

/// `seed = 7` or `seeds = "1..5"`, both ends included; 1 if neither is set.
fn seeds(top: &Section) -> Result<Vec<u64>, Refusal> {
    let one: Option<u64> = top.number("seed")?;
    let Some(range) = top.text("seeds")? else { return Ok(vec![one.unwrap_or(1)]) };
    let span = top.get("seeds").expect("it was read").span();
    if one.is_some() {
        let what = "both 'seed' and 'seeds' are given";
        return Err(Refusal::at(span, what, "remove one of them"));
    }
    let seeds = seed_range(range).map_err(|no| Refusal::at(span.clone(), no.what, no.instead))?;
    if seeds.end() - seeds.start() >= MAX_SEEDS {
        let what = format!("'{range}' are too many seeds for a scenario");
        return Err(Refusal::at(span, what, format!("at most {MAX_SEEDS}")));
    }
    Ok(seeds.collect())
}

/// Parses `A..B`, inclusive.
pub fn seed_range(text: &str) -> Result<RangeInclusive<u64>, Refusal> {
    let ends = text.split_once("..").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let Some((first, last)) = ends else {
        let what = format!("'{text}' is not a range of seeds");
        return Err(Refusal::new(what, format!("write '1..5'; the largest seed is {}", u64::MAX)));
    };
    if first > last {
        let what = format!("the range of seeds '{text}' is empty");
        return Err(Refusal::new(what, format!("write '{last}..{first}'")));
    }
    Ok(first..=last)
}

fn no_toml(text: &str, error: &toml::de::Error) -> Refusal {
    let span = error.span().unwrap_or(0..text.len().min(1));
    Refusal::at(span, "this is not TOML", error.message().lines().collect::<Vec<_>>().join(", "))
}

/// The place in the file of a path of the plan: of the path itself, or of what contains it.
fn place(known: &Places, path: &str) -> Range<usize> {
    let mut path = path;
    loop {
        if let Some(span) = known.get(path) {
            return span.clone();
        }
        let Some((above, _)) = path.rsplit_once('.') else { return 0..0 };
        path = above;
    }
}
