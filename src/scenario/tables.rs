//! Reads the tables `[topology]`, `[lock]`, `[workload]`, `[links]` and `[clocks]`, with their
//! defaults.

use std::collections::BTreeMap;

use lockstorm_platform::fault::Target;
use lockstorm_platform::network::Latency;
use lockstorm_platform::time::{ClockSetting, MILLISECOND, SECOND};
use lockstorm_redis::compat::Compat;
use toml::de::DeValue;

use crate::field::{Field, Takes};
use crate::lock::catalogue::Locks;
use crate::lock::config::LockConfig;
use crate::lock::{library, options};
use crate::plan::buggy_caller::BuggyCaller;
use crate::plan::extend::Extend;
use crate::plan::shards::Shards;
use crate::plan::{
    FenceMode, FenceOn, Files, Links, MAX_LAG, MinReplicas, Persistence, Sentinels, Topology,
    TopologyKind, Workload, WorkloadKind,
};
use crate::refusal::Refusal;
use crate::scenario::section::{Places, Section, Value, integer, length_of, other_type, table_of};

/// The words for topologies.
pub const TOPOLOGIES: [(&str, TopologyKind); 5] = [
    ("single", TopologyKind::Single),
    ("replicated", TopologyKind::Replicated),
    ("sentinel", TopologyKind::Sentinel),
    ("cluster", TopologyKind::Cluster),
    ("independent", TopologyKind::Independent),
];

/// The words for what nodes keep on disk.
pub const PERSISTENCES: [(&str, Persistence); 5] = [
    ("none", Persistence::None),
    ("aof-always", Persistence::AofAlways),
    ("aof-everysec", Persistence::AofEverysec),
    ("aof-no", Persistence::AofNo),
    ("rdb", Persistence::Rdb),
];

/// The words for how the resource checks fences.
pub const FENCES: [&str; 4] =
    ["none", "reject-smaller", "reject-smaller-or-equal", "compare-and-set"];

/// `[topology]`: one node by default.
pub fn topology(scenario: &Section) -> Result<Topology, Refusal> {
    let keys = [
        "kind",
        "nodes",
        "persistence",
        "save",
        "save_time",
        "load_time",
        "aof_load_truncated",
        "keep_down",
        "compat",
        "min_replicas",
        "min_replicas_lag",
        "replica_priority",
        "sentinels",
        "quorum",
        "down_after",
        "failover_timeout",
        "parallel_syncs",
        "replicas",
        "node_timeout",
    ];
    let Some(section) = scenario.section("topology", &keys)? else {
        return Ok(Topology::plain(TopologyKind::Single, 1));
    };
    let kind = section.word("kind", &TOPOLOGIES)?.unwrap_or(TopologyKind::Single);
    let default = match kind {
        TopologyKind::Single => 1,
        TopologyKind::Replicated | TopologyKind::Sentinel => 2,
        TopologyKind::Cluster => 3,
        TopologyKind::Independent => 5,
    };
    let nodes = section.number("nodes")?.unwrap_or(default);
    let (replicas, shards) = shards(&section, kind, nodes)?;
    Ok(Topology {
        kind,
        nodes: nodes.saturating_mul(replicas.saturating_add(1)),
        replicas_each: if kind == TopologyKind::Independent { replicas } else { 0 },
        persistence: section.word("persistence", &PERSISTENCES)?.unwrap_or_default(),
        files: Files {
            save: section.text("save")?.unwrap_or_default().to_owned(),
            save_time: section.length("save_time")?.unwrap_or(0),
            load_time: section.length("load_time")?.unwrap_or(0),
            refuse_torn: section.flag("aof_load_truncated")? == Some(false),
        },
        keep_down: section.flag("keep_down")?.unwrap_or(false),
        compat: section.word("compat", &Compat::WORDS)?.unwrap_or_default(),
        min_replicas: min_replicas(&section)?,
        priorities: priorities(&section, nodes)?,
        sentinels: sentinels(&section, kind)?,
        shards,
    })
}

