//! Several callers in the process of one client: each holds the lock on its own, and what strikes
//! their host strikes all of them.

use std::collections::BTreeSet;

use lockstorm::check::signature::Signature;
use lockstorm::check::verdict::{Kind, Verdict};
use lockstorm::explain::explanation::explain;
use lockstorm::explain::finding::Finding;
use lockstorm::explore::examine;
use lockstorm::history::{History, Op, OpKind, Outcome};
use lockstorm::hunt::drawing::Alphabet;
use lockstorm::hunt::parameter::Parameter;
use lockstorm::hunt::seeded::{Hunt, draw};
use lockstorm::hunt::strategy::Strategy;
use lockstorm::lock::algorithm::token_lua::TokenLua;
use lockstorm::lock::catalogue::find;
use lockstorm::own::{
    Acquired, Algorithm, Client, Extended, Grant, LEASE, Lock, Released, Setting, TopologyKind,
    answer, async_trait, hunt_own, milliseconds,
};
use lockstorm::plan::Plan;
use lockstorm::plan::base_plan::{base_plan, base_plan_of};
use lockstorm::report::page;
use lockstorm::run::Lab;
use lockstorm::test::hunt;
use lockstorm_platform::fault::{Anchor, Fault, Pattern, Target, Verb};
use lockstorm_platform::time::{MILLISECOND, Nanos, SECOND};

/// One client with three callers, whose host the fault strikes after 4 s for 6 s.
fn plan(verb: Option<Verb>) -> Plan {
    let mut plan = base_plan("token-lua", TopologyKind::Single);
    (plan.workload.clients, plan.workload.callers) = (1, 3);
    plan.faults.extend(verb.map(|verb| Fault {
        id: 1,
        verb,
        target: Target::Host("c1".to_owned()),
        anchor: Anchor::At(4 * SECOND),
        length: Some(6 * SECOND),
    }));
    plan.validate().expect("a valid plan");
    plan
}

fn of_clients(history: &History) -> impl Iterator<Item = &Op> {
    history.ops.iter().filter(|op| op.process == "c1")
}

/// The times at which the callers of the client called or received anything.
fn times(history: &History) -> Vec<Nanos> {
    let times = of_clients(history).flat_map(|op| [Some(op.call.at), op.ret.map(|ret| ret.at)]);
    times.flatten().collect()
}

/// The callers that called anything from a time on.
fn callers(history: &History, from: Nanos) -> BTreeSet<&str> {
    of_clients(history).filter(|op| op.call.at >= from).map(|op| op.caller.as_str()).collect()
}

const ALL: [&str; 3] = ["c1.1", "c1.2", "c1.3"];

#[test]
fn each_caller_has_a_name_and_a_lock_of_its_own() {
    let mut plan = plan(None);
    plan.workload.rounds = 2;
    for lab in [Lab::default(), Lab::event_in_ms()] {
        let run = lab.run(&plan);
        assert_eq!(callers(&run.history, 0), BTreeSet::from(ALL));
        for caller in ALL {
            let own = of_clients(&run.history).filter(|op| op.caller == caller);
            assert_eq!(own.filter(|op| op.token().is_some()).count(), 2, "{caller} has 2 rounds");
        }
        let tokens: BTreeSet<&str> = of_clients(&run.history).filter_map(Op::token).collect();
        assert_eq!(tokens.len(), 6, "{tokens:?}");
    }
    let alone = base_plan("token-lua", TopologyKind::Single).to_json();
    assert!(!alone.contains("callers"), "a plan of an earlier version keeps its bytes");
    assert!(plan.to_json().contains("\"callers\": 3"));
}

#[test]
fn a_pause_of_the_host_halts_all_its_callers() {
    let run = Lab::default().run(&plan(Some(Verb::Pause)));
    let within = |at: &Nanos| (4 * SECOND..10 * SECOND).contains(at);
    assert!(!times(&run.history).iter().any(within));
    assert_eq!(callers(&run.history, 10 * SECOND), BTreeSet::from(ALL), "all of them go on");
}

