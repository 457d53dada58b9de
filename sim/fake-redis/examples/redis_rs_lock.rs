//! Tests of a lock on redis-rs as a service would have them: the lease ends, the server crashes,
//! the replica does not know the lock.
//!
//! `cargo test --example redis-rs-lock` runs them, `cargo run --example redis-rs-lock` the first.

use std::time::Duration;

use lockstorm_fake_redis::FakeRedis;
use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Script, Value, cmd};

const RELEASE: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

/// The lock under test.
struct Lock {
    connection: MultiplexedConnection,
    token: &'static str,
}

impl Lock {
    async fn connect(url: &str, token: &'static str) -> RedisResult<Lock> {
        let connection = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
        Ok(Lock { connection, token })
    }

    async fn acquire(&mut self) -> RedisResult<bool> {
        let mut set = cmd("SET");
        set.arg("lock").arg(self.token).arg("NX").arg("PX").arg(10_000);
        let reply: Value = set.query_async(&mut self.connection).await?;
        Ok(reply == Value::Okay)
    }

    async fn release(&mut self) -> RedisResult<bool> {
        let script = Script::new(RELEASE);
        script.key("lock").arg(self.token).invoke_async(&mut self.connection).await
    }
}

async fn a_lease_ends_by_the_clock() -> RedisResult<()> {
    let redis = FakeRedis::start().await;
    let mut one = Lock::connect(&redis.url(), "one").await?;
    let mut other = Lock::connect(&redis.url(), "other").await?;
    assert!(one.acquire().await?);
    assert!(!other.acquire().await?, "it is held");
    redis.advance(Duration::from_secs(11)).await;
    assert!(other.acquire().await?, "the lease is over");
    assert!(!one.release().await?, "nobody frees another's lock");
    assert_eq!(redis.get("lock").await.as_deref(), Some("other"));
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> RedisResult<()> {
    a_lease_ends_by_the_clock().await
}

#[tokio::test]
async fn a_lease_ends() -> RedisResult<()> {
    a_lease_ends_by_the_clock().await
}

#[tokio::test]
async fn a_crash_forgets_the_lock() -> RedisResult<()> {
    let redis = FakeRedis::start().await;
    let mut one = Lock::connect(&redis.url(), "one").await?;
    assert!(one.acquire().await?);
    redis.crash().await;
    assert!(one.release().await.is_err(), "nobody answers");
    redis.restart().await;
    let mut other = Lock::connect(&redis.url(), "other").await?;
    assert!(other.acquire().await?, "two believe that they hold it");
    Ok(())
}

#[tokio::test]
async fn a_failover_loses_the_lock() -> RedisResult<()> {
    let redis = FakeRedis::builder().replicas(1).start().await.expect("good settings");
    let mut one = Lock::connect(&redis.url(), "one").await?;
    redis.partition_replicas().await;
    assert!(one.acquire().await?);
    redis.fail_over().await;
    let mut other = Lock::connect(&redis.url(), "other").await?;
    assert!(other.acquire().await?, "the new master has never heard of it");
    Ok(())
}

#[tokio::test]
async fn an_acquire_whose_reply_is_lost_may_hold_the_lock() -> RedisResult<()> {
    let redis = FakeRedis::start().await;
    let mut one = Lock::connect(&redis.url(), "one").await?;
    redis.cut_next_reply("SET").await;
    assert!(one.acquire().await.is_err());
    assert_eq!(redis.get("lock").await.as_deref(), Some("one"), "it was granted all the same");
    Ok(())
}
