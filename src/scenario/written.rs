//! Writes a plan as the scenario that a person would have written: only what differs from the
//! defaults.
//!
//! First every setting is written. Then each line is removed if the rest still reads as the same
//! plan. So defaults are defined in one place only, where scenarios are read.

use std::collections::BTreeMap;

use lockstorm_platform::fault::verbs::Figure;
use lockstorm_platform::fault::{Anchor, Fault, Pattern};
use lockstorm_platform::network::Latency;
use lockstorm_platform::time::Nanos;
use serde::Serialize;

use crate::field::{Field, Takes};
use crate::length;
use crate::lock::catalogue::Locks;
use crate::lock::options;
use crate::plan::{Plan, Topology, TopologyKind};
use crate::scenario::{Scenario, tables};

/// The parts of a scenario besides its plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// Its question.
    pub ask: &'a str,
    /// What a reader should learn from it.
    pub note: &'a str,
    /// What is violated; `None` if the plan holds.
    pub violated: Option<WrittenViolation<'a>>,
}

/// What a scenario expects to be violated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenViolation<'a> {
    /// The names of the kinds, in order.
    pub kinds: Vec<&'a str>,
    /// The name of the class.
    pub class: &'a str,
}

/// A setting with the header of its table; empty for the top of the file.
struct WrittenLine {
    table: String,
    key: String,
    value: String,
}

/// The text of a scenario with this plan. `None` if no scenario can describe it, as when draws were
/// fixed by hand.
pub fn text(locks: &Locks, plan: &Plan, question: &Question) -> Option<String> {
    let says_it = |lines: &[WrittenLine]| {
        let scenario = Scenario::parse_with(locks, &plan.name, &file(plan, question, lines));
        scenario.is_ok_and(|scenario| scenario.plan(plan.seed) == *plan)
    };
    let mut lines = lines(plan);
    if !says_it(&lines) {
        return None;
    }
    // Lines are removed from the end, since later lines of a table depend on earlier ones. The heal
    // stays: its default would move with the length of a fault, and the thresholds of a report do
    // not.
    let can_go = |line: &WrittenLine| line.key != "heal_at" || plan.faults.is_empty();
    let remove = |lines: &mut Vec<WrittenLine>, index: usize| {
        let line = lines.remove(index);
        if !says_it(lines) {
            lines.insert(index, line);
        }
    };
    // The name of a library stands for its options only where no algorithm is named.
    let algorithm = lines.iter().position(|line| line.path() == "lock.algorithm");
    algorithm.into_iter().for_each(|index| remove(&mut lines, index));
    for index in (0..lines.len()).rev().filter(|index| can_go(&lines[*index])).collect::<Vec<_>>() {
        remove(&mut lines, index);
    }
    Some(file(plan, question, &lines))
}

/// Every setting of a plan by its key in a scenario, and its value there: `lock.ttl`, `fault:2.by`.
/// A fault has the name that its figures have. Draws that are fixed by hand are not settings.
pub fn settings_of(plan: &Plan) -> BTreeMap<String, toml::Value> {
    let read = |text: &str| {
        let mut table: toml::Table = toml::from_str(&format!("value = {text}")).ok()?;
        table.remove("value")
    };
    let value = |line: &WrittenLine| read(&line.value).expect("a written value is TOML");
    lines(plan).iter().map(|line| (line.path(), value(line))).collect()
}

impl WrittenLine {
    fn path(&self) -> String {
        let (key, table) = (&self.key, self.table.trim_matches(['[', ']']));
        match (table, self.table.strip_prefix("[[fault]]#")) {
            ("", _) => key.clone(),
            (_, Some(id)) => format!("fault:{id}.{key}"),
            (table, None) => format!("{table}.{key}"),
        }
    }
}

fn file(plan: &Plan, question: &Question, lines: &[WrittenLine]) -> String {
    let expect = match &question.violated {
        None => "{ holds = true }".to_owned(),
        Some(WrittenViolation { kinds, class }) => {
            let kinds: Vec<String> = kinds.iter().map(|kind| quoted(kind)).collect();
            format!("{{ violated = [{}], class = {} }}", kinds.join(", "), quoted(class))
        }
    };
    let mut text = String::new();
    let Question { ask, note, .. } = question;
    let top = [
        ("name", quoted(&plan.name)),
        ("ask", quoted(ask)),
        ("expect", expect),
        ("note", quoted(note)),
    ];
    for (key, value) in top {
        text += &format!("{key} = {value}\n");
    }
    text += &format!("seed = {}\n", plan.seed);
    let mut table = "";
    for line in lines {
        if line.table != table {
            table = &line.table;
            let header = table.split_once('#').map_or(table, |(header, _)| header);
            text += &format!("\n{header}\n");
        }
        text += &format!("{} = {}\n", line.key, line.value);
    }
    text
}

