//! What the grants of the headline violation did to the guarded resource.

use crate::check::verdict::{Kind, Violation};
use crate::explain::evidence::Evidence;
use crate::explain::hold::op;
use crate::explain::naming::damage;
use crate::explain::story::{Beat, Weight};
use crate::explain::witness::Witness;
use crate::history::{Access, AccessKind, OpKind};
use crate::plan::WorkloadKind;

/// The accesses under the grants of the headline violation, and those that a corruption names.
pub fn beats(witness: &Witness<'_>) -> Vec<Beat> {
    let accesses = witness.history().accesses.iter().enumerate();
    accesses
        .filter(|(index, access)| is_named(witness, *index) || is_of_actor(witness, access))
        .map(|(index, access)| beat(witness, index, access))
        .collect()
}

/// The first access that the resource refused: its check kept out an access that came too late.
pub fn first_refused(witness: &Witness<'_>) -> Option<Beat> {
    let mut accesses = witness.history().accesses.iter().enumerate();
    let (index, access) = accesses.find(|(_, access)| !access.accepted)?;
    Some(beat(witness, index, access))
}

/// The corruption that becomes visible in this access: the last one that the violation names.
pub fn corruption<'a>(witness: &Witness<'a>, index: usize) -> Option<&'a Violation> {
    witness.of_kind(Kind::Corruption).find(|v| v.accesses.last() == Some(&index))
}

fn is_named(witness: &Witness<'_>, index: usize) -> bool {
    witness.of_kind(Kind::Corruption).any(|v| v.accesses.contains(&index))
}

/// Whether an access was made under a grant of the headline violation.
pub fn is_of_actor(witness: &Witness<'_>, access: &Access) -> bool {
    witness.actors.iter().any(|grant| access.grant == Some(grant.id))
}

fn beat(witness: &Witness<'_>, index: usize, access: &Access) -> Beat {
    let who = &access.caller;
    let mut evidence = vec![Evidence::Access(index)];
    let fence = access.fence.map_or_else(String::new, |fence| format!(" (fence {fence})"));
    let mut text = match (access.kind, access.accepted) {
        (AccessKind::Read, true) => format!("{who} reads {}{fence}", access.value),
        (AccessKind::Read, false) => format!("The resource refuses {who}'s read{fence}"),
        (AccessKind::Append, true) if is_divided(witness) => {
            format!("{who} turns its buyer away, with {} left in all{fence}", access.value)
        }
        (AccessKind::Append, true) => format!("{who} appends an entry{fence}"),
        (AccessKind::Append, false) => format!("The resource refuses {who}'s entry{fence}"),
        (AccessKind::Add, true) => {
            format!("{who}{} makes {}{fence}", added(witness, access), access.value)
        }
        (AccessKind::Add, false) => {
            format!(
                "The resource refuses {who}{} at {}{fence}",
                added(witness, access),
                access.value
            )
        }
        (AccessKind::Expire, true) => format!("{who} sets the end of the counter{fence}"),
        (AccessKind::Expire, false) => format!("The resource refuses {who}'s expiry{fence}"),
        (AccessKind::Write, false) => {
            format!("The resource refuses {who}'s write of {}{fence}", access.value)
        }
        (AccessKind::Write, true) => {
            let (before, known) = value_before(witness, index);
            evidence.extend(known.map(Evidence::Access));
            format!("{who} writes {} over {before}{fence}", access.value)
        }
    };
    let corruption = corruption(witness, index);
    let corrupt = corruption.is_some();
    if let Some(found) = corruption {
        text.push_str(": ");
        text.push_str(damage(&witness.finding.plan.workload.kind, found));
    }
    text.push('.');
    let is_harm = witness.harm().is_some_and(|harm| harm.accesses.last() == Some(&index));
    let weight = match access.kind {
        _ if is_harm || !access.accepted => Weight::Crux,
        _ if corrupt => Weight::Cause,
        AccessKind::Read => Weight::Detail,
        AccessKind::Write | AccessKind::Append | AccessKind::Add | AccessKind::Expire => {
            Weight::Effect
        }
    };
    Beat::new(weight, access.at, text, evidence)
}

/// Whether the resource is in segments.
fn is_divided(witness: &Witness<'_>) -> bool {
    witness.finding.plan.workload.kind == WorkloadKind::StockSegments
}

/// Whose addition of what.
fn added(witness: &Witness<'_>, access: &Access) -> String {
    match op(witness.history(), access.op).map(|op| &op.kind) {
        Some(OpKind::Add { by, .. }) => format!("'s {by:+}"),
        _ => "'s addition".to_owned(),
    }
}

/// The value of the resource before an access, and the last access that shows it.
fn value_before(witness: &Witness<'_>, index: usize) -> (i64, Option<usize>) {
    let mut earlier = witness.history().accesses.iter().enumerate().take(index);
    let object = |access: &Access| op(witness.history(), access.op).map(|op| &op.object);
    let own = object(&witness.history().accesses[index]);
    let written = earlier.rfind(|(_, a)| {
        a.kind != AccessKind::Append && a.accepted && (!is_divided(witness) || object(a) == own)
    });
    match written {
        Some((before, access)) => (access.value, Some(before)),
        None if witness.finding.plan.workload.kind.is_stock() => {
            (witness.finding.plan.workload.items, None)
        }
        None => (0, None),
    }
}
