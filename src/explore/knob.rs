//! The figures of a plan that can be made larger or smaller, one at a time.

use lockstorm_platform::fault::Fault;
use lockstorm_platform::fault::verbs::Figure;
use lockstorm_platform::network::Latency;
use lockstorm_platform::time::{MILLISECOND, Nanos, SECOND};

use crate::ledger::overwork::overworked;
use crate::ledger::part::{Part, Strikes, without};
use crate::plan::Plan;
use crate::run::Lab;

/// A figure of a plan that can be made larger or smaller.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Knob {
    /// The length of a fault.
    Lasts(u32),
    /// The figure of a fault.
    Figure(u32),
    /// How far a host's wall clock is initially ahead.
    Offset(String),
    /// The initial rate of a host's clocks.
    Rate(String),
    /// The share of messages that every link loses.
    Loss,
    /// A length in the setup of the plan.
    Set(&'static str),
    /// The latency of a named link.
    Link(String),
}

/// A length of a plan by its path, and how it is read and set.
pub struct Length {
    /// Its path in a scenario.
    pub name: &'static str,
    /// Its minimum difference.
    pub step: Nanos,
    /// Its value, if the plan has one; it may be a default.
    pub read: fn(&Lab, &Plan) -> Option<Nanos>,
    /// Sets it.
    pub set: fn(&mut Plan, Nanos),
}

/// The lengths in the setup of a plan.
pub static LENGTHS: [Length; 11] = [
    Length {
        name: "lock.ttl",
        step: MILLISECOND,
        read: |_, p| p.lock.ttl,
        set: |p, to| p.lock.ttl = Some(to),
    },
    Length {
        name: "workload.hold",
        step: MILLISECOND,
        read: |_, p| Some(p.workload.hold),
        set: |p, to| p.workload.hold = to,
    },
    Length {
        name: "lock.timeout",
        step: MILLISECOND,
        read: |lab, p| p.lock.timeout.or_else(|| default_timeout(lab, p)),
        set: |p, to| p.lock.timeout = Some(to),
    },
    Length {
        name: "lock.at_least",
        step: MILLISECOND,
        read: |_, p| p.lock.at_least,
        set: |p, to| p.lock.at_least = Some(to),
    },
    Length {
        name: "lock.renew_every",
        step: MILLISECOND,
        read: |_, p| p.lock.renew_every,
        set: |p, to| p.lock.renew_every = Some(to),
    },
    Length {
        name: "lock.renew_ttl",
        step: MILLISECOND,
        read: |_, p| p.lock.renew_ttl,
        set: |p, to| p.lock.renew_ttl = Some(to),
    },
    Length {
        name: "lock.ack_timeout",
        step: MILLISECOND,
        read: |_, p| p.lock.ack_timeout,
        set: |p, to| p.lock.ack_timeout = Some(to),
    },
    Length {
        name: "topology.min_replicas_lag",
        // A node counts in whole seconds.
        step: SECOND,
        read: |_, p| p.topology.min_replicas.map(|least| least.max_lag),
        set: |p, to| p.topology.min_replicas.iter_mut().for_each(|least| least.max_lag = to),
    },
    Length {
        name: "topology.down_after",
        step: MILLISECOND,
        read: |_, p| p.topology.sentinels.map(|sentinels| sentinels.down_after),
        set: |p, to| p.topology.sentinels.iter_mut().for_each(|s| s.down_after = to),
    },
    Length {
        name: "topology.node_timeout",
        step: MILLISECOND,
        read: |_, p| p.topology.shards.map(|shards| shards.node_timeout),
        set: |p, to| p.topology.shards.iter_mut().for_each(|s| s.node_timeout = to),
    },
    Length {
        name: "links.latency",
        step: LATENCY_STEP,
        read: |_, p| p.links.latency.constant(),
        set: |p, to| p.links.latency = Latency::Constant(to),
    },
];

