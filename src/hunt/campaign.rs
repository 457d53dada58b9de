//! A campaign: one hunt in parts, which run in any order, on any machine, and again after a kill.
//!
//! The seeds are cut into segments. A shard runs each nth segment and records it as one line of a
//! log: see [`log`]. Merging is the union of the segments, so it does not matter in which order,
//! how often or in which groups logs are merged. A segment that was run twice must have had one
//! result.

pub mod canary;
pub mod log;
pub mod shard;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use lockstorm_world::engine::kind::EngineKind;
use serde::{Deserialize, Serialize};

use crate::hunt::campaign::shard::Shard;
use crate::hunt::drawing::Alphabet;
use crate::hunt::group::Groups;
use crate::hunt::novelty::States;
use crate::hunt::parameter::Parameter;
use crate::hunt::search::{BATCH, Until, scout};
use crate::hunt::seeded::{Hunt, draw};
use crate::hunt::strategy::Strategies;
use crate::hunt::tally::Tally;
use crate::plan::Plan;
use crate::refusal::Refusal;
use crate::run::Lab;

/// The format of logs that this version writes and reads.
const FORMAT: u32 = 2;
/// The number of segments that a campaign has at most, as long as they are short enough. It bounds
/// what a campaign writes, and what a merge keeps in memory.
const MAX_SEGMENTS: u64 = 100_000;
/// The maximum number of batches in a segment: a kill costs no more. 131,072 plans take minutes.
const MAX_BATCHES: u64 = 2_048;
/// With more segments than this, only time limits a campaign, and no shard comes to an end.
const ENDLESS: u64 = 10_000_000;
/// The number of batches in a segment of such a campaign.
const BATCHES: u64 = 16;

/// What all shards of a campaign have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    format: u32,
    /// The version of lockstorm.
    pub version: String,
    /// The hash of the program: a seed means nothing to another one.
    pub build: String,
    /// What runs the worlds.
    pub engine: EngineKind,
    /// The base plan.
    pub base: Plan,
    verbs: BTreeSet<String>,
    varies: BTreeSet<Parameter>,
    /// Whether the plans stay within the assumptions of the lock.
    pub within: bool,
    strategies: Strategies,
    /// The first and the last seed.
    pub seeds: (u64, u64),
}

impl Settings {
    /// The settings of a hunt by this build.
    pub fn of(hunt: &Hunt, build: String) -> Settings {
        Settings {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build,
            engine: hunt.lab.engine,
            base: hunt.base.clone(),
            verbs: hunt.alphabet.verbs.clone(),
            varies: hunt.alphabet.varies.clone(),
            within: hunt.alphabet.within,
            strategies: hunt.strategies,
            seeds: (*hunt.seeds.start(), *hunt.seeds.end()),
        }
    }

    /// The hunt in a lab that has its lock.
    pub fn hunt(&self, lab: Lab) -> Hunt {
        let (base, (first, last)) = (self.base.clone(), self.seeds);
        let alphabet = Alphabet {
            verbs: self.verbs.clone(),
            varies: self.varies.clone(),
            within: self.within,
            ..Alphabet::of(*lab.algorithm(&base))
        };
        let hunt = Hunt::new(lab, base, alphabet, first..=last);
        Hunt { strategies: self.strategies, ..hunt }
    }

    /// Why results of these settings and others are not of one campaign; `None` if they are.
    fn difference(&self, other: &Settings) -> Option<String> {
        let hunt = |settings: &Settings| {
            let lock = &settings.base.lock.algorithm;
            format!("'{lock}', seeds {}..{}", settings.seeds.0, settings.seeds.1)
        };
        if self.version != other.version {
            return Some(format!("versions {} and {}", self.version, other.version));
        }
        if self.build != other.build {
            return Some(format!("builds {} and {}", self.build, other.build));
        }
        let two = format!("hunts for {} and {}", hunt(self), hunt(other));
        (self != other).then(|| match hunt(self) == hunt(other) {
            true => format!("{two} with other settings"),
            false => two,
        })
    }

    /// The number of seeds of a segment; the last one may be shorter.
    fn length(&self) -> u64 {
        let (first, last) = self.seeds;
        if self.is_endless() {
            return BATCHES * BATCH;
        }
        (last - first + 1).div_ceil(MAX_SEGMENTS * BATCH).clamp(1, MAX_BATCHES) * BATCH
    }

