//! Who was granted the lock, how long that counted, and when too many held it at once.

use lockstorm_sim::time::Instant;
use lockstorm_sim::trace::KeyChange;

use crate::check::{Kind, Violation};
use crate::explain::hold::{Hold, op};
use crate::explain::quantity::{list, moment, span};
use crate::explain::story::{Beat, Evidence, Weight};
use crate::explain::witness::Witness;
use crate::history::{Op, OpId, Outcome};
use crate::reading::hold::Ended;

/// The grants of the witness, and their overlap.
pub fn beats(witness: &Witness<'_>) -> Vec<Beat> {
    let mut beats: Vec<Beat> =
        witness.cast().into_iter().filter_map(|grant| granted(witness, grant)).collect();
    beats.extend(overlap(witness));
    beats.extend(fences(witness));
    beats.extend(gives_up(witness));
    beats
}

/// The sentence for one grant: on which nodes, and until when it may be counted on.
pub fn granted(witness: &Witness<'_>, grant: &Op) -> Option<Beat> {
    let hold = witness.hold(grant.id)?;
    let (nodes, mut evidence) = nodes_of(witness, grant.id, hold.from);
    evidence.insert(0, Evidence::Op(grant.id));
    let on = if nodes.is_empty() { String::new() } else { format!(" on {}", list(&nodes)) };
    let beside = witness.holds.iter().find(|other| {
        other.grant.caller != grant.caller && other.from < hold.from && hold.from < other.until
    });
    let also = match beside {
        Some(other) if witness.overlap().is_none() => {
            evidence.push(Evidence::Op(other.grant.id));
            format!(", while {} still believes it holds it", other.grant.caller)
        }
        _ => String::new(),
    };
    let text = format!("{} is granted the lock{on}{also}{}.", grant.caller, term(hold));
    let weight = if witness.is_actor(grant.id) { Weight::Crux } else { Weight::Cause };
    Some(Beat::new(weight, hold.from, text, evidence))
}

/// The nodes on which an acquire set the key before it returned.
fn nodes_of(witness: &Witness<'_>, grant: OpId, until: Instant) -> (Vec<String>, Vec<Evidence>) {
    let set =
        witness.history().keys.iter().enumerate().filter(|(_, key)| {
            key.by == Some(grant) && key.change == KeyChange::Set && key.at < until
        });
    let mut nodes = Vec::new();
    let mut evidence = Vec::new();
    for (index, key) in set {
        if key.key == witness.finding.plan.lock.key && !nodes.contains(&key.node) {
            nodes.push(key.node.clone());
            evidence.push(Evidence::Key(index));
        }
    }
    (nodes, evidence)
}

fn term(hold: &Hold<'_>) -> String {
    let Outcome::Granted { deadline, fence, .. } = &hold.grant.outcome else {
        return String::new();
    };
    let fence = fence.map_or_else(String::new, |fence| format!(" with fence {fence}"));
    match (deadline, hold.lease) {
        (None, _) => format!("{fence}, without a lease"),
        (_, Some(lease)) if lease <= hold.from.at => {
            format!("{fence}; the grant is dead on arrival")
        }
        (_, Some(lease)) => format!("{fence}; its lease runs until {}", moment(lease)),
        (_, None) => format!("{fence}; by its clock, which stands, its lease never ends"),
    }
}

fn overlap(witness: &Witness<'_>) -> Option<Beat> {
    let (from, to) = witness.overlap()?;
    let holds: Vec<&Hold<'_>> =
        witness.actors.iter().filter_map(|grant| witness.hold(grant.id)).collect();
    let [first, second, ..] = holds[..] else { return None };
    let mut evidence = vec![Evidence::Op(first.grant.id), Evidence::Op(second.grant.id)];
    let ends = if first.until < second.until { first } else { second };
    evidence.extend(match ends.end {
        _ if to < ends.until => None,
        Ended::Released(id) | Ended::Lost(id) => Some(Evidence::Op(id)),
        Ended::Died(condition) => condition.map(Evidence::Condition),
        Ended::Open => None,
    });
    let why = match ends.end {
        _ if to < ends.until => " a lease is over".to_owned(),
        Ended::Released(_) => format!(" {} gives it back", ends.grant.caller),
        Ended::Lost(_) => format!(" {} learns of its loss", ends.grant.caller),
        Ended::Died(_) => format!(" {} dies", ends.grant.caller),
        Ended::Open => " the run ends".to_owned(),
    };
    let who = witness.actors.iter().map(|grant| grant.caller.clone()).collect::<Vec<_>>();
    let text = format!(
        "From here on {} believe they hold the lock, for {}, until{why} at {}.",
        if who.len() > 2 {
            format!("more than one of {}", list(&who))
        } else {
            list(&who) + " both"
        },
        span(to.at.saturating_sub(from.at)),
        moment(to.at),
    );
    // Told after the grant that begins it, which stands at the same instant.
    let at = Instant { seq: from.seq.saturating_add(1), at: from.at };
    Some(Beat::new(Weight::Crux, at, text, evidence))
}

/// The end of a hold past its lease under which nothing was accessed any more.
fn gives_up(witness: &Witness<'_>) -> Option<Beat> {
    let hold = witness.idle()?;
    let (who, what) = (&hold.grant.caller, "without an access since another was let in");
    let (text, id) = match hold.end {
        Ended::Released(id) => (format!("{who} gives the lock back, {what}."), id),
        Ended::Lost(id) => (format!("{who} is told that the lock is lost, {what}."), id),
        Ended::Died(_) | Ended::Open => return None,
    };
    let evidence = vec![Evidence::Op(hold.grant.id), Evidence::Op(id)];
    Some(Beat::new(Weight::Cause, hold.until, text, evidence))
}

fn fences(witness: &Witness<'_>) -> Option<Beat> {
    let violation = witness.of_kind(Kind::FenceRegress).next()?;
    let [(first, larger), (second, smaller)] = regress(witness, violation)?;
    let text = format!(
        "{}'s fence {smaller} is not above {}'s fence {larger}.",
        second.caller, first.caller,
    );
    let evidence = vec![Evidence::Op(first.id), Evidence::Op(second.id)];
    Some(Beat::new(Weight::Crux, second.ret?.instant(), text, evidence))
}

/// The grants of a fence regress with their numbers, the one that has to stand back last.
pub fn regress<'a>(witness: &Witness<'a>, violation: &Violation) -> Option<[(&'a Op, u64); 2]> {
    let numbered = |id: &OpId| {
        let op = op(witness.history(), *id)?;
        let Outcome::Granted { fence, .. } = op.outcome else { return None };
        Some((op, fence?))
    };
    let [one, other] = &violation.ops[..] else { return None };
    let (one, other) = (numbered(one)?, numbered(other)?);
    Some(if one.1 < other.1 { [other, one] } else { [one, other] })
}
