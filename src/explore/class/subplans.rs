//! The choice of the sub-plans that are tried.

use std::collections::BTreeSet;

use lockstorm_platform::fault::Verb;

use crate::explore::class::Search;
use crate::ledger::part::{Part, Parts, subsets};

/// The maximum number of parts for which all sub-plans are tried.
const MAX_PARTS: usize = 6;
/// The maximum number of sub-plans that are tried otherwise.
const MAX_SUBPLANS: usize = 64;

impl Search<'_, '_> {
    /// The sub-plans to try, the likely ones first.
    pub(super) fn candidates(&mut self) -> Vec<Parts> {
        let chain = self.chain();
        let among: Vec<Part> = if self.parts.len() <= MAX_PARTS {
            self.parts.clone()
        } else {
            chain.last().into_iter().flatten().copied().collect()
        };
        let mut seen = BTreeSet::new();
        let mut found: Vec<Parts> = chain;
        if self.parts.len() > MAX_PARTS {
            found.extend([
                self.mildly(|blamed| blamed.first()),
                self.mildly(|blamed| blamed.last()),
            ]);
        }
        let all: Parts = self.parts.iter().copied().collect();
        found.push(all.clone());
        if self.parts.len() > MAX_PARTS {
            // Few parts that break nothing may show a bug that the others hide.
            let kept = [1, 2].into_iter().flat_map(|kept| subsets(&self.parts, kept));
            found.extend(kept.map(|kept| all.difference(&kept).copied().collect()));
        }
        let mut size = 1;
        while size <= among.len() && found.len() <= MAX_SUBPLANS {
            found.extend(subsets(&among, size));
            size += 1;
        }
        found.retain(|out| seen.insert(out.clone()));
        found.truncate(MAX_SUBPLANS.max(1 << self.parts.len().min(MAX_PARTS)));
        let freer = self.freer(&found);
        found.extend(freer.into_iter().filter(|out| seen.insert(out.clone())));
        let synced = self.synced(&found);
        found.extend(synced.into_iter().filter(|out| !seen.contains(out)));
        found
    }

    /// If settings leave no time for work: those of these sub-plans in which it has time, with one
    /// more setting changed. Less than that leaves time, but what is violated may differ.
    fn freer(&self, subplans: &[Parts]) -> Vec<Parts> {
        let has_time = |out: &&Parts| self.leeway.iter().any(|set| set.is_subset(out));
        let is_timeout = |part: &Part| matches!(part, Part::Timeout(_));
        let more = |out: &Parts| {
            let has_timeout = out.iter().any(is_timeout);
            let mut more = self.settings.clone();
            more.retain(|part| !(out.contains(part) || has_timeout && is_timeout(part)));
            more.into_iter().map(|part| out | &[part].into()).collect::<Vec<_>>()
        };
        subplans.iter().filter(has_time).flat_map(more).collect()
    }

    /// If nodes came back without their keys: the plan, and those of these sub-plans in which a
    /// process dies, with writes on the disk before each reply.
    fn synced(&self, subplans: &[Parts]) -> Vec<Parts> {
        if !self.forgets {
            return Vec::new();
        }
        let none = Parts::new();
        let dies = |out: &&Parts| {
            let mut left = self.plan.faults.iter().filter(|f| !out.contains(&Part::Fault(f.id)));
            left.any(|fault| fault.verb.kills() || fault.verb == Verb::FullDisk)
        };
        let subplans = [&none].into_iter().chain(subplans).filter(dies);
        subplans.map(|out| out | &[Part::Persistence].into()).collect()
    }

    /// The sets removed step by step: each step also removes everything that breached an assumption
    /// in the previous run, until nothing is breached or nothing is left to remove.
    pub(super) fn chain(&mut self) -> Vec<Parts> {
        let (mut chain, mut out) = (Vec::new(), Parts::new());
        let all = self.parts.clone();
        loop {
            let before = out.len();
            for breach in self.breaches(&out) {
                let is_known = !breach.parts.is_empty();
                out.extend(if is_known { breach.parts } else { all.clone() });
            }
            if out.len() == before {
                return chain;
            }
            chain.push(out.clone());
        }
    }

    /// The set removed part by part: each step removes one of those that breached an assumption in
    /// the previous run, until nothing is breached. If pauses exceed a bound only together, not all
    /// of them need to go.
    fn mildly(&mut self, pick: impl Fn(&BTreeSet<Part>) -> Option<&Part>) -> Parts {
        let mut out = Parts::new();
        loop {
            let blamed = self.breaches(&out).into_iter().flat_map(|breach| breach.parts);
            let blamed = blamed.filter(|part| !out.contains(part)).collect::<BTreeSet<_>>();
            let Some(part) = pick(&blamed) else { return out };
            out.insert(*part);
        }
    }
}
