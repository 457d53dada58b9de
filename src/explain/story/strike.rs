//! The faults of hosts and links while the grants of the story were active.

use lockstorm_platform::fault::verbs::Figure;
use lockstorm_platform::fault::{Target, Verb};
use lockstorm_platform::time::Instant;

use crate::check::verdict::{Kind, Violation};
use crate::explain::evidence::Evidence;
use crate::explain::experiment::OtherEffect;
use crate::explain::life::StoryLife;
use crate::explain::story::order;
use crate::explain::story::{Beat, Weight};
use crate::explain::trial::acts;
use crate::explain::witness::Witness;
use crate::history::{FaultInterval, Op, OpKind};
use crate::quantity::{figure, length, list, moment};
use crate::reading::moment::Moment;

/// A fault as its target experiences it, merged with the faults of the same effect that strike the
/// same target before its end.
pub struct Outage<'a> {
    /// The first of them.
    pub first: &'a FaultInterval,
    /// Their indices among the fault intervals.
    pub indices: Vec<usize>,
    to: Option<Instant>,
    power: Option<Instant>,
}

impl<'a> Outage<'a> {
    fn new(index: usize, first: &'a FaultInterval, to: Option<Instant>) -> Outage<'a> {
        Outage { first, indices: vec![index], to, power: None }
    }

    fn takes_in(&self, other: &FaultInterval) -> bool {
        let (one, two) = (&self.first.verb, &other.verb);
        // A suspension stops the machine's clocks and a pause does not, so they stay separate.
        let alike = one.kills() && two.kills() || one.halts() && one == two;
        let in_time = self.to.is_none_or(|to| other.from <= to);
        alike && self.first.target == other.target && in_time
    }

    fn add(&mut self, index: usize, other: &FaultInterval, until: Option<Instant>) {
        let lasts = self.to.is_some_and(|to| until.is_none_or(|end| end > to));
        let power = other.verb == Verb::PowerLoss && self.first.verb != Verb::PowerLoss;
        if lasts {
            self.to = until;
        }
        if power && self.power.is_none() {
            self.power = Some(other.from);
        }
        if lasts || power {
            self.indices.push(index);
        }
    }
}

/// Every fault that struck something, with each outage once.
pub fn outages<'a>(witness: &Witness<'a>) -> Vec<Outage<'a>> {
    let mut outages: Vec<Outage<'_>> = Vec::new();
    for (index, interval) in witness.history().fault_intervals.iter().enumerate() {
        // A power loss that meets no running process still loses what is not on the disk.
        let is_shown = interval.verb.kills() && acts(witness.finding, interval) == Some(true);
        let is_idle = interval.met == Some(0) && !is_shown;
        if is_idle {
            continue;
        }
        match outages.iter_mut().rev().find(|outage| outage.takes_in(interval)) {
            Some(outage) => outage.add(index, interval, until(witness, interval)),
            None => outages.push(Outage::new(index, interval, until(witness, interval))),
        }
    }
    outages
}

/// When a fault interval ended for its target. The death of a paused process ends its pause.
fn until(witness: &Witness<'_>, interval: &FaultInterval) -> Option<Instant> {
    let to = witness.reading.is_over_at(interval);
    let is_cut = to < Moment::from(interval.until(witness.history().end));
    if is_cut { Some(to.instant(witness.history())) } else { interval.to }
}

/// The outages that affected the headline violation, one sentence each.
pub fn beats(witness: &Witness<'_>) -> Vec<Beat> {
    let Some((from, to)) = span(witness) else { return Vec::new() };
    // A fault that acts after the headline violation led to another violation of the story.
    let harmed = other_violations(witness).map(|harm| harm.to).fold(to, Instant::max);
    let met = |outage: &Outage<'_>| {
        let at = acted_at(outage);
        let lasts = outage.to.is_none_or(|end| end.max(at) >= from);
        let acts = trial(witness, outage) == Some(true) || harms(witness, outage);
        if acts { at <= harmed } else { at <= to && lasts }
    };
    outages(witness)
        .into_iter()
        .filter(met)
        .map(|outage| {
            let (text, evidence) = described(witness, &outage);
            Beat::new(weight(witness, &outage), acted_at(&outage), text, evidence)
        })
        .collect()
}

