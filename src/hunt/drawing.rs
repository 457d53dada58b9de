//! Proptest strategies for faults and whole plans, for hunts and for users' own tests.
//!
//! Every drawn plan is valid. Plans shrink towards fewer faults, fewer clients and shorter, rounder
//! numbers.

pub mod anchor;
pub mod duration;
pub mod target;

use std::collections::{BTreeMap, BTreeSet};

use lockstorm_platform::fault::verbs::{Figure, ROWS, Row};
use lockstorm_platform::fault::{Anchor, Fault, Pattern, Target, Verb};
use lockstorm_platform::time::{ClockSetting, MILLISECOND, Nanos, SECOND};
use lockstorm_platform::trace::Edge;
use proptest::bool::weighted;
use proptest::prelude::{BoxedStrategy, Just, Strategy};
use proptest::strategy::{Union, ValueTree};
use proptest::test_runner::TestRunner;
use proptest::{collection, prop_oneof};

use crate::hunt::drawing::anchor::{anchor, chain, waits_for};
use crate::hunt::drawing::duration::{extra, length};
use crate::hunt::drawing::target::{can_strike, present, target};
use crate::hunt::habits::{callers, habits};
use crate::hunt::parameter::Parameter;
use crate::ledger::overwork::{Overwork, fit, overworked};
use crate::ledger::planned::{breaks, keep_within};
use crate::ledger::site::bound_of;
use crate::length;
use crate::lock::algorithm::{Algorithm, latch};
use crate::plan::Plan;
use crate::plan::fault_contradiction::halts_clients;
use crate::plan::lack::lack;
use crate::promise::{Bounded, Promise};
use crate::workload::work;

/// What a search may draw.
#[derive(Clone, Debug)]
pub struct Alphabet {
    /// The verbs, by name: `partition`, `pause`, ...
    pub verbs: BTreeSet<String>,
    /// The maximum number of faults in one plan.
    pub most_faults: usize,
    /// The lock under test. If it runs tokio's own tasks, its clients are not paused.
    pub lock: Algorithm,
    /// What else may be drawn.
    pub varies: BTreeSet<Parameter>,
    /// Whether to draw only plans within the lock's assumptions.
    pub within: bool,
}

impl Alphabet {
    /// Everything that a search for this lock draws by default.
    pub fn of(lock: Algorithm) -> Alphabet {
        Alphabet {
            verbs: default_verbs(),
            most_faults: 4,
            lock,
            varies: Parameter::all(),
            within: false,
        }
    }
}

/// The names of the verbs that a search draws by default.
pub fn default_verbs() -> BTreeSet<String> {
    ROWS.iter().filter(|row| row.is_drawn).map(|row| row.word.to_owned()).collect()
}

/// A plan like `base` without faults, of those that a search may draw.
pub fn calm(base: &Plan, alphabet: &Alphabet, runner: &mut TestRunner) -> Plan {
    let calm = Alphabet { most_faults: 0, ..alphabet.clone() };
    sampled(&plans(base, &calm), runner)
}

/// One value of a strategy.
pub fn sampled<S: Strategy>(strategy: &S, runner: &mut TestRunner) -> S::Value {
    strategy.new_tree(runner).expect("the strategies reject nothing").current()
}

/// The plan with these faults, each if it can strike there.
pub fn with_faults(
    calm: Plan,
    faults: BoxedStrategy<Vec<Burst>>,
    alphabet: &Alphabet,
) -> BoxedStrategy<Plan> {
    let alphabet = alphabet.clone();
    faults.prop_map(move |faults| assemble(calm.clone(), faults, &alphabet)).boxed()
}

/// Plans like `base` with any faults: what the faults strike, and how long they last, follows from
/// the plan that they strike.
pub fn struck(base: &Plan, alphabet: &Alphabet, runner: &mut TestRunner) -> BoxedStrategy<Plan> {
    let calm = calm(base, alphabet, runner);
    let faults = collection::vec(burst(&calm, alphabet), 0..=alphabet.most_faults);
    with_faults(calm, faults.boxed(), alphabet)
}

