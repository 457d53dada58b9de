//! A user's own locks: they are run, promised and judged like those of the catalogue.

use std::path::Path;

use async_trait::async_trait;
use lockstorm::check::signature::Signature;
use lockstorm::check::verdict::Kind;
use lockstorm::explain::explanation::explain;
use lockstorm::explain::finding::Finding;
use lockstorm::explain::headline::headline;
use lockstorm::explain::mechanism::by_kind::mechanism;
use lockstorm::explain::witness::Witness;
use lockstorm::explore::examine;
use lockstorm::lock::algorithm::px_constant::PxConstant;
use lockstorm::lock::algorithm::token_lua::TokenLua;
use lockstorm::lock::algorithm::{Algorithm, Nodes};
use lockstorm::lock::assumptions::lease;
use lockstorm::lock::catalogue::find;
use lockstorm::lock::client::{Client, answer, milliseconds};
use lockstorm::lock::config::LockConfig;
use lockstorm::lock::defaults::LEASE;
use lockstorm::lock::{Acquired, Extended, Grant, Lock, Released, Setting, token};
use lockstorm::own::hunt_own;
use lockstorm::plan::base_plan::{base_plan, base_plan_of};
use lockstorm::plan::{Plan, TopologyKind};
use lockstorm::promise::{Bounded, Model, Promise, Work, bound};
use lockstorm::run::Lab;
use lockstorm::scenario::Scenario;
use lockstorm_platform::time::{Clock, MILLISECOND, SECOND};

use crate::found::kinds;

/// token-lua by another name.
const MINE: Algorithm = Algorithm::lease("mine", |setting| Box::new(TokenLua::new(setting)));

/// `mine` before it was fixed: its release does not check whose key it deletes.
const BEFORE: Algorithm = Algorithm::lease("mine", |setting| Box::new(PxConstant::new(setting)));

#[test]
fn the_same_lock_by_another_name_has_the_same_trace() {
    let theirs = base_plan("token-lua", TopologyKind::Single);
    let mut own = base_plan_of(&MINE, TopologyKind::Single);
    assert_eq!(own.until, theirs.until);
    let (catalogue, lab) = (Lab::default(), Lab::default().with_lock(MINE));
    assert_eq!(lab.run(&own).trace, catalogue.run(&theirs).trace);
    assert_eq!(lab.promise(&own), catalogue.promise(&theirs));
    own.lock = theirs.lock.clone();
    assert_eq!(lab.run(&own).trace, catalogue.run(&theirs).trace);
}

#[test]
fn only_who_knows_the_lock_takes_a_plan_that_names_it() {
    let plan = base_plan_of(&MINE, TopologyKind::Single);
    let refused = plan.validate().expect_err("the catalogue has no such lock");
    assert_eq!(refused.what, "there is no lock 'mine'");
    assert!(Plan::from_json("mine.plan.json", &plan.to_json()).is_err());
    let lab = Lab::default().with_lock(MINE);
    assert_eq!(plan.validate_with(&lab.locks), Ok(()));
    let read = Plan::from_json_with(&lab.locks, "mine.plan.json", &plan.to_json());
    assert_eq!(read.ok(), Some(plan));
}

#[test]
fn a_scenario_is_held_to_what_its_own_lock_can_do() {
    let text = "name = \"mine\"\nask = \"?\"\nexpect = { holds = true }\n[lock]\n\
                algorithm = \"mine\"\nrenew_every = \"1s\"\nttl = \"10s\"\n";
    let lab = Lab::default().with_lock(MINE);
    let refused = Scenario::parse_with(&lab.locks, "mine.toml", text).expect_err("it renews not");
    assert!(refused.render(false).contains("mine does not renew"));
    let renewed = Lab::default().with_lock(Algorithm { renews: true, ..MINE });
    assert!(Scenario::parse_with(&renewed.locks, "mine.toml", text).is_ok());
    assert!(Scenario::parse("mine.toml", text).is_err());
}