    /// Whether only time limits the campaign.
    fn is_endless(&self) -> bool {
        (self.seeds.1 - self.seeds.0) / (MAX_BATCHES * BATCH) >= ENDLESS
    }

    /// The number of segments.
    pub fn segments(&self) -> u64 {
        (self.seeds.1 - self.seeds.0) / self.length() + 1
    }

    /// The seeds of each segment of a shard, in order; of all if there is one shard.
    pub fn seeds_of(&self, shard: Shard) -> impl Iterator<Item = RangeInclusive<u64>> + use<> {
        let ((first, last), length, segments) = (self.seeds, self.length(), self.segments());
        let own = (u64::from(shard.index - 1)..segments).step_by(shard.count as usize);
        own.map(move |nth| {
            let from = first.saturating_add(nth.saturating_mul(length));
            from..=from.saturating_add(length - 1).min(last)
        })
    }
}

/// The result of some seeds in a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// The first and the last seed.
    pub seeds: (u64, u64),
    /// How much was tested.
    pub tally: Tally,
    /// What was violated.
    pub groups: Groups,
    /// A sample of the states that the plans have shown.
    pub states: States,
    /// The trace hash of the first seed's plan: the sample by which machines are compared.
    pub sample: String,
}

impl Segment {
    /// Runs the plans of these seeds.
    pub fn run(hunt: &Hunt, seeds: RangeInclusive<u64>) -> Segment {
        let (first, last) = (*seeds.start(), *seeds.end());
        let part = Hunt { seeds, ..hunt.clone() };
        let scouted = scout(&part, Until::End, None, &|_| {});
        Segment {
            seeds: (first, last),
            tally: scouted.tally,
            groups: scouted.groups,
            states: scouted.novelty.states.sample(),
            sample: sample(hunt, first),
        }
    }
}

/// The trace hash of the plan of a segment's first seed.
pub fn sample(hunt: &Hunt, first: u64) -> String {
    let strategy = hunt.portfolio().batch(1)[0];
    hunt.lab.run(&draw(hunt, first, strategy)).trace.to_string()
}

/// What is known of a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Campaign {
    /// What its parts have in common.
    pub settings: Settings,
    /// The shards of which something is known.
    pub shards: BTreeSet<Shard>,
    /// The segments by their first seed.
    pub segments: BTreeMap<u64, Segment>,
}

impl Campaign {
    /// A campaign of which nothing was run.
    pub fn new(settings: Settings) -> Campaign {
        Campaign { settings, shards: BTreeSet::new(), segments: BTreeMap::new() }
    }

    /// Adds a segment. Refused if it was run before with another result.
    pub fn add(&mut self, segment: Segment) -> Result<(), Refusal> {
        let (first, last) = segment.seeds;
        match self.segments.get(&first) {
            Some(known) if *known != segment => {
                let what = format!("seeds {first}..{last} have two results");
                let instead = "one plan is one run: remove the log of the machine that is at \
                               fault, and run its shard again";
                Err(Refusal::new(what, instead))
            }
            _ => {
                self.segments.insert(first, segment);
                Ok(())
            }
        }
    }

    /// Adds what another part of the campaign knows. Refused if it is of another campaign.
    pub fn merge(&mut self, other: Campaign) -> Result<(), Refusal> {
        if let Some(difference) = self.settings.difference(&other.settings) {
            let what = format!("the logs are of two campaigns: {difference}");
            let instead = "merge the logs of one hunt, by one build of lockstorm";
            return Err(Refusal::new(what, instead));
        }
        self.shards.extend(other.shards);
        other.segments.into_values().try_for_each(|segment| self.add(segment))
    }

    /// How much was tested.
    pub fn tally(&self) -> Tally {
        let mut all = Tally::default();
        self.segments.values().for_each(|segment| all.merge(&segment.tally));
        all
    }

    /// What was violated.
    pub fn groups(&self) -> Groups {
        let mut all = Groups::default();
        self.segments.values().for_each(|segment| all.merge(&segment.groups));
        all
    }

    /// The states that the plans have shown, as far as logs keep them.
    pub fn states(&self) -> States {
        let mut all = States::few();
        self.segments.values().for_each(|segment| all.merge(&segment.states));
        all
    }

    /// The number of seeds of a shard that no log has; `None` if only time limits the hunt.
    pub fn missing(&self, shard: Shard) -> Option<u64> {
        if self.settings.is_endless() {
            return None;
        }
        let all = self.settings.seeds_of(shard);
        let missing = all.filter(|seeds| !self.segments.contains_key(seeds.start()));
        Some(missing.map(|seeds| seeds.end() - seeds.start() + 1).sum())
    }