/// Plans like `base` with other faults, and with the same number of clients or fewer.
pub fn plans(base: &Plan, alphabet: &Alphabet) -> BoxedStrategy<Plan> {
    let (base, alphabet) = (base.clone(), alphabet.clone());
    let faults = collection::vec(burst(&base, &alphabet), 0..=alphabet.most_faults);
    // With fewer clients than parties a latch never opens.
    let parties = if alphabet.lock.name == latch::NAME { latch::parties(&base.lock) } else { 2 };
    let fewest = base.workload.clients.min(parties);
    let free = alphabet.varies.contains(&Parameter::Clients);
    let clients = if free { fewest } else { base.workload.clients }..=base.workload.clients;
    let habits = habits(&base, &alphabet.lock, &alphabet.varies);
    // Drawn last, so that no other draw depends on them.
    let callers = callers(&base, &alphabet.varies);
    let plain = fitting(&base, &alphabet).unwrap_or(base);
    (clients, faults, habits, callers)
        .prop_map(move |(clients, faults, habits, callers)| {
            let mut plain = plain.clone();
            (plain.workload.clients, plain.workload.callers) = (clients, callers);
            let mut plan = plain.clone();
            habits.apply(&mut plan, &alphabet.lock);
            let clocks = plain.clocks.clone();
            let mut plan = fitting(&plan, &alphabet).unwrap_or(plain);
            if alphabet.within {
                let promise = promise(&plan, &alphabet.lock);
                keep_clocks_within(&mut plan, &promise, clocks);
            }
            assemble(plan, faults, &alphabet)
        })
        .boxed()
}

/// Keeps the rates of clocks within the drift that a lock withstands, and all else as it is; or
/// takes these clocks.
fn keep_clocks_within(plan: &mut Plan, promise: &Promise, other: BTreeMap<String, ClockSetting>) {
    if let Some(most) = bound_of(&promise.assumes, Bounded::Drift) {
        let most = i32::try_from(most).unwrap_or(i32::MAX);
        for (host, clock) in &mut plan.clocks {
            let given = other.get(host).map_or(0, |clock| clock.rate_ppm);
            if clock.rate_ppm != given {
                clock.rate_ppm = clock.rate_ppm.clamp(-most, most);
            }
        }
    }
    let of_clocks = |what: &Bounded| matches!(what, Bounded::Drift | Bounded::Skew);
    if breaks(plan, promise).iter().any(of_clocks) {
        plan.clocks = other;
    }
}

/// The promise of a lock for a plan's own figures.
pub fn promise(plan: &Plan, lock: &Algorithm) -> Promise {
    lock.promises(&plan.lock, work(plan))
}

/// The plan. If a search must stay within the lock's assumptions and its clients work for too long,
/// a similar plan in which they do not, or none. Only what may be drawn is changed.
pub fn fitting(plan: &Plan, alphabet: &Alphabet) -> Option<Plan> {
    let promise_of = |plan: &Plan| promise(plan, &alphabet.lock);
    let Some(broken) = overworked(plan, &promise_of(plan)).filter(|_| alphabet.within) else {
        return Some(plan.clone());
    };
    let mut fitted = plan.clone();
    match broken.bound {
        // No work fits. Drawn timeouts may be the reason; links are not drawn.
        0 => fitted.lock.timeout = None,
        bound => fit(&mut fitted, bound),
    }
    let (is, was) = (&fitted.workload, &plan.workload);
    let is_given = |parameter| !alphabet.varies.contains(&parameter);
    let changes_given = is.hold != was.hold && is_given(Parameter::Hold)
        || is.extend != was.extend && is_given(Parameter::Extend)
        || is.reenter != was.reenter && is_given(Parameter::Reenter)
        || fitted.lock.timeout != plan.lock.timeout && is_given(Parameter::Timeout);
    let fits = !changes_given && overworked(&fitted, &promise_of(&fitted)).is_none();
    fits.then_some(fitted)
}

