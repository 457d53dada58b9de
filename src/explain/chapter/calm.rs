//! The short story of a run that held: how hard it was tried, and how close it came.

use lockstorm_sim::time::Nanos;

use crate::explain::chapter::strike::told;
use crate::explain::hold::{Hold, halts, touches};
use crate::explain::quantity::{count, length, list, moment};
use crate::explain::story::{Beat, Evidence, Weight};
use crate::explain::witness::Witness;
use crate::history::{OpKind, Outcome};

/// Grants, faults, the closest hand-over, and the probe.
pub fn beats(witness: &Witness<'_>) -> Vec<Beat> {
    let mut beats: Vec<Beat> = grants(witness).into_iter().collect();
    beats.extend(faults(witness));
    beats.extend(overrun(witness));
    beats.extend(closest(witness));
    beats.extend(probe(witness));
    beats
}

fn grants(witness: &Witness<'_>) -> Option<Beat> {
    let holds: Vec<&Hold<'_>> =
        witness.holds.iter().filter(|hold| hold.grant.process != "probe").collect();
    let first = holds.first()?;
    let mut callers: Vec<String> = Vec::new();
    for hold in &holds {
        if !callers.contains(&hold.grant.caller) {
            callers.push(hold.grant.caller.clone());
        }
    }
    callers.sort_unstable();
    let counts = &witness.finding.judgement.counts;
    let text = format!(
        "{} can begin: {} will follow, from here to {}, and {}.",
        list(&callers),
        count(holds.len() as u64, "grant"),
        moment(holds.last()?.until.at),
        count(counts.contended.into(), "contended acquire"),
    );
    let evidence = holds.iter().map(|hold| Evidence::Op(hold.grant.id)).collect();
    Some(Beat::new(Weight::Crux, first.from, text, evidence))
}

fn faults(witness: &Witness<'_>) -> Vec<Beat> {
    let conditions = witness.history().conditions.iter().enumerate();
    conditions
        .map(|(index, condition)| {
            let (text, evidence) = told(witness, index, condition);
            let weight = if evidence.len() > 1 { Weight::Cause } else { Weight::Effect };
            Beat::new(weight, condition.from, text, evidence)
        })
        .collect()
}

/// A holder that was past its lease without harm, because nobody else was let in.
fn overrun(witness: &Witness<'_>) -> Option<Beat> {
    let bare = |hold: &&Hold<'_>| hold.bare_from().map(|bare| hold.until.at - bare);
    let hold = witness.holds.iter().filter(|hold| bare(hold).is_some()).max_by_key(bare)?;
    let paused = witness
        .history()
        .conditions
        .iter()
        .any(|condition| halts(condition) && touches(condition, &hold.grant.process));
    let text = format!(
        "{} outlives its lease by {}{}, until {}; nobody else is let in.",
        hold.grant.caller,
        length(bare(&hold)?),
        if paused { ", paused as it was" } else { "" },
        moment(hold.until.at),
    );
    Some(Beat::new(Weight::Cause, hold.until, text, vec![Evidence::Op(hold.grant.id)]))
}

/// The two holds of different callers with the least time between them.
fn closest(witness: &Witness<'_>) -> Option<Beat> {
    let pairs = witness.holds.windows(2);
    let gap = |pair: &&[Hold<'_>]| -> Nanos { pair[1].from.at.saturating_sub(pair[0].until.at) };
    let pair = pairs
        .filter(|pair| pair[0].grant.caller != pair[1].grant.caller)
        .filter(|pair| pair[0].until <= pair[1].from)
        .min_by_key(gap)?;
    let mut text = format!(
        "The closest hand-over: {} is granted the lock {} after {}'s hold ended.",
        pair[1].grant.caller,
        length(gap(&pair)),
        pair[0].grant.caller,
    );
    if let Some(miss) = witness.finding.judgement.nearest_miss {
        let side = if miss < 0 { "after" } else { "before" };
        text.push_str(&format!(
            " The nearest miss of the run: a last write {} {side} the lease could have let \
             another in.",
            length(miss.unsigned_abs()),
        ));
    }
    let evidence = pair.iter().map(|hold| Evidence::Op(hold.grant.id)).collect();
    Some(Beat::new(Weight::Crux, pair[1].from, text, evidence))
}

fn probe(witness: &Witness<'_>) -> Option<Beat> {
    let op = witness.history().ops.iter().find(|op| {
        op.process == "probe"
            && op.kind == OpKind::Acquire
            && matches!(op.outcome, Outcome::Granted { .. })
    })?;
    let healed = witness.history().healed?;
    let ret = op.ret?.instant();
    let text = format!(
        "Faults healed and clients stopped, the probe is granted the lock after {}.",
        length(ret.at.saturating_sub(healed.at)),
    );
    Some(Beat::new(Weight::Crux, ret, text, vec![Evidence::Op(op.id)]))
}