/// The minimum difference of a latency. It is small because a request takes several messages.
const LATENCY_STEP: Nanos = MILLISECOND / 10;

/// The default timeout of a lock, if it takes one.
fn default_timeout(lab: &Lab, plan: &Plan) -> Option<Nanos> {
    let timeout = lab.timeout(plan);
    let mut with = plan.clone();
    with.lock.timeout = Some(timeout);
    with.validate_with(&lab.locks).is_ok().then_some(timeout)
}

impl Knob {
    /// Its name: `fault:1.for`, `lock.ttl`.
    pub fn name(&self, plan: &Plan) -> String {
        match self {
            Knob::Lasts(id) => format!("fault:{id}.for"),
            Knob::Figure(id) => {
                let word = fault(plan, *id).and_then(|fault| fault.verb.row().figure);
                format!("fault:{id}.{}", word.unwrap_or("figure"))
            }
            Knob::Offset(host) => format!("clocks.{host}.wall_offset"),
            Knob::Rate(host) => format!("clocks.{host}.rate_ppm"),
            Knob::Loss => "links.loss".to_owned(),
            Knob::Set(name) => (*name).to_owned(),
            Knob::Link(link) => format!("links.named.\"{link}\""),
        }
    }

    /// Whether it is a length of the setup and not a figure of a fault or of a host.
    pub fn is_of_setup(&self) -> bool {
        matches!(self, Knob::Set(_) | Knob::Link(_))
    }

    /// The minimum difference of a length of the setup.
    pub fn step(&self) -> Option<Nanos> {
        match self {
            Knob::Set(name) => LENGTHS.iter().find(|row| row.name == *name).map(|row| row.step),
            Knob::Link(_) => Some(LATENCY_STEP),
            _ => None,
        }
    }
}

/// Every knob of a plan, in order. A fault that lasts until the heal has a length as well.
pub fn knobs(lab: &Lab, plan: &Plan) -> Vec<Knob> {
    let mut knobs = Vec::new();
    for fault in &plan.faults {
        if !matches!(fault.verb.figure(), Figure::None | Figure::Key(_)) {
            knobs.push(Knob::Figure(fault.id));
        }
        // A node that is down for good has no length: however late its end, the result is the same.
        let is_for_good = plan.topology.keep_down && fault.verb.kills() && fault.length.is_none();
        if !fault.verb.is_momentary() && !is_for_good {
            knobs.push(Knob::Lasts(fault.id));
        }
    }
    for (host, clock) in &plan.clocks {
        let offset = (clock.wall_offset != 0).then(|| Knob::Offset(host.clone()));
        let rate = (clock.rate_ppm != 0).then(|| Knob::Rate(host.clone()));
        knobs.extend(offset.into_iter().chain(rate));
    }
    if plan.links.loss_per_million > 0 {
        knobs.push(Knob::Loss);
    }
    let set = LENGTHS.iter().filter(|length| (length.read)(lab, plan).is_some());
    knobs.extend(set.map(|length| Knob::Set(length.name)));
    let links = plan.links.named.iter().filter(|(_, latency)| latency.constant().is_some());
    knobs.extend(links.map(|(link, _)| Knob::Link(link.clone())));
    knobs
}

