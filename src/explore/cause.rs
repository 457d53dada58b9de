//! What made the difference to a violation, found by trial: the plan is run again without single
//! parts and without several together, and with the remaining faults halved, doubled and moved.
//! [`crate::explain::experiment`] defines the words.

use lockstorm_platform::fault::verbs::Figure;
use lockstorm_platform::fault::{Anchor, Fault};
use lockstorm_platform::time::{MILLISECOND, Nanos};

use crate::check::verdict::Kind;
use crate::explain::experiment::{Causes, Changed, LaterHeal, PlanChange};
use crate::explore::knob::with_later_heal;
use crate::explore::rerun::{Reruns, RunOutcome};
use crate::explore::sufficient::{Found, find};
use crate::history::History;
use crate::ledger::part::{
    Part, Parts, Strikes, in_time, lasts, single_parts_of, strikes, without,
};
use crate::plan::Plan;

/// The time by which a fault is moved.
const SHIFT: Nanos = 500 * MILLISECOND;

/// What made the difference to a violation of the kind `kind` in the run of a plan with this
/// history. The class has found that the kind occurs without the parts `spared`; none if it has not
/// found that.
pub fn causes(
    reruns: &mut Reruns,
    plan: &Plan,
    history: &History,
    (kind, spared): (Kind, &[Part]),
) -> Causes {
    let lab = reruns.lab();
    let usually = lab.default_timeout(plan);
    let parts = single_parts_of(plan, &lab.promise(plan), usually);
    let struck = strikes(history);
    let mut trials = Trials { reruns, plan, kind, struck };
    let can_go = |part: &Part| {
        let out = PlanChange::Without(*part);
        trials.is_possible(out, &trials.plan_without(&[*part].into()))
    };
    let parts: Vec<Part> = parts.into_iter().filter(can_go).collect();
    let (mut parts, untested) = trials.tested(parts);
    let others = untested.into_iter().map(|part| in_time(plan, part, usually)).collect();
    let (others, untested) = trials.tested(others);
    parts.extend(others);
    parts.sort_unstable();
    let is_spared = |part: &Part| spared.iter().any(|spared| spared.includes(*part));
    let spared: Parts = parts.iter().copied().filter(is_spared).collect();
    let Found { necessary, sufficient, needed_here, may_be_more } =
        find(&parts, &spared, &mut |outs| trials.that_are_there(outs));
    let mut causes =
        Causes { necessary, sufficient, needed_here, may_be_more, ..Causes::default() };
    let acting = causes.acting();
    let is_idle = |part: &Part| !acting.contains(part) && !causes.needed_here.contains(part);
    causes.idle = parts.into_iter().filter(is_idle).collect();
    causes.untested = untested;
    causes.changes = trials.changes(&acting);
    causes
}

struct Trials<'a, 'b> {
    reruns: &'a mut Reruns<'b>,
    plan: &'a Plan,
    kind: Kind,
    struck: Strikes,
}

impl Trials<'_, '_> {
    fn plan_without(&self, out: &Parts) -> Plan {
        without(self.plan, out, &self.struck)
    }

    /// Whether a change can be tried. A setting can be changed if the plan stays valid. A fault can
    /// always be removed, even if what remains is a command that no user would write, such as a
    /// failover of the only master.
    fn is_possible(&self, change: PlanChange, plan: &Plan) -> bool {
        matches!(change, PlanChange::Without(part) if part.fault().is_some())
            || plan.validate_with(&self.reruns.lab().locks).is_ok()
    }

    /// Whether a run tested nothing: it did not show the violation, and nobody was granted the
    /// lock, unlike in the run of the plan.
    fn is_untested(&mut self, outcome: &RunOutcome) -> bool {
        let is_there = outcome.kinds.contains(&self.kind);
        !is_there && outcome.grants == 0 && self.reruns.outcome(self.plan).grants > 0
    }

    /// The parts whose removal tests something, and the others.
    fn tested(&mut self, parts: Vec<Part>) -> (Vec<Part>, Vec<Part>) {
        let plans: Vec<Plan> =
            parts.iter().map(|part| self.plan_without(&[*part].into())).collect();
        let outcomes = self.reruns.pinned_outcomes(&plans, &self.struck);
        let tested = outcomes.iter().map(|outcome| !self.is_untested(outcome));
        let tested: Vec<bool> = tested.collect();
        let (tested, untested): (Vec<_>, Vec<_>) =
            parts.into_iter().zip(tested).partition(|(_, tested)| *tested);
        let only = |parts: Vec<(Part, bool)>| parts.into_iter().map(|(part, _)| part).collect();
        (only(tested), only(untested))
    }

    /// For each of several sets, whether the violation occurs without it.
    fn that_are_there(&mut self, outs: &[Parts]) -> Vec<bool> {
        let plans: Vec<Plan> = outs.iter().map(|out| self.plan_without(out)).collect();
        let outcomes = self.reruns.pinned_outcomes(&plans, &self.struck);
        outcomes.iter().map(|outcome| outcome.kinds.contains(&self.kind)).collect()
    }