/// `replica_priority = { n2 = 10 }`.
fn priorities(section: &Section, nodes: u32) -> Result<BTreeMap<String, u32>, Refusal> {
    // Too many nodes are refused later.
    let names: Vec<String> = (1..=nodes.min(1_000)).map(|nth| format!("n{nth}")).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    let Some(each) = section.section("replica_priority", &keys)? else {
        return Ok(BTreeMap::new());
    };
    let named = keys.into_iter().map(|node| Ok((node.to_owned(), each.number(node)?)));
    let named: Result<Vec<(String, Option<u32>)>, Refusal> = named.collect();
    Ok(named?.into_iter().filter_map(|(node, number)| Some((node, number?))).collect())
}

/// The settings of `[topology]` for the replicas that a master needs.
fn min_replicas(section: &Section) -> Result<Option<MinReplicas>, Refusal> {
    let max_lag = section.length("min_replicas_lag")?;
    let Some(to_write) = section.number("min_replicas")? else {
        let Some(value) = section.get("min_replicas_lag") else { return Ok(None) };
        let what = "no master needs replicas to write".to_owned();
        return Err(Refusal::at(value.span(), what, "add min_replicas = 1, or remove it"));
    };
    Ok(Some(MinReplicas { to_write, max_lag: max_lag.unwrap_or(MAX_LAG) }))
}

/// The settings of `[topology]` for Sentinels. Without Sentinels these keys are refused.
fn sentinels(section: &Section, kind: TopologyKind) -> Result<Option<Sentinels>, Refusal> {
    if kind != TopologyKind::Sentinel {
        let keys = ["sentinels", "quorum", "down_after", "failover_timeout", "parallel_syncs"];
        let Some((key, value)) = keys.iter().find_map(|key| Some((key, section.get(key)?))) else {
            return Ok(None);
        };
        let what = format!("'{key}' is for Sentinels, and the topology has none");
        return Err(Refusal::at(value.span(), what, "kind = \"sentinel\", or remove it"));
    }
    let defaults = Sentinels::by_default(section.number("sentinels")?.unwrap_or(3));
    Ok(Some(Sentinels {
        count: defaults.count,
        quorum: section.number("quorum")?.unwrap_or(defaults.quorum),
        down_after: section.length("down_after")?.unwrap_or(defaults.down_after),
        failover_timeout: section.length("failover_timeout")?.unwrap_or(defaults.failover_timeout),
        parallel_syncs: section.number("parallel_syncs")?.unwrap_or(defaults.parallel_syncs),
    }))
}

/// The keys of `[topology]` for several masters: the number of replicas of each, and how a cluster
/// shares its slots. Without several masters they are refused.
fn shards(
    section: &Section,
    kind: TopologyKind,
    masters: u32,
) -> Result<(u32, Option<Shards>), Refusal> {
    if kind != TopologyKind::Cluster {
        let is_independent = kind == TopologyKind::Independent;
        let keys: &[&str] =
            if is_independent { &["node_timeout"] } else { &["replicas", "node_timeout"] };
        let Some((key, value)) = keys.iter().find_map(|key| Some((key, section.get(key)?))) else {
            let replicas = if is_independent { section.number("replicas")? } else { None };
            return Ok((replicas.unwrap_or(0), None));
        };
        let what = format!("'{key}' is for a cluster, and the topology is none");
        return Err(Refusal::at(value.span(), what, "kind = \"cluster\", or remove it"));
    }
    let node_timeout = section.length("node_timeout")?.unwrap_or(Shards::NODE_TIMEOUT);
    let replicas = section.number("replicas")?.unwrap_or(1);
    Ok((replicas, Some(Shards { masters, node_timeout })))
}

