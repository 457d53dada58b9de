//! Everything that a report needs about one plan: it is run, judged, classified, and compared with
//! the expectation of its scenario.

use lockstorm_platform::time::Nanos;

use crate::check::case::Case;
use crate::check::idle;
use crate::check::judge::Judgement;
use crate::check::signature::Signature;
use crate::check::verdict::{Kind, Verdict};
use crate::explain::experiment::{Causes, Cut, Experiments, Threshold};
use crate::explain::finding::{BrokenAssumption, Class, Expected, Finding};
use crate::explain::mechanism::by_kind::mechanism;
use crate::explain::mechanism::how::{How, Mechanism};
use crate::explain::witness::{Witness, violations};
use crate::explore::budget::{Budget, Spending};
use crate::explore::cause::causes;
use crate::explore::class::classify_in;
use crate::explore::knob::{Knob, knobs, knobs_of, turned};
use crate::explore::other_effect::other_effects;
use crate::explore::remedy::{self, on_fresh, remedies};
use crate::explore::rerun::Reruns;
use crate::explore::threshold::{Located, thresholds};
use crate::explore::trial::{Trial, attempt, calm};
use crate::ledger::part::{Part, Strikes, strikes};
use crate::plan::Plan;
use crate::promise::Bounded;
use crate::promise::contract::Clause;
use crate::reading::hold;
use crate::run::Lab;
use crate::scenario::Scenario;
use crate::scenario::expectation::{self, Fulfilled};

/// The maximum number of violations of one kind of which the mechanism is looked for.
const MAX_WAYS: usize = 16;

/// Runs the plan of a scenario and a seed, and explains it.
pub fn scenario(lab: &Lab, scenario: &Scenario, seed: u64) -> Finding {
    let finding = explained(lab, None, &scenario.healed(seed), unexplained(lab, scenario, seed));
    with_margins(lab, None, finding)
}

/// Like [`scenario`], without reruns to explain it.
pub fn unexplained(lab: &Lab, scenario: &Scenario, seed: u64) -> Finding {
    with_calm(lab, judged(lab, scenario, seed))
}

/// Like [`unexplained`], without the grants of the plan without faults, which need another run: for
/// callers that need only the verdict.
pub fn judged(lab: &Lab, scenario: &Scenario, seed: u64) -> Finding {
    let mut finding = classified(lab, &scenario.plan(seed));
    let met = met(scenario, &finding);
    finding.file.clone_from(&scenario.file);
    finding.ask.clone_from(&scenario.ask);
    finding.note = scenario.note.clone().unwrap_or_default();
    finding.expected = Some(Expected {
        met: met == Fulfilled::Yes,
        text: scenario.expect.held_against(&finding.judgement),
    });
    finding
}

/// Runs a plan without an expectation.
pub fn plan(lab: &Lab, plan: &Plan) -> Finding {
    explained(lab, None, &[], unexplained_plan(lab, plan))
}

/// Like [`plan`], without reruns to explain it.
pub fn unexplained_plan(lab: &Lab, plan: &Plan) -> Finding {
    with_calm(lab, classified(lab, plan))
}

/// Like [`unexplained_plan`], without the grants of the plan without faults.
pub fn classified(lab: &Lab, plan: &Plan) -> Finding {
    let trial = attempt(lab, plan);
    let quick = lab.quick(plan);
    let class = trial.is_violated().then(|| classify_in(&mut Reruns::new(&quick), plan, &trial));
    without_calm(lab, plan, trial, class)
}

/// The finding of a run that cannot be repeated: without reruns to explain it.
pub fn once(lab: &Lab, plan: &Plan, trial: Trial) -> Finding {
    with_calm(lab, without_calm(lab, plan, trial, None))
}

/// The finding of a finished trial.
pub fn finding(
    lab: &Lab,
    budget: Option<Budget>,
    plan: &Plan,
    trial: Trial,
    class: Class,
) -> Finding {
    explained(lab, budget, &[], unexplained_trial(lab, plan, trial, class))
}

/// The finding of a finished trial, without reruns to explain it.
pub fn unexplained_trial(lab: &Lab, plan: &Plan, trial: Trial, class: Class) -> Finding {
    with_calm(lab, without_calm(lab, plan, trial, Some(class)))
}

