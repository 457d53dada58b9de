//! The diagnosis of a violation in sentences: how it became possible, what it broke, why, and what
//! heals it.

use lockstorm_platform::time::{Nanos, SECOND};

use crate::check::verdict::{Kind, Verdict};
use crate::explain::experiment::{Remedied, ServiceLevel};
use crate::explain::explanation::Explanation;
use crate::explain::finding::Finding;
use crate::quantity::{length, list};
use crate::report::causes;

/// The whole diagnosis, each sentence after its word.
pub fn sentences(finding: &Finding, explanation: &Explanation) -> Vec<String> {
    let how = explanation.mechanism.iter();
    let how = how.map(|how| format!("how: {} ({})", how.sentence, how.how.word()));
    let broke =
        explanation.assumptions.iter().map(|broke| match broke.strip_prefix("none broke") {
            Some(why) => format!("broke: none{why}"),
            None => format!("broke: {broke}"),
        });
    let causes = &explanation.causes;
    let why = (!causes.is_empty()).then(|| format!("why: {}", causes.join(" ")));
    let mut sentences: Vec<String> = how.chain(broke).chain(why).collect();
    for (word, sentence) in healed(finding) {
        match sentences.last_mut() {
            // A remark belongs to the remedies before it.
            Some(last) if word.is_empty() => *last = format!("{last} {sentence}"),
            _ => sentences.push(format!("{word}: {sentence}")),
        }
    }
    sentences
}

/// The remedies that were run: those that cure, that help in this run, and that leave less. Each
/// sentence has its word, a remark has none.
pub fn healed(finding: &Finding) -> Vec<(&'static str, String)> {
    let mut said = Vec::new();
    let tried = finding.experiments.iter().flat_map(|tried| &tried.remedies);
    let (healed, others): (Vec<_>, Vec<_>) =
        tried.filter(|tried| !tried.is_unknown).partition(|tried| tried.kinds.is_empty());
    // A remedy that is violated on another seed of the same plan helps only in this run, and is no
    // cure. Neither is a remedy whose fresh seeds do not differ from those of the plan without it.
    let without = finding.experiments.iter().find_map(|experiments| experiments.on_fresh);
    let cures =
        |tried: &&Remedied| without.is_some_and(|without| without.is_cured_by(tried.on_fresh));
    let (cures, helps): (Vec<_>, Vec<_>) = healed.into_iter().partition(cures);
    for (word, remedies) in [("heals", cures), ("helps", helps)] {
        for tried in remedies {
            let (name, fresh) = (&tried.name, causes::fresh_words(tried.on_fresh));
            let held = match word {
                _ if tried.on_fresh.unknown == tried.on_fresh.runs => {
                    "here; no fresh seed tests it".to_owned()
                }
                "helps" if without.is_some_and(|it| it.is_harmed_by(tried.on_fresh)) => {
                    format!("here, but on no more than {fresh} fresh seeds: fewer than without it")
                }
                "helps" => format!("here and on {fresh} fresh seeds"),
                _ => format!("on {fresh} fresh seeds"),
            };
            let price = price(finding, tried);
            said.push((word, format!("{name}; it held {held}{price}")));
        }
    }
    let has_healed = !said.is_empty();
    if let Some(without) = without.filter(|_| has_healed) {
        let fresh = causes::fresh_words(without);
        said.push(("", format!("(without any: {fresh} fresh seeds)")));
    }
    if finding.experiments.as_ref().is_some_and(|tried| tried.undone.is_empty())
        && matches!(finding.judgement.verdict, Verdict::Violated(_))
        && !has_healed
    {
        let tried = finding.experiments.iter().flat_map(|tried| &tried.remedies);
        said.push(("heals", nothing_heals(&tried.collect::<Vec<_>>())));
    }
    let own = finding.signature.as_ref().map_or(&[][..], |signature| &signature.kinds);
    let is_less = |tried: &&Remedied| {
        tried.kinds.len() < own.len() && tried.kinds.iter().all(|kind| own.contains(kind))
    };
    for tried in others.into_iter().filter(is_less) {
        let left = tried.kinds.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(", ");
        said.push(("eases", format!("{}; what is left: {left}", tried.name)));
    }
    said
}

/// A remedy is reported to cost availability if the lock is unavailable for longer by more than
/// this, ns.
const LONGER: Nanos = 5 * SECOND;

/// What a remedy costs that frees a lock which no caller could acquire: a longer time without the
/// lock.
fn price(finding: &Finding, tried: &Remedied) -> String {
    let own = ServiceLevel::of(&finding.judgement.availability).longest_unavailable;
    let (with, signature) = (tried.service.longest_unavailable, finding.signature.as_ref());
    let is_shut = signature.is_some_and(|signature| {
        [Kind::Leak, Kind::Stuck].iter().any(|kind| signature.kinds.contains(kind))
    });
    match is_shut && with > own.saturating_add(LONGER) {
        true => format!(
            ", but nobody could get the lock here for {} ({} without it)",
            length(with),
            length(own)
        ),
        false => String::new(),
    }
}

/// A sentence that no remedy heals. A remedy whose run tests nothing was not seen to fail.
fn nothing_heals(tried: &[&Remedied]) -> String {
    let unknown = tried.iter().filter(|tried| tried.is_unknown);
    let each = unknown.map(|tried| format!("{} ({})", tried.name, tried.diff.join("; ")));
    let each: Vec<String> = each.collect();
    let untested = match each.len() {
        0 => String::new(),
        some => format!("; {some} of them tested nothing: {}", list(&each)),
    };
    match (tried.len(), each.len()) {
        (0, _) => "no known remedy applies here".to_owned(),
        (1, 0) => format!("not the one remedy that was tried: {}", tried[0].name),
        (1, 1) => format!("unknown: the one remedy that was tried tested nothing: {}", each[0]),
        (all, unknown) if all == unknown => {
            format!("unknown: the {all} remedies that were tried tested nothing: {}", list(&each))
        }
        (all, _) => format!("none of the {all} remedies that were tried{untested}"),
    }
}
