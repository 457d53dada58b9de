//! The request for a hunt: the one place where a hunt is composed or refused, for the command line
//! and for users' tests.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use lockstorm_platform::fault::verbs;
use lockstorm_platform::time::Nanos;

use crate::hunt::drawing::{Alphabet, beyond};
use crate::hunt::habits::least_timeout;
use crate::hunt::left_out::left_out;
use crate::hunt::parameter::Parameter;
use crate::hunt::seeded::Hunt;
use crate::hunt::strategy::{Strategies, Strategy, priorities};
use crate::hunt::wording::Wording;
use crate::plan::base_plan::base_plan_of;
use crate::plan::extend::Extend;
use crate::plan::lack::lack;
use crate::plan::{Persistence, Plan, WorkloadKind};
use crate::quantity::length;
use crate::refusal::{Refusal, one_of};
use crate::run::Lab;

/// The request for a hunt. Parameters that the user set are not drawn.
#[derive(Clone, Debug)]
pub struct Quarry {
    base: Plan,
    varies: BTreeSet<Parameter>,
    /// The names of the faults to draw from; empty for the defaults.
    pub faults: BTreeSet<String>,
    /// Whether to draw only plans within the lock's assumptions.
    pub within_assumptions: bool,
    /// The seeds to try.
    pub seeds: RangeInclusive<u64>,
    /// How plans are drawn.
    pub strategies: Strategies,
    /// How refusals name what may be set.
    pub wording: Wording,
}

impl Quarry {
    /// A search for violations in plans that differ from `base` in their faults.
    pub fn like(base: Plan) -> Quarry {
        Quarry {
            base,
            varies: Parameter::all(),
            faults: BTreeSet::new(),
            within_assumptions: false,
            seeds: 1..=100,
            strategies: Strategies::default(),
            wording: Wording::default(),
        }
    }

    /// Sets the plan that the others are like. All parameters that were set before are drawn again,
    /// except where this plan differs from the base plan of its lock and topology: there it is
    /// what the user set.
    pub fn base(&mut self, plan: Plan) {
        (self.base, self.varies) = (plan, Parameter::all());
    }

    /// Sets the lease, ns. The run continues after the heal for as long as leases of this length
    /// need.
    pub fn ttl(&mut self, length: Nanos) {
        let rest = self.base.until.saturating_sub(self.base.longest_ttl());
        self.base.lock.ttl = Some(length);
        self.base.until = rest.saturating_add(self.base.longest_ttl());
        self.varies.remove(&Parameter::Ttl);
    }

    /// Sets the timeout of the lock's requests, ns.
    pub fn timeout(&mut self, length: Nanos) {
        self.base.lock.timeout = Some(length);
        self.varies.remove(&Parameter::Timeout);
    }

    /// Sets how much of its lease a grant needs to be of use, ns.
    pub fn needs(&mut self, length: Nanos) {
        self.base.lock.needs = Some(length);
        self.varies.remove(&Parameter::Needs);
    }

    /// Sets the number of nodes that have to grant.
    pub fn quorum(&mut self, count: u32) {
        self.base.lock.quorum = Some(count);
    }

    /// Sets the number of nodes, including replicas.
    pub fn nodes(&mut self, count: u32) {
        self.base.topology.nodes = count;
        self.varies.remove(&Parameter::Nodes);
    }

    /// Sets what the nodes write to their disks.
    pub fn persistence(&mut self, persistence: Persistence) {
        self.base.topology.persistence = persistence;
        self.varies.remove(&Parameter::Persistence);
    }

    /// Sets how long clients work, ns.
    pub fn hold(&mut self, length: Nanos) {
        self.base.workload.hold = length;
        self.varies.remove(&Parameter::Hold);
    }

    /// Sets the number of clients.
    pub fn clients(&mut self, count: u32) {
        self.base.workload.clients = count;
        self.varies.remove(&Parameter::Clients);
    }

    /// Sets the number of callers in the process of each client.
    pub fn callers(&mut self, count: u32) {
        self.base.workload.callers = count;
        self.varies.remove(&Parameter::Callers);
    }

    /// Sets how clients extend their grants.
    pub fn extend(&mut self, extend: Extend) {
        self.base.workload.extend = extend;
        self.varies.remove(&Parameter::Extend);
    }

    /// Sets whether clients re-enter the lock while they hold it.
    pub fn reenter(&mut self, reenter: bool) {
        self.base.workload.reenter = reenter;
        self.varies.remove(&Parameter::Reenter);
    }

    /// Sets what clients do under the lock.
    pub fn workload(&mut self, kind: WorkloadKind) {
        self.base.workload.kind = kind;
    }