#[test]
fn a_mechanism_says_that_the_host_was_paused_and_whose_lease_ran_out() {
    let mut plan = plan(Some(Verb::Pause));
    plan.workload.clients = 2;
    let event = Pattern::Outcome { who: "c1".to_owned(), what: "acquired".to_owned() };
    plan.faults[0].anchor = Anchor::After { event, nth: 1, plus: 100 * MILLISECOND };
    plan.faults[0].length = Some(3_300 * MILLISECOND);
    let finding = examine::unexplained_plan(&Lab::default(), &plan);
    let how = explain(&finding).mechanism.expect("it is violated").sentence;
    assert_eq!(how, "c1 was paused for 3.3 s, and c1.1's lease ran out.");
}

#[test]
fn a_crash_of_the_host_ends_all_its_callers() {
    let finding = examine::unexplained_plan(&Lab::default(), &plan(Some(Verb::Crash)));
    let within = |at: &Nanos| (4 * SECOND..10 * SECOND).contains(at);
    assert!(!times(&finding.history).iter().any(within));
    let before = of_clients(&finding.history).filter(|op| op.call.at < 4 * SECOND);
    let late: Vec<&Op> =
        before.filter(|op| op.ret.is_some_and(|ret| ret.at >= 10 * SECOND)).collect();
    assert!(late.is_empty(), "nothing of a dead process returns: {late:?}");
    assert_eq!(callers(&finding.history, 10 * SECOND), BTreeSet::from(ALL), "all start again");
    assert_eq!(finding.judgement.verdict, Verdict::Holds);
}

/// What so many clients with so many callers each do to a lock.
fn used_by(clients: u32, callers: u32, lock: Algorithm) -> Finding {
    let lab = Lab::default().with_lock(lock);
    let mut plan = base_plan_of(&lock, TopologyKind::Single);
    (plan.workload.clients, plan.workload.callers) = (clients, callers);
    examine::unexplained_plan(&lab, &plan)
}

/// A re-entrant lock whose owner is the process and not the thread: the others of its process are
/// let in as if they were the holder.
struct OfProcess(Client, Setting);

/// Takes the lock, or takes it again. KEYS: lock. ARGV: owner, ms.
const ENTER: &str = r#"
if redis.call("EXISTS", KEYS[1]) == 0 or redis.call("GET", KEYS[1]) == ARGV[1] then
    redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
    return 1
end
return 0"#;

/// Deletes the lock if it has this owner. KEYS: lock. ARGV: owner.
const LEAVE: &str = r#"
if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
end
return 0"#;

#[async_trait(?Send)]
impl Lock for OfProcess {
    async fn acquire(&mut self) -> Acquired {
        let Setting { host, config, call, .. } = &self.1;
        let lease = LEASE.settle(config).lease(config);
        let (owner, ttl) = (host.name().to_owned(), milliseconds(lease.ttl));
        let deadline = Some(lease.deadline(host, host.now(lease.clock)));
        let (keys, args) = ([config.key.as_bytes()], [owner.as_bytes(), ttl.as_bytes()]);
        let reply = self.0.eval(call.get(), SECOND, ENTER, &keys, &args).await;
        let grant = Grant { token: owner, deadline, depth: 1, ..Grant::default() };
        answer::acquired(&reply, grant)
    }

    async fn extend(&mut self, _: &Grant) -> Extended {
        Extended::Lost
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        let (call, key) = (self.1.call.get(), self.1.config.key.as_bytes());
        let args = [grant.token.as_bytes()];
        answer::released(&self.0.eval(call, SECOND, LEAVE, &[key], &args).await)
    }
}

const OF_PROCESS: Algorithm = Algorithm::lease("of-process", |setting| {
    Box::new(OfProcess(Client::new(setting.host.clone(), &setting.nodes[0]), setting))
});

#[test]
fn a_lock_that_cannot_tell_threads_apart_is_found_by_several_callers() {
    assert_eq!(used_by(3, 1, OF_PROCESS).judgement.verdict, Verdict::Holds);
    let finding = used_by(1, 2, OF_PROCESS);
    let kinds = Signature::of(&finding.judgement.verdict).kinds;
    assert!(kinds.contains(&Kind::DoubleGrant), "{kinds:?}");
    let verdict = explain(&finding).verdict;
    assert!(verdict.contains("c1.1 and c1.2"), "{verdict}");
}

/// Redisson names its owner by process and thread, the others by grant.
#[test]
fn locks_that_name_their_owner_keep_the_callers_of_a_process_apart() {
    for lock in ["token-lua", "redisson", "fenced"] {
        let mut plan = base_plan(lock, TopologyKind::Single);
        (plan.workload.clients, plan.workload.callers) = (2, 2);
        plan.workload.reenter = lock == "redisson";
        let finding = examine::unexplained_plan(&Lab::default(), &plan);
        assert_eq!(finding.judgement.verdict, Verdict::Holds, "{lock}");
    }
}

