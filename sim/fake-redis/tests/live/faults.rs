//! What process and links suffer.

use std::time::{Duration, Instant};

use lockstorm_fake_redis::{Append, FakeRedis};

use crate::connections::{LONG, SHORT, connect, connect_to, lock, query, query_in_vain};

#[tokio::test]
async fn a_paused_server_is_silent_and_then_does_what_it_was_sent() {
    let redis = FakeRedis::start().await;
    let mut one = connect(&redis).await;
    redis.pause().await;
    query_in_vain(&mut one, "SET lock late").await;
    assert_eq!(redis.get("lock").await, None, "a look needs no process");
    redis.resume().await;
    redis.wait_for_requests("SET", 1).await;
    assert_eq!(redis.get("lock").await.as_deref(), Some("late"));
}

#[tokio::test]
async fn a_crash_loses_the_memory_and_a_restart_brings_the_server_back() {
    let redis = FakeRedis::start().await;
    let mut one = connect(&redis).await;
    assert!(lock(&mut one, "one").await);
    redis.crash().await;
    assert!(query(&mut one, "PING").await.is_err(), "the connection is broken");
    assert!(connect_to(&redis.url()).await.is_err(), "nobody listens");
    assert_eq!(redis.keys().await, Vec::<String>::new());
    redis.restart().await;
    assert!(lock(&mut connect(&redis).await, "other").await, "the lock is forgotten");
}

#[tokio::test]
async fn a_restart_of_a_server_that_is_up_is_a_crash_and_a_start() {
    let redis = FakeRedis::start().await;
    let mut one = connect(&redis).await;
    assert!(lock(&mut one, "one").await);
    redis.restart().await;
    assert_eq!(redis.keys().await, Vec::<String>::new());
    assert!(query(&mut one, "PING").await.is_err(), "the connection is broken");
    assert!(lock(&mut connect(&redis).await, "other").await);
}

#[tokio::test]
async fn a_server_that_a_client_shut_down_is_started_again() {
    let redis = FakeRedis::start().await;
    let mut one = connect(&redis).await;
    let _ = query(&mut one, "SHUTDOWN NOSAVE").await;
    redis.restart().await;
    query(&mut connect(&redis).await, "PING").await.expect("it is up");
}

#[tokio::test]
async fn what_was_synced_survives_a_loss_of_power_unless_fsync_lied() {
    for lies in [false, true] {
        let builder = FakeRedis::builder().append(Append::Always);
        let redis = builder.start().await.expect("good settings");
        if lies {
            redis.lie_about_fsync().await;
        }
        assert!(lock(&mut connect(&redis).await, "one").await);
        redis.power_loss().await;
        redis.restart().await;
        assert_eq!(redis.get("lock").await.is_some(), !lies);
    }
}

#[tokio::test]
async fn a_file_survives_a_crash() {
    let builder = FakeRedis::builder().append(Append::Always);
    let redis = builder.start().await.expect("good settings");
    assert!(lock(&mut connect(&redis).await, "one").await);
    redis.crash().await;
    redis.heal().await;
    assert_eq!(redis.get("lock").await.as_deref(), Some("one"));
}

#[tokio::test]
async fn a_partition_holds_back_what_is_sent_until_it_is_healed() {
    let redis = FakeRedis::start().await;
    let mut one = connect(&redis).await;
    redis.partition().await;
    query_in_vain(&mut one, "SET lock late").await;
    assert_eq!(redis.get("lock").await, None);
    redis.heal().await;
    redis.wait_for_requests("SET", 1).await;
    assert_eq!(redis.get("lock").await.as_deref(), Some("late"));
}

#[tokio::test]
async fn replies_are_delayed_for_as_long_as_it_is_said() {
    let redis = FakeRedis::start().await;
    let mut one = connect(&redis).await;
    redis.delay(SHORT).await;
    let asked = Instant::now();
    query(&mut one, "PING").await.expect("it answers in the end");
    assert!(asked.elapsed() >= SHORT);
    redis.delay(LONG * 2).await;
    redis.delay(Duration::ZERO).await;
    query(&mut one, "PING").await.expect("the delay is over");
}

#[tokio::test]
async fn a_reply_is_cut_off_and_the_request_was_executed() {
    let redis = FakeRedis::start().await;
    let mut one = connect(&redis).await;
    redis.cut_next_reply("set").await;
    query(&mut one, "GET lock").await.expect("another command is answered");
    let lost = query(&mut one, "SET lock one NX").await.expect_err("the connection breaks");
    assert!(!lost.is_timeout(), "{lost}");
    assert_eq!(redis.get("lock").await.as_deref(), Some("one"));
    assert!(!lock(&mut connect(&redis).await, "other").await, "the next SET is answered");
}

#[tokio::test]
#[should_panic(expected = "Redis has no command 'STE'")]
async fn a_command_that_is_none_is_refused() {
    FakeRedis::start().await.cut_next_reply("STE").await;
}

#[tokio::test]
async fn connections_are_reset_and_the_server_lives_on() {
    let redis = FakeRedis::start().await;
    let mut one = connect(&redis).await;
    assert!(lock(&mut one, "one").await);
    redis.reset_connections().await;
    assert!(query(&mut one, "PING").await.is_err());
    assert!(!lock(&mut connect(&redis).await, "other").await);
}

#[tokio::test]
async fn commands_are_slow_for_as_long_as_it_is_said() {
    let redis = FakeRedis::start().await;
    let mut one = connect(&redis).await;
    redis.slow_commands(SHORT).await;
    let asked = Instant::now();
    query(&mut one, "PING").await.expect("it answers in the end");
    assert!(asked.elapsed() >= SHORT);
    redis.slow_commands(LONG * 2).await;
    redis.slow_commands(Duration::ZERO).await;
    query(&mut one, "PING").await.expect("it is fast again");
}

#[tokio::test]
async fn a_heal_ends_everything() {
    let redis = FakeRedis::builder().replicas(1).start().await.expect("good settings");
    redis.partition_replicas().await;
    redis.freeze_clock().await;
    redis.delay(LONG * 2).await;
    redis.cut_next_reply("PING").await;
    redis.pause().await;
    redis.crash().await;
    redis.heal().await;
    let mut one = connect(&redis).await;
    query(&mut one, "PING").await.expect("it answers");
    query(&mut one, "SET lease me PX 1").await.expect("it answers");
    while redis.get("lease").await.is_some() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    query(&mut one, "WAIT 1 0").await.expect("the replica is back");
}
