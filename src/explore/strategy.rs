//! Proptest strategies for faults and whole plans, for hunts and for users' own tests.
//!
//! Every drawn plan is valid. Plans shrink towards fewer faults, fewer clients and shorter, rounder
//! numbers.

use std::collections::BTreeSet;

use lockstorm_platform::fault::verbs::{ActsOn, Figure, Needs, ROWS, Row};
use lockstorm_platform::fault::{Anchor, Fault, Pattern, Target, Verb};
use lockstorm_platform::time::{MILLISECOND, Nanos, SECOND};
use lockstorm_platform::trace::Leg;
use proptest::prelude::{BoxedStrategy, Just, Strategy};
use proptest::strategy::Union;
use proptest::{collection, sample};

use crate::explore::habits::{Parameter, habits};
use crate::history::RESOURCE;
use crate::ledger::overwork::{Overwork, fit, overworked};
use crate::ledger::planned::keep_within;
use crate::length;
use crate::lock::algorithm::Algorithm;
use crate::lock::catalogue;
use crate::lock::client::slot_map::SlotMap;
use crate::plan::fault_contradiction::halts_clients;
use crate::plan::{Persistence, Plan, TopologyKind};
use crate::promise::Promise;
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

/// What a topology may lack for a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// A replica to promote or to delay.
    Replica,
    /// An operator: Sentinels or the cluster promote replicas themselves.
    Operator,
    /// A file on a disk that can lose, tear or reject writes.
    Persistence,
}

/// The names of the verbs that a search draws by default.
pub fn default_verbs() -> BTreeSet<String> {
    ROWS.iter().filter(|row| row.is_drawn).map(|row| row.word.to_owned()).collect()
}

/// Plans like `base` with other faults, and with the same number of clients or fewer.
pub fn plans(base: &Plan, alphabet: &Alphabet) -> BoxedStrategy<Plan> {
    let (base, alphabet) = (base.clone(), alphabet.clone());
    let faults = collection::vec(fault(&base, &alphabet), 0..=alphabet.most_faults);
    let fewest = base.workload.clients.min(2);
    let free = alphabet.varies.contains(&Parameter::Clients);
    let clients = if free { fewest } else { base.workload.clients }..=base.workload.clients;
    let habits = habits(&base, &alphabet.lock, &alphabet.varies);
    let plain = fitting(&base, &alphabet).unwrap_or(base);
    (clients, faults, habits)
        .prop_map(move |(clients, faults, habits)| {
            let mut plain = plain.clone();
            plain.workload.clients = clients;
            let mut plan = plain.clone();
            habits.apply(&mut plan, &alphabet.lock);
            let plan = fitting(&plan, &alphabet).unwrap_or(plain);
            assemble(plan, faults, &alphabet)
        })
        .boxed()
}

/// The promise of a lock for a plan's own figures.
fn promise(plan: &Plan, lock: &Algorithm) -> Promise {
    lock.promises(&plan.lock, work(plan))
}

