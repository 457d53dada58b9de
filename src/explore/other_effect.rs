//! Faults that make no difference to the headline violation but to something else: to other
//! violations, or to the class. They explain why a shrunk plan keeps a fault.

use crate::check::signature::Signature;
use crate::explain::experiment::OtherEffect;
use crate::explore::class::classify_in;
use crate::explore::rerun::Reruns;
use crate::explore::trial::attempt;
use crate::ledger::part::{Part, Strikes, strikes, without};
use crate::plan::Plan;

/// For each of these faults without which the violation of a plan has another signature, that
/// signature. A hunt would remove all others of these faults. Unlike in the trials of the causes, a
/// fault whose event no longer occurs does not strike, as in a hunt.
pub fn other_effects(
    reruns: &mut Reruns,
    (plan, struck): (&Plan, &Strikes),
    own: &Signature,
    idle: &[Part],
) -> Vec<OtherEffect> {
    let of = |part: &Part| {
        let fault = part.fault()?;
        let plan = without(plan, &[*part].into(), struck);
        let trial = attempt(reruns.lab(), &plan);
        reruns.count += 1;
        let without = trial.signature(&classify_in(reruns, &plan, &trial));
        let met = strikes(&trial.run.history);
        let waits = plan.faults.iter().map(|fault| fault.id);
        let waits = waits.filter(|id| struck.contains_key(id) && !met.contains_key(id)).collect();
        (!without.simplifies(own)).then_some(OtherEffect { fault, without, waits })
    };
    idle.iter().filter_map(of).collect()
}