/// Why no plan like this can stay within the lock's assumptions, if none can.
pub fn beyond(base: &Plan, alphabet: &Alphabet) -> Option<String> {
    if fitting(base, alphabet).is_some() {
        return None;
    }
    let (lock, promise) = (&base.lock.algorithm, promise(base, &alphabet.lock));
    let Overwork { actual, bound } = overworked(base, &promise)?;
    if bound == 0 {
        return Some(format!(
            "time-outs and messages leave nothing of the lease of '{lock}' for work, or no time \
             for a reply"
        ));
    }
    let (actual, bound) = (length::write(actual), length::write(bound));
    Some(format!(
        "clients work for {actual} without extending their grant, and '{lock}' counts on at most \
         {bound}"
    ))
}

fn assemble(mut plan: Plan, bursts: Vec<Burst>, alphabet: &Alphabet) -> Plan {
    plan.is_drawn = true;
    let mut faults: Vec<Fault> = Vec::new();
    for burst in bursts {
        let met = faults.last().map(|fault| fault.target.clone()).filter(|_| burst.follows);
        let kept = burst.faults(met.as_ref(), &plan).into_iter();
        faults.extend(kept.filter_map(|fault| can_be(&plan, fault, alphabet)));
    }
    faults.truncate(alphabet.most_faults);
    for (id, fault) in (1..).zip(&mut faults) {
        fault.id = id;
    }
    chain(&mut faults);
    plan.faults = faults;
    if alphabet.within {
        let promise = promise(&plan, &alphabet.lock);
        keep_within(&mut plan, &promise);
    }
    plan
}

/// The fault against what there is in the plan, if it can strike there.
fn can_be(plan: &Plan, fault: Fault, alphabet: &Alphabet) -> Option<Fault> {
    let hosts = plan.hosts();
    let fault = Fault { target: present(fault.target, plan)?, ..fault };
    let is_known = |host: &str| hosts.iter().any(|known| known == host);
    let halts = alphabet.lock.runs_tokio && halts_clients(plan, &fault);
    let is_at_home = lack(&plan.topology, fault.verb.row()).is_none();
    let strikes = waits_for(&fault.anchor).into_iter().all(is_known);
    (is_at_home && strikes && !halts).then_some(fault)
}

/// One fault, or the same fault two or three times in a row.
#[derive(Clone, Debug)]
pub struct Burst {
    fault: Fault,
    /// How often it strikes again, each time so long after the begin of the one before.
    more: usize,
    gap: Nanos,
    /// Whether it strikes what the fault before it in the plan strikes.
    follows: bool,
}

impl Burst {
    /// One fault that strikes once, and what it names.
    pub fn once(fault: Fault) -> Burst {
        Burst { fault, more: 0, gap: 0, follows: false }
    }

    /// Its faults; `met` is what they strike, if their verb can.
    fn faults(self, met: Option<&Target>, plan: &Plan) -> Vec<Fault> {
        let suits = |target: &&Target| can_strike(plan, self.fault.verb.row(), target);
        let target = met.filter(suits).unwrap_or(&self.fault.target).clone();
        let fault = Fault { target, ..self.fault };
        let event = Pattern::Fault { id: 1, edge: Edge::Start };
        let anchor = Anchor::After { event, nth: 1, plus: self.gap };
        let again = std::iter::repeat_n(Fault { anchor, ..fault.clone() }, self.more);
        [fault].into_iter().chain(again).collect()
    }
}

/// Bugs often need faults that meet in one place: a replica that lags behind and is promoted.
pub fn burst(plan: &Plan, alphabet: &Alphabet) -> BoxedStrategy<Burst> {
    let gap = (1..=1_500_u64).prop_map(|ms| ms * MILLISECOND);
    let more = prop_oneof![9 => Just(0), 1 => 1..=2_usize];
    let last = plan.heal_at - 1;
    (fault(plan, alphabet), more, gap, weighted(0.5), weighted(0.4))
        .prop_map(move |(fault, more, gap, at_once, follows)| {
            // As soon as it has ended, or a while after its begin.
            let length = fault.length.filter(|_| at_once);
            let gap = length.map_or(gap, |length| (length + gap / 32).min(last));
            Burst { fault, more, gap, follows }
        })
        .boxed()
}

