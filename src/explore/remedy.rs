//! Remedies that are run: those that apply to a mechanism. Each is run on the plan with everything
//! else equal, and on fresh seeds of the plan.

mod changes;
mod diff;
pub mod lease;

use lockstorm_platform::fault::verbs::Figure;
use lockstorm_platform::fault::{Fault, Target, Verb};
use lockstorm_platform::time::{Clock, Nanos};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use crate::check::judge::Judgement;
use crate::check::signature::Signature;
use crate::check::verdict::Verdict;
use crate::explain::experiment::{Fresh, Remedied, ServiceLevel};
use crate::explain::mechanism::how::How;
use crate::explore::budget::Spending;
use crate::explore::knob::fault;
use crate::explore::remedy::changes::{
    changed, checks_validity, delayed_restart, fence, fenced, in_one_step,
    keeps_after_failed_extend, kept_longer, knows_its_own, longer_lease, longer_timeout, majority,
    min_replicas, more_votes, own_token, slewed, token_of_acquire, token_of_try, unchecked,
    wait_for_replicas, with_lease, with_lock,
};
use crate::explore::remedy::diff::diff;
use crate::explore::rerun::pinned;
use crate::explore::trial::{attempt, judgement};
use crate::ledger::part::{Part, Strikes, strikes};
use crate::lock::algorithm::Algorithm;
use crate::lock::config::{
    CountShape, DeadlineFrom, DiscoveryShape, FenceFrom, QuorumOf, ReclaimShape, ReleaseShape,
    ScriptShape,
};
use crate::plan::buggy_caller::BuggyCaller;
use crate::plan::extend::Extend;
use crate::plan::{FenceMode, Persistence, Plan, TopologyKind};
use crate::run::Lab;

/// The number of fresh seeds on which a remedy is run.
const FRESH: u64 = 50;

/// The run whose violation the remedies should remove.
pub struct ViolatedRun<'a> {
    /// The lock of its plan.
    pub lock: &'a Algorithm,
    /// When each of its faults struck.
    pub struck: &'a Strikes,
    /// How the violation became possible.
    pub how: How,
    /// The parts that made the difference to it.
    pub acting: &'a [Part],
    /// The maximum time from the call of an acquire to the end of its hold, over holds that the
    /// caller ended itself, ns.
    pub longest_hold: Nanos,
    /// The lease to try according to the measured thresholds, ns, if the plan holds with a longer
    /// one.
    pub lease: Option<Nanos>,
    /// How long a client waits for the reply to a request, ns.
    pub timeout: Nanos,
}

impl ViolatedRun<'_> {
    /// Whether a clock made the difference by its rate alone: no clock is set, and nothing makes a
    /// holder late.
    fn is_by_rate(&self, plan: &Plan) -> bool {
        let by = |part: &Part, is: fn(&Figure) -> bool| {
            let fault = part.fault().and_then(|id| fault(plan, id));
            fault.is_some_and(|fault| is(&fault.verb.figure()))
        };
        let goes = |part: &Part| {
            matches!(part, Part::Clocks | Part::Rate(_))
                || by(part, |figure| matches!(figure, Figure::Rate(_)))
        };
        let is_set = |part: &Part| {
            matches!(part, Part::Offsets | Part::Offset(_))
                || by(part, |figure| matches!(figure, Figure::Shift(_)))
        };
        self.acting.iter().any(goes)
            && !self.acting.iter().any(is_set)
            && self.mechanisms(plan) == [self.how]
    }

    /// Its mechanism, and those that its quorum and the parts which made the difference imply.
    fn mechanisms(&self, plan: &Plan) -> Vec<How> {
        let nodes = plan.nodes();
        let is_of_node =
            |fault: &Fault| matches!(&fault.target, Target::Host(host) if nodes.contains(host));
        let is_host = |fault: &Fault| matches!(fault.target, Target::Host(_));
        let of_fault = |part: &Part| part.fault().and_then(|id| fault(plan, id));
        let halts = |part: &Part| {
            of_fault(part).is_some_and(|f| f.verb.halts() && is_host(f) && !is_of_node(f))
        };
        let is_step = |fault: &Fault| matches!(fault.verb, Verb::ClockStep { .. });
        let steps_node = |part: &Part| {
            of_fault(part).is_some_and(|fault| is_step(fault) && is_of_node(fault))
                || nodes.iter().any(|node| part.has_offset_of(plan, node))
        };
        let of_part = |part: &Part| match part {
            Part::Work(bound) if *bound > 0 => Some(How::Overworked),
            part if halts(part) => Some(How::StoodStill),
            part if steps_node(part) => Some(How::NodeClock),
            _ => None,
        };
        // Whatever else happened, below a majority two quorums need no node in common.
        let apart = majority(plan, self.lock).map(|_| How::TwoMajorities);
        let of_parts = self.acting.iter().filter_map(of_part);
        [self.how].into_iter().chain(apart).chain(of_parts).collect()
    }
}

