//! What a remedy changes in a plan, in the notation of a scenario.

use lockstorm_platform::fault::{Anchor, Fault};

use crate::plan::Plan;
use crate::scenario::default_end;
use crate::scenario::written::settings_of;

/// The differences between two plans, one line each: `lock.algorithm: token-lua, then fenced`.
pub fn diff(plan: &Plan, with: &Plan) -> Vec<String> {
    let (before, after) = (settings_of(plan), settings_of(with));
    let mut paths: Vec<&String> = before.keys().chain(after.keys()).collect();
    paths.sort_unstable();
    paths.dedup();
    // A scenario that sets no `until` moves the end with the lease and the heal.
    let moves_along = [plan, with].iter().all(|plan| plan.until == default_end(plan));
    let is_silent = |path: &str| is_anchor(path) || (path == "until" && moves_along);
    let shown = paths.into_iter().filter(|path| !is_silent(path));
    let pairs = shown.map(|path| (path, before.get(path), after.get(path)));
    let differing = pairs.filter(|(_, before, after)| before != after);
    let differing = differing
        .map(|(path, before, after)| format!("{path}: {}, then {}", text(before), text(after)));
    differing.chain(moved(plan, with)).collect()
}

/// A value in the notation of a scenario, without quotes.
fn text(value: Option<&toml::Value>) -> String {
    match value {
        None => "-".to_owned(),
        Some(toml::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn is_anchor(path: &str) -> bool {
    path.starts_with("fault:") && (path.ends_with(".at") || path.ends_with(".after"))
}

/// The faults that are no longer anchored to an event.
fn moved<'a>(plan: &'a Plan, with: &'a Plan) -> impl Iterator<Item = String> {
    let pair = |before: &'a Fault| {
        let after = with.faults.iter().find(|after| after.id == before.id)?;
        Some((before.id, &before.anchor, &after.anchor))
    };
    plan.faults.iter().filter_map(pair).filter_map(|(id, before, after)| match (before, after) {
        (before, after) if before == after => None,
        (_, Anchor::At(at)) => {
            Some(format!("fault:{id}.at: when it did, {}", crate::length::write(*at)))
        }
        _ => Some(format!("fault:{id}.after: another event")),
    })
}