/// When an outage struck. For an operator's command, this is when its node carried it out.
pub fn acted_at(outage: &Outage<'_>) -> Instant {
    order::carried_out(outage.first).unwrap_or(outage.first.from)
}

/// From the first call of the story to the end of the headline violation.
pub fn span(witness: &Witness<'_>) -> Option<(Instant, Instant)> {
    let violation = witness.primary?;
    let cast = witness.cast().into_iter().chain(witness.left().map(|(_, owner)| owner));
    let first = cast.map(|grant| grant.call.instant()).min();
    Some((first.unwrap_or_default().min(violation.from), violation.to))
}

/// When the first part that made the difference struck, or when the span began if that was earlier:
/// role changes matter from then on.
pub fn since(witness: &Witness<'_>) -> Option<Instant> {
    let (from, _) = span(witness)?;
    let outages = outages(witness);
    let acting = outages.iter().filter(|outage| trial(witness, outage) == Some(true));
    Some(acting.map(|outage| outage.first.from).fold(from, Ord::min))
}

/// Whether a trial showed that the outage made a difference, if there was one.
fn trial(witness: &Witness<'_>, outage: &Outage<'_>) -> Option<bool> {
    let mut fault_intervals =
        outage.indices.iter().map(|index| &witness.history().fault_intervals[*index]);
    fault_intervals.try_fold(false, |any, interval| Some(any | acts(witness.finding, interval)?))
}

/// The violations in the story besides the headline one: the first corruption, and a fence that is
/// not larger than the previous one.
fn other_violations<'a>(witness: &Witness<'a>) -> impl Iterator<Item = &'a Violation> {
    witness.harm().into_iter().chain(witness.of_kind(Kind::FenceRegress).take(1))
}

/// Whether the outage caused another violation of the story: without it that kind is not violated.
fn harms(witness: &Witness<'_>, outage: &Outage<'_>) -> bool {
    let effects = witness.finding.experiments.iter().flat_map(|tried| &tried.other_effects);
    let spares = |effect: &OtherEffect| {
        other_violations(witness).any(|harm| !effect.without.kinds.contains(&harm.kind))
    };
    let is_of = |fault: u32| {
        let mut own = outage.indices.iter().map(|index| &witness.history().fault_intervals[*index]);
        own.any(|interval| interval.fault == fault)
    };
    effects.filter(|effect| spares(effect)).any(|effect| is_of(effect.fault))
}

/// Faults that made the difference in a trial weigh most; without trials, faults to which a breach
/// of an assumption is attributed.
fn weight(witness: &Witness<'_>, outage: &Outage<'_>) -> Weight {
    let interval = outage.first;
    match trial(witness, outage) {
        Some(true) => return Weight::Crux,
        Some(false) if lets_in(witness, interval) || harms(witness, outage) => {
            return Weight::Cause;
        }
        Some(false) => return Weight::Minor,
        None => {}
    }
    let meets = |host: &str| interval.touches(host);
    let is_actor = witness.actors.iter().any(|grant| meets(&grant.process));
    let is_left = witness.left().any(|(_, owner)| meets(&owner.process));
    let is_node = witness.lives.iter().any(|life| {
        meets(&life.node) && witness.actors.iter().any(|grant| Some(grant.id) == life.owner)
    });
    match () {
        () if witness.is_blamed(interval) => Weight::Crux,
        () if is_actor || is_node || is_left => Weight::Cause,
        () => Weight::Detail,
    }
}

/// Whether a command promoted the node on which a grant of the story later set its key. Without
/// that sentence a replica would seem to have granted the lock, even if the promotion made no
/// difference.
fn lets_in(witness: &Witness<'_>, interval: &FaultInterval) -> bool {
    let Some(promoted) = order::carried_out(interval) else { return false };
    let is_later = |life: &&StoryLife| {
        let of_actor = witness.actors.iter().any(|grant| Some(grant.id) == life.owner);
        of_actor && promoted < life.from && interval.strikes(&life.node)
    };
    interval.verb == Verb::Failover && witness.lives.iter().any(|life| is_later(&life))
}

