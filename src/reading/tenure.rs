//! Tenures: the interval in which a caller has the lock, however many grants it consists of.
//!
//! A caller that acquires the lock again while it has it begins nothing new: its grants nest.
//! Whatever is checked of a holder (coverage, notification of a loss, possession of its key) is
//! checked of all of them together. The tenure begins with the first grant, ends when the last one
//! ends, and is covered where any of its grants is. If grants do not nest, each is a tenure.

use crate::history::OpId;
use crate::reading::hold::{self, Hold, HoldEnd};
use crate::reading::index::HistoryIndex;
use crate::reading::moment::Moment;

/// The nested grants of one caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenure {
    /// The acquire that began it, then each acquire that its caller called in it, with any outcome.
    pub acquires: Vec<OpId>,
    /// Its grants: indices of the reading's holds, in order of their start.
    pub holds: Vec<usize>,
    /// The tenure as one hold, of the acquire that began it.
    pub whole: Hold,
    /// The moment from which on nothing that its caller was told covers it any more: the release of
    /// an inner grant ends the grant, but not the lease that it had prolonged.
    pub lease_end: Moment,
}

/// Whether grants of one caller nest. If several callers may hold, each grant is a separate permit;
/// a caller that never re-enters cannot have a second grant.
pub fn nest(reenters: bool, holders: u32) -> bool {
    reenters && holders == 1
}

impl Tenure {
    /// Whether any of its grants covers it at that moment.
    pub fn covers(&self, moment: Moment) -> bool {
        self.whole.covers(moment)
    }

    /// The end of the coverage by its grants that includes that moment, if any.
    pub fn covered_until(&self, moment: Moment) -> Option<Moment> {
        let mut parts = self.whole.covered.iter();
        parts.find(|(from, to)| *from <= moment && moment < *to).map(|(_, to)| *to)
    }

    /// Whether an acquire was called, and if granted returned, while its caller had the lock.
    fn takes_in(&self, index: &HistoryIndex, acquire: OpId) -> bool {
        let Some(op) = index.op(acquire) else { return false };
        let last = op.ret.filter(|_| index.is_granted(acquire)).unwrap_or(op.call);
        let Hold { owner, start, end, .. } = self.whole;
        owner == index.caller(acquire) && start <= op.call.into() && Moment::from(last) < end
    }

    fn add(&mut self, index: usize, hold: &Hold) {
        self.acquires.push(hold.grant);
        self.holds.push(index);
        if hold.end > self.whole.end {
            (self.whole.end, self.whole.ended) = (hold.end, hold.ended);
        }
        self.whole.covered = united(&self.whole.covered, &hold.covered);
    }
}

/// Every tenure, in order of its beginning.
pub fn tenures(index: &HistoryIndex, holds: &[Hold], nests: bool) -> Vec<Tenure> {
    let mut tenures: Vec<Tenure> = Vec::new();
    for (place, hold) in holds.iter().enumerate() {
        let mut known = tenures.iter_mut().rev();
        match known.find(|tenure| nests && tenure.takes_in(index, hold.grant)) {
            Some(tenure) => tenure.add(place, hold),
            None => tenures.push(Tenure {
                acquires: vec![hold.grant],
                holds: vec![place],
                whole: hold.clone(),
                lease_end: hold.uncovered_from(),
            }),
        }
    }
    for tenure in &mut tenures {
        tenure.lease_end = lease_end(index, holds, tenure);
    }
    // After all grants: a nested grant may extend the tenure in which a failed acquire was called.
    for op in index.acquires().filter(|op| nests && !index.is_granted(op.id)) {
        let mut known = tenures.iter_mut();
        if let Some(tenure) = known.find(|tenure| tenure.takes_in(index, op.id)) {
            tenure.acquires.push(op.id);
        }
    }
    tenures
}

/// The last end of the coverage by a tenure's grants, and by those that its caller released before.
fn lease_end(index: &HistoryIndex, holds: &[Hold], tenure: &Tenure) -> Moment {
    let own = tenure.holds.iter().map(|place| &holds[*place]);
    let released = own.filter(|hold| matches!(hold.ended, HoldEnd::Released(_)));
    let ends = released.filter_map(|hold| hold::lease_end(index, hold.grant, tenure.whole.end));
    ends.fold(tenure.whole.uncovered_from(), Moment::max)
}

/// The parts that lie in either, disjoint and in order.
fn united(one: &[(Moment, Moment)], other: &[(Moment, Moment)]) -> Vec<(Moment, Moment)> {
    let mut all = [one, other].concat();
    all.sort_unstable();
    let mut parts = Vec::new();
    all.into_iter().for_each(|(from, to)| hold::join(&mut parts, from, to));
    parts
}