/// One fault against the hosts of `plan`. Its number is 0.
fn fault(plan: &Plan, alphabet: &Alphabet) -> BoxedStrategy<Fault> {
    let rows = rows(plan, alphabet);
    assert!(!rows.is_empty(), "no verb of the alphabet fits this topology");
    Union::new(rows.into_iter().map(|row| fault_of(row, plan, &alphabet.lock))).boxed()
}

/// The verbs of the alphabet that plans like this can have. A disk may be drawn as well.
pub fn rows(plan: &Plan, alphabet: &Alphabet) -> Vec<&'static Row> {
    let rows = ROWS.iter().filter(|row| alphabet.verbs.contains(row.word));
    let may_write = alphabet.varies.contains(&Parameter::Persistence);
    let fits =
        |row: &&Row| lack(&plan.topology, row).is_none_or(|lack| lack.is_of_disk() && may_write);
    rows.filter(fits).collect()
}

/// A fault with this verb. There is one draw, since a dependent second draw does not shrink.
fn fault_of(row: &'static Row, plan: &Plan, lock: &Algorithm) -> BoxedStrategy<Fault> {
    let when = (length(plan, lock), anchor(plan)).boxed();
    let whole = Just((plan.heal_at, Anchor::At(0)));
    let when = if is_condition(row) { prop_oneof![2 => when, 1 => whole].boxed() } else { when };
    let parts = (verb_of(row, plan, lock), target(row, plan), when);
    parts
        .prop_map(|(verb, target, (length, anchor))| {
            let length = (!verb.is_momentary()).then_some(length);
            Fault { id: 0, verb, target, anchor, length }
        })
        .boxed()
}

/// Whether clients can work under a fault for a whole run. It often shows nothing until another
/// fault strikes.
pub fn is_condition(row: &Row) -> bool {
    matches!(
        (row.plain)(),
        Verb::Delay { .. }
            | Verb::Jitter { .. }
            | Verb::Loss { .. }
            | Verb::ReplicaLag { .. }
            | Verb::SlowNode { .. }
            | Verb::SlowScript { .. }
            | Verb::ClockRate { .. }
            | Verb::LyingDisk
            | Verb::TearingDisk
    )
}

/// A verb with its figure.
pub fn verb_of(row: &'static Row, plan: &Plan, lock: &Algorithm) -> BoxedStrategy<Verb> {
    let key = plan.lock.key.clone();
    let ttl_ms = i64::try_from(plan.longest_ttl().max(SECOND) / MILLISECOND).unwrap_or(i64::MAX);
    let figure = match (row.plain)().figure() {
        Figure::None => Just(Figure::None).boxed(),
        Figure::Length(_) => extra(row, plan, lock).prop_map(Figure::Length).boxed(),
        // Only a high loss rate drops several packets in a row, so that a message arrives after its
        // sender's timeout.
        Figure::Share(_) => prop_oneof![1..=50_u32, 50..=90_u32]
            .prop_map(|percent| Figure::Share(percent * 10_000))
            .boxed(),
        Figure::Shift(_) => (1..=ttl_ms * 2, proptest::bool::ANY)
            .prop_map(|(ms, forward)| Figure::Shift(if forward { ms } else { -ms } * 1_000_000))
            .boxed(),
        Figure::Rate(_) => (-20_000..=20_000_i32).prop_map(Figure::Rate).boxed(),
        Figure::Key(_) => Just(Figure::Key(key)).boxed(),
    };
    figure.prop_map(|figure| row.verb(figure).expect("a figure of the verb's own kind")).boxed()
}
