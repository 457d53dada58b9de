//! A hunt that a test or a `main` runs.

use std::ops::RangeInclusive;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use lockstorm_platform::time::Nanos;

use crate::check::own::Check;
use crate::edge::campaign::{self, ShardRun};
use crate::edge::ending::Exit;
use crate::edge::terminal::complain;
use crate::edge::{clock, environment, hunt_result, merged, output, progress};
use crate::edge::{review_result, stop, watchdog};
use crate::explain::finding::Finding;
use crate::hunt::campaign::shard::Choice;
use crate::hunt::campaign::{Campaign, Settings, canary};
use crate::hunt::catch::catch;
use crate::hunt::parameter::Parameter;
use crate::hunt::pursuit::{self, HuntReport};
use crate::hunt::quarry::{Quarry, seeds_of};
use crate::hunt::review::Inquiry;
use crate::hunt::search::{Until, scout};
use crate::hunt::seeded::Hunt;
use crate::hunt::strategy::Strategies;
use crate::hunt::tally::Tally;
use crate::hunt::wording::Wording;
use crate::lock::algorithm::Algorithm;
use crate::plan::extend::Extend;
use crate::plan::{Persistence, Plan, WorkloadKind};
use crate::refusal::Refusal;
use crate::report;
use crate::report::hunt::Audience;
use crate::run::Lab;
use crate::test::failure::{FAILURES, again, fail};
use crate::workload::critical_section::CriticalSection;

/// See [`hunt`](crate::test::hunt).
#[must_use = "a hunt that is not run finds nothing"]
pub struct HuntTest {
    quarry: Quarry,
    lab: Lab,
    seeds: Option<RangeInclusive<u64>>,
    budget: Option<Nanos>,
    patience: Duration,
}

impl HuntTest {
    pub(super) fn of(base: Plan) -> HuntTest {
        let mut quarry = Quarry::like(base);
        quarry.wording = Wording::Methods;
        let (lab, patience) = (Lab::default(), watchdog::PATIENCE);
        HuntTest { quarry, lab, seeds: None, budget: None, patience }
    }

    /// The plans may also name this lock.
    ///
    /// # Panics
    /// If a lock of this name exists.
    #[track_caller]
    pub fn lock(self, own: Algorithm) -> HuntTest {
        HuntTest { lab: self.lab.with_lock(own), ..self }
    }

    /// Clients do this under the lock, instead of incrementing a counter. What is wrong then is for
    /// a [`HuntTest::check`] to say: the built-in invariants of the resource do not apply.
    ///
    /// # Panics
    /// If a workload of this name exists.
    #[track_caller]
    pub fn workload(mut self, name: &'static str, own: impl CriticalSection + 'static) -> HuntTest {
        self.quarry.workload(WorkloadKind::Own(name.into()));
        HuntTest { lab: self.lab.with_workload(name, own), ..self }
    }

    /// Judges every run by this check too: what it finds is a violation like any other.
    ///
    /// ```
    /// use lockstorm::own::{Case, Findings, TopologyKind, Violation};
    ///
    /// fn no_number_below_zero(case: &Case<'_>) -> Findings {
    ///     let accesses = case.history.accesses.iter().enumerate();
    ///     let found = accesses.filter(|(_, access)| access.value < 0).map(|(index, access)| {
    ///         let own = Violation::own("a number below 0", access.at, access.at);
    ///         Violation { accesses: vec![index], ..own }
    ///     });
    ///     found.collect::<Vec<_>>().into()
    /// }
    ///
    /// let hunt = lockstorm::test::hunt("redlock", TopologyKind::Independent);
    /// let hunt = hunt.check("numbers", no_number_below_zero);
    /// assert!(hunt.within_assumptions().seeds(1..=5).holds().grants > 0);
    /// ```
    ///
    /// # Panics
    /// If a check or a kind of violation has this name.
    #[track_caller]
    pub fn check(self, name: &'static str, own: impl Check + 'static) -> HuntTest {
        HuntTest { lab: self.lab.with_check(name, own), ..self }
    }

