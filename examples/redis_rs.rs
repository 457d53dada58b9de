//! A lock on redis-rs, written as in production, with a bug that people ship.
//!
//! A request that timed out may have been executed all the same. The hasty lock tries to leave
//! nothing behind and sends a DEL, without a check of whose key it deletes. The careful one returns
//! unknown to its caller, and leaves the rest to its release, which compares.
//!
//! `cargo run --example redis-rs` hunts the hasty lock, `-- careful` the other, and `-- tokio` the
//! careful one again, with tokio's tasks and timers as in a service.

use std::cell::Cell;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use async_trait::async_trait;
use lockstorm::lock::algorithm::Algorithm;
use lockstorm::lock::client::answer::HELD;
use lockstorm::lock::client::wire::Wire;
use lockstorm::lock::client::{milliseconds, scripts};
use lockstorm::lock::defaults::{Choices, LEASE};
use lockstorm::lock::{Acquired, Extended, Grant, Lock, Released, Setting, token};
use lockstorm::plan::TopologyKind;
use lockstorm::test::HuntTest;
#[cfg(test)]
use lockstorm::{explain::finding::Class, explore::trial::divergence, run::Lab};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisError, RedisResult, Script};

/// The lock as it was shipped.
const HASTY: Algorithm = Algorithm::lease("redis-rs-hasty", |setting| {
    Box::new(RedisRs::new(setting, AfterTimeOut::Delete))
});

/// The fixed lock.
const CAREFUL: Algorithm = Algorithm::lease("redis-rs-careful", |setting| {
    Box::new(RedisRs::new(setting, AfterTimeOut::Tell))
});

/// The fixed lock with tokio's own tasks and timers, as in a service. It runs on turmoil.
const ON_TOKIO: Algorithm = Algorithm {
    runs_tokio: true,
    ..Algorithm::lease("redis-rs-on-tokio", |setting| {
        let lock = RedisRs::new(setting, AfterTimeOut::Tell);
        Box::new(RedisRs { connect: Connect::Tokio, ..lock })
    })
};

/// What drives the connection.
#[derive(Clone, Copy)]
enum Connect {
    /// The lock's host, on any engine.
    Host,
    /// `tokio::spawn`, with timeouts on `tokio::time`.
    Tokio,
}

/// What an acquire does after a request without a reply.
#[derive(Clone, Copy)]
enum AfterTimeOut {
    /// Deletes what it may have left behind, and returns a refusal.
    Delete,
    /// Returns unknown to its caller.
    Tell,
}

/// The lock of one caller.
struct RedisRs {
    setting: Setting,
    choices: Choices,
    after_time_out: AfterTimeOut,
    wire: Wire,
    connect: Connect,
    open: Option<Open>,
}

/// A connection that is opened once and used until it breaks.
struct Open {
    connection: MultiplexedConnection,
    is_alive: Rc<dyn Fn() -> bool>,
}

/// Connects redis-rs to the lock's node: the only lines that know of a simulation. The timeouts of
/// redis-rs are off, since they need tokio's clock; the lock has its own around every request.
async fn connect(setting: &Setting, wire: &Wire, timeout: u64) -> RedisResult<Open> {
    let stream = wire.open(timeout).await?;
    let info = RedisConnectionInfo::default();
    let config =
        AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
    let greeted = MultiplexedConnection::new_with_config(&info, stream, config);
    let greeted = setting.host.timeout(timeout, greeted).await;
    let (connection, driver) = greeted.ok_or_else(timed_out)??;
    let alive = Rc::new(Cell::new(true));
    let ends = Rc::clone(&alive);
    setting.host.spawn(async move {
        driver.await;
        ends.set(false);
    });
    Ok(Open { connection, is_alive: Rc::new(move || alive.get()) })
}

/// Connects as a service does, except for the transport: redis-rs keeps its own timeouts, and its
/// driver is a tokio task.
#[expect(clippy::disallowed_methods, reason = "this is what a lock on tokio does")]
async fn connect_on_tokio(wire: &Wire, timeout: u64) -> RedisResult<Open> {
    let timeout = Duration::from_nanos(timeout);
    let opened = tokio::time::timeout(timeout, wire.open(u64::MAX)).await;
    let stream = opened.map_err(|_| timed_out())??;
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(Some(timeout))
        .set_connection_timeout(Some(timeout));
    let info = RedisConnectionInfo::default();
    let greeted = MultiplexedConnection::new_with_config(&info, stream, config);
    let (connection, driver) =
        tokio::time::timeout(timeout, greeted).await.map_err(|_| timed_out())??;
    let driver = tokio::spawn(driver);
    Ok(Open { connection, is_alive: Rc::new(move || !driver.is_finished()) })
}

fn timed_out() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}

impl RedisRs {
    fn new(setting: Setting, after_time_out: AfterTimeOut) -> RedisRs {
        let wire = Wire::new(&setting, &setting.nodes[0]);
        let choices = LEASE.settle(&setting.config);
        RedisRs { setting, choices, after_time_out, wire, connect: Connect::Host, open: None }
    }

