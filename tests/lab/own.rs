//! A user's own locks: they are run, promised and judged like those of the catalogue.

use std::path::Path;

use async_trait::async_trait;
use lockstorm::check::signature::Signature;
use lockstorm::check::verdict::Kind;
use lockstorm::explore::ground::{ground, ground_of};
use lockstorm::lock::algorithm::Algorithm;
use lockstorm::lock::algorithm::px_constant::PxConstant;
use lockstorm::lock::algorithm::token_lua::TokenLua;
use lockstorm::lock::catalogue::find;
use lockstorm::lock::client::Client;
use lockstorm::lock::{Acquired, Extended, Grant, Lock, Released, Setting};
use lockstorm::plan::{Plan, TopologyKind};
use lockstorm::promise::Model;
use lockstorm::run::Lab;
use lockstorm::scenario::Scenario;
use lockstorm_platform::time::{Clock, SECOND};

/// token-lua by another name.
const MINE: Algorithm = Algorithm::lease("mine", |setting| Box::new(TokenLua::new(setting)));

/// `mine` before it was fixed: its release does not check whose key it deletes.
const BEFORE: Algorithm = Algorithm::lease("mine", |setting| Box::new(PxConstant::new(setting)));

#[test]
fn the_same_lock_by_another_name_has_the_same_trace() {
    let theirs = ground("token-lua", TopologyKind::Single);
    let mut own = ground_of(&MINE, TopologyKind::Single);
    assert_eq!(own.until, theirs.until);
    let (catalogue, lab) = (Lab::default(), Lab::default().with_lock(MINE));
    assert_eq!(lab.run(&own).trace, catalogue.run(&theirs).trace);
    assert_eq!(lab.promise(&own), catalogue.promise(&theirs));
    own.lock = theirs.lock.clone();
    assert_eq!(lab.run(&own).trace, catalogue.run(&theirs).trace);
}

#[test]
fn only_who_knows_the_lock_takes_a_plan_that_names_it() {
    let plan = ground_of(&MINE, TopologyKind::Single);
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

#[test]
fn a_saved_plan_holds_once_the_lock_is_mended() {
    let single = TopologyKind::Single;
    let found = lockstorm::test::hunt_own(BEFORE, single).within_assumptions().finds();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mine.plan.json");
    std::fs::write(&path, found.plan.to_json()).unwrap();
    lockstorm::test::replay(&path).lock(MINE).holds();
    let broken = std::panic::catch_unwind(|| lockstorm::test::replay(path).lock(BEFORE).holds());
    let told = *broken.expect_err("it is still broken").downcast::<String>().unwrap();
    assert!(
        told.contains("again: lockstorm::test::replay(\"target/lockstorm/hunt-mine-"),
        "{told}"
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
    let told = refused.render(false);
    assert!(told.contains("tokio's own tasks of mine go on through a pause"), "{told}");
    assert!(Scenario::parse_with(&lab.locks, "mine.toml", &text("n1")).is_ok());
    let tally = lockstorm::test::hunt_own(tokio, TopologyKind::Single)
        .faults(["pause", "suspend"])
        .within_assumptions()
        .seeds(1..=6)
        .holds();
    assert!(tally.grants > 0);
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