/// Adds the reruns that explain a violation, if there is one. The causes are always searched;
/// thresholds and remedies are searched as far as the budget allows. `named` are the plans declared
/// as remedies; others follow from the mechanism.
pub fn explained(
    lab: &Lab,
    budget: Option<Budget>,
    named: &[Plan],
    mut finding: Finding,
) -> Finding {
    let Some(kind) = repeatable(&finding) else { return finding };
    let (plan, lab) = (&finding.plan, &for_experiments(lab, &finding));
    let spending = Spending::of(budget);
    spending.begin("what made the difference");
    let mut reruns = Reruns::new(lab);
    let causes = causes_of(&mut reruns, &finding, kind);
    let struck = strikes(&finding.history);
    let own = finding.signature.as_ref().filter(|_| !causes.idle.is_empty());
    let other_effects = own.and_then(|own| {
        let name = "what else the other faults do";
        spending.within(name, || other_effects(&mut reruns, (plan, &struck), own, &causes.idle))
    });
    let knobs = knobs_of(lab, plan, &causes.acting());
    let found = thresholds(lab, plan, &struck, true, &knobs, &spending);
    let runs = reruns.count + found.iter().map(|(.., runs)| runs).sum::<u32>();
    let (mut thresholds, mut steady) = (Vec::new(), Vec::new());
    for (knob, found, _) in found {
        match found {
            Located::Thresholds(found) => {
                thresholds.extend(with_bounds(finding.class.as_ref(), &knob, found));
            }
            // A reader wants this for the figures of the faults and for the lease only.
            Located::Everywhere(_) if knob.is_of_setup() && knob != Knob::Set("lock.ttl") => {}
            Located::Everywhere(found) => steady.push(found),
        }
    }
    let how = |finding: &Finding| {
        mechanism(&Witness::of(finding)).map_or(How::Unclear, |found| found.how)
    };
    // The runs beside a threshold have no experiments either: their mechanism compares with this
    // one.
    let untried = how(&finding);
    let experiments = Experiments { causes: causes.clone(), ..Experiments::default() };
    finding.experiments = Some(experiments.clone());
    let (headline, without_idle) = typical(&mut reruns, &finding, kind, &causes.idle);
    let experiments = Experiments { headline, without_idle, ..experiments };
    finding.experiments = Some(experiments.clone());
    let how = how(&finding);
    for threshold in &mut thresholds {
        let found = instead(lab, (plan, &struck), threshold, (kind, &[untried, how]));
        threshold.instead = found.unwrap_or_default();
    }
    let acting = causes.acting();
    let longest_hold = longest_hold(&finding);
    let lease = remedy::lease::lease_that_holds(&thresholds);
    let acting = &acting;
    let (lock, struck, timeout) = (lab.algorithm(plan), &struck, finding.timeout);
    let violated = remedy::ViolatedRun { lock, struck, how, acting, longest_hold, lease, timeout };
    let remedies = remedies(lab, (plan, &violated), named, &spending);
    let on_fresh = (!remedies.is_empty()).then(|| on_fresh(lab, plan));
    let fresh = remedies.iter().map(|remedied| remedied.on_fresh.runs + 1).sum::<u32>();
    let runs = runs + fresh + on_fresh.map_or(0, |fresh| fresh.runs);
    let other_effects = other_effects.unwrap_or_default();
    finding.experiments = Some(Experiments {
        other_effects,
        thresholds,
        steady,
        remedies,
        on_fresh,
        runs,
        is_stopped: spending.cut() == Some(Cut::Stopped),
        undone: spending.undone(),
        ..experiments
    });
    finding
}

/// Adds only the reruns on which its mechanism rests, for a finding of which no more is told.
pub fn caused(lab: &Lab, mut finding: Finding) -> Finding {
    let Some(kind) = repeatable(&finding) else { return finding };
    let lab = &for_experiments(lab, &finding);
    let mut reruns = Reruns::new(lab);
    let causes = causes_of(&mut reruns, &finding, kind);
    let experiments = Experiments { causes, ..Experiments::default() };
    finding.experiments = Some(experiments.clone());
    let idle = &experiments.causes.idle;
    let (headline, without_idle) = typical(&mut reruns, &finding, kind, idle);
    finding.experiments = Some(Experiments { headline, without_idle, ..experiments });
    finding
}

/// The kind of the first violation, unless the plan's runs differ each time.
fn repeatable(finding: &Finding) -> Option<Kind> {
    let mut breaches = finding.history.breaches.iter();
    let differs = breaches.any(|breach| breach.clause == Clause::Repeatable);
    violations(&finding.judgement.verdict).first().filter(|_| !differs).map(|first| first.kind)
}