/// A lock that declares what is not judged together would pass without a test of it.
#[test]
fn what_a_lock_says_of_itself_has_to_fit_together() {
    const GROUPS: Algorithm = Algorithm { groups: true, nodes: Nodes::Chosen, ..MINE };
    let with_holders: fn(&LockConfig, Work) -> Promise =
        |config, work| Promise { holders: 2, ..lease(config, work) };
    let with_queue: fn(&LockConfig, Work) -> Promise =
        |config, work| Promise { queue: Some(config.key.clone()), ..lease(config, work) };
    let plain = "each key of a group is judged as a plain mutex";
    for (lock, why) in [
        (Algorithm { shares: true, ..GROUPS }, plain),
        (Algorithm { promise: with_holders, ..GROUPS }, plain),
        (Algorithm { promise: with_queue, ..GROUPS }, plain),
        (Algorithm { promise: with_queue, ..MINE }, "names the key of the lock itself"),
    ] {
        let plan = base_plan_of(&lock, TopologyKind::Single);
        let lab = Lab::default().with_lock(lock);
        let refused = plan.validate_with(&lab.locks).expect_err(why);
        assert!(refused.what.contains(why), "{}", refused.what);
    }
    let nameless =
        std::panic::catch_unwind(|| Lab::default().with_lock(Algorithm { name: "", ..MINE }));
    assert!(nameless.is_err());
}

