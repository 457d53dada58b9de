//! Every setting of a plan that differs from its default.
//!
//! Both plans are compared as the JSON in which they are saved, so a new setting appears here
//! without a change. The meaning of a number follows from its name: counts and shares are listed
//! here, and every other number is a length in nanoseconds.

use std::collections::BTreeMap;

use lockstorm_platform::time::Nanos;
use serde_json::Value;

use crate::explain::finding::Finding;
use crate::plan::{Plan, is_count};
use crate::quantity::{length, rate, signed};
use crate::report::content::Table;
use crate::scenario;

/// Fields that have a table of their own, or that are at the end of the report.
const TOLD_ELSEWHERE: [&str; 5] = ["faults", "format", "is_drawn", "name", "seed"];

/// The settings of a finding that differ from their defaults.
pub fn table(finding: &Finding) -> Table {
    let default = scenario::default_plan(&finding.plan);
    let rows = differing(&json(&finding.plan), &json(&default));
    Table { head: vec!["setting", "value", "default"], rows }
}

fn json(plan: &Plan) -> Value {
    serde_json::to_value(plan).expect("a plan is JSON")
}

/// A row for each setting of a plan that differs from the default plan.
fn differing(plan: &Value, default: &Value) -> Vec<Vec<String>> {
    let (mut set, mut defaults) = (BTreeMap::new(), BTreeMap::new());
    flatten("", plan, &mut set);
    flatten("", default, &mut defaults);
    let mut paths: Vec<&String> = set.keys().chain(defaults.keys()).collect();
    paths.sort();
    paths.dedup();
    let is_elsewhere = |path: &str| {
        let (top, _) = path.split_once('.').unwrap_or((path, ""));
        TOLD_ELSEWHERE.contains(&top)
    };
    let of = |all: &BTreeMap<String, Value>, path: &str| all.get(path).cloned().unwrap_or_default();
    let rows = paths.into_iter().filter(|path| !is_elsewhere(path)).filter_map(|path| {
        let (value, default) = (of(&set, path), of(&defaults, path));
        let is_unset = |value: &Value| says_nothing(value);
        let differs = value != default && !(is_unset(&value) && is_unset(&default));
        differs.then(|| vec![path.clone(), words(path, &value), words(path, &default)])
    });
    rows.collect()
}

/// Whether a value is that of an unset setting.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.values().all(says_nothing),
    }
}

/// Every setting by its path. An object with one field is a choice with its figures: one setting.
fn flatten(path: &str, value: &Value, into: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) if path.is_empty() || fields.len() > 1 => {
            for (key, value) in fields {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(&path, value, into);
            }
        }
        _ => drop(into.insert(path.to_owned(), value.clone())),
    }
}

/// A value in words, by the name of its field.
fn words(path: &str, value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(flag) => if *flag { "yes" } else { "no" }.to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => figure(path, number),
        Value::Array(list) => {
            list.iter().map(|entry| words(path, entry)).collect::<Vec<_>>().join(", ")
        }
        Value::Object(fields) if fields.is_empty() => "-".to_owned(),
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| match words(key, value) {
                value if key == "constant" => value,
                value => format!("{key} {value}"),
            };
            fields.iter().map(field).collect::<Vec<_>>().join(", ")
        }
    }
}

fn figure(path: &str, number: &serde_json::Number) -> String {
    let field = path.rsplit('.').next().unwrap_or(path);
    let ns: Option<Nanos> = number.as_u64();
    match (field, ns) {
        ("loss_per_million", Some(share)) => rate(share),
        ("rate_ppm", _) => format!("{number} ppm"),
        ("wall_offset", _) => signed(number.as_i64().unwrap_or(i64::MAX)),
        (field, Some(ns)) if !is_count(field) && !path.starts_with("draws") => length(ns),
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{TOLD_ELSEWHERE, differing, flatten, json, words};
    use crate::scenario::{Scenario, default_plan};

    const WHOLE: &str = include_str!("../../tests/whole.toml");

    /// The plan that uses every table, as JSON.
    fn whole() -> Value {
        json(&Scenario::parse("whole.toml", WHOLE).unwrap().plan(7))
    }

    #[test]
    fn a_plan_of_defaults_has_no_settings() {
        let text = "name = \"plain\"\nask = \"Is nothing set?\"\n\
                    topology = { kind = \"sentinel\" }\n\
                    lock = { algorithm = \"token-lua\", ttl = \"10s\" }\n";
        let plan = Scenario::parse("plain.toml", text).unwrap().plan(7);
        let rows = differing(&json(&plan), &json(&default_plan(&plan)));
        assert_eq!(rows, [["lock.ttl", "10 s", "-"].map(str::to_owned).to_vec()]);
    }

    #[test]
    fn every_setting_that_is_changed_is_there() {
        let plan = whole();
        let mut paths = std::collections::BTreeMap::new();
        flatten("", &plan, &mut paths);
        let is_elsewhere = |path: &&String| TOLD_ELSEWHERE.iter().any(|top| path.starts_with(top));
        let paths: Vec<&String> = paths.keys().filter(|path| !is_elsewhere(path)).collect();
        assert!(paths.len() > 40, "{paths:?}");
        for path in paths {
            let mut changed = plan.clone();
            let mut place = &mut changed;
            // A name may contain dots: the longest field that matches counts.
            let mut rest = path.as_str();
            while !rest.is_empty() {
                let fields = place.as_object().expect("a path leads through objects");
                let fits =
                    |key: &&String| rest == key.as_str() || rest.starts_with(&format!("{key}."));
                let key = fields.keys().filter(fits).max_by_key(|key| key.len()).unwrap().clone();
                rest = rest[key.len()..].trim_start_matches('.');
                place = &mut place[&key];
            }
            *place = json!("something else");
            let rows = differing(&changed, &plan);
            let found = rows.iter().any(|row| row[0] == *path && row[1] == "something else");
            assert!(found, "{path}: {rows:?}");
        }
    }

    #[test]
    fn settings_read_in_their_units() {
        for (path, value, text) in [
            ("topology.min_replicas.max_lag", json!(10_000_000_000_u64), "10 s"),
            ("links.loss_per_million", json!(12_500), "1.25 %"),
            ("clocks.n1.rate_ppm", json!(-20), "-20 ppm"),
            ("clocks.n1.wall_offset", json!(-5_000_000_000_i64), "-5 s"),
            ("lock.tries", json!(1_000), "1000"),
            ("lock.fsync", json!(true), "yes"),
            ("lock.ttl", json!(null), "-"),
            ("links.latency", json!({ "constant": 2_000_000 }), "2 ms"),
        ] {
            assert_eq!(words(path, &value), text);
        }
        assert!(TOLD_ELSEWHERE.is_sorted());
    }
}