/// A change that may remove a violation.
struct Remedy {
    name: &'static str,
    /// The mechanisms against which it may help.
    heals: &'static [How],
    /// The plan with the change; `None` if the plan already has it or cannot have it.
    apply: fn(&Plan, &ViolatedRun) -> Option<Plan>,
}

/// Holders that continue past their lease.
const LATE_HOLDERS: &[How] = &[
    How::StoodStill,
    How::Overworked,
    How::AccessesLate,
    How::RenewalFailed,
    How::RenewalNotSent,
    How::HolderClock,
    How::ScriptUnknown,
];

/// What a fence detects: holders that continue past their lease, and keys that are lost early.
const FENCED: &[How] = &[
    How::StoodStill,
    How::Overworked,
    How::AccessesLate,
    How::RenewalFailed,
    How::RenewalNotSent,
    How::HolderClock,
    How::ScriptUnknown,
    How::NodeClock,
    How::ReplicaClock,
    How::NeverReached,
    How::OldMaster,
    How::Forgotten,
    How::Removed,
    How::LostInResync,
    How::DeadlineTooLate,
    How::RenewalLied,
    How::WriteInFlight,
];

/// How a grant ends before its caller has read the number of it, and then reads that of another.
const NUMBERED_LATE: &[How] = &[
    How::CounterApart,
    How::DeadOnArrival,
    How::StoodStill,
    How::HolderClock,
    How::NodeClock,
    How::ReplicaClock,
    How::NeverReached,
    How::OldMaster,
    How::LostInResync,
    How::Forgotten,
    How::Removed,
];

/// The remedy that itself makes callers extend. Other remedies may add that to their own change.
const EXTENDS: &str = "extends while the work lasts";