/// What made the difference to the violations of a kind.
fn causes_of(reruns: &mut Reruns, finding: &Finding, kind: Kind) -> Causes {
    let shown = finding.class.as_ref().filter(|class| class.in_model.contains(&kind));
    let spared = shown.map_or(&[][..], |class| &class.without);
    causes(reruns, &finding.plan, &finding.history, (kind, spared))
}

/// The first violation of this kind that comes about as without these parts, which make no
/// difference to the kind. If none does, also how one comes about without them.
fn typical(
    reruns: &mut Reruns,
    finding: &Finding,
    kind: Kind,
    idle: &[Part],
) -> (usize, Option<String>) {
    let struck = strikes(&finding.history);
    let out = idle.iter().copied().collect();
    let plan = reruns.plan_without(&finding.plan, &out, &struck);
    if idle.is_empty() || !reruns.outcome(&plan).kinds.contains(&kind) {
        return (0, None);
    }
    let (lab, experiments) = (reruns.lab(), finding.experiments.clone());
    reruns.count += 1;
    let less = without_calm(lab, &plan, attempt(lab, &plan), None);
    let less = Finding { experiments, ..less };
    let others: Vec<Mechanism> = ways(&less, kind).map(|(_, way)| way).collect();
    let is_typical = |way: &Mechanism| others.iter().any(|other| other.how == way.how);
    match ways(finding, kind).find(|(_, way)| is_typical(way)) {
        Some((index, _)) => (index, None),
        None => (0, others.first().map(|way| way.sentence.clone())),
    }
}

/// The first violations of a kind, each by its place, and how each came about, if that is known.
fn ways(finding: &Finding, kind: Kind) -> impl Iterator<Item = (usize, Mechanism)> {
    let all = violations(&finding.judgement.verdict).iter().enumerate();
    let of_kind = all.filter(move |(_, violation)| violation.kind == kind).take(MAX_WAYS);
    let way = |(index, _)| Some((index, mechanism(&Witness::at(finding, index))?));
    of_kind.filter_map(way).filter(|(_, way)| way.how != How::Unclear)
}

/// For a plan that holds: the value of each fault's figure from which it no longer holds, up to 256
/// times the current one.
pub fn with_margins(lab: &Lab, budget: Option<Budget>, mut finding: Finding) -> Finding {
    let plan = &finding.plan;
    if finding.judgement.verdict != Verdict::Holds {
        return finding;
    }
    let lab = &for_experiments(lab, &finding);
    let spending = Spending::of(budget);
    let mut knobs = knobs(lab, plan);
    knobs.retain(|knob| !knob.is_of_setup());
    if knobs.is_empty() {
        return finding;
    }
    let found = thresholds(lab, plan, &strikes(&finding.history), false, &knobs, &spending);
    let runs = found.iter().map(|(.., runs)| runs).sum();
    let nearest = |threshold: &Threshold| {
        threshold.breaks.saturating_abs().saturating_mul(1_000)
            / threshold.own.checked_abs().unwrap_or(1).max(1)
    };
    let struck = strikes(&finding.history);
    let (mut thresholds, mut steady) = (Vec::new(), Vec::new());
    for (knob, found, _) in found {
        match found {
            Located::Thresholds(found) => {
                thresholds.extend(with_bounds_there(lab, (plan, &struck), &knob, found));
            }
            Located::Everywhere(found) => steady.push(found),
        }
    }
    thresholds.sort_by_key(nearest);
    let undone = spending.undone();
    let experiments = Experiments { thresholds, steady, runs, undone, ..Experiments::default() };
    finding.experiments = Some(experiments);
    finding
}

/// The lab for experiments with the plan of a finding.
fn for_experiments(lab: &Lab, finding: &Finding) -> Lab {
    let terms = lab.terms(&finding.plan);
    let idle = idle::faults(&Case::new(&finding.history, &terms));
    lab.quick(&finding.plan).excusing(idle)
}

