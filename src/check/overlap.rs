//! Double grants and stale holders: stretches in which more callers hold than the lock allows.
//!
//! Holders in shared mode may overlap each other: there are too many only if one is exclusive.
//!
//! A caller counts once for each of its tenures: nested grants are one tenure, permits are not.
//! Stretches are maximal. A stretch is a double grant if more than the allowed number of holds are
//! covered at some instant of it, or if one of its grants was dead on arrival while nothing else
//! covered its caller. Otherwise at least one holder is past its deadline: stale. Neither assigns
//! blame. A stretch of zero length is ignored, because no caller can have done anything in it,
//! unless it contains a whole hold of the probe, which does nothing in its hold, and that grant was
//! alive.

use std::collections::BTreeSet;

use crate::check::case::Case;
use crate::check::verdict::{Kind, Violation};
use crate::reading::moment::Moment;

/// The violations that follow from the overlaps.
pub fn violations(case: &Case) -> Vec<Violation> {
    overlaps(case).iter().map(|overlap| violation(case, overlap)).collect()
}

/// A maximal stretch with too many holders.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Overlap {
    /// When too many begin to hold.
    from: Moment,
    /// Its end.
    to: Moment,
    /// Indices of the case's holds during the stretch, in order of their start.
    holds: Vec<usize>,
    /// Whether too many were covered at once, or one was dead on arrival.
    is_double_grant: bool,
}

/// Every overlap of a case, the earliest first.
fn overlaps(case: &Case) -> Vec<Overlap> {
    let mut sweep = Sweep::new(case);
    for (moment, edge) in edges(case) {
        sweep.pass(moment);
        sweep.take(edge);
    }
    sweep.pass(Moment::NEVER);
    sweep.found
}

fn violation(case: &Case, overlap: &Overlap) -> Violation {
    let kind = if overlap.is_double_grant { Kind::DoubleGrant } else { Kind::StaleHolder };
    let holds = overlap.holds.iter().filter_map(|hold| case.tenure(case.holds[*hold].grant));
    let whole = holds.map(|tenure| (tenure.whole.start, tenure.whole.grant));
    let ops = whole.collect::<BTreeSet<_>>().into_iter().map(|(_, grant)| grant).collect();
    let (from, to) = (overlap.from.instant(case.history), overlap.to.instant(case.history));
    Violation { ops, ..Violation::new(kind, from, to) }
}

/// A change of what is held or covered. At one moment, ends sort before beginnings, because
/// intervals are half-open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    EndOfCover(usize),
    EndOfHold(usize),
    StartOfHold(usize),
    StartOfCover(usize),
}

fn edges(case: &Case) -> Vec<(Moment, Edge)> {
    let mut edges = Vec::with_capacity(case.holds.len() * 4);
    for (index, hold) in case.holds.iter().enumerate() {
        if hold.start == hold.end {
            continue;
        }
        edges.push((hold.start, Edge::StartOfHold(index)));
        edges.push((hold.end, Edge::EndOfHold(index)));
        for (from, to) in &hold.covered {
            edges.push((*from, Edge::StartOfCover(index)));
            edges.push((*to, Edge::EndOfCover(index)));
        }
    }
    edges.sort();
    edges
}

/// How many callers hold or are covered, and how many of them are exclusive.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    all: u32,
    exclusive: u32,
}

impl Count {
    /// Whether these are more than a lock for so many allows.
    fn exceeds(self, holders: u32) -> bool {
        self.all > holders && self.exclusive > 0
    }

    fn add(&mut self, counts: bool, shared: bool) {
        self.all += u32::from(counts);
        self.exclusive += u32::from(counts && !shared);
    }

    fn remove(&mut self, counts: bool, shared: bool) {
        self.all -= u32::from(counts);
        self.exclusive -= u32::from(counts && !shared);
    }
}

/// Walks through the edges in order and records the stretches with too many holders.
struct Sweep<'a> {
    case: &'a Case<'a>,
    /// For each tenure, the number of its current holds, and how many of them are covered.
    held: Vec<(u32, u32)>,
    /// The tenure of each hold.
    tenures: Vec<usize>,
    holders: Count,
    covered: Count,
    active: Vec<usize>,
    now: Moment,
    open: Option<Overlap>,
    found: Vec<Overlap>,
}

impl<'a> Sweep<'a> {
    fn new(case: &'a Case<'a>) -> Sweep<'a> {
        let mut tenures = vec![0; case.holds.len()];
        for (index, tenure) in case.tenures.iter().enumerate() {
            tenure.holds.iter().for_each(|hold| tenures[*hold] = index);
        }
        Sweep {
            case,
            held: vec![(0, 0); case.tenures.len()],
            tenures,
            holders: Count::default(),
            covered: Count::default(),
            active: Vec::new(),
            now: Moment::default(),
            open: None,
            found: Vec::new(),
        }
    }

    /// Judges the stretch from the previous edge to this moment, in which nothing changed.
    fn pass(&mut self, moment: Moment) {
        if moment == self.now {
            return;
        }
        if !self.holders.exceeds(self.case.terms.holders) {
            let holds = &self.case.holds;
            let is_probed = |open: &Overlap| {
                let mut inside = open.holds.iter().map(|index| &holds[*index]);
                inside.any(|hold| {
                    let is_alive = hold.uncovered_from() > hold.start;
                    hold.by_probe && is_alive && open.from <= hold.start && hold.end <= open.to
                })
            };
            let counts = |open: &Overlap| open.from.at < open.to.at || is_probed(open);
            self.found.extend(self.open.take().filter(counts));
        } else {
            let covered = self.covered.exceeds(self.case.terms.holders);
            let from = self.now;
            let open = self.open.get_or_insert_with(|| Overlap {
                from,
                to: from,
                holds: Vec::new(),
                is_double_grant: false,
            });
            open.to = moment;
            for index in &self.active {
                let start = self.case.holds[*index].start;
                let dead = !self.case.tenures[self.tenures[*index]].covers(start);
                open.is_double_grant |= covered || dead;
                if let Err(place) = open.holds.binary_search(index) {
                    open.holds.insert(place, *index);
                }
            }
        }
        self.now = moment;
    }

    fn take(&mut self, edge: Edge) {
        let (Edge::StartOfHold(index)
        | Edge::EndOfHold(index)
        | Edge::StartOfCover(index)
        | Edge::EndOfCover(index)) = edge;
        let shared = self.case.tenures[self.tenures[index]].whole.shared;
        let (holds, covers) = &mut self.held[self.tenures[index]];
        match edge {
            Edge::StartOfHold(_) => {
                *holds += 1;
                self.holders.add(*holds == 1, shared);
                self.active.push(index);
            }
            Edge::EndOfHold(_) => {
                *holds -= 1;
                self.holders.remove(*holds == 0, shared);
                self.active.retain(|active| *active != index);
            }
            Edge::StartOfCover(_) => {
                *covers += 1;
                self.covered.add(*covers == 1, shared);
            }
            Edge::EndOfCover(_) => {
                *covers -= 1;
                self.covered.remove(*covers == 0, shared);
            }
        }
    }
}
