//! Every setting of a plan that differs from its default.
//!
//! Both plans are compared as a scenario writes them. So each setting has the name under which a
//! reader can set it, and a new setting appears here without a change.

use std::collections::BTreeMap;

use toml::Value;

use crate::explain::finding::Finding;
use crate::length::{read, read_shift};
use crate::plan::Plan;
use crate::promise::Bounded;
use crate::quantity::{length, signed};
use crate::report::content::Table;
use crate::scenario;
use crate::scenario::written::settings_of;

/// Whether a setting has its own table, or is at the end of the report.
fn is_elsewhere(path: &str) -> bool {
    path == "drawn" || path.starts_with("fault:")
}

/// The settings of a finding that differ from their defaults.
pub fn table(finding: &Finding) -> Table {
    let (plan, default) = (&finding.plan, scenario::default_plan(&finding.plan));
    let mut rows = differing(&settings_of(plan), &settings_of(&default));
    rows.extend(default_timeout(finding));
    rows.extend(draws(plan));
    rows.sort();
    Table { head: vec!["setting", "value", "default"], rows }
}

/// The default timeout of the lock, if requests take too long for it.
fn default_timeout(finding: &Finding) -> Option<Vec<String>> {
    let mut broken = finding.class.iter().flat_map(|class| &class.broken);
    let leaves_none = broken.any(|broken| broken.what == Bounded::Work && broken.bound == 0);
    let is_default = leaves_none && finding.plan.lock.timeout.is_none();
    let row = || ["lock.timeout".to_owned(), "-".to_owned(), length(finding.timeout)];
    is_default.then(|| row().to_vec())
}

/// The draws that are fixed by hand, which no scenario can set.
fn draws(plan: &Plan) -> Vec<Vec<String>> {
    let json = serde_json::to_value(&plan.draws).expect("draws are JSON");
    let draws = json.as_object().into_iter().flatten();
    draws.map(|(key, draw)| vec![format!("draws.{key}"), draw.to_string(), "-".into()]).collect()
}

/// A row for each setting of a plan that differs from the default plan.
fn differing(
    plan: &BTreeMap<String, Value>,
    default: &BTreeMap<String, Value>,
) -> Vec<Vec<String>> {
    let mut paths: Vec<&String> = plan.keys().chain(default.keys()).collect();
    paths.sort();
    paths.dedup();
    let shown = paths.into_iter().filter(|path| !is_elsewhere(path));
    let rows = shown.filter_map(|path| {
        let of = |all: &BTreeMap<String, Value>| {
            all.get(path).map_or("-".to_owned(), |value| words(path, value))
        };
        let (value, default) = (of(plan), of(default));
        (value != default).then(|| vec![path.clone(), value, default])
    });
    rows.collect()
}

/// A value in words.
fn words(path: &str, value: &Value) -> String {
    match value {
        Value::Boolean(flag) => if *flag { "yes" } else { "no" }.to_owned(),
        Value::String(text) => text_words(path, text),
        Value::Integer(number) if path.ends_with(".rate_ppm") => format!("{number} ppm"),
        Value::Array(ends) => {
            ends.iter().map(|end| words(path, end)).collect::<Vec<_>>().join(" to ")
        }
        Value::Table(fields) => {
            let field = |(key, value): (&String, &Value)| format!("{key} {}", words(path, value));
            fields.iter().map(field).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// A length, a share or a word.
fn text_words(path: &str, text: &str) -> String {
    match (read(text), read_shift(text), text.strip_suffix('%')) {
        _ if text.is_empty() => "-".to_owned(),
        (_, Ok(shift), _) if path.ends_with(".wall_offset") => signed(shift),
        (Ok(ns), ..) => length(ns),
        (.., Some(share)) => format!("{share} %"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use toml::Value;

    use super::{differing, is_elsewhere, settings_of, table, words};
    use crate::explain::finding::{BrokenAssumption, Class};
    use crate::explain::fixture;
    use crate::promise::Bounded;
    use crate::scenario::{Scenario, default_plan};

    const WHOLE: &str = include_str!("../../tests/whole.toml");

    #[test]
    fn a_plan_of_defaults_has_no_settings() {
        let text = "name = \"plain\"\nask = \"Is nothing set?\"\n\
                    topology = { kind = \"sentinel\" }\n\
                    lock = { algorithm = \"token-lua\", ttl = \"10s\" }\n";
        let plan = Scenario::parse("plain.toml", text).unwrap().plan(7);
        let rows = differing(&settings_of(&plan), &settings_of(&default_plan(&plan)));
        assert_eq!(rows, [["lock.ttl", "10 s", "-"].map(str::to_owned).to_vec()]);
    }

    #[test]
    fn every_setting_that_is_changed_is_there() {
        let plan = settings_of(&Scenario::parse("whole.toml", WHOLE).unwrap().plan(7));
        let paths: Vec<&String> = plan.keys().filter(|path| !is_elsewhere(path)).collect();
        assert!(paths.len() > 40, "{paths:?}");
        for path in paths {
            let mut changed = plan.clone();
            changed.insert(path.clone(), Value::String("something else".to_owned()));
            let rows = differing(&changed, &plan);
            assert_eq!(rows.len(), 1, "{path}: {rows:?}");
            assert_eq!(rows[0][..2], [path.as_str(), "something else"], "{path}: {rows:?}");
        }
    }

    #[test]
    fn a_default_time_out_that_is_too_short_is_there() {
        let mut finding = fixture::gc_pause::finding();
        let is_there = |finding: &_| table(finding).rows.iter().any(|row| row[0] == "lock.timeout");
        assert!(!is_there(&finding));
        let broken = BrokenAssumption {
            what: Bounded::Work,
            bound: 0,
            actual: 0,
            faults: Vec::new(),
            initial: Vec::new(),
            goes: Vec::new(),
            stays: Vec::new(),
            in_run: true,
            keeps: Vec::new(),
        };
        finding.class = Some(Class { broken: vec![broken], ..Class::default() });
        let rows = table(&finding).rows;
        assert!(rows.contains(&["lock.timeout", "-", "1 s"].map(str::to_owned).to_vec()));
    }

    #[test]
    fn settings_read_in_their_units() {
        for (path, value, text) in [
            ("topology.min_replicas_lag", "'10s'", "10 s"),
            ("links.loss", "'1.25%'", "1.25 %"),
            ("clocks.n1.rate_ppm", "-20", "-20 ppm"),
            ("clocks.n1.wall_offset", "'-5s'", "-5 s"),
            ("lock.tries", "1000", "1000"),
            ("lock.fsync", "true", "yes"),
            ("topology.save", "''", "-"),
            ("topology.save", "'900 1 300 10'", "900 1 300 10"),
            ("workload.extend", "'1/2'", "1/2"),
            ("links.latency", "'2ms'", "2 ms"),
            ("links.latency", "{ uniform = ['1ms', '5ms'] }", "uniform 1 ms to 5 ms"),
            ("links.latency", "{ long_tail = '2ms' }", "long_tail 2 ms"),
        ] {
            let mut table: toml::Table = toml::from_str(&format!("value = {value}")).unwrap();
            assert_eq!(words(path, &table.remove("value").unwrap()), text);
        }
    }
}