fn lines(plan: &Plan) -> Vec<WrittenLine> {
    let mut lines = vec![
        bare("", "drawn", &plan.is_drawn.to_string()),
        line("", "heal_at", &length::write(plan.heal_at)),
        line("", "until", &length::write(plan.until)),
    ];
    lines.extend(topology(&plan.topology));
    lines.extend(settings("[lock]", options::fields(), &plan.lock));
    lines.extend(settings("[workload]", tables::WORK.iter(), &plan.workload));
    if plan.workload.callers == 1 {
        // A plan leaves it out.
        lines.push(bare("[workload]", "callers", "1"));
    }
    lines.push(bare("[links]", "latency", &latency(plan.links.latency)));
    lines.push(line("[links]", "loss", &percent(plan.links.loss_per_million)));
    let named = plan.links.named.iter();
    lines.extend(named.map(|(link, own)| bare("[links.named]", &quoted(link), &latency(*own))));
    for (host, clock) in &plan.clocks {
        let table = format!("[clocks.{host}]");
        lines.push(line(&table, "wall_offset", &shift(clock.wall_offset)));
        lines.push(bare(&table, "rate_ppm", &clock.rate_ppm.to_string()));
    }
    lines.extend(plan.faults.iter().flat_map(fault));
    lines
}

fn topology(topology: &Topology) -> Vec<WrittenLine> {
    let table = "[topology]";
    let several = matches!(topology.kind, TopologyKind::Cluster | TopologyKind::Independent);
    let nodes = if several { topology.masters() } else { topology.nodes };
    let mut lines = vec![
        line(table, "kind", &word(&topology.kind)),
        bare(table, "nodes", &nodes.to_string()),
        line(table, "persistence", &word(&topology.persistence)),
        line(table, "save", &topology.files.save),
        line(table, "save_time", &length::write(topology.files.save_time)),
        line(table, "load_time", &length::write(topology.files.load_time)),
        bare(table, "aof_load_truncated", &(!topology.files.refuse_torn).to_string()),
        bare(table, "keep_down", &topology.keep_down.to_string()),
        line(table, "compat", topology.compat.word()),
    ];
    if several {
        lines.push(bare(table, "replicas", &topology.replicas().to_string()));
    }
    if let Some(least) = topology.min_replicas {
        lines.push(bare(table, "min_replicas", &least.to_write.to_string()));
        lines.push(line(table, "min_replicas_lag", &length::write(least.max_lag)));
    }
    if !topology.priorities.is_empty() {
        let each = topology.priorities.iter().map(|(node, number)| format!("{node} = {number}"));
        let each: Vec<String> = each.collect();
        lines.push(bare(table, "replica_priority", &format!("{{ {} }}", each.join(", "))));
    }
    if let Some(sentinels) = topology.sentinels {
        lines.push(bare(table, "sentinels", &sentinels.count.to_string()));
        lines.push(bare(table, "quorum", &sentinels.quorum.to_string()));
        lines.push(line(table, "down_after", &length::write(sentinels.down_after)));
        lines.push(line(table, "failover_timeout", &length::write(sentinels.failover_timeout)));
        lines.push(bare(table, "parallel_syncs", &sentinels.parallel_syncs.to_string()));
    }
    if let Some(shards) = topology.shards {
        lines.push(line(table, "node_timeout", &length::write(shards.node_timeout)));
    }
    lines
}

/// The settings of a table, as its rows name them.
fn settings<'f>(
    table: &str,
    fields: impl Iterator<Item = &'f Field>,
    value: &impl Serialize,
) -> Vec<WrittenLine> {
    let all = serde_json::to_value(value).expect("settings are plain data");
    let set = fields.filter_map(|field| Some((field, all.get(field.key)?)));
    set.filter(|(_, value)| !value.is_null())
        .map(|(field, value)| match (field.takes, value.as_u64(), value.as_str()) {
            (Takes::Length, Some(length), _) => line(table, field.key, &length::write(length)),
            (_, _, Some(text)) => line(table, field.key, text),
            _ => bare(table, field.key, &value.to_string()),
        })
        .collect()
}

