//! Lineage-driven fault injection: a plan runs without faults first, and faults strike what the
//! exclusivity of that run rested on. These are the messages of its grants, renewals, releases and
//! accesses, leg by leg, and the ends of its leases.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use lockstorm_platform::fault::verbs::{ActsOn, Row};
use lockstorm_platform::fault::{Anchor, Fault, Pattern, Target};
use lockstorm_platform::time::{Instant, MILLISECOND, Nanos};
use lockstorm_platform::trace::Leg;
use proptest::collection::vec;
use proptest::prelude::{BoxedStrategy, Just, Strategy};
use proptest::prop_oneof;
use proptest::sample::select;
use proptest::strategy::Union;
use proptest::test_runner::TestRunner;

use crate::history::{History, Op, OpId, RESOURCE, Request};
use crate::hunt::drawing::duration::length;
use crate::hunt::drawing::target::replicas;
use crate::hunt::drawing::{Alphabet, Burst, burst, calm, rows, verb_of, with_faults};
use crate::plan::Plan;
use crate::run::Lab;

/// The grants of a run, from the first one on, whose supports are struck: later ones differ most
/// from those of the run without faults.
const GRANTS: usize = 6;
/// The number of runs that are kept. Half of the plans of a hunt differ in their faults alone.
const KEPT: usize = 32;
/// How far apart two faults of a pair are at most, in supports: about one operation.
const NEAR: i32 = 8;

/// Something that a grant rested on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Support {
    /// When it happened without faults.
    at: Instant,
    /// The client.
    client: String,
    /// The node, or the guarded resource.
    node: String,
    /// What happens to it.
    event: Pattern,
    /// Which occurrence of it.
    nth: u32,
    /// How long after that, ns.
    plus: Nanos,
}

/// The supports of plans without faults, which need not run again.
#[derive(Clone, Debug, Default)]
pub struct Lineages(Arc<Mutex<BTreeMap<String, Arc<Vec<Support>>>>>);

impl Lineages {
    /// What the run of a plan without its faults and its seed rested on.
    fn of(&self, lab: &Lab, plan: &Plan) -> Arc<Vec<Support>> {
        let plan = Plan { seed: 0, faults: Vec::new(), ..plan.clone() };
        let digest = plan.digest();
        let lock = || self.0.lock().expect("nobody panics with it");
        if let Some(known) = lock().get(&digest) {
            return known.clone();
        }
        let found = Arc::new(supports(&plan, &lab.quick(&plan).run(&plan).history));
        let mut kept = lock();
        // Which runs are kept changes no result.
        if kept.len() < KEPT {
            kept.insert(digest, found.clone());
        }
        found
    }
}

/// The plans of this strategy.
pub fn plans(
    base: &Plan,
    alphabet: &Alphabet,
    (lab, lineages): (&Lab, &Lineages),
    runner: &mut TestRunner,
) -> BoxedStrategy<Plan> {
    let calm = calm(base, alphabet, runner);
    let supports = lineages.of(lab, &calm);
    if supports.is_empty() {
        // Nothing was granted: a fault may change that.
        return with_faults(calm.clone(), vec(burst(&calm, alphabet), 0..=4).boxed(), alphabet);
    }
    let aimed = || aimed(&calm, &supports, alphabet);
    let other = vec(burst(&calm, alphabet), 0..=1);
    let near = prop_oneof![1 => Just(None), 3 => (-NEAR..=NEAR).prop_map(Some)];
    let faults = (struck(&supports), near, aimed(), aimed(), other);
    let count = supports.len();
    let faults = faults.prop_map(move |(first, near, one, other, rest)| {
        let second = near.map(|far| first.saturating_add_signed(far as isize).min(count - 1));
        let second = second.map(|second| other.fault(second));
        let own = [one.fault(first)].into_iter().chain(second).map(Burst::once);
        own.chain(rest).collect()
    });
    with_faults(calm.clone(), faults.boxed(), alphabet)
}

/// Which support the first fault strikes. An access is one of few, and what spoils the resource
/// while one holder at a time had the lock is one that comes late, so it is drawn more often.
fn struck(supports: &[Support]) -> BoxedStrategy<usize> {
    let all = 0..supports.len();
    let accesses = all.clone().filter(|nth| supports[*nth].node == RESOURCE).collect::<Vec<_>>();
    match accesses.is_empty() {
        true => all.boxed(),
        false => prop_oneof![5 => all, 1 => select(accesses)].boxed(),
    }
}

/// A fault that strikes whichever support it is given.
#[derive(Clone, Debug)]
struct Aimed {
    fault: Fault,
    row: &'static Row,
    side: usize,
    plan: Arc<Plan>,
    supports: Arc<Vec<Support>>,
    later: Nanos,
}

/// One fault with any verb of the alphabet.
fn aimed(plan: &Plan, supports: &Arc<Vec<Support>>, alphabet: &Alphabet) -> BoxedStrategy<Aimed> {
    let shared = Arc::new(plan.clone());
    let later = || {
        let hold_ms = (plan.workload.hold / MILLISECOND).max(1);
        prop_oneof![3 => Just(0), 1 => (1..=hold_ms).prop_map(|ms| ms * MILLISECOND)]
    };
    let lock = &alphabet.lock;
    let of = |row: &'static Row| {
        let (plan, supports) = (shared.clone(), supports.clone());
        let drawn = (verb_of(row, &plan, lock), length(&plan, lock), 0..60_usize, later());
        drawn.prop_map(move |(verb, length, side, later)| {
            let length = (!verb.is_momentary()).then_some(length);
            let (target, anchor) = (Target::Host(String::new()), Anchor::At(0));
            let fault = Fault { id: 0, verb, target, anchor, length };
            Aimed { fault, row, side, plan: plan.clone(), supports: supports.clone(), later }
        })
    };
    Union::new(rows(plan, alphabet).into_iter().map(|row| of(row).boxed())).boxed()
}