    /// Sets whether clients check their deadline before each access.
    pub fn check_validity(&mut self, check: bool) {
        self.base.workload.check_validity = check;
        self.varies.remove(&Parameter::CheckValidity);
    }

    /// Draws none of these parameters: they stay as the base plan has them.
    pub fn fix(&mut self, parameters: impl IntoIterator<Item = Parameter>) {
        parameters.into_iter().for_each(|parameter| _ = self.varies.remove(&parameter));
    }

    /// Draws only the faults and the number of clients.
    pub fn as_it_is(&mut self) {
        self.varies = BTreeSet::from([Parameter::Clients]);
    }

    /// The hunt in a lab. It is refused if the plans are invalid, if none of them can have one of
    /// the faults, or if it must stay within the lock's assumptions and the work exceeds them.
    /// Values that the user set are never changed.
    pub fn hunt(self, lab: Lab) -> Result<Hunt, Refusal> {
        let Quarry { base, mut varies, faults, within_assumptions: within, .. } = self;
        let (seeds, strategies, wording) = (self.seeds, self.strategies, self.wording);
        base.validate_with(&lab.locks)?;
        faults.iter().try_for_each(|word| can_strike(&base, word, wording))?;
        let plain = base_plan_of(lab.algorithm(&base), base.topology.kind);
        varies.retain(|parameter| !parameter.differs(&base, &plain));
        let mut alphabet = Alphabet { varies, within, ..Alphabet::of(*lab.algorithm(&base)) };
        let is_given = !faults.is_empty();
        if is_given {
            alphabet.verbs = faults;
        }
        let needs_slow = strategies == Strategies::Only(Strategy::Priorities);
        if needs_slow && priorities::slowing(&base, &alphabet).is_empty() {
            let what = "the strategy 'priorities' slows clients down, and no fault of the hunt can";
            let instead = "add 'delay' to the faults, or use the strategy 'portfolio'";
            return Err(Refusal::new(what, instead));
        }
        if within {
            answered(&base, &alphabet, wording)?;
        }
        if let Some(why) = beyond(&base, &alphabet) {
            let what = format!("no plan like this is within the assumptions of the lock: {why}");
            let of = |option| wording.setting(option);
            let instead = format!(
                "take a shorter {}, another {}, a longer {}, or have clients extend their grants \
                 with {}; or leave out {}",
                of("hold"),
                of("timeout"),
                of("ttl"),
                of("extend"),
                wording.within()
            );
            return Err(Refusal::new(what, instead));
        }
        // Called once here, so that a panic in the lock's promise is reported once and not by every
        // worker.
        let _ = lab.promise(&base);
        let hunt = Hunt { strategies, ..Hunt::new(lab, base, alphabet, seeds) };
        let unmet = if is_given { left_out(&hunt) } else { Vec::new() };
        match unmet.first() {
            Some(word) => Err(assumed_away(word, wording)),
            None => Ok(hunt),
        }
    }
}

/// Refuses a fault that no plan of the hunt would have: a clean result would say nothing about it.
fn assumed_away(word: &str, wording: Wording) -> Refusal {
    let what = format!(
        "the lock assumes that '{word}' does not happen, so no plan within its assumptions has it"
    );
    let faults = wording.pick("--faults", ".faults(..)");
    Refusal::new(what, format!("take '{word}' out of {faults}, or leave out {}", wording.within()))
}

/// Refuses a timeout within which no request is answered, even without faults.
fn answered(base: &Plan, alphabet: &Alphabet, wording: Wording) -> Result<(), Refusal> {
    let least = least_timeout(base);
    let timeout = alphabet.lock.choices(&base.lock).timeout;
    if timeout >= least {
        return Ok(());
    }
    let own = match base.lock.timeout {
        Some(_) => "",
        None => ", the lock's own timeout,",
    };
    let (timeout, least) = (length(timeout), length(least));
    let what = format!("within {timeout}{own} no lock is answered, even without faults");
    let instead = format!(
        "take a {} of at least {least}, which the first request takes over the slowest links; or \
         leave out {}",
        wording.setting("timeout"),
        wording.within()
    );
    Err(Refusal::new(what, instead))
}

/// The maximum number of plans of one process without a time limit: days of work.
const MAX_PLANS: u128 = 100_000_000;