static REMEDIES: [Remedy; 36] = [
    Remedy {
        name: "callers that heed the lock's answers",
        heals: &[How::NoGrant, How::WorkedOn, How::ReleasedRefused],
        apply: |plan, _| changed(plan, |plan| plan.workload.buggy_caller = BuggyCaller::None),
    },
    Remedy {
        name: "callers that look into every segment",
        heals: &[How::OneSegment],
        apply: |plan, _| changed(plan, |plan| plan.workload.buggy_caller = BuggyCaller::None),
    },
    Remedy {
        name: "a fence that the resource checks on every access",
        heals: FENCED,
        apply: |plan, _| fenced(plan),
    },
    Remedy {
        name: "a fence that comes with the grant, and is not read afterwards",
        heals: NUMBERED_LATE,
        apply: |plan, _| changed(plan, |plan| plan.lock.fence_from = FenceFrom::Grant),
    },
    Remedy {
        name: "a write that checks what it read",
        heals: &[
            How::StoodStill,
            How::Overworked,
            How::OldMaster,
            How::NeverReached,
            How::Forgotten,
            How::WriteInFlight,
        ],
        apply: |plan, _| fence(plan, FenceMode::CompareAndSet),
    },
    Remedy {
        name: "a check of the deadline before each access",
        heals: LATE_HOLDERS,
        apply: |plan, _| changed(plan, |plan| plan.workload.check_validity = true),
    },
    Remedy {
        name: "a longer lease",
        heals: &[
            How::StoodStill,
            How::Overworked,
            How::AccessesLate,
            How::RenewalNotSent,
            How::LeaseTooShort,
        ],
        apply: |plan, violated| longer_lease(plan, violated.longest_hold, violated.lease),
    },
    Remedy {
        name: "a lease with room for a clock at another rate",
        heals: &[How::NodeClock, How::HolderClock],
        apply: |plan, violated| {
            let measured = violated.lease.filter(|_| violated.is_by_rate(plan));
            with_lease(plan, measured?)
        },
    },
    Remedy {
        name: EXTENDS,
        heals: &[How::Overworked],
        apply: |plan, _| changed(plan, |p| p.workload.extend = "1/2".parse().unwrap_or_default()),
    },
    Remedy {
        name: "a renewal in the background",
        heals: &[How::Overworked],
        apply: |plan, _| {
            (plan.lock.algorithm == "token-lua").then(|| with_lock(plan, "token-lua-renewed"))?
        },
    },
    Remedy {
        name: "a clock that is never stepped and runs through a suspend",
        heals: &[How::HolderClock],
        apply: |plan, _| changed(plan, |plan| plan.lock.clock = Some(Clock::Boot)),
    },
    Remedy {
        name: "node clocks that are slewed and agree within 100 ms",
        heals: &[How::NodeClock, How::ReplicaClock],
        apply: |plan, _| slewed(plan),
    },
    Remedy {
        name: "an append-only file that is synced before each reply",
        heals: &[How::Forgotten, How::CounterForgotten, How::SetAgain],
        apply: |plan, _| changed(plan, |plan| plan.topology.persistence = Persistence::AofAlways),
    },
    Remedy {
        name: "nodes that stay down for longer than the longest lease",
        heals: &[How::Forgotten, How::CounterForgotten],
        apply: |plan, violated| delayed_restart(plan, violated.struck),
    },
    Remedy {
        name: "grants that wait for all replicas",
        heals: &[How::NeverReached, How::OldMaster, How::LostInResync],
        apply: |plan, _| wait_for_replicas(plan),
    },
    Remedy {
        name: "a master that refuses writes without a replica",
        heals: &[How::OldMaster, How::NeverReached, How::DeleteNeverReached],
        apply: |plan, _| min_replicas(plan),
    },
    Remedy {
        name: "clients that follow +switch-master",
        heals: &[How::OldMaster, How::DeleteNeverReached],
        apply: |plan, _| {
            let is_watched = plan.topology.kind == TopologyKind::Sentinel;
            is_watched
                .then(|| changed(plan, |p| p.lock.discovery = DiscoveryShape::SwitchMaster))?
        },
    },
    Remedy {
        name: "a quorum of the majority",
        heals: &[How::TwoMajorities],
        apply: |plan, violated| majority(plan, violated.lock),
    },
    Remedy {
        name: "a larger quorum",
        heals: &[
            How::Forgotten,
            How::NodeClock,
            How::NeverReached,
            How::TwoMajorities,
            How::Removed,
        ],
        apply: |plan, violated| more_votes(plan, violated.lock),
    },
    Remedy {
        name: "a unique token with a lease, compared in the command that deletes",
        heals: &[
            How::SameOwner,
            How::BlindCommand,
            How::CheckedTooEarly,
            How::DeletedByAnother,
            How::DeletedByOwner,
            How::Overwritten,
            How::NothingLocked,
            How::LeftByDead,
            How::ReleaseFailed,
        ],
        apply: |plan, _| own_token(plan),
    },
    Remedy {
        name: "a key that is kept for the whole lease",
        heals: &[How::RanAgain],
        apply: |plan, violated| kept_longer(plan, violated.lock),
    },
    Remedy {
        name: "a token for each acquire in place of a count for each thread",
        heals: &[How::SameOwner, How::DeletedByOwner],
        apply: |plan, _| token_of_acquire(plan),
    },
    Remedy {
        name: "a token of its own for each try",
        heals: &[How::SameOwner, How::DeletedByOwner, How::DeletedByAnother, How::BlindCommand],
        apply: |plan, violated| token_of_try(plan, violated.lock),
    },
    Remedy {
        name: "an acquire that knows its own key again",
        heals: &[How::LeftByRefused],
        apply: |plan, violated| knows_its_own(plan, violated.lock),
    },
    Remedy {
        name: "requests that are sent once",
        heals: &[How::LeftByRefused, How::DeletedByOwner, How::ReleaseFailed],
        apply: |plan, _| changed(plan, |plan| plan.lock.resend = 0),
    },
    Remedy {
        name: "a failed extend that keeps the keys",
        heals: &[How::DeletedByOwner],
        apply: |plan, violated| keeps_after_failed_extend(plan, violated.lock),
    },
    Remedy {
        name: "a notice to the holder that its lock is lost",
        heals: LATE_HOLDERS,
        apply: |plan, _| changed(plan, |plan| plan.lock.report_loss = None),
    },
    Remedy {
        name: "a quorum of all nodes, reached or not",
        heals: &[How::TwoMajorities],
        apply: |plan, _| changed(plan, |plan| plan.lock.quorum_of = QuorumOf::All),
    },
    Remedy {
        name: "the whole script, sent again after NOSCRIPT",
        heals: &[How::ScriptUnknown],
        apply: |plan, _| changed(plan, |plan| plan.lock.scripts = ScriptShape::EvalshaOrEval),
    },
    Remedy {
        name: "a deadline that counts from before the request",
        heals: &[How::DeadlineTooLate],
        apply: |plan, _| changed(plan, |plan| plan.lock.deadline_from = DeadlineFrom::Send),
    },
    Remedy {
        name: "a check of the remaining lease before the grant is taken",
        heals: &[How::DeadOnArrival],
        apply: |plan, violated| checks_validity(plan, violated.lock),
    },
    Remedy {
        name: "a time-out that is longer than what a first reply takes",
        heals: &[How::NoAnswer],
        apply: |plan, violated| longer_timeout(plan, violated.timeout),
    },
    Remedy {
        name: "the node's clock in place of the clients'",
        heals: &[How::HolderClock, How::DeadlineTooLate],
        apply: |plan, _| changed(plan, |plan| plan.lock.reclaim_by = ReclaimShape::Node),
    },
    Remedy {
        name: "a latch that counts names, so that none counts twice",
        heals: &[How::CountedTwice],
        apply: |plan, _| changed(plan, |plan| plan.lock.count = CountShape::Names),
    },
    Remedy {
        name: "one step at the resource, which compares the result",
        heals: &[How::NothingLocked, How::ComparedTooEarly, How::EndSetApart],
        apply: |plan, _| in_one_step(plan),
    },
    Remedy {
        name: "a release that compares",
        heals: &[How::DeletedByAnother, How::BlindCommand, How::ReleasedRefused],
        apply: |plan, _| changed(plan, |plan| plan.lock.release = ReleaseShape::Own),
    },
];