fn fault(fault: &Fault) -> Vec<WrittenLine> {
    // Each fault begins a new table with the same name.
    let table = format!("[[fault]]#{}", fault.id);
    let row = fault.verb.row();
    let mut lines = vec![
        line(&table, "kind", row.word),
        line(&table, "target", &fault.target.to_string()),
        bare(&table, "id", &fault.id.to_string()),
    ];
    lines.push(match &fault.anchor {
        Anchor::At(at) => line(&table, "at", &length::write(*at)),
        Anchor::After { event, nth, plus } => bare(&table, "after", &after(event, *nth, *plus)),
    });
    lines.extend(fault.length.map(|length| line(&table, "for", &length::write(length))));
    if let Some(key) = row.figure {
        lines.push(match fault.verb.figure() {
            Figure::Length(length) => line(&table, key, &length::write(length)),
            Figure::Share(share) => line(&table, key, &percent(share)),
            Figure::Shift(by) => line(&table, key, &shift(by)),
            Figure::Rate(ppm) => bare(&table, key, &ppm.to_string()),
            Figure::Key(name) => line(&table, key, &name),
            Figure::None => return lines,
        });
    }
    lines
}

fn after(event: &Pattern, nth: u32, plus: Nanos) -> String {
    let mut fields = match event {
        Pattern::Step { who, label } => {
            vec![("event", quoted("step")), ("by", quoted(who)), ("label", quoted(label))]
        }
        Pattern::Outcome { who, what } => vec![("event", quoted(what)), ("by", quoted(who))],
        Pattern::Fault { id, edge } => {
            vec![("event", quoted("fault")), ("id", id.to_string()), ("edge", quoted(&word(edge)))]
        }
        Pattern::Node { who, becomes } => {
            vec![("event", quoted(becomes.word())), ("node", quoted(who))]
        }
        Pattern::Message { from, to, command, leg } => {
            let mut fields =
                vec![("event", quoted(&word(leg))), ("from", quoted(from)), ("to", quoted(to))];
            fields.extend(command.as_ref().map(|command| ("command", quoted(command))));
            fields
        }
    };
    if nth != 1 {
        fields.push(("nth", nth.to_string()));
    }
    if plus != 0 {
        fields.push(("plus", quoted(&length::write(plus))));
    }
    let fields: Vec<String> =
        fields.into_iter().map(|(key, value)| format!("{key} = {value}")).collect();
    format!("{{ {} }}", fields.join(", "))
}

fn latency(latency: Latency) -> String {
    let text = |length: Nanos| quoted(&length::write(length));
    match latency {
        Latency::Constant(length) => text(length),
        Latency::Uniform { min, max } => format!("{{ uniform = [{}, {}] }}", text(min), text(max)),
        Latency::Exponential { mean } => format!("{{ exponential = {} }}", text(mean)),
        Latency::LongTail { median } => format!("{{ long_tail = {} }}", text(median)),
    }
}

/// A share in parts per million, in the notation of a scenario.
fn percent(share: u32) -> String {
    let (whole, part) = (share / 10_000, share % 10_000);
    let part = format!("{part:04}");
    match part.trim_end_matches('0') {
        "" => format!("{whole}%"),
        part => format!("{whole}.{part}%"),
    }
}

fn shift(by: i64) -> String {
    let sign = if by < 0 { "-" } else { "" };
    format!("{sign}{}", length::write(by.unsigned_abs()))
}

/// The word for a choice in plans and scenarios.
fn word(choice: &impl Serialize) -> String {
    let value = serde_json::to_value(choice).expect("a word is JSON");
    value.as_str().expect("a choice is a word").to_owned()
}

fn line(table: &str, key: &str, text: &str) -> WrittenLine {
    bare(table, key, &quoted(text))
}

fn bare(table: &str, key: &str, value: &str) -> WrittenLine {
    WrittenLine { table: table.to_owned(), key: key.to_owned(), value: value.to_owned() }
}

/// A TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