/// `[lock]`: its algorithm must be set, and be one of `locks`.
pub fn lock(scenario: &Section, locks: &Locks) -> Result<LockConfig, Refusal> {
    let keys: Vec<&str> = options::fields().map(|field| field.key).collect();
    let section = scenario.section("lock", &keys)?;
    let section = section.ok_or_else(|| scenario.lacks("lock.algorithm", "\"token-lua\""))?;
    let named = section.one_of("algorithm", &locks.names())?;
    let library = section.text("library")?.filter(|_| named.is_none());
    let key = "lock".to_owned();
    let defaults = match (named, library) {
        (None, Some(name)) => preset(&section, name, LockConfig { key, ..LockConfig::default() })?,
        (None, None) => return Err(section.lacks("algorithm", "\"token-lua\"")),
        (Some(name), _) => LockConfig { algorithm: name.to_owned(), key, ..LockConfig::default() },
    };
    let others = options::fields().filter(|field| library.is_none() || field.key != "library");
    section.settings(others, &defaults)
}

/// The options of a library. Beside an algorithm its name only says where the options come from.
fn preset(section: &Section, name: &str, plain: LockConfig) -> Result<LockConfig, Refusal> {
    let place = section.get("library").map_or(section.span(), Value::span);
    let library = library::find(name).ok_or_else(|| {
        let names = library::names(name);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Refusal::word(place, name, "library", &names)
    })?;
    Ok(library.of(plain))
}

/// The default workload: two clients increment a counter, working for one second at a time.
const DEFAULT_WORKLOAD: Workload = Workload {
    kind: WorkloadKind::Counter,
    clients: 2,
    callers: 1,
    rounds: 3,
    hold: SECOND,
    rest: 500 * MILLISECOND,
    retry: 200 * MILLISECOND,
    fence: FenceMode::None,
    fence_on: FenceOn::All,
    check_validity: false,
    items: 10,
    segments: 0,
    window: 0,
    timeout: SECOND,
    period: 0,
    stagger: 100 * MILLISECOND,
    extend: Extend::Never,
    reenter: false,
    buggy_caller: BuggyCaller::None,
};

/// The rows of `[workload]`.
pub const WORK: [Field; 19] = [
    Field::new("kind", Takes::Text),
    Field::new("clients", Takes::Count),
    Field::new("callers", Takes::Count),
    Field::new("rounds", Takes::Count),
    Field::new("hold", Takes::Length),
    Field::new("rest", Takes::Length),
    Field::new("retry", Takes::Length),
    Field::new("fence", Takes::Word(&FENCES)),
    Field::new("fence_on", Takes::Word(&["all", "writes"])),
    Field::new("check_validity", Takes::Flag),
    Field::new("items", Takes::Number),
    Field::new("segments", Takes::Count),
    Field::new("window", Takes::Length),
    Field::new("timeout", Takes::Length),
    Field::new("period", Takes::Length),
    Field::new("stagger", Takes::Length),
    Field::new("extend", Takes::Text),
    Field::new("reenter", Takes::Flag),
    Field::new("buggy_caller", Takes::Word(&BuggyCaller::WORDS)),
];

/// `[workload]`.
pub fn workload(scenario: &Section, locks: &Locks) -> Result<Workload, Refusal> {
    let keys = WORK.map(|field| field.key);
    let Some(section) = scenario.section("workload", &keys)? else { return Ok(DEFAULT_WORKLOAD) };
    section.one_of("kind", &locks.workload_names())?;
    extend(&section)?;
    section.settings(WORK.iter(), &DEFAULT_WORKLOAD)
}

/// Refuses a value that does not specify when a working client extends its grant.
fn extend(section: &Section) -> Result<(), Refusal> {
    let Some((text, value)) = section.text("extend")?.zip(section.get("extend")) else {
        return Ok(());
    };
    let instead = "\"never\", \"until-lost\", or a share of the lease: \"1/2\"";
    let read = text.parse::<Extend>();
    read.map(|_| ()).map_err(|what| Refusal::at(value.span(), what, instead))
}

