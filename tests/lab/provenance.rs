//! The owner of a key, compared with the truth: a lock that records its token as the name of a
//! second key, in the same step. So each node itself shows the acquire of a key, however the key
//! reached the node.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use lockstorm::check::verdict::{Kind, Verdict};
use lockstorm::explore::trial::attempt;
use lockstorm::history::{History, Key, OpId, OpKind, Outcome};
use lockstorm::hunt::drawing::Alphabet;
use lockstorm::hunt::seeded::{Hunt, draw};
use lockstorm::hunt::strategy::Strategy;
use lockstorm::lock::algorithm::Algorithm;
use lockstorm::lock::client::{Client, answer, milliseconds};
use lockstorm::lock::defaults::{Choices, LEASE};
use lockstorm::lock::{Acquired, Extended, Grant, Lock, Released, Setting, token};
use lockstorm::plan::base_plan::base_plan_of;
use lockstorm::plan::{Persistence, Plan, TopologyKind};
use lockstorm::run::Lab;
use lockstorm::scenario::Scenario;
use lockstorm_platform::fault::{Anchor, Fault, Target, Verb};
use lockstorm_platform::time::{MILLISECOND, SECOND};
use lockstorm_platform::trace::KeyChange;

use crate::amount::number;

const NAMED: Algorithm = Algorithm::lease("named", |setting| Box::new(Named::new(setting)));

const TAKE: &str = r#"
if redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then
    redis.call("SET", KEYS[2], 1, "PX", ARGV[2])
    return 1
end
return 0"#;

const GIVE_BACK: &str = r#"
if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1]) + redis.call("DEL", KEYS[2])
end
return 0"#;

/// The lock of one caller.
struct Named {
    setting: Setting,
    choices: Choices,
    client: Client,
}

impl Named {
    fn new(setting: Setting) -> Named {
        let client = Client::of(&setting, &setting.nodes[0]);
        Named { choices: LEASE.settle(&setting.config), client, setting }
    }
}

/// The second key, in the slot of the first.
fn name_of(key: &str, token: &str) -> String {
    format!("{{{key}}}:{token}")
}

#[async_trait(?Send)]
impl Lock for Named {
    async fn acquire(&mut self) -> Acquired {
        let Setting { host, config, call, .. } = &self.setting;
        let lease = self.choices.lease(config);
        let (token, ttl) = (token::fresh(host, call.get(), 0), milliseconds(lease.ttl));
        let name = name_of(&config.key, &token);
        let (keys, args) =
            ([config.key.as_bytes(), name.as_bytes()], [token.as_bytes(), ttl.as_bytes()]);
        let sent = host.now(lease.clock);
        let timeout = self.choices.timeout;
        let answer = self.client.eval(call.get(), timeout, TAKE, &keys, &args).await;
        let deadline = Some(lease.deadline(host, sent));
        answer::acquired(&answer, Grant::new(token, deadline))
    }

    async fn extend(&mut self, _: &Grant) -> Extended {
        Extended::Lost
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        let Setting { config, call, .. } = &self.setting;
        let name = name_of(&config.key, &grant.token);
        let keys = [config.key.as_bytes(), name.as_bytes()];
        let timeout = self.choices.timeout;
        let args = [grant.token.as_bytes()];
        answer::released(&self.client.eval(call.get(), timeout, GIVE_BACK, &keys, &args).await)
    }
}

/// What the comparison has observed.
#[derive(Debug, Default)]
struct Seen {
    /// Creations of second keys, and how many of them were copies.
    names: u32,
    copies: u32,
    /// Creations of lock keys that replaced lost ones: at a start or a resynchronisation.
    loaded: u32,
}

/// Compares the owners in one history with the truth on the nodes.
struct Truth<'a> {
    history: &'a History,
    /// The acquire of each second key.
    acquires: BTreeMap<&'a str, OpId>,
    expired: BTreeSet<&'a str>,
    seen: Seen,
}

