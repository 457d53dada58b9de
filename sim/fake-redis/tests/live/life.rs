//! A server ends with its value, and two of them share nothing.

use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};

use lockstorm_fake_redis::FakeRedis;
use redis::Commands;

use crate::connections::{connect, lock, query};

#[tokio::test]
async fn a_dropped_server_closes_its_port_and_its_connections() {
    let redis = FakeRedis::builder().replicas(1).start().await.expect("good settings");
    let (addr, mut one) = (redis.addr(), connect(&redis).await);
    assert!(TcpStream::connect(addr).is_ok());
    drop(redis);
    assert!(TcpStream::connect(addr).is_err(), "nobody listens");
    assert!(query(&mut one, "PING").await.is_err(), "the connection is closed");
}

#[tokio::test]
async fn a_server_that_suffers_is_dropped_all_the_same() {
    let redis = FakeRedis::start().await;
    redis.pause().await;
    redis.partition().await;
    redis.power_loss().await;
    let addr = redis.addr();
    drop(redis);
    assert!(TcpStream::connect(addr).is_err());
}

#[tokio::test]
async fn two_servers_share_nothing() {
    let (one, other) = (FakeRedis::start().await, FakeRedis::start().await);
    assert_ne!(one.addr(), other.addr());
    assert!(lock(&mut connect(&one).await, "one").await);
    one.crash().await;
    assert!(lock(&mut connect(&other).await, "other").await);
    assert_eq!(other.get("lock").await.as_deref(), Some("other"));
}

#[test]
fn a_test_that_panics_ends_its_server() {
    let mut addr = None;
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let redis = FakeRedis::start_blocking();
        addr = Some(redis.addr());
        panic!("an assertion of a test");
    }));
    assert!(panic.is_err());
    assert!(TcpStream::connect(addr.expect("it had started")).is_err(), "nobody listens");
}

#[tokio::test]
async fn who_gives_up_waiting_keeps_nothing_busy() {
    let redis = FakeRedis::start().await;
    let wait = redis.wait_for_requests("SET", 1);
    let given_up = tokio::time::timeout(crate::connections::SHORT, wait).await;
    assert!(given_up.is_err(), "nobody has set anything");
    assert!(lock(&mut connect(&redis).await, "one").await);
    redis.wait_for_requests("set", 1).await;
}

#[test]
fn a_test_without_async_code_has_every_method() {
    let builder = FakeRedis::builder().replicas(1).password("secret");
    let redis = builder.start_blocking().expect("good settings");
    let connect = |redis: &lockstorm_fake_redis::blocking::BlockingFakeRedis| {
        redis::Client::open(redis.url()).unwrap().get_connection().unwrap()
    };
    let mut one = connect(&redis);
    let () = one.set("a", "1").unwrap();
    redis.wait_for_requests("SET", 1);
    assert_eq!(redis.requests().last().map(String::as_str), Some("SET a 1"));
    assert_eq!(
        (redis.keys(), redis.get("a"), redis.ttl("a")),
        (vec!["a".into()], Some("1".into()), None)
    );
    redis.fail_over();
    assert_eq!(redis.replica_urls().len(), 1);
    assert_eq!(connect(&redis).get::<_, Option<String>>("a").unwrap().as_deref(), Some("1"));
}