/// The seeds of a hunt: the given ones, or as many as its time limit permits, or the default ones.
/// Without a time limit their number is limited, in so many processes.
pub fn seeds_of(
    given: Option<RangeInclusive<u64>>,
    has_limit: bool,
    shards: u32,
    (default, wording): (RangeInclusive<u64>, Wording),
) -> Result<RangeInclusive<u64>, Refusal> {
    if let Some(none) = given.as_ref().filter(|seeds| seeds.is_empty()) {
        let (first, last) = (none.start(), none.end());
        let range = wording.pick("..", "..=");
        let what = format!("the seeds {first}{range}{last} are none");
        return Err(Refusal::new(what, format!("write {last}{range}{first}")));
    }
    match (given, has_limit) {
        (Some(seeds), true) => Ok(seeds),
        (None, true) => Ok(1..=u64::MAX),
        (given, false) => countable(given.unwrap_or(default), shards, wording),
    }
}

/// The seeds, if a hunt without a time limit can come to their end, in so many processes.
fn countable(
    seeds: RangeInclusive<u64>,
    shards: u32,
    wording: Wording,
) -> Result<RangeInclusive<u64>, Refusal> {
    let (first, last) = (*seeds.start(), *seeds.end());
    let plans = (u128::from(last) + 1).saturating_sub(first.into());
    if plans.div_ceil(shards.into()) <= MAX_PLANS {
        return Ok(seeds);
    }
    let what = format!("the seeds {first}..{last} are {plans} plans, which would take days");
    let fewer = first.saturating_add(999_999);
    let limit = wording.pick("--budget 10m", ".budget(Duration::from_secs(600))");
    let range = wording.pick("..", "..=");
    let instead = format!("add a time limit, such as {limit}, or take {first}{range}{fewer}");
    Err(Refusal::new(what, instead))
}