    /// Runs the plans on turmoil, in whole milliseconds: this is slower, and gives a second
    /// opinion.
    #[cfg(feature = "turmoil")]
    pub fn on_turmoil(self) -> HuntTest {
        HuntTest { lab: self.lab.on_turmoil(), ..self }
    }

    /// Draws plans like this one, except for their faults: other links, another topology, another
    /// workload. It replaces what was set before, except for faults and seeds. Where it differs
    /// from the base plan of its lock and topology, nothing is drawn.
    ///
    /// ```
    /// use lockstorm::own::{TopologyKind, base_plan};
    /// use lockstorm::plan::WorkloadKind;
    ///
    /// let mut plan = base_plan("redlock", TopologyKind::Independent);
    /// plan.workload.kind = WorkloadKind::Stock;
    /// plan.links.loss_per_million = 10_000;
    /// let hunt = lockstorm::test::hunt("redlock", TopologyKind::Independent);
    /// let tally = hunt.base(plan).within_assumptions().seeds(1..=5).holds();
    /// assert!(tally.grants > 0);
    /// ```
    pub fn base(mut self, plan: Plan) -> HuntTest {
        self.quarry.base(plan);
        self
    }

    /// Draws from these verbs only.
    pub fn faults<'a>(mut self, verbs: impl IntoIterator<Item = &'a str>) -> HuntTest {
        self.quarry.faults = verbs.into_iter().map(str::to_owned).collect();
        self
    }

    /// Fixes the work time of clients, ns.
    pub fn hold(mut self, length: Nanos) -> HuntTest {
        self.quarry.hold(length);
        self
    }

    /// Fixes the lease, ns.
    pub fn ttl(mut self, length: Nanos) -> HuntTest {
        self.quarry.ttl(length);
        self
    }

    /// Fixes the number of nodes, including replicas.
    pub fn nodes(mut self, count: u32) -> HuntTest {
        self.quarry.nodes(count);
        self
    }

    /// Fixes what the nodes write to their disks.
    pub fn persistence(mut self, persistence: Persistence) -> HuntTest {
        self.quarry.persistence(persistence);
        self
    }

    /// Fixes the number of clients.
    pub fn clients(mut self, count: u32) -> HuntTest {
        self.quarry.clients(count);
        self
    }

    /// Fixes the number of callers in the process of each client, as threads: `c1.1`, `c1.2`, ...
    pub fn callers(mut self, count: u32) -> HuntTest {
        self.quarry.callers(count);
        self
    }

    /// Fixes the timeout of the lock's requests, ns.
    pub fn timeout(mut self, length: Nanos) -> HuntTest {
        self.quarry.timeout(length);
        self
    }

    /// Fixes how much of its lease a grant needs to be of use, ns: with less it is released.
    pub fn needs(mut self, length: Nanos) -> HuntTest {
        self.quarry.needs(length);
        self
    }

    /// Sets the number of nodes that have to grant, instead of the lock's own majority.
    pub fn quorum(mut self, count: u32) -> HuntTest {
        self.quarry.quorum(count);
        self
    }

    /// Fixes when clients extend their grants: `"1/2".parse()` is each time that half of the lease
    /// has passed, `"until-lost"` until the lock reports the loss, `"never"` not at all.
    pub fn extend(mut self, extend: Extend) -> HuntTest {
        self.quarry.extend(extend);
        self
    }

    /// Fixes whether clients re-enter the lock while they hold it.
    pub fn reenter(mut self, reenter: bool) -> HuntTest {
        self.quarry.reenter(reenter);
        self
    }

    /// Fixes whether clients check their deadline before each access.
    pub fn check_validity(mut self, check: bool) -> HuntTest {
        self.quarry.check_validity(check);
        self
    }

    /// Draws none of these parameters: they stay as the base plan has them.
    ///
    /// ```
    /// use lockstorm::own::{Parameter, TopologyKind};
    ///
    /// let hunt = lockstorm::test::hunt("token-lua", TopologyKind::Sentinel);
    /// let hunt = hunt.fix([Parameter::DownAfter, Parameter::SentinelQuorum]);
    /// assert!(hunt.within_assumptions().seeds(1..=5).holds().grants > 0);
    /// ```
    pub fn fix(mut self, parameters: impl IntoIterator<Item = Parameter>) -> HuntTest {
        self.quarry.fix(parameters);
        self
    }

    /// Draws only the faults and the number of clients.
    pub fn as_it_is(mut self) -> HuntTest {
        self.quarry.as_it_is();
        self
    }

    /// Sets the maximum real time of one poll of the lock. After that the process exits with code
    /// 70: the lock loops without an await.
    pub fn patience(self, patience: Duration) -> HuntTest {
        HuntTest { patience, ..self }
    }

    /// Draws only plans within the lock's assumptions.
    pub fn within_assumptions(mut self) -> HuntTest {
        self.quarry.within_assumptions = true;
        self
    }

    /// Tries these seeds; by default 1 to 100, or with a budget as many as it permits.
    pub fn seeds(self, seeds: RangeInclusive<u64>) -> HuntTest {
        HuntTest { seeds: Some(seeds), ..self }
    }

    /// Sets the maximum real time of the search. Shrinking what it has found may take the same time
    /// again, and so may [`HuntTest::report`] to explain its first finding.
    pub fn budget(self, budget: Duration) -> HuntTest {
        let budget = u64::try_from(budget.as_nanos()).unwrap_or(u64::MAX);
        HuntTest { budget: Some(budget), ..self }
    }

    /// Draws plans by this strategy, or by the portfolio of all of them, which is the default.
    pub fn strategy(mut self, strategies: impl Into<Strategies>) -> HuntTest {
        self.quarry.strategies = strategies.into();
        self
    }

    /// Hunts until the first violation, and expects to find none.
    ///
    /// # Panics
    /// If something is violated, or nothing was tested.
    #[track_caller]
    pub fn holds(self) -> Tally {
        let (lab, report) = self.first();
        if let Some(found) = report.found {
            let drawn = found.strategy;
            let finding = found.finding(&lab, None);
            fail(&finding, &format!("expected: no violation\ndrawn by the strategy '{drawn}'"));
        }
        let tally = report.tally;
        let reasons = || tally.reasons().join(", ");
        assert!(tally.has_tested(), "nothing was tested in {tally}: {}", reasons());
        tally
    }

    /// Hunts until the first violation, and expects one; returns the smallest plan that shows it.
    ///
    /// # Panics
    /// If nothing is found on any of the seeds.
    #[track_caller]
    pub fn finds(self) -> Finding {
        let (lab, report) = self.first();
        let tally = report.tally;
        let found = report.found.unwrap_or_else(|| panic!("no violation was found: {tally:?}"));
        found.finding(&lab, None)
    }

    /// Hunts to the end of its seeds or its budget, and reports all distinct findings on standard
    /// output, the bugs first; for a `main`. The plans and the report of the first finding are
    /// written to `target/lockstorm`. The exit codes are those of the command line.
    pub fn report(self) -> ExitCode {
        campaign::warn_of_array(".shard(\"auto\", ..)");
        ending(self.all())
    }

    /// Reviews the lock as it is configured, as `lockstorm review` does, for a `main`: what it
    /// promises, what breaks it and at which value, what heals that, and what was not tested. It
    /// takes the time of [`HuntTest::budget`], or tries the seeds in each of its hunts; by default
    /// it takes 45 s. The report and its plans are written to `target/lockstorm`. The exit code is
    /// 1 if the lock breaks its promise within what it assumes, 0 if it held there, and 2 if that
    /// was not tested.
    pub fn review(self) -> ExitCode {
        ending(self.reviewed())
    }

    /// Runs one shard of the hunt and logs its results in a folder, as `lockstorm hunt --shard`
    /// does: `3/10`, or `auto` or `auto/10` to read it from the environment. It goes on where an
    /// earlier process stopped. The exit codes are those of the command line.
    pub fn shard(self, shard: &str, campaign: impl AsRef<Path>) -> ExitCode {
        ending(self.part(shard, campaign.as_ref()))
    }

    /// Joins the logs of all shards in a folder, and reports them as [`HuntTest::report`] does. The
    /// exit codes are those of `lockstorm merge`.
    pub fn merge(self, campaign: impl AsRef<Path>) -> ExitCode {
        ending(self.merged(campaign.as_ref()))
    }

    fn all(self) -> Result<Exit, Refusal> {
        let limits = clock::limits(self.budget);
        let (budget, search) = (self.budget, clock::search(self.budget));
        let hunt = self.hunt(1)?;
        output::prepare(author().folder, report::hunt::names(&hunt.base))?;
        stop::listen();
        let progress = progress::hunting(budget.is_none().then(|| hunt.plans()));
        let scouted = scout(&hunt, Until::End, Some(search), &progress);
        let catch = catch(&hunt, Until::End, scouted, limits, &progress);
        progress::clear();
        hunt_result::show(catch, &author())
    }

    fn reviewed(self) -> Result<Exit, Refusal> {
        let HuntTest { mut quarry, lab, seeds, budget, patience } = self;
        let limit = clock::review_length(seeds.is_some(), budget);
        let default = (quarry.seeds.clone(), quarry.wording);
        quarry.seeds = seeds_of(seeds, limit.is_some(), 1, default)?;
        let inquiry = Inquiry::of(&watchdog::over(lab, Path::new(FAILURES), patience), &quarry)?;
        review_result::prepare(author().folder, &inquiry)?;
        stop::listen();
        let found = inquiry.review(clock::reviewing(limit));
        progress::clear();
        review_result::show(&found, &author())
    }

    fn part(self, shard: &str, folder: &Path) -> Result<Exit, Refusal> {
        let shard = campaign::shard(Choice::read(shard)?)?;
        let part = ShardRun {
            shard,
            folder,
            budget: self.budget,
            merge: ".merge(..)",
            canary: canary::dead,
        };
        campaign::run(&self.hunt(shard.count)?, &part)
    }

    fn merged(self, folder: &Path) -> Result<Exit, Refusal> {
        let limits = clock::limits(self.budget);
        let found = merged::joined(&[folder.to_owned()])?;
        merged::refuse_other_build(&found.settings)?;
        // It is merged into the campaign of this hunt, which refuses that of another one.
        let hunt = self.hunt(u32::MAX)?;
        let mut campaign = Campaign::new(Settings::of(&hunt, environment::build()));
        campaign.merge(found)?;
        merged::report(&campaign, &hunt, limits, &author())
    }

    #[track_caller]
    fn first(self) -> (Lab, HuntReport) {
        let search = self.budget.map(clock::silent);
        let hunt = self.hunt(1).unwrap_or_else(|refusal| panic!("{}", refusal.render(false)));
        let report = pursuit::hunt(&hunt, search);
        (hunt.lab, report)
    }

    /// The hunt, which so many processes share.
    fn hunt(self, shards: u32) -> Result<Hunt, Refusal> {
        let HuntTest { mut quarry, lab, seeds, budget, patience } = self;
        let default = (quarry.seeds.clone(), quarry.wording);
        quarry.seeds = seeds_of(seeds, budget.is_some(), shards, default)?;
        quarry.hunt(watchdog::over(lab, Path::new(FAILURES), patience))
    }
}

fn ending(result: Result<Exit, Refusal>) -> ExitCode {
    let ending = result.unwrap_or_else(|refusal| {
        complain(&refusal.render(false));
        Exit::Refused
    });
    ending.into()
}

/// The author of a lock, who reads the result of a hunt and runs its plans in a test.
fn author() -> Audience<'static> {
    Audience {
        folder: Path::new(FAILURES),
        is_whole: true,
        command: None,
        wording: Wording::Methods,
        again: &again,
        others: "a replay of each plan ends with its story",
    }
}