    /// Sends a request on the open connection, or on a new one, with the lock's timeout. A
    /// connection with an error is not used again.
    async fn query<T>(
        &mut self,
        question: impl AsyncFnOnce(&mut MultiplexedConnection) -> RedisResult<T>,
    ) -> RedisResult<T> {
        let timeout = self.choices.timeout;
        let open = self.open.take().filter(|open| (open.is_alive)());
        let mut open = match open {
            Some(open) => open,
            None => match self.connect {
                Connect::Host => connect(&self.setting, &self.wire, timeout).await?,
                Connect::Tokio => connect_on_tokio(&self.wire, timeout).await?,
            },
        };
        let question = question(&mut open.connection);
        let answer = match self.connect {
            Connect::Host => self.setting.host.timeout(timeout, question).await,
            Connect::Tokio => Some(question.await),
        };
        let answer = answer.ok_or_else(timed_out)??;
        self.open = Some(open);
        Ok(answer)
    }

    async fn set(&mut self, token: &str) -> RedisResult<bool> {
        let ttl = milliseconds(self.choices.ttl);
        let mut command = redis::cmd("SET");
        command.arg(&self.setting.config.key).arg(token).arg("NX").arg("PX").arg(ttl);
        self.query(async |connection| command.query_async(connection).await).await
    }

    async fn delete(&mut self) -> RedisResult<()> {
        let command = redis::Cmd::del(&self.setting.config.key);
        self.query(async |connection| command.query_async(connection).await).await
    }

    async fn compare_and_delete(&mut self, token: &str) -> RedisResult<bool> {
        let script = Script::new(scripts::COMPARE_AND_DELETE);
        let key = self.setting.config.key.clone();
        self.query(async |connection| script.key(key).arg(token).invoke_async(connection).await)
            .await
    }
}

#[async_trait(?Send)]
impl Lock for RedisRs {
    async fn acquire(&mut self) -> Acquired {
        let Setting { host, config, call, .. } = self.setting.clone();
        let lease = self.choices.lease(&config);
        let token = token::fresh(&host, call.get(), 0);
        let sent = host.now(lease.clock);
        let set = self.set(&token).await;
        let deadline = Some(lease.deadline(&host, sent));
        let grant = Grant::new(token, deadline);
        match (set, self.after_time_out) {
            (Ok(true), _) => Acquired::Granted(grant),
            (Ok(false), _) => Acquired::Refused(HELD.to_owned()),
            (Err(_), AfterTimeOut::Tell) => Acquired::Unknown(grant),
            (Err(why), AfterTimeOut::Delete) => {
                // This is the bug: by now the key may be another caller's.
                let _ = self.delete().await;
                Acquired::Refused(why.to_string())
            }
        }
    }

    async fn extend(&mut self, _grant: &Grant) -> Extended {
        Extended::Lost
    }

    async fn release(&mut self, grant: &Grant) -> Released {
        match self.compare_and_delete(&grant.token).await {
            Ok(true) => Released::Released,
            Ok(false) => Released::NotMine,
            Err(_) => Released::Unknown,
        }
    }
}

/// Every violation within a lock's assumptions is a bug of the lock.
fn quarry(lock: Algorithm) -> HuntTest {
    lockstorm::test::hunt_own(lock, TopologyKind::Single).within_assumptions().seeds(1..=300)
}

fn main() -> ExitCode {
    let lock = match std::env::args().nth(1).as_deref() {
        Some("careful") => CAREFUL,
        Some("tokio") => ON_TOKIO,
        _ => HASTY,
    };
    quarry(lock).report()
}

#[test]
fn the_hasty_clean_up_is_found_wanting() {
    let finding = quarry(HASTY).finds();
    assert!(finding.class.as_ref().is_some_and(Class::is_in_model));
    let lab = Lab::default().with_lock(HASTY);
    let differs = divergence(&lab, &finding.plan, &finding.trace_hash);
    assert_eq!(differs, None, "redis-rs brings no chance of its own");
}

#[test]
fn the_careful_one_holds_on_the_same_seeds() {
    assert!(quarry(CAREFUL).holds().struck_in_hold > 100);
}

#[test]
fn a_late_reply_is_enough() {
    lockstorm::test::scenario("examples/redis-rs-hasty.toml").lock(HASTY).run();
    lockstorm::test::scenario("examples/redis-rs-careful.toml").lock(CAREFUL).run();
}

#[test]
fn the_careful_one_holds_on_tokio_too() {
    let hunt = lockstorm::test::hunt_own(ON_TOKIO, TopologyKind::Single);
    assert!(hunt.within_assumptions().seeds(1..=10).holds().grants > 50);
}

#[test]
fn a_late_reply_is_enough_on_turmoil_too() {
    let hasty = lockstorm::test::scenario("examples/redis-rs-hasty.toml").lock(HASTY);
    hasty.on_turmoil().run();
}
