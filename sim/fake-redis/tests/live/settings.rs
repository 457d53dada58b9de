//! How a server is set up, and what is seen of it.

use lockstorm_fake_redis::{Compat, FakeRedis};
use redis::{AsyncCommands, Value};

use crate::connections::{connect, connect_to, query};

#[tokio::test]
async fn a_server_without_settings_is_redis_7_0() {
    let redis = FakeRedis::start().await;
    assert_eq!(redis.url(), format!("redis://{}", redis.addr()));
    assert_eq!(redis.replica_urls(), Vec::<String>::new());
    let info: String = redis::cmd("INFO").query_async(&mut connect(&redis).await).await.unwrap();
    assert!(info.contains("redis_version:7.0.15"), "{info}");
}

#[tokio::test]
async fn it_answers_like_another_server() {
    let builder = FakeRedis::builder().compat(Compat::Valkey80);
    let redis = builder.start().await.expect("good settings");
    let info: String = redis::cmd("INFO").query_async(&mut connect(&redis).await).await.unwrap();
    assert!(info.contains("valkey_version:8.0.1"), "{info}");
}

#[tokio::test]
async fn a_password_is_required() {
    let builder = FakeRedis::builder().password("p@ss word");
    let redis = builder.start().await.expect("good settings");
    query(&mut connect(&redis).await, "SET a 1").await.expect("the URL has the password");
    assert_eq!(redis.get("a").await.as_deref(), Some("1"), "a look needs none");
    let without = connect_to(&format!("redis://{}", redis.addr())).await;
    let refused = match without {
        Ok(mut connection) => query(&mut connection, "GET a").await.map(drop),
        Err(error) => Err(error),
    };
    assert!(refused.is_err());
}

#[tokio::test]
async fn parameters_hold_after_a_restart_too() {
    let builder = FakeRedis::builder().config("maxmemory-policy", "allkeys-lru").notify("Kx");
    let redis = builder.start().await.expect("good settings");
    for _ in 0..2 {
        let mut one = connect(&redis).await;
        let policy = query(&mut one, "CONFIG GET maxmemory-policy").await.expect("it is up");
        assert!(format!("{policy:?}").contains("allkeys-lru"), "{policy:?}");
        let classes = query(&mut one, "CONFIG GET notify-keyspace-events").await.expect("it is up");
        assert!(format!("{classes:?}").contains("xK"), "{classes:?}");
        redis.restart().await;
    }
}

#[tokio::test]
async fn a_bad_setting_is_refused_before_anything_starts() {
    let refused = FakeRedis::builder().config("hz", "often").start().await;
    let text = refused.err().expect("it is refused").to_string();
    assert!(text.starts_with("config(\"hz\", \"often\"): ERR CONFIG SET failed"), "{text}");
}

#[tokio::test]
async fn requests_are_seen_in_their_order() {
    let redis = FakeRedis::start().await;
    let mut one = connect(&redis).await;
    let before = redis.requests().await.len();
    let () = one.set("a", "1").await.unwrap();
    let () = one.set(b"\xff", "a b").await.unwrap();
    let _: Value = one.get("a").await.unwrap();
    let _: Value = redis::cmd("NONSENSE").query_async(&mut one).await.unwrap_or(Value::Nil);
    assert_eq!(redis.requests().await[before..], ["SET a 1", "SET \\xff a b", "GET a", "NONSENSE"]);
    assert_eq!(redis.keys().await, ["\\xff", "a"]);
    let () = one.hset("hash", "field", "value").await.unwrap();
    assert_eq!(redis.get("hash").await, None, "it is no string");
    assert_eq!(redis.ttl("a").await, None, "it has no end");
}
