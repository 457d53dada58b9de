//! What the tests stand on: a connection, a lock taken on it, waiting for what has to come.

use std::time::Duration;

use lockstorm_fake_redis::FakeRedis;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisResult, Value};

/// Longer than anything takes that has to come.
pub const LONG: Duration = Duration::from_secs(20);
/// Shorter than what must not come.
pub const SHORT: Duration = Duration::from_millis(150);

/// A connection to a URL.
pub async fn connect_to(url: &str) -> RedisResult<MultiplexedConnection> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(LONG))
        .set_response_timeout(Some(LONG));
    Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await
}

/// A connection to the master.
pub async fn connect(redis: &FakeRedis) -> MultiplexedConnection {
    connect_to(&redis.url()).await.expect("the server answers")
}

/// Asks a line on a connection.
pub async fn query(connection: &mut MultiplexedConnection, line: &str) -> RedisResult<Value> {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().expect("a line has a word"));
    words.for_each(|word| {
        command.arg(word);
    });
    command.query_async(connection).await
}

/// Asks a line that nobody answers.
pub async fn query_in_vain(connection: &mut MultiplexedConnection, line: &str) {
    let answer = tokio::time::timeout(SHORT, query(connection, line)).await;
    assert!(answer.is_err(), "{answer:?}");
}

/// Takes the lock for ten seconds; whether it was free.
pub async fn lock(connection: &mut MultiplexedConnection, token: &str) -> bool {
    let reply = query(connection, &format!("SET lock {token} NX PX 10000")).await;
    reply.expect("the server answers") == Value::Okay
}