/// The results of each remedy of a plan: the named ones, and those that apply to a mechanism.
pub fn remedies(
    lab: &Lab,
    (plan, violated): (&Plan, &ViolatedRun),
    named: &[Plan],
    spending: &Spending,
) -> Vec<Remedied> {
    let mechanisms = violated.mechanisms(plan);
    let apply = |remedy: &Remedy| {
        let is_for_it = mechanisms.iter().any(|how| remedy.heals.contains(how));
        let with = is_for_it.then(|| (remedy.apply)(plan, violated))??;
        let is_named = named.iter().any(|named| diff(plan, named) == diff(plan, &with));
        let fits = !is_named && with.validate_with(&lab.locks).is_ok();
        let extends = |plan: &Plan| plan.workload.extend != Extend::Never;
        let adds_extends = remedy.name != EXTENDS && extends(&with) && !extends(plan);
        let name = match adds_extends {
            true => format!("{}, and extends instead of the renewal", remedy.name),
            false => remedy.name.to_owned(),
        };
        fits.then_some((name, with))
    };
    let of_names = named.iter().map(|with| (format!("scenario {}", with.name), with.clone()));
    let known = of_names.chain(REMEDIES.iter().filter_map(apply)).enumerate();
    let within = |(index, (name, with)): (usize, (String, Plan))| {
        let scenario_plan = if index < named.len() { with.digest() } else { String::new() };
        let what = format!("the remedy '{name}'");
        let of_run = (plan, violated.struck);
        let remedied = spending.within(&what, || {
            let found = tried(lab, of_run, &name, &with);
            let heals = found.kinds.is_empty() && !found.is_unknown;
            let is_side = index >= named.len() && heals && heals_unchecked(lab, of_run, &with);
            (!is_side).then_some(found)
        })??;
        Some(Remedied { scenario_plan, ..remedied })
    };
    known.filter_map(within).collect()
}

