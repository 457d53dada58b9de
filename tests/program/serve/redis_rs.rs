//! redis-rs, with its own async connection and tokio's runtime, against served nodes: the requests
//! of a service that uses a lock.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Script, Value, cmd};

use crate::serve::served::Served;

const RELEASE: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
const EXTEND: &str = "if redis.call('get',KEYS[1])==ARGV[1] then \
                      return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end";

async fn connect(port: u16) -> MultiplexedConnection {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}/")).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

async fn acquire(connection: &mut MultiplexedConnection, token: &str, ms: u32) -> bool {
    let mut set = cmd("SET");
    let set = set.arg("lock").arg(token).arg("NX").arg("PX").arg(ms);
    let reply: RedisResult<Value> = set.query_async(connection).await;
    reply.unwrap() == Value::Okay
}

async fn release(connection: &mut MultiplexedConnection, token: &str) -> u32 {
    let script = Script::new(RELEASE);
    let mut call = script.prepare_invoke();
    call.key("lock").arg(token).invoke_async(connection).await.unwrap()
}

async fn extend(connection: &mut MultiplexedConnection, token: &str, ms: u32) -> u32 {
    let script = Script::new(EXTEND);
    let mut call = script.prepare_invoke();
    call.key("lock").arg(token).arg(ms).invoke_async(connection).await.unwrap()
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

#[test]
fn a_lock_on_redis_rs_does_on_a_served_node_what_it_does_on_redis() {
    let served = Served::new(&[]);
    run(async {
        let (mut one, mut other) = (connect(served.nodes[0]).await, connect(served.nodes[0]).await);
        assert!(acquire(&mut one, "a", 5_000).await, "granted");
        assert!(!acquire(&mut other, "b", 5_000).await, "a second caller is refused");
        assert_eq!(extend(&mut one, "a", 20_000).await, 1, "the owner prolongs");
        assert_eq!(extend(&mut other, "b", 20_000).await, 0, "nobody else does");
        let left: u64 = cmd("PTTL").arg("lock").query_async(&mut one).await.unwrap();
        assert!((15_000..=20_000).contains(&left), "{left}");
        assert_eq!(release(&mut other, "b").await, 0, "nobody else releases");
        assert_eq!(release(&mut one, "a").await, 1, "the owner does");
        assert!(acquire(&mut other, "b", 50).await, "the next one enters");
        while !acquire(&mut one, "a", 5_000).await {}
        assert_eq!(release(&mut other, "b").await, 0, "its time was over");
    });
}

#[test]
fn a_request_of_redis_rs_survives_a_pause_that_is_shorter_than_its_time_out() {
    let served = Served::new(&[]);
    run(async {
        let mut one = connect(served.nodes[0]).await;
        served.order("FAULT PAUSE n1 200ms");
        assert!(acquire(&mut one, "a", 5_000).await, "late, but granted");
        // Connecting has a separate timeout, which is no longer than the rest of the pause.
        let mut late = connect(served.nodes[0]).await;
        late.set_response_timeout(Duration::from_secs(10));
        served.order("FAULT PAUSE n1 1500ms");
        let mut get = cmd("GET");
        let reply: RedisResult<Value> = get.arg("lock").query_async(&mut one).await;
        assert!(reply.unwrap_err().is_timeout(), "beyond its time-out nobody knows");
        assert_eq!(release(&mut late, "a").await, 1, "the lock was kept");
    });
}