/// The thresholds of these knobs of a plan, each by its name; the finding if the verdict of its run
/// is unknown.
pub fn thresholds_of(
    lab: &Lab,
    plan: &Plan,
    knobs: &[Knob],
) -> Result<Vec<(String, Located)>, Box<Finding>> {
    let finding = classified(lab, plan);
    let is_violated = match finding.judgement.verdict {
        Verdict::Violated(_) => true,
        Verdict::Holds => false,
        Verdict::Unknown(_) => return Err(Box::new(with_calm(lab, finding))),
    };
    let lab = &for_experiments(lab, &finding);
    let all = Spending::of(None);
    let struck = strikes(&finding.history);
    let found = thresholds(lab, plan, &struck, is_violated, knobs, &all);
    let kind = violations(&finding.judgement.verdict).first().map(|violation| violation.kind);
    let how = mechanism(&Witness::of(&finding)).map_or(How::Unclear, |found| found.how);
    let class = finding.class.clone();
    let named = found.into_iter().map(|(knob, found, _)| {
        let found = match found {
            Located::Thresholds(mut found) => {
                for threshold in &mut found {
                    let other = kind
                        .and_then(|kind| instead(lab, (plan, &struck), threshold, (kind, &[how])));
                    threshold.instead = other.unwrap_or_default();
                }
                Located::Thresholds(match &class {
                    Some(class) => with_bounds(Some(class), &knob, found).collect(),
                    None => with_bounds_there(lab, (plan, &struck), &knob, found),
                })
            }
            everywhere => everywhere,
        };
        (knob.name(plan), found)
    });
    Ok(named.collect())
}

/// What is violated next to a threshold, or by which mechanism, if that differs from the plan's own
/// violation.
fn instead(
    lab: &Lab,
    (plan, struck): (&Plan, &Strikes),
    threshold: &Threshold,
    (kind, hows): (Kind, &[How]),
) -> Option<String> {
    let knob = knobs(lab, plan).into_iter().find(|knob| knob.name(plan) == threshold.of)?;
    let plan = breaking(lab, (plan, struck), &knob, threshold)?;
    let finding = without_calm(lab, &plan, attempt(lab, &plan), None);
    let kinds = Signature::of(&finding.judgement.verdict).kinds;
    if !kinds.contains(&kind) {
        return Some(kinds.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(", "));
    }
    let other = mechanism(&Witness::of(&finding))?.how;
    (!hows.contains(&other)).then(|| other.word())
}

/// The plan with the breaking value of a threshold, and with the heal that this value needs.
fn breaking(
    lab: &Lab,
    (plan, struck): (&Plan, &Strikes),
    knob: &Knob,
    threshold: &Threshold,
) -> Option<Plan> {
    let mut plan = plan.clone();
    if let Some(later) = threshold.later {
        (plan.heal_at, plan.until) = (later.heal_at, later.until);
    }
    turned(lab, (&plan, struck), knob, threshold.breaks)
}

/// The maximum time from the call of an acquire to the end of its hold, if the caller ended it.
fn longest_hold(finding: &Finding) -> Nanos {
    let witness = Witness::of(finding);
    let reading = &witness.reading;
    let is_over = |hold: &&hold::Hold| {
        matches!(hold.ended, hold::HoldEnd::Released(_) | hold::HoldEnd::Lost(_))
    };
    let lasted = reading
        .holds
        .iter()
        .filter(is_over)
        .filter_map(|hold| Some(hold.end.at.saturating_sub(reading.op(hold.grant)?.call.at)));
    lasted.max().unwrap_or(0)
}

/// Thresholds with the bound that the lock's promise gives for the figure. It is a maximum if
/// larger values break, and a minimum if smaller ones do, as for a downtime.
fn with_bounds(
    class: Option<&Class>,
    knob: &Knob,
    found: Vec<Threshold>,
) -> impl Iterator<Item = Threshold> {
    let bound = class.and_then(|class| bound(class, knob));
    found.into_iter().map(move |threshold| {
        let is_least = threshold.holds > threshold.breaks;
        // If the figure breaks it while within the bound, the promise is about more than this
        // figure.
        let is_about = |bound: i64| match is_least {
            true => threshold.breaks < bound,
            false => threshold.breaks.saturating_abs() > bound,
        };
        let bound = bound.filter(|(bound, least)| *least == is_least && is_about(*bound));
        let bound = bound.map(|(bound, _)| bound);
        Threshold { bound, ..threshold }
    })
}