/// The plan. If a search must stay within the lock's assumptions and its clients work for too long,
/// a similar plan in which they do not, or none. Only what may be drawn is changed.
fn fitting(plan: &Plan, alphabet: &Alphabet) -> Option<Plan> {
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

fn assemble(mut plan: Plan, faults: Vec<Fault>, alphabet: &Alphabet) -> Plan {
    plan.is_drawn = true;
    let hosts = plan.hosts();
    let there = |fault: &Fault| fault.target.hosts().iter().all(|host| known(&hosts, host));
    let waits = |fault: &Fault| waits_for(&fault.anchor).iter().all(|host| known(&hosts, host));
    let halts = |fault: &Fault| !alphabet.lock.runs_tokio || !halts_clients(&plan, fault);
    let kept = |fault: &Fault| there(fault) && waits(fault) && halts(fault);
    plan.faults = faults.into_iter().filter(kept).collect();
    for (id, fault) in (1..).zip(&mut plan.faults) {
        fault.id = id;
    }
    if alphabet.within {
        let promise = promise(&plan, &alphabet.lock);
        keep_within(&mut plan, &promise);
    }
    plan
}

fn known(hosts: &[String], host: &str) -> bool {
    hosts.iter().any(|known| known == host)
}

fn waits_for(anchor: &Anchor) -> Vec<&str> {
    match anchor {
        Anchor::After { event: Pattern::Outcome { who, .. }, .. } => vec![who],
        Anchor::After { event: Pattern::Message { from, to, .. }, .. } => vec![from, to],
        _ => Vec::new(),
    }
}

/// One fault against the hosts of `plan`. Its number is 0.
pub fn fault(plan: &Plan, alphabet: &Alphabet) -> BoxedStrategy<Fault> {
    let rows = ROWS.iter().filter(|row| alphabet.verbs.contains(row.word));
    let rows: Vec<&'static Row> = rows.filter(|row| lack(plan, row).is_none()).collect();
    assert!(!rows.is_empty(), "no verb of the alphabet fits this topology");
    Union::new(rows.into_iter().map(|row| fault_of(row, plan))).boxed()
}

/// A fault with this verb. There is one draw, since a dependent second draw does not shrink.
fn fault_of(row: &'static Row, plan: &Plan) -> BoxedStrategy<Fault> {
    let parts = (verb_of(row, plan), target(row, plan), length(plan), anchor(plan));
    parts
        .prop_map(|(verb, target, length, anchor)| {
            let length = (!verb.is_momentary()).then_some(length);
            Fault { id: 0, verb, target, anchor, length }
        })
        .boxed()
}

/// What the topology of `plan` lacks for this verb to have an effect, if anything.
pub fn lack(plan: &Plan, row: &Row) -> Option<Lack> {
    let topology = &plan.topology;
    let by_itself = matches!(topology.kind, TopologyKind::Sentinel | TopologyKind::Cluster);
    let (has_replicas, keeps) = (topology.replicas() > 0, topology.persistence);
    match row.needs {
        Needs::Replica if !has_replicas => Some(Lack::Replica),
        Needs::FailoverByHand if !has_replicas => Some(Lack::Replica),
        Needs::FailoverByHand if by_itself => Some(Lack::Operator),
        Needs::File if keeps == Persistence::None => Some(Lack::Persistence),
        Needs::AppendOnlyFile if matches!(keeps, Persistence::None | Persistence::Rdb) => {
            Some(Lack::Persistence)
        }
        _ => None,
    }
}

/// A verb with its figure.
fn verb_of(row: &'static Row, plan: &Plan) -> BoxedStrategy<Verb> {
    let key = plan.lock.key.clone();
    let ttl_ms = i64::try_from(plan.longest_ttl().max(SECOND) / MILLISECOND).unwrap_or(i64::MAX);
    let figure = match (row.plain)().figure() {
        Figure::None => Just(Figure::None).boxed(),
        Figure::Length(_) => (1..=500_u64).prop_map(|ms| Figure::Length(ms * MILLISECOND)).boxed(),
        Figure::Share(_) => {
            (1..=50_u32).prop_map(|percent| Figure::Share(percent * 10_000)).boxed()
        }
        Figure::Shift(_) => (1..=ttl_ms * 2, proptest::bool::ANY)
            .prop_map(|(ms, forward)| Figure::Shift(if forward { ms } else { -ms } * 1_000_000))
            .boxed(),
        Figure::Rate(_) => (-20_000..=20_000_i32).prop_map(Figure::Rate).boxed(),
        Figure::Key(_) => Just(Figure::Key(key)).boxed(),
    };
    figure.prop_map(|figure| row.verb(figure).expect("a figure of the verb's own kind")).boxed()
}

/// A target that makes sense for the verb.
fn target(row: &Row, plan: &Plan) -> BoxedStrategy<Target> {
    let (nodes, clients) = (plan.nodes(), plan.clients());
    let host = |names: Vec<String>| sample::select(names).prop_map(Target::Host).boxed();
    match row.acts_on {
        ActsOn::Links => links(plan),
        ActsOn::Node => host(nodes),
        ActsOn::Replica => {
            let masters = plan.topology.masters();
            host(nodes.into_iter().skip(usize::try_from(masters).unwrap_or(1)).collect())
        }
        // Nodes and clients have equal weight: with many nodes, an even draw would rarely strike a
        // client.
        ActsOn::Host => proptest::prop_oneof![host(nodes), host(clients)].boxed(),
    }
}

/// Links of one client or of all, to some of the nodes or to the guarded resource.
fn links(plan: &Plan) -> BoxedStrategy<Target> {
    let (nodes, clients) = (plan.nodes(), plan.clients());
    let count = nodes.len();
    let side = sample::subsequence(nodes, 1..=count);
    let far = proptest::prop_oneof![9 => side, 1 => Just(vec![RESOURCE.to_owned()])];
    let near = sample::subsequence(clients.clone(), 1..=clients.len());
    (near, far, proptest::bool::ANY, proptest::bool::ANY)
        .prop_map(|(near, far, both, back)| {
            let (from, to) = if back { (far, near) } else { (near, far) };
            Target::Links { from, to, both }
        })
        .boxed()
}

/// The length of a fault: short, about as long as a lease, or longer than one.
fn length(plan: &Plan) -> BoxedStrategy<Nanos> {
    let lease_ms = (plan.longest_ttl() / MILLISECOND).clamp(1_000, 30_000);
    let ms = |range: std::ops::RangeInclusive<u64>| range.prop_map(|ms| ms * MILLISECOND);
    proptest::prop_oneof![ms(1..=500), ms(1..=lease_ms), ms(lease_ms..=lease_ms * 3)].boxed()
}

/// When a fault strikes: at a time, after a grant or a release, or when a message has completed a
/// leg.
fn anchor(plan: &Plan) -> BoxedStrategy<Anchor> {
    let clients = plan.clients();
    let weighted =
        queried_nodes(plan).into_iter().map(|(weight, node)| (weight, Just(node).boxed()));
    let nodes = Union::new_weighted(weighted.collect());
    let last_ms = plan.heal_at / MILLISECOND;
    let outcomes = vec!["acquire", "acquired", "release", "released", "read"];
    let legs = vec![Leg::Sent, Leg::Applied, Leg::Replied, Leg::Delivered];
    let plus = || {
        proptest::prop_oneof![
            1 => Just(0),
            1 => (1..=3_000_u64).prop_map(|ms| ms * MILLISECOND),
        ]
    };
    let after = |event, nth, plus| Anchor::After { event, nth, plus };
    let outcome = (sample::select(clients.clone()), sample::select(outcomes), 1..=4_u32, plus())
        .prop_map(move |(who, what, nth, plus)| {
            after(Pattern::Outcome { who, what: what.to_owned() }, nth, plus)
        });
    let message = (sample::select(clients), nodes, sample::select(legs), 1..=8_u32, plus())
        .prop_map(move |(from, to, leg, nth, plus)| {
            after(Pattern::Message { from, to, command: None, leg }, nth, plus)
        });
    proptest::prop_oneof![
        (0..last_ms).prop_map(|ms| Anchor::At(ms * MILLISECOND)),
        outcome,
        message,
    ]
    .boxed()
}

/// The weight of a message to the master that clients query. A message to a replica, which they
/// query only after a failover, has weight 1.
const MASTER_BIAS: u32 = 40;

/// The nodes that clients query, with their weights.
fn queried_nodes(plan: &Plan) -> Vec<(u32, String)> {
    let node = |nth: u32| format!("n{nth}");
    let (topology, nodes) = (&plan.topology, plan.topology.nodes);
    let queries_all = catalogue::find(&plan.lock.algorithm).is_none_or(|lock| lock.queries_all);
    let master = match topology.kind {
        TopologyKind::Independent if queries_all => {
            return plan.nodes().into_iter().map(|n| (1, n)).collect();
        }
        // Replicas take over without a command of a fault.
        TopologyKind::Sentinel | TopologyKind::Cluster => slot_master(plan),
        _ => return vec![(1, node(1))],
    };
    let replicas = (1..=nodes).filter(|nth| topology.master_of(*nth) == Some(master));
    let replicas = replicas.map(|nth| (1, node(nth)));
    [(MASTER_BIAS, node(master))].into_iter().chain(replicas).collect()
}

/// The initial master of the lock's key.
fn slot_master(plan: &Plan) -> u32 {
    let slot = SlotMap::slot_of("GET", &[plan.lock.key.as_bytes()]);
    let Some((shards, slot)) = plan.topology.shards.zip(slot) else { return 1 };
    let serves = |nth: &u32| {
        let (first, last) = shards.slots_of(*nth);
        (first..=last).contains(&slot)
    };
    (1..=shards.masters).find(serves).unwrap_or(1)
}
