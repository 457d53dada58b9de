//! The canary: planted violations that every process of a campaign must find before it hunts. If it
//! does not, its faults do not strike or its checks do not see, and a clean result means nothing.

use lockstorm_platform::fault::{Anchor, Fault, Pattern, Target, Verb};
use lockstorm_platform::time::{MILLISECOND, SECOND};

use crate::check::signature::Signature;
use crate::check::verdict::Kind;
use crate::explore::trial::attempt;
use crate::plan::base_plan::base_plan;
use crate::plan::{Plan, TopologyKind};
use crate::run::Lab;

/// What must be found, and is not; `None` if all of it is.
pub fn dead(lab: &Lab) -> Option<String> {
    let planted = [
        ("clients without a lock", base_plan("none", TopologyKind::Single), Kind::Corruption),
        ("a pause that outlasts a lease", paused(), Kind::StaleHolder),
    ];
    planted.into_iter().find_map(|(what, plan, kind)| {
        let is_found = finds(lab, &plan, kind);
        (!is_found).then(|| format!("{what} did not lead to {}", kind.word()))
    })
}

fn finds(lab: &Lab, plan: &Plan, kind: Kind) -> bool {
    Signature::of(&attempt(lab, plan).judgement.verdict).kinds.contains(&kind)
}

/// A holder that pauses beyond its lease.
fn paused() -> Plan {
    let mut plan = base_plan("token-lua", TopologyKind::Single);
    let event = Pattern::Outcome { who: "c1".to_owned(), what: "acquired".to_owned() };
    let anchor = Anchor::After { event, nth: 1, plus: 100 * MILLISECOND };
    let target = Target::try_from("c1".to_owned()).expect("a host");
    let length = Some(2 * plan.longest_ttl().max(SECOND));
    plan.faults = vec![Fault { id: 1, verb: Verb::Pause, target, anchor, length }];
    plan
}

#[cfg(test)]
mod tests {
    use super::{dead, finds, paused};
    use crate::check::verdict::Kind;
    use crate::plan::Plan;
    use crate::run::Lab;

    #[test]
    fn the_canary_lives_because_its_fault_strikes() {
        let lab = Lab::default();
        assert_eq!(dead(&lab), None);
        let calm = Plan { faults: Vec::new(), ..paused() };
        assert!(!finds(&lab, &calm, Kind::StaleHolder), "without the pause nothing is found");
    }
}