/// Refuses an unknown fault, and one that cannot strike plans like this: a hunt for it would draw
/// only other faults, or none.
fn can_strike(base: &Plan, word: &str, wording: Wording) -> Result<(), Refusal> {
    let Some(row) = verbs::find(word) else {
        let known: Vec<&str> = verbs::words().collect();
        return Err(Refusal::new(format!("there is no fault '{word}'"), one_of(word, &known)));
    };
    let Some(lack) = lack(&base.topology, row) else { return Ok(()) };
    let in_code = match lack.is_of_disk() {
        true => ".persistence(Persistence::AofAlways)",
        false => "TopologyKind::Replicated",
    };
    let mended = wording.pick(lack.option(), in_code);
    Err(Refusal::new(lack.refusal(word), format!("remove it, or use {mended}")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use lockstorm_platform::time::{ClockSetting, SECOND};

    use super::{Quarry, countable};
    use crate::hunt::parameter::Parameter;
    use crate::hunt::strategy::Strategy;
    use crate::hunt::wording::Wording;
    use crate::plan::base_plan::base_plan;
    use crate::plan::{Plan, TopologyKind};
    use crate::run::Lab;

    #[test]
    fn a_run_goes_on_after_the_heal_as_long_as_its_lease_needs() {
        let base = base_plan("token-lua", TopologyKind::Single);
        let until = |ttl| {
            let mut quarry = Quarry::like(base.clone());
            quarry.ttl(ttl);
            quarry.hunt(Lab::default()).expect("it makes sense").base.until
        };
        assert_eq!(until(3 * SECOND), base.until);
        assert_eq!(until(SECOND), base.until - 2 * SECOND);
        assert_eq!(until(30 * SECOND), base.until + 27 * SECOND);
    }

    #[test]
    fn what_a_plan_sets_is_not_drawn() {
        let base = base_plan("token-lua", TopologyKind::Sentinel);
        let varies = |change: &dyn Fn(&mut Plan), fixed: &[Parameter]| {
            let mut plan = base.clone();
            change(&mut plan);
            let mut quarry = Quarry::like(plan);
            quarry.fix(fixed.iter().copied());
            quarry.hunt(Lab::default()).expect("it makes sense").alphabet.varies
        };
        assert_eq!(varies(&|_| {}, &[]), Parameter::all());
        assert_eq!(varies(&|_| {}, &Parameter::ALL), BTreeSet::new());
        let slow = |plan: &mut Plan| {
            plan.topology.sentinels.iter_mut().for_each(|one| one.down_after = 30 * SECOND);
            plan.clocks.insert("n1".into(), ClockSetting { rate_ppm: 50, wall_offset: 0 });
        };
        let mut others = Parameter::all();
        others.retain(|one| ![Parameter::DownAfter, Parameter::ClockRate].contains(one));
        assert_eq!(varies(&slow, &[]), others);
        others.remove(&Parameter::WallOffset);
        assert_eq!(varies(&slow, &[Parameter::WallOffset]), others);
    }

    #[test]
    fn callers_that_are_given_are_not_drawn() {
        let mut quarry = Quarry::like(base_plan("token-lua", TopologyKind::Single));
        quarry.callers(1);
        let hunt = quarry.hunt(Lab::default()).expect("it makes sense");
        assert!(!hunt.alphabet.varies.contains(&Parameter::Callers));
    }

    #[test]
    fn seeds_that_nobody_can_try_need_a_time_limit() {
        assert_eq!(countable(1..=100_000_000, 1, Wording::Options), Ok(1..=100_000_000));
        assert!(countable(1..=100_000_001, 1, Wording::Options).is_err());
        assert!(countable(1..=10_000_000_000, 100, Wording::Options).is_ok());
        assert_eq!(countable(5..=5, 1, Wording::Options), Ok(5..=5));
        let refused = countable(0..=u64::MAX, 1, Wording::Options).expect_err("years").to_string();
        let text = "the seeds 0..18446744073709551615 are 18446744073709551616 plans, which would \
                    take days (add a time limit, such as --budget 10m, or take 0..999999)";
        assert_eq!(refused, text);
    }

    #[test]
    fn priorities_need_a_fault_that_slows_clients() {
        let refused = |word: &str| {
            let mut quarry = Quarry::like(base_plan("token-lua", TopologyKind::Single));
            quarry.faults.insert(word.to_owned());
            quarry.strategies = Strategy::Priorities.into();
            quarry.hunt(Lab::default()).err().map(|refusal| refusal.to_string())
        };
        assert_eq!(refused("pause"), None);
        let nobody = "the strategy 'priorities' slows clients down, and no fault of the hunt can \
                      (add 'delay' to the faults, or use the strategy 'portfolio')";
        assert_eq!(refused("crash").as_deref(), Some(nobody));
    }

    #[test]
    fn faults_that_no_plan_could_have_are_refused() {
        let refused = |word: &str| {
            let mut quarry = Quarry::like(base_plan("token-lua", TopologyKind::Single));
            quarry.faults.insert(word.to_owned());
            quarry.hunt(Lab::default()).err().map(|refusal| refusal.to_string())
        };
        assert_eq!(refused("pause"), None);
        let nobody = "'failover' needs a replica, and there is none \
                      (remove it, or use --topology replicated)";
        assert_eq!(refused("failover").as_deref(), Some(nobody));
        let slip = "there is no fault 'pausse' (did you mean 'pause'?)";
        assert_eq!(refused("pausse").as_deref(), Some(slip));
    }

    #[test]
    fn a_refusal_names_what_its_reader_can_write() {
        let refused = |change: &dyn Fn(&mut Quarry), wording: Wording| {
            let mut quarry = Quarry::like(base_plan("token-lua", TopologyKind::Single));
            (quarry.within_assumptions, quarry.wording) = (true, wording);
            change(&mut quarry);
            quarry.hunt(Lab::default()).expect_err("it is a mistake").instead
        };
        type Change = fn(&mut Quarry);
        let rows: [(Change, &str, &str); 4] = [
            (
                |quarry| quarry.hold(60 * SECOND),
                "take a shorter --hold, another --timeout, a longer --ttl, or have clients extend \
                 their grants with --extend; or leave out --within-assumptions",
                "take a shorter .hold(..), another .timeout(..), a longer .ttl(..), or have \
                 clients extend their grants with .extend(..); or leave out .within_assumptions()",
            ),
            (
                |quarry| quarry.timeout(1),
                "take a --timeout of at least 20 ms, which the first request takes over the \
                 slowest links; or leave out --within-assumptions",
                "take a .timeout(..) of at least 20 ms, which the first request takes over the \
                 slowest links; or leave out .within_assumptions()",
            ),
            (
                |quarry| _ = quarry.faults.insert("failover".to_owned()),
                "remove it, or use --topology replicated",
                "remove it, or use TopologyKind::Replicated",
            ),
            (
                |quarry| _ = quarry.faults.insert("lying-disk".to_owned()),
                "remove it, or use --persistence aof-always",
                "remove it, or use .persistence(Persistence::AofAlways)",
            ),
        ];
        for (change, options, methods) in rows {
            assert_eq!(refused(&change, Wording::Options), options);
            assert_eq!(refused(&change, Wording::Methods), methods);
        }
        let days = countable(0..=u64::MAX, 1, Wording::Methods).expect_err("years").instead;
        let text = "add a time limit, such as .budget(Duration::from_secs(600)), or take \
                    0..=999999";
        assert_eq!(days, text);
    }
}
