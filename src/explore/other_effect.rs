//! Faults that make no difference to the headline violation, but to something else: to what else is
//! violated, or to whose fault it is. They explain why a shrunk plan keeps a fault.

use crate::check::signature::Signature;
use crate::explain::experiment::OtherEffect;
use crate::explore::class::classify;
use crate::explore::trial::attempt;
use crate::ledger::part::{Part, Strikes, without};
use crate::plan::Plan;
use crate::run::Lab;

/// For each of these faults without which the violation of a plan has another signature, that
/// signature, and the number of plans that were run. A hunt would remove every other one of them.
pub fn other_effects(
    lab: &Lab,
    (plan, struck): (&Plan, &Strikes),
    own: &Signature,
    idle: &[Part],
) -> (Vec<OtherEffect>, u32) {
    let mut runs = 0;
    let of = |part: &Part| {
        let fault = part.fault()?;
        let plan = without(plan, &[*part].into(), struck);
        let trial = attempt(lab, &plan);
        let class = classify(lab, &plan, &trial);
        runs += class.reruns + 1;
        let without = trial.signature(&class);
        (!without.simplifies(own)).then_some(OtherEffect { fault, without })
    };
    let found = idle.iter().filter_map(of).collect();
    (found, runs)
}