/// Thresholds with their bounds for a plan that holds: the bound is that of the run with the value
/// that breaks.
fn with_bounds_there(
    lab: &Lab,
    (plan, struck): (&Plan, &Strikes),
    knob: &Knob,
    found: Vec<Threshold>,
) -> Vec<Threshold> {
    let bounded = |threshold: Threshold| {
        let class = breaking(lab, (plan, struck), knob, &threshold).map(|plan| {
            let trial = attempt(lab, &plan);
            classify_in(&mut Reruns::new(lab), &plan, &trial)
        });
        with_bounds(class.as_ref(), knob, vec![threshold]).collect::<Vec<_>>()
    };
    found.into_iter().flat_map(bounded).collect()
}

/// The bound of a figure by the lock's promise, if the figure breached it, and whether it is a
/// minimum.
fn bound(class: &Class, knob: &Knob) -> Option<(i64, bool)> {
    let speaks = |broken: &&BrokenAssumption| match (knob, broken.what) {
        (Knob::Lasts(id), Bounded::ClientPause | Bounded::HoldPause | Bounded::AmnesiacRestart)
        | (Knob::Figure(id), Bounded::NodeClockStep | Bounded::ClientClockStep)
        | (Knob::Figure(id), Bounded::Drift) => broken.faults == [*id],
        (Knob::Offset(_), Bounded::Skew) => broken.initial == [Part::Offsets],
        (Knob::Rate(_), Bounded::Drift) => broken.initial == [Part::Clocks],
        // A bound of zero means that requests leave nothing of the lease: no work has that length.
        (Knob::Set("workload.hold"), Bounded::Work) => broken.bound > 0,
        _ => false,
    };
    let broken = class.broken.iter().find(speaks)?;
    Some((broken.bound.try_into().ok()?, broken.what == Bounded::AmnesiacRestart))
}

/// Adds the number of grants that the plan gives without faults, in total and per minute.
fn with_calm(lab: &Lab, mut finding: Finding) -> Finding {
    let Judgement { counts, availability, .. } = &mut finding.judgement;
    let (grants, per_minute) = match finding.plan.faults[..] {
        [] => (counts.grants, availability.grants_per_minute),
        _ => {
            let calm = calm(lab, &finding.plan);
            (calm.counts.grants, calm.availability.grants_per_minute)
        }
    };
    counts.grants_without_faults = Some(grants);
    availability.grants_per_minute_without_faults = Some(per_minute);
    finding
}

fn without_calm(lab: &Lab, plan: &Plan, trial: Trial, class: Option<Class>) -> Finding {
    let signature = class.as_ref().map(|class| trial.signature(class));
    let mut finding = Finding {
        scenario: plan.name.clone(),
        file: String::new(),
        ask: String::new(),
        note: String::new(),
        seed: plan.seed,
        strategy: String::new(),
        is_shrunk: false,
        plan: plan.clone(),
        plan_hash: plan.digest(),
        trace_hash: trial.run.trace.to_string(),
        records: trial.run.trace.records,
        engine: lab.engine.word().to_owned(),
        history: trial.run.history,
        judgement: trial.judgement,
        promise: lab.promise(plan),
        timeout: lab.timeout(plan),
        breaches: trial.breaches,
        class,
        signature,
        experiments: None,
        expected: None,
    };
    if finding.signature.is_some() {
        let how = mechanism(&Witness::of(&finding)).map(|found| found.how.word());
        finding.signature.iter_mut().for_each(|signature| signature.mechanism = how.clone());
    }
    finding
}

/// The mechanism of a trial's violation, from its history alone: without the class, which needs
/// more runs.
pub fn how(lab: &Lab, plan: &Plan, trial: Trial) -> How {
    let finding = without_calm(lab, plan, trial, None);
    mechanism(&Witness::of(&finding)).map_or(How::Unclear, |found| found.how)
}

/// The signature of a trial's violation.
pub fn signature(lab: &Lab, plan: &Plan, trial: &Trial, class: &Class) -> Signature {
    let finding = without_calm(lab, plan, trial.clone(), Some(class.clone()));
    finding.signature.expect("what was classified has a signature")
}

/// Whether a finding meets the expectation of its scenario.
pub fn met(scenario: &Scenario, finding: &Finding) -> Fulfilled {
    scenario.expect.met_by(&finding.judgement, word(finding))
}

/// The class of a finding without its evidence.
pub fn word(finding: &Finding) -> Option<expectation::ExpectedClass> {
    finding.class.as_ref().map(|class| match class.is_in_model() {
        true => expectation::ExpectedClass::InModel,
        false => expectation::ExpectedClass::OutOfModel,
    })
}
