//! Fence regress: a grant has a smaller fence number than an earlier grant, or two grants share a
//! number. Grants of one tenure may share one; a re-entrant grant must not have a smaller number.
//!
//! A grant is earlier than another if its acquire returned before the other was called. If only one
//! caller may hold, it is also earlier if it was released before the other was granted: a resource
//! that has seen the larger number rejects the holder. This second rule applies only to a grant
//! that is covered when it returns: a grant whose lease is already over may have been the earlier
//! one.

use std::collections::BTreeMap;

use crate::check::case::Case;
use crate::check::verdict::{Kind, Violation};
use crate::history::{Op, OpId, Outcome};
use crate::reading::moment::Moment;

/// A grant with its fence number.
struct Numbered {
    op: OpId,
    call: Moment,
    ret: Moment,
    fence: u64,
}

/// One violation for each grant whose number is too small or already taken, in order of its call.
pub fn violations(case: &Case) -> Vec<Violation> {
    let mut grants = case.acquires().filter_map(numbered).collect::<Vec<_>>();
    grants.sort_by_key(|grant| grant.call);
    let returned = Largest::of(&grants, |grant| Some(grant.ret));
    let given_back = Largest::of(&grants, |grant| given_back_at(case, grant));
    let mut owners: BTreeMap<u64, Vec<&Numbered>> = BTreeMap::new();
    let mut found = Vec::new();
    for grant in &grants {
        let is_apart = |other: &Numbered| !case.are_one(other.op, grant.op);
        let overtaken = returned.before(grant.call).filter(|largest| {
            grant.fence < largest.fence || grant.fence == largest.fence && is_apart(largest)
        });
        let outdone = given_back.before(grant.ret).filter(|largest| {
            grant.fence < largest.fence && is_apart(largest) && is_covered(case, grant)
        });
        let owners = owners.entry(grant.fence).or_default();
        let taken = owners.iter().copied().find(|owner| is_apart(owner));
        if let Some(other) = overtaken.or(outdone).or(taken) {
            found.push(violation(case, other, grant));
        }
        owners.push(grant);
    }
    found
}

/// The grant with the largest number up to each moment.
struct Largest<'a>(Vec<(Moment, &'a Numbered)>);

impl<'a> Largest<'a> {
    fn of(grants: &'a [Numbered], at: impl Fn(&Numbered) -> Option<Moment>) -> Largest<'a> {
        let marks = grants.iter().filter_map(|grant| Some((at(grant)?, grant)));
        let mut marks: Vec<(Moment, &Numbered)> = marks.collect();
        marks.sort_by_key(|(at, _)| *at);
        let mut largest: Option<&Numbered> = None;
        for (_, grant) in &mut marks {
            let most = largest.filter(|largest| largest.fence >= grant.fence).unwrap_or(grant);
            (*grant, largest) = (most, Some(most));
        }
        Largest(marks)
    }

    fn before(&self, moment: Moment) -> Option<&'a Numbered> {
        let count = self.0.partition_point(|(at, _)| *at < moment);
        count.checked_sub(1).map(|last| self.0[last].1)
    }
}

/// When a release that ended the grant's tenure first returned as released, if the lock allows only
/// one holder.
fn given_back_at(case: &Case, grant: &Numbered) -> Option<Moment> {
    let released = case.releases(grant.op).filter(|op| op.outcome == Outcome::Released);
    let released = released.filter_map(|op| op.ret).map(Moment::from).min();
    released.filter(|_| !case.can_overlap())
}

fn is_covered(case: &Case, grant: &Numbered) -> bool {
    case.tenure(grant.op).is_some_and(|tenure| tenure.covers(grant.ret))
}

/// A grant with a number. Holders in shared mode may have the same number.
fn numbered(op: &Op) -> Option<Numbered> {
    let Outcome::Granted { fence: Some(fence), .. } = op.outcome else { return None };
    if op.shared {
        return None;
    }
    Some(Numbered { op: op.id, call: op.call.into(), ret: op.ret?.into(), fence })
}

fn violation(case: &Case, earlier: &Numbered, later: &Numbered) -> Violation {
    let at = later.ret.max(earlier.ret).instant(case.history);
    let mut ops = vec![earlier.op, later.op];
    ops.sort_unstable();
    Violation { ops, ..Violation::new(Kind::FenceRegress, at, at) }
}