/// The knobs that an explanation tries: those of the parts that made the difference, and the
/// lengths that every lock and every workload has. A default timeout is included only if requests
/// take too long for it.
pub fn knobs_of(lab: &Lab, plan: &Plan, acting: &[Part]) -> Vec<Knob> {
    let acts = |is_it: &dyn Fn(&Part) -> bool| acting.iter().any(is_it);
    let leaves_none = || {
        let overwork = overworked(plan, &lab.promise(plan));
        let works = acts(&|part| matches!(part, Part::Work(_)));
        works && overwork.is_some_and(|overwork| overwork.bound == 0)
    };
    let is_slow = || {
        acts(&|part| matches!(part, Part::Latency | Part::Links | Part::Link(_) | Part::Timeout(_)))
    };
    let mut knobs = knobs(lab, plan);
    knobs.retain(|knob| match knob {
        Knob::Lasts(id) | Knob::Figure(id) => acting.contains(&Part::Fault(*id)),
        Knob::Offset(host) => acts(&|part| part.has_offset_of(plan, host)),
        Knob::Rate(host) => acts(&|part| part.has_rate_of(plan, host)),
        Knob::Loss => acting.contains(&Part::Loss),
        Knob::Set("links.latency") => acting.contains(&Part::Latency),
        Knob::Set("lock.timeout") => plan.lock.timeout.is_some() || is_slow() || leaves_none(),
        Knob::Set(_) => true,
        Knob::Link(link) => acts(&|part| part.has_latency_of(plan, link)),
    });
    knobs
}

/// The fault with this number.
pub fn fault(plan: &Plan, id: u32) -> Option<&Fault> {
    plan.faults.iter().find(|fault| fault.id == id)
}

/// The plan with its heal and its end later by this much, rounded up to whole seconds.
pub fn with_later_heal(plan: &Plan, by: Nanos) -> Plan {
    let by = by.div_ceil(SECOND).saturating_mul(SECOND);
    let (heal_at, until) = (plan.heal_at.saturating_add(by), plan.until.saturating_add(by));
    Plan { heal_at, until, ..plan.clone() }
}

/// The plan with a knob at this value, if that is a plan. A fault that the heal would cut short
/// needs a later heal first.
pub fn turned(lab: &Lab, (plan, struck): (&Plan, &Strikes), knob: &Knob, to: i64) -> Option<Plan> {
    if let (Knob::Lasts(id) | Knob::Figure(id), 0) = (knob, to) {
        // A fault that is anchored to the removed one strikes at its previous time.
        let plan = without(plan, &[Part::Fault(*id)].into(), struck);
        return plan.validate_with(&lab.locks).is_ok().then_some(plan);
    }
    let mut plan = plan.clone();
    let length = Nanos::try_from(to);
    match knob {
        Knob::Lasts(id) => {
            let fault = plan.faults.iter_mut().find(|fault| fault.id == *id)?;
            let length = length.ok()?;
            fault.length = Some(length);
            // The heal would cut it short: that is another length.
            let over = struck.get(id)?.saturating_add(length);
            (over <= plan.heal_at).then_some(())?;
        }
        Knob::Figure(id) => {
            let fault = plan.faults.iter_mut().find(|fault| fault.id == *id)?;
            let figure = match fault.verb.figure() {
                Figure::Length(_) => Figure::Length(length.ok()?),
                Figure::Share(_) => Figure::Share(to.try_into().ok()?),
                Figure::Shift(_) => Figure::Shift(to),
                Figure::Rate(_) => Figure::Rate(to.try_into().ok()?),
                Figure::None | Figure::Key(_) => return None,
            };
            fault.verb = fault.verb.row().verb(figure)?;
        }
        Knob::Offset(host) => plan.clocks.get_mut(host)?.wall_offset = to,
        Knob::Rate(host) => plan.clocks.get_mut(host)?.rate_ppm = to.try_into().ok()?,
        Knob::Loss => plan.links.loss_per_million = to.try_into().ok()?,
        Knob::Set(name) => {
            let row = LENGTHS.iter().find(|row| row.name == *name)?;
            let probed = plan.longest_ttl();
            (row.set)(&mut plan, length.ok().filter(|ns| *ns > 0)?);
            // The probe waits for the maximum lease.
            plan.until += plan.longest_ttl().saturating_sub(probed);
        }
        Knob::Link(link) => {
            let latency = length.ok().filter(|ns| *ns > 0)?;
            *plan.links.named.get_mut(link)? = Latency::Constant(latency);
        }
    }
    plan.validate_with(&lab.locks).is_ok().then_some(plan)
}