/// `[links]`: 1 to 5 ms and no loss by default. A name like `c1 <-> n1 n2` sets each of its links;
/// their places in the file are added to `places`.
pub fn links(scenario: &Section, places: &mut Places) -> Result<Links, Refusal> {
    let default = Latency::Uniform { min: MILLISECOND, max: 5 * MILLISECOND };
    let mut links = Links { latency: default, named: BTreeMap::new(), loss_per_million: 0 };
    let Some(section) = scenario.section("links", &["latency", "loss", "named"])? else {
        return Ok(links);
    };
    if let Some(value) = section.get("latency") {
        links.latency = latency("latency", value)?;
    }
    if let Some(value) = section.get("loss") {
        links.loss_per_million = loss(value)?;
    }
    let Some(value) = section.get("named") else { return Ok(links) };
    let DeValue::Table(table) = value.get_ref() else {
        return Err(other_type("named", value, "a table: \"c1 -> n1\" = \"5ms\""));
    };
    for (key, value) in table {
        let latency = latency(key.get_ref(), value)?;
        for link in
            one_by_one(key.get_ref()).map_err(|no| Refusal::at(key.span(), no, "no link"))?
        {
            places.insert(format!("links.named.{link}"), key.span());
            if links.named.insert(link.clone(), latency).is_some() {
                let what = format!("the link '{link}' is set twice");
                return Err(Refusal::at(key.span(), what, "remove one of them"));
            }
        }
    }
    Ok(links)
}

/// Every directed link of a name, written `from -> to`.
fn one_by_one(name: &str) -> Result<Vec<String>, String> {
    let Target::Links { from, to, both } = Target::try_from(name.to_owned())? else {
        return Err(format!("'{name}' is a host: write 'c1 -> n1'"));
    };
    let mut links = Vec::new();
    for (from, to) in from.iter().flat_map(|from| to.iter().map(move |to| (from, to))) {
        links.push(format!("{from} -> {to}"));
        if both {
            links.push(format!("{to} -> {from}"));
        }
    }
    Ok(links)
}

fn latency(key: &str, value: &Value) -> Result<Latency, Refusal> {
    let DeValue::Table(table) = value.get_ref() else {
        return Ok(Latency::Constant(length_of(key, value)?));
    };
    let keys = ["uniform", "exponential", "long_tail"];
    let section = Section::open("latency", value.span(), table, &keys)?;
    let kinds: Vec<_> = section.fields().collect();
    let [(kind, _, value)] = kinds[..] else {
        let example = "write { uniform = [\"1ms\", \"5ms\"] } or { exponential = \"2ms\" }";
        return Err(Refusal::at(section.span(), "a latency is of one kind", example));
    };
    match kind {
        "exponential" => Ok(Latency::Exponential { mean: length_of(kind, value)? }),
        "long_tail" => Ok(Latency::LongTail { median: length_of(kind, value)? }),
        _ => uniform(value),
    }
}

fn uniform(value: &Value) -> Result<Latency, Refusal> {
    let pair = "two lengths: [\"1ms\", \"5ms\"]";
    let DeValue::Array(list) = value.get_ref() else {
        return Err(other_type("uniform", value, pair));
    };
    let ends: Vec<_> = list.iter().collect();
    let [min, max] = ends[..] else { return Err(other_type("uniform", value, pair)) };
    Ok(Latency::Uniform { min: length_of("uniform", min)?, max: length_of("uniform", max)? })
}

/// A share in parts per million: `"1%"`, `"0.05%"`, or the number itself.
pub fn loss(value: &Value) -> Result<u32, Refusal> {
    let wrong =
        |what: String| Refusal::at(value.span(), what, "write \"1%\" or 10_000 (a million)");
    match value.get_ref() {
        DeValue::Integer(number) => integer(number)
            .and_then(|number| u32::try_from(number).ok())
            .ok_or_else(|| wrong(format!("{number} is not a share of a million"))),
        DeValue::String(text) => {
            percent(text).ok_or_else(|| wrong(format!("'{text}' is not a share")))
        }
        _ => Err(other_type("loss", value, "a share, like \"1%\"")),
    }
}