/// An outage as a sentence, with the caller whose hold or acquire it struck.
pub fn described(witness: &Witness<'_>, outage: &Outage<'_>) -> (String, Vec<Evidence>) {
    let interval = outage.first;
    let mut evidence: Vec<Evidence> =
        outage.indices.iter().map(|index| Evidence::FaultInterval(*index)).collect();
    if let Some((text, of)) = order::sentence(witness, interval) {
        evidence.extend(of);
        return (text, evidence);
    }
    let mut text = strikes(interval, outage.to);
    if let Some(power) = outage.power {
        text.pop();
        text.push_str(&format!("; its machine loses power at {}.", moment(power.at)));
    }
    if is_added(witness, outage) {
        text.pop();
        text.push_str(", in addition.");
    }
    let held = witness.holds.iter().find(|hold| {
        let struck = hold.from < interval.from && interval.from <= hold.until;
        struck && interval.touches(&hold.grant.process)
    });
    if let Some(hold) = held {
        let who = &hold.grant.caller;
        text.pop();
        text.push_str(&match interval.strikes(who) {
            true => ", while holding the lock.".to_owned(),
            false => format!(", while {who} holds the lock."),
        });
        evidence.push(Evidence::Op(hold.grant.id));
    } else if let Some(acquire) = interrupted(witness, interval) {
        text.pop();
        text.push_str(&format!(", before {}'s acquire is over.", acquire.caller));
        evidence.push(Evidence::Op(acquire.id));
    }
    (text, evidence)
}

/// Whether a delay adds to an earlier one of the same messages.
fn is_added(witness: &Witness<'_>, outage: &Outage<'_>) -> bool {
    let (own, index) = (outage.first, outage.indices[0]);
    let mut earlier = witness.history().fault_intervals.iter().take(index);
    let lasts = |c: &FaultInterval| c.to.is_none_or(|to| own.from < to);
    matches!(own.verb, Verb::Delay { .. })
        && earlier
            .any(|c| matches!(c.verb, Verb::Delay { .. }) && c.target == own.target && lasts(c))
}

/// The acquire that never returned because the fault killed its process.
fn interrupted<'a>(witness: &Witness<'a>, interval: &FaultInterval) -> Option<&'a Op> {
    let ops = witness.history().ops.iter();
    let mut acquire = ops.filter(|op| op.kind == OpKind::Acquire && op.ret.is_none());
    acquire.find(|op| {
        let death = witness.reading.death_after(&op.process, op.call.into());
        death.is_some_and(|death| death.at == interval.from.into())
            && interval.verb.kills()
            && interval.touches(&op.process)
    })
}

/// A fault interval as a sentence in the present tense.
fn strikes(interval: &FaultInterval, to: Option<Instant>) -> String {
    let until = match to {
        Some(to) if to.at > interval.from.at => {
            format!(" for {}, until {}", length(to.at - interval.from.at), moment(to.at))
        }
        Some(_) => String::new(),
        None => " to the end of the run".to_owned(),
    };
    let said = interval.verb.row().said.replace("{who}", &parties(&interval.target));
    let (said, figure) = match interval.verb.figure() {
        Figure::Rate(ppm) if ppm < 0 => {
            (said.replace("fast", "slow"), figure(&Figure::Rate(ppm.saturating_neg())))
        }
        figured => (said, figure(&figured)),
    };
    said.replace("{figure}", &figure).replace("{until}", &until)
}

/// A target in words: `c1`, `between c1 and n4, n5`, `from c1 to n1`.
fn parties(target: &Target) -> String {
    match target {
        Target::Links { from, to, both: true } => {
            format!("between {} and {}", list(from), list(to))
        }
        Target::Links { from, to, both: false } => format!("from {} to {}", list(from), list(to)),
        Target::Host(host) => host.clone(),
    }
}
