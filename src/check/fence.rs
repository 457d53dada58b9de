//! Fence regress: a grant that began after another's end of acquire has no larger number, or two
//! grants share one. Grants of one tenure may: what is taken again has no smaller number.

use std::collections::BTreeMap;

use crate::check::case::Case;
use crate::check::{Kind, Violation};
use crate::history::{Op, OpId, Outcome};
use crate::reading::moment::Moment;

/// A grant with a number.
struct Numbered {
    op: OpId,
    call: Moment,
    ret: Moment,
    fence: u64,
}

/// One violation for each grant whose number is too small or taken, in order of its call.
pub fn violations(case: &Case) -> Vec<Violation> {
    let mut grants = case.acquires().filter_map(numbered).collect::<Vec<_>>();
    grants.sort_by_key(|grant| grant.call);
    let mut returns = (0..grants.len()).collect::<Vec<_>>();
    returns.sort_by_key(|index| grants[*index].ret);
    let mut returns = returns.into_iter().peekable();
    let mut largest: Option<&Numbered> = None;
    let mut owners: BTreeMap<u64, Vec<&Numbered>> = BTreeMap::new();
    let mut found = Vec::new();
    for grant in &grants {
        while let Some(index) = returns.next_if(|index| grants[*index].ret < grant.call) {
            if largest.is_none_or(|largest| grants[index].fence > largest.fence) {
                largest = Some(&grants[index]);
            }
        }
        let is_apart = |other: &Numbered| !case.are_one(other.op, grant.op);
        let overtaken = largest.filter(|largest| {
            grant.fence < largest.fence || grant.fence == largest.fence && is_apart(largest)
        });
        let owners = owners.entry(grant.fence).or_default();
        let taken = owners.iter().copied().find(|owner| is_apart(owner));
        if let Some(other) = overtaken.or(taken) {
            found.push(violation(case, other, grant));
        }
        owners.push(grant);
    }
    found
}

fn numbered(op: &Op) -> Option<Numbered> {
    let Outcome::Granted { fence: Some(fence), .. } = op.outcome else { return None };
    Some(Numbered { op: op.id, call: op.call.into(), ret: op.ret?.into(), fence })
}

fn violation(case: &Case, earlier: &Numbered, later: &Numbered) -> Violation {
    let at = later.ret.max(earlier.ret).instant(case.history);
    let mut ops = vec![earlier.op, later.op];
    ops.sort_unstable();
    Violation { ops, ..Violation::new(Kind::FenceRegress, at, at) }
}
