//! Tests of a service that takes a lock on a connection from a deadpool: a pool must notice that
//! its connections are broken, and that its server no longer replies.
//!
//! `cargo test --example deadpool-lock` runs them, `cargo run --example deadpool-lock` the first.

use std::time::Duration;

use deadpool_redis::{Config, Pool, PoolConfig, Runtime, Timeouts};
use lockstorm_fake_redis::FakeRedis;
use redis::{RedisResult, Value, cmd};

fn pool(redis: &FakeRedis) -> Pool {
    let mut config = Config::from_url(redis.url());
    let timeouts = Timeouts::wait_millis(5_000);
    config.pool = Some(PoolConfig { max_size: 2, timeouts, ..PoolConfig::default() });
    config.create_pool(Some(Runtime::Tokio1)).expect("the URL is right")
}

/// The service's lock request; returns whether it got the lock.
async fn acquire(pool: &Pool, token: &str) -> RedisResult<bool> {
    let connection = pool.get().await;
    let mut connection = connection.map_err(|error| std::io::Error::other(error.to_string()))?;
    let mut set = cmd("SET");
    set.arg("lock").arg(token).arg("NX").arg("PX").arg(10_000);
    let reply: Value = set.query_async(&mut connection).await?;
    Ok(reply == Value::Okay)
}

async fn a_lease_ends_by_the_clock() -> RedisResult<()> {
    let redis = FakeRedis::start().await;
    let pool = pool(&redis);
    assert!(acquire(&pool, "one").await?);
    assert!(!acquire(&pool, "other").await?, "it is held");
    redis.advance(Duration::from_secs(11)).await;
    assert!(acquire(&pool, "other").await?, "the lease is over");
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
async fn a_pool_outlives_a_crash_of_its_server() -> RedisResult<()> {
    let redis = FakeRedis::start().await;
    let pool = pool(&redis);
    assert!(acquire(&pool, "one").await?);
    redis.crash().await;
    assert!(acquire(&pool, "other").await.is_err(), "nobody answers");
    redis.restart().await;
    assert!(acquire(&pool, "other").await?, "the lock is forgotten");
    Ok(())
}

#[tokio::test]
async fn a_failover_loses_the_lock() -> RedisResult<()> {
    let redis = FakeRedis::builder().replicas(1).start().await.expect("good settings");
    let before = pool(&redis);
    redis.partition_replicas().await;
    assert!(acquire(&before, "one").await?);
    redis.fail_over().await;
    assert!(acquire(&pool(&redis), "other").await?, "the new master has never heard of it");
    Ok(())
}