    /// The shards with missing seeds, among as many as the logs are of. If only time limits the
    /// hunt, those without any plan, and no number of seeds.
    pub fn missing_shards(&self) -> Vec<(Shard, Option<u64>)> {
        let count = self.shards.iter().map(|shard| shard.count).max().unwrap_or(1);
        let all = (1..=count).map(|index| Shard { index, count });
        let missing = all.filter_map(|shard| match self.missing(shard) {
            Some(0) => None,
            Some(seeds) => Some((shard, Some(seeds))),
            None => (!self.has_run(shard)).then_some((shard, None)),
        });
        missing.collect()
    }

    /// Whether a log has a segment of a shard.
    fn has_run(&self, shard: Shard) -> bool {
        let (first, length) = (self.settings.seeds.0, self.settings.length());
        let mut nths = self.segments.keys().map(|from| (from - first) / length);
        nths.any(|nth| nth % u64::from(shard.count) == u64::from(shard.index - 1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::proptest;

    use super::{Campaign, Segment, Settings};
    use crate::check::verdict::Kind;
    use crate::explain::mechanism::how::How;
    use crate::hunt::campaign::shard::Shard;
    use crate::hunt::group::{Example, GroupKey, Groups};
    use crate::hunt::novelty::States;
    use crate::hunt::quarry::Quarry;
    use crate::hunt::seeded::draw;
    use crate::hunt::strategy::{Strategies, Strategy};
    use crate::hunt::tally::Tally;
    use crate::plan::TopologyKind;
    use crate::plan::base_plan::base_plan;
    use crate::run::Lab;

    fn settings(first: u64, last: u64) -> Settings {
        let mut quarry = Quarry::like(base_plan("token-lua", TopologyKind::Single));
        quarry.seeds = first..=last;
        let hunt = quarry.hunt(Lab::default()).expect("it makes sense");
        Settings::of(&hunt, "a build".to_owned())
    }

    /// The only result of a segment.
    fn segment(first: u64, last: u64) -> Segment {
        let mut groups = Groups::default();
        let key = GroupKey {
            in_model: first.is_multiple_of(3),
            kinds: vec![Kind::StaleHolder],
            checks: Vec::new(),
            mechanism: How::StoodStill,
        };
        let strategy = Strategy::Random;
        groups.add(key, Example { faults: 1, callers: 2, seed: first, strategy });
        let tally = Tally { runs: last - first + 1, grants: first, ..Tally::default() };
        let (states, sample) = (States::few(), first.to_string());
        Segment { seeds: (first, last), tally, groups, states, sample }
    }

    /// A campaign that knows these segments.
    fn campaign(nths: &[u64]) -> Campaign {
        let mut campaign = Campaign::new(settings(1, 64 * 20));
        for nth in nths {
            campaign.add(segment(1 + nth * 64, nth * 64 + 64)).expect("one result");
        }
        campaign
    }

    fn merged(mut one: Campaign, other: &Campaign) -> Campaign {
        one.merge(other.clone()).expect("one campaign");
        one
    }

    proptest! {
        #[test]
        fn merging_is_a_union(
            a in vec(0..20_u64, 0..20), b in vec(0..20_u64, 0..20), c in vec(0..20_u64, 0..20),
        ) {
            let (a, b, c) = (campaign(&a), campaign(&b), campaign(&c));
            assert_eq!(merged(a.clone(), &b), merged(b.clone(), &a), "in any order");
            let left = merged(merged(a.clone(), &b), &c);
            assert_eq!(left, merged(a.clone(), &merged(b.clone(), &c)), "in any groups");
            assert_eq!(merged(left.clone(), &b), left, "as often as one likes");
            let plans = left.segments.len() as u64 * 64;
            assert_eq!(left.tally().runs, plans);
            let counts: u64 = left.groups().iter().map(|(_, group)| group.count).sum();
            assert_eq!(counts, left.segments.len() as u64);
        }

        #[test]
        fn shards_cover_every_seed_once(
            first in 0..500_u64, more in 0..9_000_u64, count in 1..9_u32,
        ) {
            let settings = settings(first, first + more);
            let shards = (1..=count).map(|index| Shard { index, count });
            let mut seeds: Vec<u64> =
                shards.flat_map(|shard| settings.seeds_of(shard).flatten()).collect();
            seeds.sort_unstable();
            assert!(seeds.into_iter().eq(first..=first + more));
        }
    }

    #[test]
    fn a_campaign_has_few_segments_however_many_its_seeds_are() {
        assert_eq!(settings(1, 64).segments(), 1);
        assert_eq!(settings(1, 65).segments(), 2);
        assert_eq!(settings(1, 6_400_000).segments(), 100_000);
        let many = settings(1, 10_000_000_000);
        assert!(many.segments() <= 100_000 && many.segments() > 99_000);
        // No kill costs more than 131,072 plans.
        assert_eq!(settings(1, 20_000_000_000).segments(), 20_000_000_000_u64.div_ceil(131_072));
        let endless = settings(5, u64::MAX);
        let mut seeds = endless.seeds_of(Shard { index: 2, count: 3 });
        assert_eq!(seeds.next(), Some(1_029..=2_052));
        assert_eq!(seeds.next(), Some(4_101..=5_124));
        let last = endless.seeds_of(Shard { index: 1, count: 1 }).nth(3).expect("endless");
        assert_eq!(*last.end(), 5 + 4 * 1_024 - 1);
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let refused = |change: &dyn Fn(&mut Settings)| {
            let mut other = Campaign::new(settings(1, 64 * 20));
            change(&mut other.settings);
            campaign(&[1]).merge(other).expect_err("two campaigns").to_string()
        };
        assert!(refused(&|one| one.version = "9.9".to_owned()).contains("versions 0.1.0 and 9.9"));
        assert!(refused(&|one| one.build = "b".to_owned()).contains("builds a build and b"));
        let other = refused(&|one| one.seeds.1 += 1);
        assert!(other.contains("seeds 1..1280 and 'token-lua', seeds 1..1281"), "{other}");
        assert!(refused(&|one| one.within = true).contains("with other settings"));
        let other = refused(&|one| one.strategies = Strategies::Only(Strategy::Swarm));
        assert!(other.contains("with other settings"), "{other}");
        let mut one = campaign(&[1]);
        let other = Segment { sample: "another".to_owned(), ..segment(65, 128) };
        let two = one.add(other).expect_err("two results").to_string();
        assert!(two.contains("seeds 65..128 have two results"), "{two}");
    }

    #[test]
    fn the_sample_of_a_segment_is_the_trace_of_its_first_plan() {
        let settings = settings(1, 6);
        let hunt = settings.hunt(Lab::default());
        let sample = |seeds| Segment::run(&hunt, seeds).sample;
        let (one, other) = (sample(1..=3), sample(4..=6));
        assert_ne!(one, other);
        let strategy = hunt.portfolio().batch(1)[0];
        let of = |seed| hunt.lab.run(&draw(&hunt, seed, strategy)).trace.to_string();
        assert_eq!([one, other], [of(1), of(4)]);
    }

    #[test]
    fn what_no_log_has_is_missing() {
        let known = campaign(&[0, 1, 4]);
        let missing = |index, count| known.missing(Shard { index, count });
        assert_eq!(missing(1, 1), Some(17 * 64));
        assert_eq!(missing(1, 2), Some(8 * 64));
        assert_eq!(missing(1, 20), Some(0));
        let mut two = known.clone();
        two.shards.insert(Shard { index: 1, count: 2 });
        let half = |index, seeds: u64| (Shard { index, count: 2 }, Some(seeds * 64));
        assert_eq!(two.missing_shards(), [half(1, 8), half(2, 9)]);
        // Of several divisions the finest counts: what it lacks is the least to run.
        two.shards.insert(Shard { index: 3, count: 4 });
        let quarter = |index, seeds: u64| (Shard { index, count: 4 }, Some(seeds * 64));
        let missing = [quarter(1, 3), quarter(2, 4), quarter(3, 5), quarter(4, 5)];
        assert_eq!(two.missing_shards(), missing);
        // If only time limits a hunt, no seeds are missing, and a shard that never ran is.
        let mut endless = Campaign::new(settings(1, u64::MAX));
        let third = |index| Shard { index, count: 3 };
        assert_eq!(endless.missing(third(1)), None);
        endless.shards.insert(third(2));
        let from = *endless.settings.seeds_of(third(2)).nth(4).expect("a segment").start();
        endless.add(segment(from, from + 63)).expect("one result");
        assert_eq!(endless.missing_shards(), [(third(1), None), (third(3), None)]);
    }
}
