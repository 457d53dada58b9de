//! Writes a plan as text, and reads it back. The text is stable: equal plans have equal bytes.

use lockstorm_platform::trace::hash_of;
use serde::Deserialize;

use crate::lock::catalogue::Locks;
use crate::plan::{FORMAT, Plan, WorkloadKind};
use crate::refusal::{Place, Refusal};

/// The part that is read first, to check whether this is a plan at all.
#[derive(Deserialize)]
struct Head {
    format: u64,
}

impl Plan {
    /// The plan as readable JSON, with a line break at its end.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("a plan is plain data");
        text + "\n"
    }

    /// Sixteen hexadecimal digits that identify the whole plan.
    pub fn digest(&self) -> String {
        format!("{:016x}", hash_of(self.to_json().as_bytes()))
    }

    /// Reads a plan; refuses other files, plans of another version, and contradictory plans. `name`
    /// is the file's name, for the refusal.
    pub fn from_json(name: &str, text: &str) -> Result<Plan, Refusal> {
        Plan::from_json_with(&Locks::default(), name, text)
    }

    /// Like [`Plan::from_json`]; the plan may name each of `locks`.
    pub fn from_json_with(locks: &Locks, name: &str, text: &str) -> Result<Plan, Refusal> {
        let refuse = |refusal: Refusal| refusal.in_file(name, text);
        let head: Head =
            serde_json::from_str(text).map_err(|error| refuse(no_head(name, text, &error)))?;
        if head.format != u64::from(FORMAT) {
            return Err(refuse(another_version(text, head.format)));
        }
        let plan: Plan =
            serde_json::from_str(text).map_err(|error| refuse(no_plan(text, &error)))?;
        plan.validate_with(locks).map_err(|refusal| {
            let what = match &refusal.place {
                Place::Field(path) => format!("{path}: {}", refusal.what),
                Place::Whole | Place::Bytes(_) => refusal.what,
            };
            let start = text.find('{').unwrap_or(0);
            let refusal = Refusal::at(start..start + 1, what, refusal.instead);
            // The command line has the catalogue only.
            let own = format!("a lock of your own: lockstorm::test::replay(\"{name}\").lock(...)");
            let work = format!(
                "a workload of your own: lockstorm::test::replay(\"{name}\").workload(...)"
            );
            let is_own = matches!(plan.workload.kind, WorkloadKind::Own(_));
            let is_known = locks.find(&plan.lock.algorithm).is_some();
            refuse(match (is_known, is_own) {
                (false, _) => refusal.help(own),
                (true, true) => refusal.help(work),
                (true, false) => refusal,
            })
        })?;
        Ok(plan)
    }
}

/// Sixteen hexadecimal digits that identify several plans in their order.
pub fn digest_of<'a>(plans: impl Iterator<Item = &'a Plan>) -> String {
    let digests: String = plans.map(Plan::digest).collect();
    format!("{:016x}", hash_of(digests.as_bytes()))
}

fn another_version(text: &str, format: u64) -> Refusal {
    let start = text.find("\"format\"").unwrap_or(0);
    let what = format!(
        "this plan was written by another version: format {format}, this version reads {FORMAT}"
    );
    let label = "run it with the version that wrote it, or run its scenario again";
    Refusal::at(start..start + "\"format\"".len(), what, label)
}

/// The refusal of a file that is not a plan: a scenario, the report of a finding, or anything else.
fn no_head(name: &str, text: &str, error: &serde_json::Error) -> Refusal {
    let refusal = no_plan(text, error);
    let is_report = text.trim_start().starts_with('{') && text.contains("\"written_by\"");
    match name.rsplit_once('.') {
        Some((_, "toml")) => refusal.help(format!("'lockstorm run {name}' runs a scenario")),
        Some((_, "jsonl")) => refusal
            .help(format!("if it is the log of a shard, 'lockstorm merge {name}' reports it")),
        Some((stem, "json")) if is_report => {
            refusal.help(format!("it is a report; its plan is '{stem}.plan.json', beside it"))
        }
        _ => refusal,
    }
}

/// The refusal of a broken plan, at the place that serde_json reports, as bytes of the text.
fn no_plan(text: &str, error: &serde_json::Error) -> Refusal {
    let before: usize =
        text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let at = before + error.column().saturating_sub(1);
    let said = error.to_string();
    let said = said.split(" at line ").next().unwrap_or_default();
    Refusal::at(at..at + 1, "this is not a plan that lockstorm wrote", "here").help(said)
}
