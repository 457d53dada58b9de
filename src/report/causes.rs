//! The experiments of a finding as tables: what is violated after each change, the thresholds, and
//! the remedies.

use crate::check::verdict::Kind;
use crate::explain::cause::{change_words, outcome_words};
use crate::explain::experiment::{Changed, Fresh, Remedied, ServiceLevel, Steady, Threshold};
use crate::explain::finding::Finding;
use crate::explain::threshold::{amount, range_words, threshold_words};
use crate::quantity::{length, thousandths};
use crate::report::content::Table;
use crate::scenario::default_heal;

/// Each change, and what is violated after it.
pub fn but_for(finding: &Finding) -> Table {
    let row = |changed: &Changed| vec![change_words(finding, changed), outcome_words(changed)];
    let experiments = finding.experiments.iter();
    let rows = experiments.flat_map(|experiments| &experiments.causes.changes).map(row).collect();
    Table { head: vec!["one thing changed", "what is violated then"], rows }
}

/// The values of figures from which the plan is violated.
pub fn thresholds(finding: &Finding) -> Table {
    let cut = finding.plan.faults.iter().filter_map(|fault| Some((fault.id, fault.length?)));
    let cut: Vec<(String, i64)> = cut
        .filter_map(|(id, length)| Some((format!("fault:{id}.for"), length.try_into().ok()?)))
        .collect();
    let row = |threshold: &Threshold| {
        let own = amount(threshold.unit, threshold.own);
        let is_cut = cut.iter().any(|(of, long)| *of == threshold.of && threshold.own < *long);
        let own = if is_cut { format!("{own}, cut by the heal") } else { own };
        vec![threshold.of.clone(), own, threshold_words(threshold)]
    };
    let steady = |steady: &Steady| {
        let none = format!("none: {}", range_words(steady));
        vec![steady.of.clone(), amount(steady.unit, steady.own), none]
    };
    let experiments = || finding.experiments.iter();
    let mut rows: Vec<Vec<String>> =
        experiments().flat_map(|experiments| &experiments.thresholds).map(row).collect();
    rows.extend(experiments().flat_map(|experiments| &experiments.steady).map(steady));
    Table { head: vec!["figure", "here", "threshold, all else equal"], rows }
}

/// The heal and the end with which the figures of all these rows were run. They are given where the
/// scenario may omit them, because an edited length would move them.
pub fn end_note(finding: &Finding) -> Option<String> {
    let (plan, tried) = (&finding.plan, finding.experiments.as_ref()?);
    let of = tried.thresholds.iter().map(|threshold| &threshold.of);
    let of: Vec<&String> = of.chain(tried.steady.iter().map(|steady| &steady.of)).collect();
    let mut notes = Vec::new();
    let is_of_fault = of.iter().any(|of| of.ends_with(".for"));
    if is_of_fault && plan.heal_at == default_heal(&plan.faults) {
        let at = length(plan.heal_at);
        notes.push(format!(
            "Where no other heal_at is named it is {at}, for every length: a scenario that sets \
             none would move it with the length."
        ));
    }
    if of.iter().any(|of| ["lock.ttl", "lock.renew_ttl"].contains(&of.as_str())) {
        let end = length(plan.until);
        notes.push(format!(
            "The run ends at {end} (until), and as much later as the longest lease is longer."
        ));
    }
    (!notes.is_empty()).then(|| notes.join(" "))
}

/// The remedies that were tried, their results and their costs. The first line is the unchanged
/// plan.
pub fn remedies(finding: &Finding) -> Table {
    let tried = finding.experiments.iter().flat_map(|experiments| &experiments.remedies);
    let mut rows: Vec<Vec<String>> = tried.map(remedy).collect();
    if !rows.is_empty() {
        let own = ServiceLevel::of(&finding.judgement.availability);
        let kinds = finding.signature.as_ref().map_or(&[][..], |signature| &signature.kinds);
        let fresh = finding.experiments.iter().find_map(|experiments| experiments.on_fresh);
        let fresh = fresh.map_or_else(|| "-".to_owned(), fresh_words);
        let none = ["none", "", &words(kinds), &fresh].map(str::to_owned).to_vec();
        rows.insert(0, [none, served(&own)].concat());
    }
    let head = vec![
        "remedy",
        "in the plan",
        "here, all else equal",
        "held on fresh seeds",
        "grants a minute",
        "wait: median, 99 %",
        "requests a grant",
        "refused",
    ];
    Table { head, rows }
}

fn remedy(tried: &Remedied) -> Vec<String> {
    let here = match (tried.is_unknown, tried.kinds.is_empty()) {
        (true, _) => "unknown".to_owned(),
        (false, true) => "held".to_owned(),
        (false, false) => words(&tried.kinds),
    };
    let fresh = fresh_words(tried.on_fresh);
    let said = vec![tried.name.clone(), tried.diff.join("; "), here, fresh];
    [said, served(&tried.service)].concat()
}

/// The number of fresh seeds on which the plan held: `50 of 50`, `12 of 50 (3 unknown)`.
pub fn fresh_words(fresh: Fresh) -> String {
    let unknown = match fresh.unknown {
        0 => String::new(),
        some => format!(" ({some} unknown)"),
    };
    format!("{} of {}{unknown}", fresh.held, fresh.runs)
}

fn served(service: &ServiceLevel) -> Vec<String> {
    let waits = [service.median_wait, service.percentile_99_wait].map(length).join(", ");
    let requests = service.requests_per_grant.map_or_else(|| "-".to_owned(), thousandths);
    let refused = format!("{} %", thousandths(u64::from(service.refused) * 100));
    vec![service.grants_per_minute.to_string(), waits, requests, refused]
}

fn words(kinds: &[Kind]) -> String {
    kinds.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(", ")
}
