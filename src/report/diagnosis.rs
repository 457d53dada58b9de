//! The diagnosis of a violation in sentences: how it became possible, what it broke, why, and what
//! heals it.

use lockstorm_platform::time::{Nanos, SECOND};

use crate::check::verdict::{Kind, Verdict};
use crate::explain::experiment::{Fresh, Remedied, ServiceLevel};
use crate::explain::explanation::Explanation;
use crate::explain::finding::Finding;
use crate::quantity::{length, list};
use crate::report::causes;

/// The whole diagnosis, each sentence after its word.
pub fn sentences(finding: &Finding, explanation: &Explanation) -> Vec<String> {
    let how = explanation.mechanism.iter();
    let how = how.map(|how| format!("how: {} ({})", how.sentence, how.how.word()));
    let broke = explanation.assumptions.iter().map(|broke| format!("broke: {broke}"));
    let causes = &explanation.causes;
    let why = (!causes.is_empty()).then(|| format!("why: {}", causes.join(" ")));
    let mut sentences: Vec<String> = how.chain(broke).chain(why).collect();
    for (effect, sentence) in healed(finding) {
        match (effect.word(), sentences.last_mut()) {
            (Some(word), _) => sentences.push(format!("{word}: {sentence}")),
            // A remark belongs to the remedies before it.
            (None, Some(last)) => *last = format!("{last} {sentence}"),
            (None, None) => sentences.push(sentence),
        }
    }
    sentences
}

/// What a sentence says of the remedies that were run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// One cures, or none does.
    Heals,
    /// One helps in this run.
    Helps,
    /// One leaves less.
    Eases,
    /// What the remedies before it compare with.
    Remark,
}

impl Effect {
    /// Its word; a remark has none.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Effect::Heals => Some("heals"),
            Effect::Helps => Some("helps"),
            Effect::Eases => Some("eases"),
            Effect::Remark => None,
        }
    }
}

/// The remedies that were run: those that cure, that help in this run, and that leave less.
pub fn healed(finding: &Finding) -> Vec<(Effect, String)> {
    let tried = finding.experiments.iter().flat_map(|tried| &tried.remedies);
    let (healed, others): (Vec<_>, Vec<_>) =
        tried.filter(|tried| !tried.is_unknown).partition(|tried| tried.kinds.is_empty());
    let mut said = with_nothing_left(finding, healed);
    if said.is_empty() {
        said.extend(nothing_heals(finding));
    }
    said.extend(eased(finding, others));
    said
}

/// The remedies with which the plan is not violated, and what they compare with. A remedy that is
/// violated on another seed of the same plan helps only in this run, and is no cure. Neither is a
/// remedy whose fresh seeds do not differ from those of the plan without it.
fn with_nothing_left(finding: &Finding, healed: Vec<&Remedied>) -> Vec<(Effect, String)> {
    let without = finding.experiments.iter().find_map(|experiments| experiments.on_fresh);
    let cures =
        |tried: &&Remedied| without.is_some_and(|without| without.is_cured_by(tried.on_fresh));
    let (cures, helps): (Vec<_>, Vec<_>) = healed.into_iter().partition(cures);
    let mut said = Vec::new();
    for (effect, remedies) in [(Effect::Heals, cures), (Effect::Helps, helps)] {
        for tried in remedies {
            let held = held(effect, without, tried.on_fresh);
            let price = price(finding, tried);
            said.push((effect, format!("{}; it held {held}{price}", tried.name)));
        }
    }
    if let Some(without) = without.filter(|_| !said.is_empty()) {
        let fresh = causes::fresh_words(without);
        said.push((Effect::Remark, format!("(without any: {fresh} fresh seeds)")));
    }
    said
}

/// Where a remedy held: a cure is only worth its fresh seeds.
fn held(effect: Effect, without: Option<Fresh>, with: Fresh) -> String {
    let fresh = causes::fresh_words(with);
    match effect {
        _ if with.unknown == with.runs => "here; no fresh seed tests it".to_owned(),
        Effect::Helps if without.is_some_and(|without| without.is_harmed_by(with)) => {
            format!("here, but on no more than {fresh} fresh seeds: fewer than without it")
        }
        Effect::Helps => format!("here and on {fresh} fresh seeds"),
        _ => format!("on {fresh} fresh seeds"),
    }
}

/// The remedies that leave some of the violations, and add none.
fn eased(finding: &Finding, others: Vec<&Remedied>) -> impl Iterator<Item = (Effect, String)> {
    let own = finding.signature.as_ref().map_or(&[][..], |signature| &signature.kinds);
    let is_less = |tried: &&Remedied| {
        tried.kinds.len() < own.len() && tried.kinds.iter().all(|kind| own.contains(kind))
    };
    others.into_iter().filter(is_less).map(|tried| {
        let left = tried.kinds.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(", ");
        (Effect::Eases, format!("{}; what is left: {left}", tried.name))
    })
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

/// That no remedy heals, if a violated plan was tried with all of them.
fn nothing_heals(finding: &Finding) -> Option<(Effect, String)> {
    let experiments = finding.experiments.as_ref()?;
    let is_violated = matches!(finding.judgement.verdict, Verdict::Violated(_));
    let tried: Vec<&Remedied> = experiments.remedies.iter().collect();
    (experiments.undone.is_empty() && is_violated).then(|| (Effect::Heals, tried_in_vain(&tried)))
}

/// A sentence that no remedy heals. A remedy whose run tests nothing was not seen to fail.
fn tried_in_vain(tried: &[&Remedied]) -> String {
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