#[test]
fn a_lock_that_needs_a_quorum_has_to_say_so() {
    let kind = TopologyKind::Independent;
    let lab = Lab::default().with_lock(MINE);
    let refused = base_plan_of(&MINE, kind).validate_with(&lab.locks).expect_err("one node");
    assert!(refused.instead.contains("nodes: Nodes::Quorum in its Algorithm"), "{refused}");
    let refused = base_plan("token-lua", kind).validate().expect_err("one node");
    assert_eq!(refused.instead, "single, or a redlock");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_saved_plan_holds_once_the_lock_is_mended() {
    let single = TopologyKind::Single;
    let found = lockstorm::test::hunt_own(BEFORE, single).within_assumptions().finds();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mine.plan.json");
    std::fs::write(&path, found.plan.to_json()).unwrap();
    lockstorm::test::replay(&path).lock(MINE).holds();
    let broken = std::panic::catch_unwind(|| lockstorm::test::replay(path).lock(BEFORE).holds());
    let message = *broken.expect_err("it is still broken").downcast::<String>().unwrap();
    assert!(
        message.contains("again: lockstorm::test::replay(\"target/lockstorm/hunt-mine-"),
        "{message}"
    );
}

#[test]
fn a_mutex_of_ones_own_has_no_time_to_live() {
    let setnx = find("setnx").expect("a lock of the catalogue");
    let mutex = Algorithm::mutex("my-mutex", setnx.build);
    let finding = lockstorm::test::hunt_own(mutex, TopologyKind::Single).finds();
    assert_eq!(finding.plan.lock.ttl, None);
    assert_eq!(finding.promise.model, Model::Mutex);
}

#[test]
#[cfg(feature = "turmoil")]
fn clients_that_run_tokios_tasks_are_not_paused() {
    let tokio = Algorithm { runs_tokio: true, ..MINE };
    let lab = Lab::default().with_lock(tokio);
    assert_eq!(lab.engine.word(), "turmoil");
    let text = |target: &str| {
        format!(
            "name = \"mine\"\nask = \"?\"\nexpect = {{ holds = true }}\n[lock]\n\
             algorithm = \"mine\"\nttl = \"10s\"\n[[fault]]\nkind = \"pause\"\n\
             target = \"{target}\"\nat = \"1s\"\nfor = \"1s\"\n"
        )
    };
    let refused = Scenario::parse_with(&lab.locks, "mine.toml", &text("c1")).expect_err("no pause");
    let message = refused.render(false);
    assert!(message.contains("tokio's own tasks of mine go on through a pause"), "{message}");
    assert!(Scenario::parse_with(&lab.locks, "mine.toml", &text("n1")).is_ok());
    let tally = lockstorm::test::hunt_own(tokio, TopologyKind::Single)
        .faults(["pause", "suspend"])
        .within_assumptions()
        .seeds(1..=6)
        .holds();
    assert!(tally.grants > 0);
}

/// What only some locks of the catalogue have is open to every lock that declares it.
#[test]
fn a_lock_of_ones_own_may_wait_for_replicas_and_for_its_turn() {
    let text = |option: &str| {
        format!(
            "name = \"mine\"\nask = \"?\"\nexpect = {{ holds = true }}\n[topology]\n\
             kind = \"replicated\"\nnodes = 3\n[lock]\nalgorithm = \"mine\"\nttl = \"10s\"\n\
             {option}\n"
        )
    };
    let read = |lock: Algorithm, option| {
        let locks = Lab::default().with_lock(lock).locks;
        let read = Scenario::parse_with(&locks, "mine.toml", &text(option));
        read.map(|scenario| scenario.plan(1).lock).map_err(|refusal| refusal.render(false))
    };
    let acknowledged = Algorithm { waits_for_replicas: true, ..MINE };
    let queueing = Algorithm { waits_for_turn: true, ..MINE };
    assert_eq!(read(acknowledged, "acks = 2").map(|lock| lock.acks), Ok(Some(2)));
    assert_eq!(read(queueing, "wait_for = \"2s\"").map(|lock| lock.wait_for), Ok(Some(2 * SECOND)));
    for (lock, option, why) in [
        (MINE, "acks = 2", "mine does not wait for replicas"),
        (MINE, "wait_for = \"2s\"", "mine does not wait for its turn"),
        (acknowledged, "wait_for = \"2s\"", "mine does not wait for its turn"),
        (acknowledged, "acks = 3", "3 of 2 replicas would have to acknowledge"),
    ] {
        let refused = read(lock, option).expect_err(option);
        assert!(refused.contains(why), "{refused}");
    }
}

/// token-lua that counts its releases in a key of its own, or does nothing else.
struct Counting(TokenLua, Client, Setting, bool);

/// Its release ends with a request for another key.
const COUNTS: Algorithm = Algorithm::lease("counts", |setting| {
    let client = Client::new(setting.host.clone(), &setting.nodes[0]);
    Box::new(Counting(TokenLua::new(setting.clone()), client, setting, true))
});

/// Its release consists of that request.
const FORGETS: Algorithm = Algorithm::lease("forgets", |setting| {
    let client = Client::new(setting.host.clone(), &setting.nodes[0]);
    Box::new(Counting(TokenLua::new(setting.clone()), client, setting, false))
});

#[async_trait(?Send)]
impl Lock for Counting {
    async fn acquire(&mut self) -> Acquired {
        self.0.acquire().await
    }

    async fn extend(&mut self, grant: &Grant) -> Extended {
        self.0.extend(grant).await
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        let released = match self.3 {
            true => self.0.release(grant).await,
            false => Released::Unknown,
        };
        let call = self.2.call.get();
        let _ = self.1.request(call, SECOND / 5, "INCR", &[b"releases"]).await;
        released
    }
}

/// Also where the client was made without the lock's setting.
#[test]
fn a_request_for_another_key_releases_nothing_and_denies_nothing() {
    let hunt = |lock| {
        let hunt = lockstorm::test::hunt_own(lock, TopologyKind::Single);
        hunt.within_assumptions().seeds(1..=150)
    };
    assert!(hunt(COUNTS).holds().struck_in_hold > 0);
    let found = hunt(FORGETS).finds();
    assert!(Signature::of(&found.judgement.verdict).kinds.contains(&Kind::Leak));
}

/// token-lua whose extend sends no request: it always returns kept.
struct Optimist(TokenLua, Setting);

/// Its constructor.
const OPTIMIST: Algorithm = Algorithm::lease("optimist", |setting| {
    Box::new(Optimist(TokenLua::new(setting.clone()), setting))
});

#[async_trait(?Send)]
impl Lock for Optimist {
    async fn acquire(&mut self) -> Acquired {
        self.0.acquire().await
    }

    async fn extend(&mut self, _: &Grant) -> Extended {
        let now = self.1.host.now(Clock::Monotonic);
        Extended::Kept(Some((Clock::Monotonic, now + self.1.config.ttl.unwrap_or(0))))
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        self.0.release(grant).await
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn an_extend_that_asks_nobody_is_found_by_clients_that_count_on_it() {
    let long_work = |lock| {
        let hunt = lockstorm::test::hunt_own(lock, TopologyKind::Single);
        let hunt = hunt.extend("1/2".parse().unwrap()).hold(4 * SECOND).reenter(false);
        hunt.within_assumptions().seeds(1..=40)
    };
    let finding = long_work(OPTIMIST).finds();
    assert!(finding.class.is_some_and(|class| class.is_in_model()));
    assert!(finding.plan.faults.is_empty());
    assert!(long_work(MINE).holds().struck_in_hold > 0);
}

/// A lock whose lease stands in its key's value: the key itself never expires.
struct Stamped {
    client: Client,
    setting: Setting,
    /// The script of an acquire.
    take_over: &'static str,
}

impl Stamped {
    fn boxed(setting: Setting, take_over: &'static str) -> Box<dyn Lock> {
        let client = Client::new(setting.host.clone(), &setting.nodes[0]);
        Box::new(Stamped { client, setting, take_over })
    }
}

/// Its leases are told by the node's clock.
const STAMPED: Algorithm =
    Algorithm::lease("stamped", |setting| Stamped::boxed(setting, TAKE_OVER));

/// Takes the lock over if the lease in its value is over. KEYS: lock. ARGV: token, ms.
const TAKE_OVER: &str = r#"
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local until_ms = string.match(redis.call("GET", KEYS[1]) or "0:", "^(%d+):")
if tonumber(until_ms) > now then
    return 0
end
redis.call("DEL", KEYS[1])
redis.call("SET", KEYS[1], string.format("%d:%s", now + ARGV[2], ARGV[1]))
return 1"#;

/// Deletes the lock if it holds the token behind its lease. KEYS: lock. ARGV: token.
const GIVE_BACK: &str = r#"
if string.match(redis.call("GET", KEYS[1]) or "", ":(.*)$") == ARGV[1] then
    return redis.call("DEL", KEYS[1])
end
return 0"#;

#[async_trait(?Send)]
impl Lock for Stamped {
    async fn acquire(&mut self) -> Acquired {
        let Setting { host, config, call, .. } = &self.setting;
        let lease = LEASE.settle(config).lease(config);
        let (token, ttl) = (token::fresh(host, call.get(), 0), milliseconds(lease.ttl));
        let now = milliseconds(host.now(Clock::Wall));
        let deadline = Some(lease.deadline(host, host.now(lease.clock)));
        let keys: [&[u8]; 1] = [config.key.as_bytes()];
        let args: [&[u8]; 3] = [token.as_bytes(), ttl.as_bytes(), now.as_bytes()];
        let sent = self.client.eval(call.get(), SECOND, self.take_over, &keys, &args);
        answer::acquired(&sent.await, Grant::new(token, deadline))
    }

    async fn extend(&mut self, _: &Grant) -> Extended {
        Extended::Lost
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        let (call, key) = (self.setting.call.get(), self.setting.config.key.as_bytes());
        let args: [&[u8]; 1] = [grant.token.as_bytes()];
        answer::released(&self.client.eval(call, SECOND, GIVE_BACK, &[key], &args).await)
    }
}

/// An own lock in a scenario.
fn classified(lock: Algorithm, rest: &str) -> Finding {
    let text = format!(
        "name = \"own\"\nask = \"?\"\nexpect = {{ holds = true }}\n[lock]\n\
         algorithm = \"{}\"\nttl = \"10s\"\n{rest}",
        lock.name
    );
    let lab = Lab::default().with_lock(lock);
    let scenario = Scenario::parse_with(&lab.locks, "own.toml", &text).expect("a scenario");
    examine::classified(&lab, &scenario.plan(1))
}

/// The verdict on an own lock in a scenario, and how it went wrong.
fn why(lock: Algorithm, rest: &str) -> (String, String) {
    let finding = classified(lock, rest);
    let witness = Witness::of(&finding);
    let how = mechanism(&witness).expect("it is violated").sentence;
    (headline(&witness), how)
}

/// The acquire that takes the key over is right to do so: the pause is the reason.
#[test]
fn who_takes_over_a_lease_that_is_over_is_not_to_blame() {
    let pause = "[workload]\nkind = \"counter\"\nclients = 2\nhold = \"2s\"\n[[fault]]\n\
                 kind = \"pause\"\ntarget = \"c1\"\nfor = \"15s\"\n\
                 after = { event = \"acquired\", by = \"c1\", nth = 1, plus = \"500ms\" }\n";
    let (_, how) = why(STAMPED, pause);
    assert_eq!(how, "c1 was paused for 15 s, and its lease ran out.");
}

/// A lock like [`STAMPED`] whose leases are told by the clocks of its callers.
const fn dated(promise: fn(&LockConfig, Work) -> Promise) -> Algorithm {
    let build = |setting| Stamped::boxed(setting, TAKE_OVER_BY);
    Algorithm { promise, ..Algorithm::lease("dated", build) }
}

/// Takes the lock over if the lease in its value is over. KEYS: lock. ARGV: token, ms, now in ms.
const TAKE_OVER_BY: &str = r#"
local until_ms = string.match(redis.call("GET", KEYS[1]) or "0:", "^(%d+):")
if tonumber(until_ms) > tonumber(ARGV[3]) then
    return 0
end
redis.call("DEL", KEYS[1])
redis.call("SET", KEYS[1], string.format("%d:%s", ARGV[3] + ARGV[2], ARGV[1]))
return 1"#;

/// A lock that compares the clocks of its callers has to say so: otherwise it is its bug.
#[test]
fn clocks_that_start_apart_break_the_assumption_of_a_lock_that_compares_them() {
    let knowing = dated(|config, work| {
        let mut promise = lease(config, work);
        promise.assumes.push(bound(Bounded::Skew, 10_500 * MILLISECOND));
        promise
    });
    let told = |lock, ahead| {
        let rest = format!(
            "[workload]\nkind = \"counter\"\nclients = 2\nhold = \"2s\"\n[clocks.c2]\n\
             wall_offset = \"{ahead}\"\n"
        );
        explain(&classified(lock, &rest)).assumptions.join(" ")
    };
    let broken = "all clocks are within 10.5 s of each other and of true time at the start: clocks \
                  with a wrong time (c2 +11 s); take this away, and nothing is violated.";
    assert_eq!(told(knowing, "11s"), broken);
    let bug = "none: the violation occurs without any fault. This is a bug in the lock, or in how it \
               is used.";
    assert_eq!(told(knowing, "10200ms"), bug);
    assert_eq!(told(dated(lease), "11s"), bug);
}

/// token-lua that keeps its key for a second after its release, as a least time between two runs.
struct AtLeast(TokenLua, Client, Setting);

/// Its constructor.
const AT_LEAST: Algorithm = Algorithm::lease("at-least", |setting| {
    let client = Client::new(setting.host.clone(), &setting.nodes[0]);
    Box::new(AtLeast(TokenLua::new(setting.clone()), client, setting))
});

#[async_trait(?Send)]
impl Lock for AtLeast {
    async fn acquire(&mut self) -> Acquired {
        self.0.acquire().await
    }

    async fn extend(&mut self, grant: &Grant) -> Extended {
        self.0.extend(grant).await
    }

    async fn release(&mut self, _grant: &Grant) -> Released {
        let (call, key) = (self.2.call.get(), self.2.config.key.as_bytes());
        let args: [&[u8]; 4] = [key, b"kept", b"PX", b"1000"];
        answer::released(&self.1.request(call, SECOND, "SET", &args).await)
    }
}

#[test]
fn a_leak_names_whom_it_kept_out() {
    let work = |clients| {
        format!(
            "[workload]\nkind = \"counter\"\nclients = {clients}\nrest = \"100ms\"\nrounds = 2\n"
        )
    };
    let (message, how) = why(AT_LEAST, &work(1));
    assert_eq!(message, "A key that nobody owned kept c1 itself out.");
    assert_eq!(how, "c1's release set the key on n1, and what it set kept c1 itself out.");
    let (message, how) = why(AT_LEAST, &work(2));
    assert_eq!(message, "A key that nobody owned kept others out.");
    assert!(how.ends_with("and what it set kept others out."), "{how}");
}

/// A lock whose release sends a command that names no key, and does not know what came of it.
struct Asks(TokenLua, Client, Setting, &'static str);

impl Asks {
    fn boxed(setting: Setting, command: &'static str) -> Box<dyn Lock> {
        let client = Client::new(setting.host.clone(), &setting.nodes[0]);
        Box::new(Asks(TokenLua::new(setting.clone()), client, setting, command))
    }
}

#[async_trait(?Send)]
impl Lock for Asks {
    async fn acquire(&mut self) -> Acquired {
        self.0.acquire().await
    }

    async fn extend(&mut self, grant: &Grant) -> Extended {
        self.0.extend(grant).await
    }

    async fn release(&mut self, _grant: &Grant) -> Released {
        let _ = self.1.request(self.2.call.get(), SECOND, self.3, &[]).await;
        Released::Unknown
    }
}

#[test]
fn a_release_that_names_no_key_frees_none() {
    let locks = [
        Algorithm::lease("pings", |setting| Asks::boxed(setting, "PING")),
        Algorithm::lease("asks-the-time", |setting| Asks::boxed(setting, "TIME")),
        Algorithm::lease("counts-keys", |setting| Asks::boxed(setting, "DBSIZE")),
    ];
    for lock in locks {
        let finding = hunt_own(lock, TopologyKind::Single).within_assumptions().finds();
        assert!(kinds(&finding).contains(&Kind::Leak), "{}", lock.name);
    }
}