impl<'a> Truth<'a> {
    fn new(history: &'a History) -> Truth<'a> {
        let (acquires, expired) = (BTreeMap::new(), BTreeSet::new());
        Truth { history, acquires, expired, seen: Seen::default() }
    }

    /// The acquire of a granted token is known from the grant, otherwise from the request.
    fn acquire_of(&mut self, key: &'a Key) -> Option<OpId> {
        let token = key.key.split_once("}:")?.1;
        let granted = self.history.ops.iter().find(
            |op| matches!(&op.outcome, Outcome::Granted { token: granted, .. } if granted == token),
        );
        let known = granted.map(|op| op.id).or(key.by);
        let first = *self.acquires.entry(&key.key).or_insert(known?);
        Some(first)
    }

    fn check_name(&mut self, key: &'a Key) -> Result<(), String> {
        match key.change {
            KeyChange::Set => {
                self.seen.names += 1;
                self.seen.copies += u32::from(self.acquires.contains_key(&key.key[..]));
                let acquire = self.acquire_of(key);
                (acquire.is_some() && key.by == acquire)
                    .then_some(())
                    .ok_or(format!("created by {acquire:?}, not as in {key:?}"))
            }
            KeyChange::Expired => {
                self.expired.insert(&key.key);
                Ok(())
            }
            KeyChange::Deleted => {
                let acquire = self.acquires.get(&key.key[..]).copied();
                let is_right = match key.by {
                    None => self.expired.contains(&key.key[..]),
                    Some(by) => self.history.ops.iter().any(|op| {
                        op.id == by
                            && matches!(op.kind, OpKind::Release { grant } if Some(grant) == acquire)
                    }),
                };
                is_right.then_some(()).ok_or(format!("given back by another: {key:?}"))
            }
            _ => Ok(()),
        }
    }

    /// The changes on a node in one instant: afterwards the owner of the lock's key matches a
    /// second key that exists.
    fn check_node(&mut self, node: &str) -> Result<(), String> {
        let changes: Vec<&Key> = self.history.keys.iter().filter(|k| k.node == node).collect();
        let (mut owner, mut names) = (None, BTreeSet::new());
        for instant in changes.chunk_by(|one, next| one.at.at == next.at.at) {
            for key in instant {
                let goes = !matches!(
                    key.change,
                    KeyChange::Set | KeyChange::Changed | KeyChange::Extended
                );
                match (key.key == "lock", goes) {
                    (true, true) => owner = None,
                    (true, false) if key.change == KeyChange::Set => owner = Some(key.by),
                    (false, true) => drop(names.remove(&key.key[..])),
                    (false, false) => drop(names.insert(&key.key[..])),
                    _ => {}
                }
            }
            let is_loss = |key: &&Key| {
                matches!(key.change, KeyChange::LostAtRestart | KeyChange::LostAtFailover)
            };
            let sets = |key: &&&Key| key.key == "lock" && key.change == KeyChange::Set;
            let Some(set) = instant.iter().rfind(sets).filter(|_| owner.is_some()) else {
                continue;
            };
            self.seen.loaded += u32::from(instant.iter().any(is_loss));
            let is_it = names.iter().any(|name| self.acquires.get(name).copied() == set.by);
            if !is_it || set.by.is_none() {
                let truth: Vec<_> =
                    names.iter().map(|name| (name, self.acquires.get(name))).collect();
                return Err(format!("{truth:?} live beside {set:?} of {instant:#?}"));
            }
        }
        Ok(())
    }

    fn check(mut self) -> Result<Seen, String> {
        for key in self.history.keys.iter().filter(|key| key.key != "lock") {
            self.check_name(key)?;
        }
        let nodes: BTreeSet<&str> = self.history.keys.iter().map(|key| &key.node[..]).collect();
        nodes.into_iter().try_for_each(|node| self.check_node(node))?;
        Ok(self.seen)
    }
}

/// The violated kinds in the runs of a scenario, by seed.
fn kinds(text: &str) -> Vec<BTreeSet<Kind>> {
    let scenario = Scenario::parse("a scenario", text).unwrap_or_else(|why| panic!("{why:?}"));
    let kinds = |seed: &u64| match attempt(&Lab::default(), &scenario.plan(*seed)).judgement.verdict
    {
        Verdict::Violated(violations) => violations.iter().map(|found| found.kind).collect(),
        _ => BTreeSet::new(),
    };
    scenario.seeds().iter().map(kinds).collect()
}

#[test]
fn a_stream_that_comes_late_accuses_nobody() {
    let kinds = kinds(include_str!("../provenance/sleeps-through-a-restart.toml"));
    assert!(kinds.iter().all(BTreeSet::is_empty), "{kinds:?}");
}

#[test]
fn a_stream_that_comes_late_hides_nobody() {
    let kinds = kinds(include_str!("../provenance/late-copy-is-deleted.toml"));
    assert!(kinds.iter().all(|kinds| kinds.contains(&Kind::ForeignRelease)), "{kinds:?}");
}

/// Faults that make nodes lose data, stop, change roles and come back.
const VERBS: [&str; 13] = [
    "suspend",
    "pause",
    "crash",
    "restart",
    "power-loss",
    "failover",
    "partition",
    "replica-lag",
    "reset",
    "slow-node",
    "full-disk",
    "tearing-disk",
    "lying-disk",
];

fn hunt(kind: TopologyKind, persistence: Persistence) -> Hunt {
    let mut base = base_plan_of(&NAMED, kind);
    base.topology.persistence = persistence;
    // A high load: a restarted master reaches the offsets that a replica has not applied yet.
    base.workload.rounds = 60;
    base.workload.hold = 100 * MILLISECOND;
    let alphabet = Alphabet {
        verbs: VERBS.map(str::to_owned).into(),
        most_faults: 6,
        varies: BTreeSet::new(),
        ..Alphabet::of(NAMED)
    };
    Hunt::new(Lab::default().with_lock(NAMED), base, alphabet, 1..=1)
}

/// In every other plan, a replica is also suspended while its master restarts, or a single node
/// loses its power, at a moment that varies with the seed: random faults seldom coincide like this.
fn strike_for_certain(plan: &mut Plan, seed: u64) {
    if seed.is_multiple_of(2) {
        return;
    }
    let from = SECOND + seed * 7 * MILLISECOND;
    let mut add = |verb, host: &str, at, length| {
        let id = plan.faults.iter().map(|fault| fault.id).max().unwrap_or(0) + 1;
        let (target, anchor) = (Target::Host(host.to_owned()), Anchor::At(at));
        plan.faults.push(Fault { id, verb, target, anchor, length });
    };
    let replica = match plan.topology.kind {
        TopologyKind::Single | TopologyKind::Independent => {
            return add(Verb::PowerLoss, "n1", from, Some(100 * MILLISECOND));
        }
        TopologyKind::Replicated | TopologyKind::Sentinel => "n2",
        TopologyKind::Cluster => "n4",
    };
    add(Verb::Pause, replica, from, Some(5 * SECOND));
    add(Verb::Restart, "n1", from + 500 * MILLISECOND, None);
}

/// The number of random plans of a kind that are compared; the environment may set more.
fn plans() -> u64 {
    number("LOCKSTORM_PLANS").unwrap_or(30) as u64
}

#[track_caller]
fn check(kind: TopologyKind) {
    let mut seen = Seen::default();
    for persistence in [
        Persistence::None,
        Persistence::AofAlways,
        Persistence::AofEverysec,
        Persistence::AofNo,
        Persistence::Rdb,
    ] {
        let hunt = hunt(kind, persistence);
        for seed in 1..=plans() {
            let mut plan = draw(&hunt, seed, Strategy::Random);
            strike_for_certain(&mut plan, seed);
            let run = hunt.lab.run(&plan);
            match Truth::new(&run.history).check() {
                Ok(more) => {
                    seen.names += more.names;
                    seen.copies += more.copies;
                    seen.loaded += more.loaded;
                }
                Err(why) => panic!("{persistence:?}, seed {seed}: {why}\n{}", plan.to_json()),
            }
        }
    }
    println!("{kind:?}: {seen:?}");
    assert!(seen.names > 100 && seen.copies > 0, "{seen:?}");
}

#[test]
fn on_a_single_node() {
    check(TopologyKind::Single);
}

#[test]
fn on_a_master_and_its_replicas() {
    check(TopologyKind::Replicated);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn behind_sentinels() {
    check(TopologyKind::Sentinel);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn in_a_cluster() {
    check(TopologyKind::Cluster);
}