/// A percentage with up to four decimal places, in parts per million.
pub fn percent(text: &str) -> Option<u32> {
    let (whole, part) = {
        let number = text.strip_suffix('%')?.trim_end();
        number.split_once('.').unwrap_or((number, "0"))
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 4 {
        return None;
    }
    let part: u32 = format!("{part:0<4}").parse().ok()?;
    whole.parse::<u32>().ok()?.checked_mul(10_000)?.checked_add(part)
}

/// `[clocks.n1]` and the tables of other hosts.
pub fn clocks(scenario: &Section) -> Result<BTreeMap<String, ClockSetting>, Refusal> {
    let mut clocks = BTreeMap::new();
    let Some(value) = scenario.get("clocks") else { return Ok(clocks) };
    let DeValue::Table(table) = value.get_ref() else {
        return Err(other_type("clocks", value, "a table a host: [clocks.n1]"));
    };
    for (host, value) in table {
        let host: &str = host.get_ref();
        let keys = ["wall_offset", "rate_ppm"];
        let section = table_of(&format!("clocks.{host}"), value, &keys)?;
        let wall_offset = section.shift("wall_offset")?.unwrap_or(0);
        let rate_ppm = section.number("rate_ppm")?.unwrap_or(0);
        clocks.insert(host.to_owned(), ClockSetting { wall_offset, rate_ppm });
    }
    Ok(clocks)
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    use super::{DEFAULT_WORKLOAD, PERSISTENCES, TOPOLOGIES, WORK, percent};
    use crate::field::{Field, Takes};
    use crate::lock::config::LockConfig;
    use crate::lock::options;

    fn check<T: Serialize>(words: &[(&str, T)]) {
        for (word, value) in words {
            assert_eq!(serde_json::to_value(value).unwrap(), *word);
        }
    }

    #[test]
    fn scenarios_and_plans_use_the_same_words() {
        check(&TOPOLOGIES);
        check(&PERSISTENCES);
    }

    /// Reads a table with an example value for each row, and expects to write the same back.
    fn takes_what_its_rows_say<T: Serialize + DeserializeOwned>(
        fields: impl Iterator<Item = &'static Field>,
        value: &T,
    ) {
        for field in fields {
            let taken: Vec<serde_json::Value> = match field.takes {
                Takes::Text => vec!["never".into()],
                Takes::Word(words) => words.iter().map(|word| (*word).into()).collect(),
                Takes::Flag => vec![true.into()],
                Takes::Count => vec![u32::MAX.into()],
                Takes::Number => vec![i64::MIN.into()],
                Takes::Length => vec![u64::MAX.into()],
            };
            for taken in taken {
                let mut all = serde_json::to_value(value).unwrap();
                all[field.key] = taken.clone();
                let read: T = serde_json::from_value(all).unwrap();
                let written = serde_json::to_value(&read).unwrap();
                // A default may be omitted.
                assert!(written.get(field.key).is_none_or(|written| *written == taken));
            }
        }
    }

    #[test]
    fn the_rows_are_those_of_their_types() {
        takes_what_its_rows_say(WORK.iter(), &DEFAULT_WORKLOAD);
        takes_what_its_rows_say(options::fields(), &LockConfig::default());
        let all = serde_json::to_value(DEFAULT_WORKLOAD).unwrap();
        for key in all.as_object().unwrap().keys() {
            assert!(WORK.iter().any(|field| field.key == key), "{key}");
        }
        let all = serde_json::to_value(LockConfig::default()).unwrap();
        for key in all.as_object().unwrap().keys() {
            assert!(options::fields().any(|field| field.key == key), "{key}");
        }
    }

    #[test]
    fn percent_is_read_in_millionths() {
        for (text, share) in [
            ("1%", Some(10_000)),
            ("0.05%", Some(500)),
            ("12.3456%", Some(123_456)),
            ("100%", Some(1_000_000)),
            ("30 %", Some(300_000)),
            ("1", None),
            ("%", None),
            (".5%", None),
            ("-1%", None),
            ("0.00001%", None),
            ("99999999999%", None),
        ] {
            assert_eq!(percent(text), share, "{text}");
        }
    }
}
