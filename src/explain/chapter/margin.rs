//! The nearest miss of a run that held, as an event: which write it was, and what kept it safe.

use lockstorm_sim::time::{Clock, MILLISECOND, Nanos};

use crate::explain::hold::Hold;
use crate::explain::incarnation::Incarnation;
use crate::explain::quantity::{length, moment};
use crate::explain::story::{Beat, Evidence, Weight};
use crate::explain::witness::Witness;
use crate::history::{Access, AccessKind, OpId};

/// The write that the checks measured; nothing if it cannot be told which it was.
pub fn beat(witness: &Witness<'_>) -> Option<Beat> {
    let miss = witness.finding.judgement.nearest_miss?;
    witness.tenures.iter().find_map(|hold| {
        let (index, access) = last_write(witness, hold)?;
        let is_of = |owner: Option<OpId>| owner.is_some_and(|owner| witness.is_of(hold, owner));
        let mut lives = witness.lives.iter().filter(|life| is_of(life.owner));
        let life = lives.find(|life| {
            let free = free_at(witness, life).map(i128::from);
            free.is_some_and(|free| free - i128::from(access.at.at) == i128::from(miss))
        })?;
        let who = &hold.grant.caller;
        let text = if miss < 0 {
            format!(
                "The nearest miss: {who} writes {} after its key on {} could have let another in; \
                 nobody came.",
                length(miss.unsigned_abs()),
                life.node
            )
        } else {
            format!(
                "The nearest miss: {who} writes for the last time under its grant of {}, {} before \
                 its key on {} would have let another in.",
                moment(hold.from.at),
                length(miss.unsigned_abs()),
                life.node
            )
        };
        let evidence =
            vec![Evidence::Op(hold.grant.id), Evidence::Access(index), Evidence::Key(life.born)];
        Some(Beat::new(Weight::Crux, access.at, text, evidence))
    })
}

fn last_write<'a>(witness: &Witness<'a>, hold: &Hold<'_>) -> Option<(usize, &'a Access)> {
    let mut accesses = witness.history().accesses.iter().enumerate();
    accesses.rfind(|(_, access)| {
        access.grant.is_some_and(|grant| witness.is_of(hold, grant))
            && access.accepted
            && access.kind != AccessKind::Read
    })
}

/// When a key would have ended by itself, as its node's wall clock went when it was set.
fn free_at(witness: &Witness<'_>, life: &Incarnation) -> Option<Nanos> {
    let reading = life.until_ms?.saturating_add(1).saturating_mul(MILLISECOND);
    let wall = witness.reading.clocks.line(&life.node, Clock::Wall, life.from.into())?;
    wall.reaches(reading)
}
