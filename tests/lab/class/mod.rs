//! The class of a violation against a brute force: all subsets of a plan's faults are run.
//!
//! Definition. A *sub-plan* is the plan without some of its faults. One that waits for what no
//! longer happens strikes when it did in the plan's own run: only what is left out makes a
//! difference. A sub-plan is *inside* if its own run breaches no assumption of the lock, by the
//! second ledger in `ledger.rs`, or if no fault is left in it. If a node of the plan came back with
//! keys forgotten, it may also write its disks before each reply. A kind that the plan's own run
//! violates is in-model if some sub-plan inside violates it; the plan is in-model if some sub-plan
//! inside is violated at all. Both sides try all sub-plans, so they agree if the ledgers do and if
//! the search omits nothing.
//!
//! `LOCKSTORM_PLANS` sets how many violated plans are drawn.

mod blame;
mod built;
mod ledger;
mod leeway;
mod listed;
mod unanswered;

use std::collections::{BTreeMap, BTreeSet};

use lockstorm::check::signature::Signature;
use lockstorm::check::verdict::Kind;
use lockstorm::explain::finding::Class;
use lockstorm::explore::class::classify;
use lockstorm::explore::trial::{Trial, attempt};
use lockstorm::history::History;
use lockstorm::hunt::drawing::Alphabet;
use lockstorm::hunt::seeded::{Hunt, draw};
use lockstorm::hunt::strategy::Strategy;
use lockstorm::ledger::breach::Breach;
use lockstorm::plan::base_plan::base_plan;
use lockstorm::plan::{Files, Persistence, Plan, Topology, TopologyKind};
use lockstorm::promise::Bounded;
use lockstorm::run::Lab;
use lockstorm::workload::slowest_access;
use lockstorm_platform::fault::{Anchor, Fault, Verb, verbs};

use crate::amount::{amount, is_whole, sample};
use crate::class::ledger::Book;

/// The rows from which hunts draw: locks with and without bugs, on every topology.
const ROWS: [(&str, TopologyKind, Persistence); 15] = [
    ("check-then-set", TopologyKind::Single, Persistence::None),
    ("setnx", TopologyKind::Single, Persistence::AofAlways),
    ("token-lua", TopologyKind::Single, Persistence::None),
    ("setnx-expire", TopologyKind::Single, Persistence::AofEverysec),
    ("px-constant", TopologyKind::Replicated, Persistence::None),
    ("token-get-del", TopologyKind::Single, Persistence::AofAlways),
    ("token-lua-renewed", TopologyKind::Single, Persistence::Rdb),
    ("redlock", TopologyKind::Independent, Persistence::None),
    ("fenced", TopologyKind::Replicated, Persistence::AofEverysec),
    ("redisson", TopologyKind::Single, Persistence::AofAlways),
    ("token-lua", TopologyKind::Sentinel, Persistence::None),
    ("token-lua", TopologyKind::Cluster, Persistence::AofAlways),
    ("wait-replicas", TopologyKind::Sentinel, Persistence::AofEverysec),
    ("setnx", TopologyKind::Cluster, Persistence::None),
    ("redlock-no-validity", TopologyKind::Independent, Persistence::None),
];

/// The maximum number of seeds that are drawn for one violated plan of a row.
const MAX_SEEDS: u64 = 400;