impl Aimed {
    /// The fault on this support.
    fn fault(self, nth: usize) -> Fault {
        let support = &self.supports[nth];
        let target = target(self.row, support, &self.plan, self.side);
        let (event, nth) = (support.event.clone(), support.nth);
        let plus = (support.plus + self.later).min(self.plan.heal_at - 1);
        let anchor = Anchor::After { event, nth, plus };
        Fault { target, anchor, ..self.fault }
    }
}

/// What a verb strikes of a support: the link that its message takes, or one of its ends.
fn target(row: &Row, support: &Support, plan: &Plan, side: usize) -> Target {
    let (client, node) = (support.client.clone(), support.node.clone());
    let nodes = plan.nodes();
    let a_node = if node == RESOURCE { nodes[side % nodes.len()].clone() } else { node.clone() };
    let links = |from: &[String], to: &[String], both| Target::Links {
        from: from.to_vec(),
        to: to.to_vec(),
        both,
    };
    match row.acts_on {
        // An access takes one link, and only on its way there can it come late.
        ActsOn::Links if node == RESOURCE => links(&[client], &[node], side.is_multiple_of(3)),
        ActsOn::Links => match side % 5 {
            0 => links(&[client], &[node], false),
            1 => links(&[node], &[client], false),
            2 => links(&[client], &[node], true),
            3 => links(&[client], &nodes, true),
            _ => {
                let servers = [nodes, plan.sentinels()].concat();
                let others: Vec<String> =
                    servers.into_iter().filter(|server| *server != a_node).collect();
                match plan.topology.replicas() {
                    0 => links(&[client], &[a_node], true),
                    _ => links(&[a_node], &others, true),
                }
            }
        },
        ActsOn::Host if side.is_multiple_of(2) => Target::Host(client),
        ActsOn::Host | ActsOn::Node => Target::Host(a_node),
        ActsOn::Replica => {
            let replicas = replicas(plan);
            Target::Host(replicas[side % replicas.len()].clone())
        }
    }
}

/// What the first grants of a run rested on, in the order of their times.
fn supports(plan: &Plan, history: &History) -> Vec<Support> {
    let granted = history.ops.iter().filter(|op| op.token().is_some());
    let grants: Vec<OpId> = granted.take(GRANTS).map(|op| op.id).collect();
    let (clients, nodes) = (plan.clients(), plan.nodes());
    let ttl = plan.longest_ttl().min(plan.heal_at);
    let mut all: Vec<(Support, Option<OpId>)> = Vec::new();
    for (at, request, leg) in legs(history) {
        let (client, node) = (request.from.to_string(), request.to.to_string());
        let command = Some(request.command.to_string());
        let event = Pattern::Message { from: client.clone(), to: node.clone(), command, leg };
        let op = history.ops[request.op as usize].grant();
        all.push((Support { at, client, node, event, nth: 0, plus: 0 }, op));
    }
    for op in &history.ops {
        let support = |at, what: &str, plus| {
            let (who, what) = (op.process.clone(), what.to_owned());
            let event = Pattern::Outcome { who, what };
            let (client, node) = (op.process.clone(), node_of(history, op));
            (Support { at, client, node, event, nth: 0, plus }, op.grant())
        };
        all.push(support(op.call.instant(), op.kind.invocation_word(), 0));
        let Some(ret) = op.ret else { continue };
        let word = op.outcome.return_word(&op.kind);
        all.push(support(ret.instant(), word, 0));
        if op.token().is_some() {
            // Shortly before the end of the lease, so that a fault covers it.
            all.push(support(ret.instant(), word, ttl - ttl / 10));
        }
    }
    all.sort_by_key(|(support, _)| support.at);
    let mut count: BTreeMap<String, u32> = BTreeMap::new();
    for (support, _) in &mut all {
        let nth = count.entry(format!("{:?}", support.event)).or_default();
        *nth += u32::from(support.plus == 0);
        support.nth = *nth;
    }
    let can_be = |support: &Support| {
        let on_node = nodes.contains(&support.node) || support.node == RESOURCE;
        support.nth > 0 && clients.contains(&support.client) && on_node
    };
    let own = all.into_iter().filter(|(_, op)| op.is_some_and(|op| grants.contains(&op)));
    own.map(|(support, _)| support).filter(can_be).collect()
}

/// The progress of every request to a node.
fn legs(history: &History) -> Vec<(Instant, &Request, Leg)> {
    let to_nodes = history.requests.iter().filter(|request| *request.to != *RESOURCE);
    let each =
        to_nodes.flat_map(|request| request.legs.iter().map(move |(leg, at)| (*at, request, *leg)));
    each.filter(|(_, _, leg)| *leg != Leg::Unsent).collect()
}

/// The first host to which an operation sent a request.
fn node_of(history: &History, op: &Op) -> String {
    let mut own = history.requests.iter().filter(|request| request.op == op.id);
    own.next().map_or_else(|| RESOURCE.to_owned(), |request| request.to.to_string())
}
