//! The wall clock in the test's hands.

use std::time::Duration;

use lockstorm_fake_redis::FakeRedis;

use crate::connections::{connect, lock, query};

#[tokio::test]
async fn a_lease_ends_when_the_clock_is_set_forward() {
    let redis = FakeRedis::start().await;
    let (mut one, mut other) = (connect(&redis).await, connect(&redis).await);
    assert!(lock(&mut one, "one").await);
    assert!(!lock(&mut other, "other").await);
    let left = redis.ttl("lock").await.expect("it has an end");
    assert!(left <= Duration::from_secs(10), "{left:?}");
    redis.advance(Duration::from_secs(11)).await;
    assert_eq!(redis.keys().await, Vec::<String>::new());
    assert!(lock(&mut other, "other").await);
    assert_eq!(redis.get("lock").await.as_deref(), Some("other"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_prolongs_a_lease() {
    let redis = FakeRedis::start().await;
    let mut one = connect(&redis).await;
    assert!(lock(&mut one, "one").await);
    redis.step_back(Duration::from_secs(3600)).await;
    let left = redis.ttl("lock").await.expect("it has an end");
    assert!(left > Duration::from_secs(3590), "{left:?}");
}

#[tokio::test]
async fn a_frozen_clock_ends_nothing_and_a_thawed_one_goes_on() {
    let redis = FakeRedis::start().await;
    let mut one = connect(&redis).await;
    redis.freeze_clock().await;
    query(&mut one, "SET lease me PX 100").await.expect("it is set");
    let left = redis.ttl("lease").await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(redis.ttl("lease").await, left);
    assert_eq!(left, Some(Duration::from_millis(100)));
    redis.thaw_clock().await;
    while redis.get("lease").await.is_some() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn replicas_have_the_same_clock() {
    let redis = FakeRedis::builder().replicas(1).start().await.expect("good settings");
    let mut one = connect(&redis).await;
    assert!(lock(&mut one, "one").await);
    query(&mut one, "WAIT 1 0").await.expect("the replica has it");
    redis.advance(Duration::from_secs(5)).await;
    redis.fail_over().await;
    let left = redis.ttl("lock").await.expect("the lease is passed on");
    assert!(left <= Duration::from_secs(5), "{left:?}");
}
