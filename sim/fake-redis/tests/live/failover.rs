//! A server with replicas.

use std::time::Duration;

use lockstorm_fake_redis::FakeRedis;

use crate::connections::{LONG, connect, connect_to, lock, query};

async fn with_replicas(count: usize) -> FakeRedis {
    FakeRedis::builder().replicas(count).start().await.expect("good settings")
}

#[tokio::test]
async fn what_was_not_passed_on_is_lost_in_a_failover() {
    let redis = with_replicas(1).await;
    let before = redis.url();
    let mut one = connect(&redis).await;
    query(&mut one, "SET passed on").await.expect("it is up");
    query(&mut one, "WAIT 1 0").await.expect("the replica has it");
    redis.partition_replicas().await;
    assert!(lock(&mut one, "one").await);
    redis.fail_over().await;
    assert_ne!(redis.url(), before);
    assert_eq!(redis.replica_urls(), [before]);
    assert_eq!(redis.keys().await, ["passed"]);
    assert!(lock(&mut connect(&redis).await, "other").await, "two have the lock by now");
}

#[tokio::test]
async fn what_lags_behind_is_lost_too() {
    let redis = with_replicas(2).await;
    redis.lag_replicas(LONG * 2).await;
    assert!(lock(&mut connect(&redis).await, "one").await);
    redis.fail_over().await;
    assert!(lock(&mut connect(&redis).await, "other").await);
}

#[tokio::test]
async fn the_old_master_follows_the_new_one() {
    let redis = with_replicas(1).await;
    let old = redis.url();
    redis.crash().await;
    redis.fail_over().await;
    assert!(lock(&mut connect(&redis).await, "one").await);
    redis.restart().await;
    let mut follower = connect_to(&old).await.expect("it is back");
    query(&mut connect(&redis).await, "WAIT 1 0").await.expect("it follows");
    let refused = query(&mut follower, "SET lock other").await.expect_err("a replica reads only");
    assert_eq!(refused.code(), Some("READONLY"));
}

#[tokio::test]
async fn a_paused_master_hears_of_its_failover_when_it_goes_on() {
    let redis = with_replicas(1).await;
    let mut old = connect(&redis).await;
    redis.pause().await;
    redis.fail_over().await;
    redis.resume().await;
    while query(&mut old, "SET lock old").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(redis.get("lock").await, None, "what it granted until then is forgotten");
}

#[tokio::test]
async fn a_failover_works_with_a_password() {
    let builder = FakeRedis::builder().replicas(2).password("p@ss word");
    let redis = builder.start().await.expect("good settings");
    let mut one = connect(&redis).await;
    assert!(lock(&mut one, "one").await);
    query(&mut one, "WAIT 2 0").await.expect("the replicas have it");
    redis.fail_over().await;
    assert!(!lock(&mut connect(&redis).await, "other").await, "the lock was passed on");
}

#[tokio::test]
async fn what_servers_say_to_each_other_is_no_request() {
    let redis = with_replicas(2).await;
    redis.fail_over().await;
    redis.heal().await;
    let mut one = connect(&redis).await;
    query(&mut one, "WAIT 2 0").await.expect("both follow");
    // A replica that changes its master may have come no further than its PING.
    let noise = ["CLIENT", "HELLO", "PING"];
    let mut requests = redis.requests().await;
    requests.retain(|line| noise.iter().all(|word| !line.starts_with(word)));
    assert_eq!(requests, ["WAIT 2 0"]);
}

#[tokio::test]
#[should_panic(expected = "write FakeRedis::builder().replicas(1)")]
async fn a_failover_without_a_replica_is_refused() {
    FakeRedis::start().await.fail_over().await;
}

#[tokio::test]
#[should_panic(expected = "no replica can be promoted")]
async fn a_failover_to_nobody_is_refused() {
    let redis = with_replicas(1).await;
    redis.crash().await;
    redis.fail_over().await;
    redis.crash().await;
    redis.fail_over().await;
}