#[test]
fn the_class_is_what_all_subsets_of_the_faults_say() {
    let plans = amount("LOCKSTORM_PLANS", 28);
    let lab = Lab::default();
    let (mut tally, mut wrong) = (BTreeMap::new(), Vec::new());
    let rows = sample(ROWS);
    let quota = plans.div_ceil(rows.len());
    for (lock, kind, persistence) in rows {
        let hunt = hunt(&lab, lock, kind, persistence);
        let seeds =
            (1..=MAX_SEEDS * quota as u64).map(|seed| (seed, draw(&hunt, seed, Strategy::Random)));
        let trials = seeds.map(|(seed, plan)| (seed, attempt(&lab, &plan), plan));
        for (seed, trial, plan) in trials.filter(|(_, trial, _)| trial.is_violated()).take(quota) {
            let class = classify(&lab, &plan, &trial);
            *tally.entry((lock, class.is_in_model())).or_insert(0_u32) += 1;
            for why in disagreements(&lab, &plan, &trial, &class) {
                wrong.push(format!("{lock} on {kind:?} {persistence:?}, seed {seed}: {why}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} disagreements:\n{}", wrong.len(), wrong.join("\n"));
    let count = |inside| tally.iter().filter(|((_, of), _)| *of == inside).map(|(_, n)| n).sum();
    let (inside, outside): (u32, u32) = (count(true), count(false));
    // A debug build tries a single row.
    assert!(!is_whole() || inside > 0 && outside > 0, "one-sided: {tally:?}");
    println!(
        "{} violated plans, {inside} in-model, {outside} out-of-model: {tally:?}",
        inside + outside
    );
}

fn hunt(lab: &Lab, lock: &str, kind: TopologyKind, persistence: Persistence) -> Hunt {
    let mut base = base_plan(lock, kind);
    base.topology.persistence = persistence;
    let verbs = verbs::words().map(str::to_owned).collect();
    // Only faults are drawn: the subsets are those of faults.
    let varies = BTreeSet::new();
    let alphabet = Alphabet { verbs, varies, ..Alphabet::of(*lab.algorithm(&base)) };
    Hunt::new(lab.clone(), base, alphabet, 1..=1)
}

/// What the run of a sub-plan showed.
struct Seen {
    kinds: BTreeSet<Kind>,
    broken: BTreeMap<Bounded, u64>,
    grants: u32,
}

/// By the faults that are left out.
type Table = BTreeMap<BTreeSet<u32>, Seen>;

/// The plan without some faults.
fn sub_plan(plan: &Plan, out: &BTreeSet<u32>, own: &History) -> Plan {
    let mut sub = plan.clone();
    sub.faults.retain(|fault| !out.contains(&fault.id));
    for fault in &mut sub.faults {
        if fault.anchor.other_fault().is_some_and(|other| out.contains(&other)) {
            strike_as_before(fault, own);
        }
    }
    sub
}

fn strike_as_before(fault: &mut Fault, own: &History) {
    let struck = own.fault_intervals.iter().find(|interval| interval.fault == fault.id);
    if let Some(interval) = struck {
        fault.anchor = Anchor::At(interval.from.at);
    }
}

/// The run of a sub-plan in which what waited for an event in vain strikes all the same.
fn run_of(lab: &Lab, mut sub: Plan, own: &History) -> (Plan, Trial) {
    let run = attempt(lab, &sub);
    let struck: BTreeSet<u32> =
        run.run.history.fault_intervals.iter().map(|interval| interval.fault).collect();
    let waits = |fault: &&mut Fault| {
        matches!(fault.anchor, Anchor::After { .. }) && !struck.contains(&fault.id)
    };
    let mut is_other = false;
    for fault in sub.faults.iter_mut().filter(waits) {
        strike_as_before(fault, own);
        is_other |= matches!(fault.anchor, Anchor::At(_));
    }
    let run = if is_other { attempt(lab, &sub) } else { run };
    (sub, run)
}

/// What a sub-plan's run showed, and the ledger's figures for it.
fn seen(lab: &Lab, sub: Plan, own: &History) -> (Seen, BTreeMap<Bounded, u64>) {
    let (sub, run) = run_of(lab, sub, own);
    let sub = &sub;
    let message = slowest_access(&sub.links);
    let book = Book { history: &run.run.history, plan: sub, message };
    let broken = ledger::broken(&book, &lab.promise(sub));
    let kinds = Signature::of(&run.judgement.verdict).kinds.into_iter().collect();
    (Seen { kinds, broken, grants: run.judgement.counts.grants }, worst_of(&run))
}

/// The same plan with disks that forget nothing, if that is another one, and a process dies in it.
fn synced(sub: &Plan) -> Option<Plan> {
    let dies = |fault: &Fault| {
        let kills = [Verb::Crash, Verb::PowerLoss, Verb::Restart, Verb::FullDisk];
        kills.contains(&fault.verb)
    };
    let persistence = Persistence::AofAlways;
    let is_other = sub.topology.persistence != persistence && sub.faults.iter().any(dies);
    let topology = Topology { persistence, files: Files::default(), ..sub.topology.clone() };
    is_other.then(|| Plan { topology, ..sub.clone() })
}

/// Every difference between the class and the result of the subsets.
fn disagreements(lab: &Lab, plan: &Plan, trial: &Trial, class: &Class) -> Vec<String> {
    let (mut wrong, own) = (Vec::new(), &trial.run.history);
    let ids: Vec<u32> = plan.faults.iter().map(|fault| fault.id).collect();
    let (mut table, mut with_sync) = (Table::new(), Vec::new());
    let is_synced = trial.breaches.iter().any(|breach| breach.what == Bounded::AmnesiacRestart);
    for mask in 0..1_u32 << ids.len() {
        let out: BTreeSet<u32> = ids
            .iter()
            .enumerate()
            .filter(|(bit, _)| mask >> bit & 1 == 1)
            .map(|(_, id)| *id)
            .collect();
        let sub = sub_plan(plan, &out, own);
        let synced = is_synced.then(|| synced(&sub)).flatten();
        for (sub, is_synced) in [(Some(sub), false), (synced, true)] {
            let Some(sub) = sub else { continue };
            let (seen, theirs) = seen(lab, sub, own);
            if theirs != seen.broken {
                wrong.push(format!(
                    "without {out:?} the ledgers differ ({is_synced}): {theirs:?}, and here {:?}",
                    seen.broken
                ));
            }
            match is_synced {
                true => with_sync.push(seen),
                false => drop(table.insert(out.clone(), seen)),
            }
        }
    }
    let inside = || table.values().chain(&with_sync).filter(|seen| seen.broken.is_empty());
    let in_model = inside().any(|seen| !seen.kinds.is_empty());
    if class.is_in_model() != in_model {
        wrong.push(format!("in-model is {in_model}, the class says {class:?}"));
    }
    let own: BTreeSet<Kind> = Signature::of(&trial.judgement.verdict).kinds.into_iter().collect();
    for kind in &own {
        let shown = inside().any(|seen| seen.kinds.contains(kind));
        if class.in_model.contains(kind) != shown || class.out_of_model.contains(kind) == shown {
            wrong.push(format!("{}: in-model is {shown}, the class says {class:?}", kind.word()));
        }
    }
    wrong.extend(blame(class, &table));
    // All faults, and disks that forget nothing.
    let own = &table[&BTreeSet::new()].broken;
    let keeps_all = with_sync.first().filter(|seen| {
        let mut broken = seen.broken.keys();
        broken.all(|what| *what != Bounded::AmnesiacRestart && own.contains_key(what))
    });
    for broken in class.broken.iter().filter(|broken| broken.what == Bounded::AmnesiacRestart) {
        let mut goes = broken.goes.iter();
        let stays = goes.find(|kind| keeps_all.is_some_and(|seen| seen.kinds.contains(kind)));
        wrong.extend(
            stays.map(|kind| {
                format!("{}: stays though nothing is forgotten: {class:?}", kind.word())
            }),
        );
    }
    wrong.extend(missing(class, &trial.breaches, &table));
    wrong
}

/// Breaches, alone or two together, without which a kind disappears, and not without fewer of them,
/// that are not listed. Nodes that were back too early are left out: for them another rule holds.
fn missing(class: &Class, breaches: &[Breach], table: &Table) -> Vec<String> {
    let faults = |breach: &Breach| -> Option<BTreeSet<u32>> {
        let faults: Option<BTreeSet<u32>> = breach.parts.iter().map(|part| part.fault()).collect();
        faults.filter(|faults| !faults.is_empty() && breach.what != Bounded::AmnesiacRestart)
    };
    let of: Vec<(Bounded, BTreeSet<u32>)> =
        breaches.iter().filter_map(|breach| Some((breach.what, faults(breach)?))).collect();
    let is_listed = |(what, faults): &(Bounded, BTreeSet<u32>)| {
        class.broken.iter().any(|broken| {
            // A step that made no difference is left out; `blame` runs the plan without the others.
            let listed: BTreeSet<u32> = broken.faults.iter().copied().collect();
            broken.what == *what && !listed.is_empty() && listed.is_subset(faults)
        })
    };
    let mut wrong = Vec::new();
    for kind in &class.out_of_model {
        let goes = |set: &[&(Bounded, BTreeSet<u32>)]| {
            let out: BTreeSet<u32> = set.iter().flat_map(|(_, faults)| faults.clone()).collect();
            !table[&out].kinds.contains(kind) && table[&out].grants > 0
        };
        let (alone, others): (Vec<_>, Vec<_>) = of.iter().partition(|breach| goes(&[breach]));
        let pairs = others.iter().enumerate().flat_map(|(index, one)| {
            others[index + 1..].iter().map(move |other| vec![*one, *other])
        });
        let sets = alone.iter().map(|one| vec![*one]).chain(pairs.filter(|pair| goes(pair)));
        let unlisted = sets.filter(|set| !set.iter().all(|breach| is_listed(breach)));
        wrong.extend(
            unlisted
                .map(|set| format!("{}: without {set:?} it disappears: {class:?}", kind.word())),
        );
    }
    wrong
}

fn worst_of(trial: &Trial) -> BTreeMap<Bounded, u64> {
    let mut worst = BTreeMap::new();
    for breach in &trial.breaches {
        let known = worst.entry(breach.what).or_insert(breach.actual);
        *known = match breach.what {
            Bounded::AmnesiacRestart => breach.actual.min(*known),
            _ => breach.actual.max(*known),
        };
    }
    worst
}

/// Whether every listed assumption made the stated difference.
fn blame(class: &Class, table: &Table) -> Vec<String> {
    let mut wrong = Vec::new();
    let left = |faults: &BTreeSet<u32>| table[faults].kinds.clone();
    let go = |faults: &BTreeSet<u32>, kinds: &[Kind]| {
        !kinds.is_empty() && kinds.iter().all(|kind| !left(faults).contains(kind))
    };
    let names = |index: usize| class.either.iter().any(|set| set.broken.contains(&index));
    let of = |index: usize| class.broken[index].faults.iter().copied().collect::<BTreeSet<u32>>();
    for (index, broken) in class.broken.iter().enumerate() {
        let (alone, stays) = (!broken.goes.is_empty(), left(&of(index)));
        if alone && !go(&of(index), &broken.goes) {
            wrong.push(format!("{:?} is said to matter alone: {class:?}", broken.what));
        }
        if alone && !stays.iter().eq(&broken.stays) {
            wrong.push(format!("without {:?} there is {stays:?}: {class:?}", broken.what));
        }
        if !alone && !names(index) {
            wrong.push(format!("{:?} is listed for nothing: {class:?}", broken.what));
        }
    }
    for set in &class.either {
        let whole = set.broken.iter().flat_map(|index| of(*index)).collect();
        if !go(&whole, &set.kinds) {
            wrong.push(format!("taking {set:?} away changes nothing: {class:?}"));
        }
    }
    if !class.out_of_model.is_empty() && class.broken.is_empty() {
        wrong.push(format!("out of the model, and nothing is to blame: {class:?}"));
    }
    wrong
}