fn tried(lab: &Lab, (plan, struck): (&Plan, &Strikes), name: &str, with: &Plan) -> Remedied {
    let (with, own) = run(lab, struck, with);
    let with = &with;
    Remedied {
        name: name.to_owned(),
        scenario_plan: String::new(),
        diff: diff(plan, with),
        kinds: Signature::of(&own.verdict).kinds,
        is_unknown: matches!(own.verdict, Verdict::Unknown(_)),
        service: ServiceLevel::of(&own.availability),
        on_fresh: on_fresh(lab, with),
    }
}

/// Whether a remedy that checks a fence owes its effect to the lock that draws the fence: the plan
/// with that lock is not violated without the check either.
fn heals_unchecked(lab: &Lab, (plan, struck): (&Plan, &Strikes), with: &Plan) -> bool {
    let is_violated =
        |with: Plan| matches!(run(lab, struck, &with).1.verdict, Verdict::Violated(_));
    unchecked(plan, with).is_some_and(|with| !is_violated(with))
}

/// The plan as it is run, and its judgement. A fault that is anchored to an event which no longer
/// occurs strikes at the time of its strike in the violated run.
fn run(lab: &Lab, struck: &Strikes, with: &Plan) -> (Plan, Judgement) {
    let trial = attempt(lab, with);
    let strikes = strikes(&trial.run.history).into_keys().collect();
    let Some(moved) = pinned(with, struck, &strikes) else {
        return (with.clone(), trial.judgement);
    };
    let judgement = judgement(lab, &moved);
    (moved, judgement)
}

/// The results of a plan on the seeds that follow its own.
pub fn on_fresh(lab: &Lab, plan: &Plan) -> Fresh {
    let seeds: Vec<u64> = (1..=FRESH).map(|more| plan.seed.wrapping_add(more)).collect();
    let on_seed = |seed: &u64| judgement(lab, &Plan { seed: *seed, ..plan.clone() }).verdict;
    let verdicts: Vec<Verdict> = seeds.par_iter().map(on_seed).collect();
    let count = |is: fn(&Verdict) -> bool| {
        u32::try_from(verdicts.iter().filter(|verdict| is(verdict)).count()).unwrap_or(u32::MAX)
    };
    Fresh {
        runs: count(|_| true),
        held: count(|verdict| *verdict == Verdict::Holds),
        unknown: count(|verdict| matches!(verdict, Verdict::Unknown(_))),
    }
}

#[cfg(test)]
mod tests;