#[test]
fn each_caller_has_a_lane_in_the_picture() {
    let finding = used_by(1, 2, OF_PROCESS);
    let pages = page::of_finding(&finding);
    let page = pages.iter().find(|page| page.name.ends_with(".svg")).expect("a picture");
    for (name, is_there) in [("c1", false), ("c1.1", true), ("c1.2", true), ("n1", true)] {
        assert_eq!(page.text.contains(&format!(">{name}</text>")), is_there, "{name}");
    }
    for name in ["c1.1", "c1.2"] {
        let bar = format!("{name} believes it holds the lock");
        assert!(page.text.contains(&bar), "no bar of {name}");
    }
}

/// token-lua that panics in an acquire or in a release, from the tenth operation of its process on.
struct Panics(TokenLua, Setting, &'static str);

impl Panics {
    fn begin(&self, what: &str) {
        assert!(what != self.2 || self.1.call.get().nth < 10, "no idea");
    }
}

#[async_trait(?Send)]
impl Lock for Panics {
    async fn acquire(&mut self) -> Acquired {
        self.begin("acquire");
        self.0.acquire().await
    }

    async fn extend(&mut self, grant: &Grant) -> Extended {
        self.0.extend(grant).await
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        self.begin("release");
        self.0.release(grant).await
    }
}

const PANICS_IN_ACQUIRES: Algorithm = Algorithm::lease("panics-in-acquires", |setting| {
    Box::new(Panics(TokenLua::new(setting.clone()), setting, "acquire"))
});
const PANICS_IN_RELEASES: Algorithm = Algorithm::lease("panics-in-releases", |setting| {
    Box::new(Panics(TokenLua::new(setting.clone()), setting, "release"))
});

/// A panic in an acquire ends a caller that has the lock, and one in a release a caller that waits
/// for it.
#[test]
fn a_lock_that_ends_its_process_ends_all_its_callers() {
    let mut with_another_holder = 0;
    let locks = [(PANICS_IN_ACQUIRES, "acquire"), (PANICS_IN_RELEASES, "release")];
    for (seed, (lock, what)) in (1..=8).flat_map(|seed| locks.map(|lock| (seed, lock))) {
        let mut plan = base_plan_of(&lock, TopologyKind::Single);
        (plan.seed, plan.workload.clients, plan.workload.callers) = (seed, 1, 3);
        let finding = examine::unexplained_plan(&Lab::default().with_lock(lock), &plan);
        let history = &finding.history;
        let [breach] = &history.breaches[..] else { panic!("{:?}", history.breaches) };
        let late = |op: &&Op| {
            let ret = op.ret.map(|ret| ret.instant());
            op.call.instant() > breach.at || ret.is_some_and(|ret| ret > breach.at)
        };
        let late: Vec<&Op> = of_clients(history).filter(late).collect();
        assert!(late.iter().all(|op| Some(op.id) == breach.op), "{late:?}");
        let broken = &history.ops[breach.op.expect("it was in an operation") as usize];
        assert_eq!(broken.kind.noun(), what);
        let verdict = explain(&finding).verdict;
        let title = format!("The lock of {} broke its contract", broken.caller);
        assert!(verdict.starts_with(&title), "{verdict}");
        let released = |grant| history.ops.iter().any(|op| op.kind == OpKind::Release { grant });
        let granted = |op: &&Op| matches!(op.outcome, Outcome::Granted { .. });
        let holds = |op: &&Op| granted(op) && !released(op.id);
        with_another_holder +=
            u32::from(of_clients(history).filter(holds).any(|op| op.caller != broken.caller));
    }
    assert!(with_another_holder >= 4, "{with_another_holder}");
}

#[test]
fn a_hunt_draws_several_callers_and_finds_a_lock_that_cannot_tell_them_apart() {
    let hunt = || {
        let hunt = hunt_own(OF_PROCESS, TopologyKind::Single).within_assumptions();
        // No request is late: what one caller sends for an earlier grant would hit a later one.
        let hunt = hunt.faults(["clock-step"]).ttl(3 * SECOND).hold(600 * MILLISECOND);
        hunt.timeout(SECOND).reenter(false).seeds(1..=100)
    };
    let finding = hunt().finds();
    let workload = &finding.plan.workload;
    assert_eq!((workload.clients, workload.callers), (1, 2), "{}", finding.plan.to_json());
    assert_eq!(finding.plan.faults, []);
    assert!(finding.class.is_some_and(|class| class.is_in_model()));
    hunt().callers(1).holds();
}

#[test]
fn callers_that_a_hunt_is_given_stay() {
    let none = *find("none").expect("a lock of the catalogue");
    let mut plan = base_plan_of(&none, TopologyKind::Single);
    plan.workload.callers = 3;
    let hunt = || hunt("none", TopologyKind::Single).seeds(1..=1);
    for given in [hunt().callers(3), hunt().base(plan)] {
        let workload = given.finds().plan.workload;
        assert_eq!((workload.clients, workload.callers), (1, 3));
    }
}

/// The plans of some seeds, with and without drawn callers.
fn drawn(strategy: Strategy) -> impl Iterator<Item = [Plan; 2]> {
    let lock = *find("token-lua").expect("a lock of the catalogue");
    let alphabet = Alphabet::of(lock);
    let mut alone = alphabet.clone();
    alone.varies.remove(&Parameter::Callers);
    let base = base_plan_of(&lock, TopologyKind::Single);
    let hunts = [alphabet, alone].map(|alphabet| Hunt {
        strategies: strategy.into(),
        ..Hunt::new(Lab::default(), base.clone(), alphabet, 1..=1)
    });
    (1..=200).map(move |seed| hunts.each_ref().map(|hunt| draw(hunt, seed, strategy)))
}

#[test]
fn each_strategy_draws_callers_in_a_few_plans_and_changes_no_other_draw() {
    for strategy in Strategy::ALL {
        let mut several = [0; 4];
        for [mut plan, alone] in drawn(strategy) {
            let callers = std::mem::replace(&mut plan.workload.callers, 1);
            several[callers as usize] += 1;
            // A lineage is that of a run with as many callers.
            let differs = strategy == Strategy::Lineage && callers > 1;
            assert!(differs || plan == alone, "{strategy}: {}", plan.to_json());
        }
        let [_, one, two, three] = several;
        assert!(one > 160 && two > 4 && three > 4, "{strategy}: {several:?}");
    }
}

/// So many callers that they would be refused, or would start too late, are not drawn.
#[test]
fn callers_that_do_not_fit_are_not_drawn() {
    for (clients, stagger) in [(400, 0), (3, SECOND)] {
        let lock = *find("token-lua").expect("a lock of the catalogue");
        let mut base = base_plan_of(&lock, TopologyKind::Single);
        (base.workload.clients, base.workload.stagger) = (clients, stagger);
        let hunt = Hunt::new(Lab::default(), base, Alphabet::of(lock), 1..=1);
        for seed in 1..=100 {
            for strategy in [Strategy::Random, Strategy::Priorities] {
                let plan = draw(&hunt, seed, strategy);
                assert_eq!(plan.workload.callers, 1, "seed {seed}");
            }
        }
    }
}

#[test]
fn too_few_and_too_many_callers_are_refused() {
    let many = "these are too many callers";
    for (callers, what) in [(0, "no caller uses the lock"), (1_001, many), (u32::MAX, many)] {
        let mut plan = plan(None);
        plan.workload.callers = callers;
        assert_eq!(plan.validate().expect_err("refused").what, what);
    }
}

/// A lock that cannot tell whether it took the key says with which owner value it tried.
#[test]
fn an_acquire_without_an_answer_keeps_its_owner_value() {
    let (lab, base) = (Lab::default(), base_plan("token-lua", TopologyKind::Single));
    let alphabet = Alphabet::of(*lab.algorithm(&base));
    let hunt = Hunt::new(lab.clone(), base, alphabet, 1..=1);
    let mut unknown = 0;
    for seed in 1..=20 {
        let history = lab.run(&draw(&hunt, seed, Strategy::Random)).history;
        for op in &history.ops {
            let is_unknown = op.kind == OpKind::Acquire && op.outcome == Outcome::Unknown;
            assert_eq!(op.tried_with.is_some(), is_unknown, "{op:?}");
            unknown += u32::from(is_unknown);
        }
    }
    assert!(unknown > 0);
}