    /// What is violated after each single change. A change that needs a later heal counts only if
    /// the violation occurs with that heal alone: otherwise the heal would make the difference.
    fn changes(&mut self, acting: &[Part]) -> Vec<Changed> {
        let changes = acting.iter().flat_map(|part| changes_of(self.plan, *part));
        let mut tried: Vec<(PlanChange, Plan)> = changes
            .filter_map(|change| Some((change, changed(self.plan, change, &self.struck)?)))
            .filter(|(change, plan)| self.is_possible(*change, plan))
            .collect();
        let healed: Vec<Plan> = tried.iter().map(|(_, plan)| self.healed_as(plan)).collect();
        let there = self.reruns.pinned_outcomes(&healed, &self.struck);
        let mut there = there.iter().map(|outcome| outcome.kinds.contains(&self.kind));
        tried.retain(|_| there.next() == Some(true));
        let plans: Vec<Plan> = tried.iter().map(|(_, plan)| plan.clone()).collect();
        let outcomes = self.reruns.pinned_outcomes(&plans, &self.struck);
        let come_to = |((change, plan), outcome): ((PlanChange, Plan), RunOutcome)| Changed {
            change,
            stays: outcome.kinds.contains(&self.kind),
            later: LaterHeal::of(self.plan, &plan),
            is_untested: self.is_untested(&outcome),
            is_unknown: outcome.is_unknown,
            kinds: outcome.kinds,
        };
        tried.into_iter().zip(outcomes).map(come_to).collect()
    }

    /// The plan with the heal of another.
    fn healed_as(&self, other: &Plan) -> Plan {
        Plan { heal_at: other.heal_at, until: other.until, ..self.plan.clone() }
    }
}

/// The possible changes of a part.
fn changes_of(plan: &Plan, part: Part) -> Vec<PlanChange> {
    let mut changes = vec![PlanChange::Without(part)];
    let fault = part.fault().and_then(|id| plan.faults.iter().find(|fault| fault.id == id));
    if let Some(Fault { id, .. }) = fault {
        let (id, by) = (*id, SHIFT);
        let moved = [PlanChange::Earlier(id, by), PlanChange::Later(id, by)];
        changes.extend([PlanChange::Halved(id), PlanChange::Doubled(id)].into_iter().chain(moved));
    }
    changes
}

/// The plan with a change; `None` if the change is impossible: a fault without a delay after its
/// event cannot strike earlier, and a fault with neither length nor figure cannot be halved.
pub fn changed(plan: &Plan, change: PlanChange, struck: &Strikes) -> Option<Plan> {
    let mut changed = plan.clone();
    let heal_at = plan.heal_at;
    let lasted = |fault: &Fault| lasts(plan, fault, struck);
    let mut faults = changed.faults.iter_mut();
    let mut fault = |id: u32| faults.find(|fault| fault.id == id);
    match change {
        PlanChange::Without(part) => return Some(without(plan, &[part].into(), struck)),
        PlanChange::Halved(id) => {
            let fault = fault(id)?;
            let lasted = lasted(fault);
            scale(fault, (1, 2), lasted)?;
        }
        PlanChange::Doubled(id) => {
            let fault = fault(id)?;
            let lasted = lasted(fault);
            scale(fault, (2, 1), lasted)?;
            let over = struck.get(&id).and_then(|at| at.checked_add(fault.length?));
            let longer = fault.length.unwrap_or(0).saturating_sub(lasted.unwrap_or(0));
            // Otherwise the heal would cut the fault short. The time from its end to the heal stays
            // the same.
            if longer > 0 && over.is_some_and(|over| over > heal_at) {
                changed = with_later_heal(&changed, longer);
            }
        }
        PlanChange::Earlier(id, by) => {
            let fault = fault(id)?;
            // Otherwise a fault that the heal ends would last longer.
            fault.length = lasted(fault);
            match &mut fault.anchor {
                Anchor::At(at) => *at = at.checked_sub(by)?,
                Anchor::After { plus, .. } => *plus = plus.checked_sub(by)?,
            }
        }
        PlanChange::Later(id, by) => {
            let fault = fault(id)?;
            fault.length = lasted(fault);
            match &mut fault.anchor {
                Anchor::At(at) => *at = at.checked_add(by).filter(|at| *at < heal_at)?,
                Anchor::After { plus, .. } => {
                    struck.get(&id)?.checked_add(by).filter(|at| *at < heal_at)?;
                    *plus = plus.checked_add(by)?;
                }
            }
            let over = struck.get(&id).and_then(|at| at.checked_add(fault.length?));
            // Otherwise the heal would cut it short.
            if over.and_then(|over| over.checked_add(by)).is_some_and(|over| over > heal_at) {
                changed = with_later_heal(&changed, by);
            }
        }
    }
    Some(changed)
}

/// Scales a fault's figure, or the length that it lasted if it has no scalable figure.
fn scale(fault: &mut Fault, (times, parts): (u32, u32), lasted: Option<Nanos>) -> Option<()> {
    let long = |ns: Nanos| ns.saturating_mul(times.into()) / Nanos::from(parts);
    let figure = match fault.verb.figure() {
        Figure::Length(ns) => Some(Figure::Length(long(ns))),
        Figure::Share(share) => {
            Some(Figure::Share((share.saturating_mul(times) / parts).min(999_999)))
        }
        Figure::Shift(by) => {
            Some(Figure::Shift(by.saturating_mul(times.into()) / i64::from(parts)))
        }
        Figure::Rate(ppm) => {
            let scaled = i64::from(ppm) * i64::from(times) / i64::from(parts);
            Some(Figure::Rate(i32::try_from(scaled).ok()?))
        }
        Figure::None | Figure::Key(_) => None,
    };
    if let Some(figure) = figure {
        fault.verb = fault.verb.row().verb(figure)?;
        return Some(());
    }
    if fault.verb.is_momentary() {
        return None;
    }
    let lasted = lasted?;
    // A fault that lasts to the heal cannot last longer.
    (fault.length == Some(lasted) || times < parts).then(|| fault.length = Some(long(lasted)))
}
