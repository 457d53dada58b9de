//! What a remedy changes in a plan, in the notation of a scenario.

use lockstorm_platform::fault::Anchor;

use crate::plan::{Plan, is_count};
use crate::scenario::usual_end;

/// The differences between two plans, one line each: `lock.algorithm: token-lua, then fenced`.
pub fn diff(plan: &Plan, with: &Plan) -> Vec<String> {
    let flat = |plan: &Plan| {
        let value = serde_json::to_value(plan).expect("a plan is plain data");
        let mut flat = Vec::new();
        flatten("", &value, &mut flat);
        flat
    };
    let (before, after) = (flat(plan), flat(with));
    let of = |flat: &[(String, String)], path: &str| {
        flat.iter().find(|(own, _)| own == path).map_or("-".to_owned(), |(_, value)| value.clone())
    };
    let mut paths: Vec<&String> = before.iter().chain(&after).map(|(path, _)| path).collect();
    paths.sort_unstable();
    paths.dedup();
    // A scenario that sets no `until` moves the end with the lease and the heal.
    let moves_along = [plan, with].iter().all(|plan| plan.until == usual_end(plan));
    let is_silent = |path: &str| path == "name" || (path == "until" && moves_along);
    let shown = paths.into_iter().filter(|path| !is_silent(path));
    let pairs = shown.map(|path| (path, of(&before, path), of(&after, path)));
    let differing = pairs.filter(|(path, before, after)| before != after && !is_anchor(path));
    let differing =
        differing.map(|(path, before, after)| format!("{path}: {before}, then {after}"));
    differing.chain(moved(plan, with)).collect()
}

/// A figure in the notation of a scenario.
fn figure(path: &str, number: &serde_json::Number) -> String {
    if is_count(path) || path.ends_with("_per_million") || path.ends_with("_ppm") {
        return number.to_string();
    }
    match (number.as_u64(), number.as_i64()) {
        (Some(ns), _) => crate::length::write(ns),
        (None, Some(ns)) => format!("-{}", crate::length::write(ns.unsigned_abs())),
        (None, None) => number.to_string(),
    }
}

fn is_anchor(path: &str) -> bool {
    path.starts_with("faults.") && path.contains(".anchor.")
}

/// The faults that are no longer anchored to an event.
fn moved<'a>(plan: &'a Plan, with: &'a Plan) -> impl Iterator<Item = String> {
    let numbered = (1..).zip(plan.faults.iter().zip(&with.faults));
    numbered.filter_map(|(number, (before, after))| match (&before.anchor, &after.anchor) {
        (before, after) if before == after => None,
        (_, Anchor::At(at)) => {
            Some(format!("faults.{number}.at: when it did, {}", crate::length::write(*at)))
        }
        _ => Some(format!("faults.{number}.after: another event")),
    })
}

fn flatten(path: &str, value: &serde_json::Value, flat: &mut Vec<(String, String)>) {
    let below = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    match value {
        serde_json::Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| flatten(&below(name), value, flat));
        }
        serde_json::Value::Array(items) => {
            let numbered = items.iter().enumerate();
            numbered.for_each(|(at, value)| flatten(&below(&(at + 1).to_string()), value, flat));
        }
        serde_json::Value::Null => {}
        serde_json::Value::Number(number) => flat.push((path.to_owned(), figure(path, number))),
        serde_json::Value::String(text) => flat.push((path.to_owned(), text.clone())),
        other => flat.push((path.to_owned(), other.to_string())),
    }
}
