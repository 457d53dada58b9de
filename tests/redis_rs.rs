//! redis-rs, with its own async connection and tokio's runtime, against nodes that are served: what
//! a service does that runs on a lock.
#![cfg(feature = "live")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Script, Value, cmd};

const RELEASE: &str =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
const EXTEND: &str = "if redis.call('get',KEYS[1])==ARGV[1] then \
                      return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end";

/// One node on a free port, ended with the test.
struct Served {
    child: Child,
    node: String,
    admin: String,
}

impl Served {
    fn new() -> Served {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockstorm"));
        let command = command.args(["serve", "--port", "0", "--admin-port", "0", "--for", "60s"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let (mut node, mut admin) = (None, None);
        for line in lines {
            let address = || line.split_whitespace().nth(1).map(str::to_owned);
            match line.split_whitespace().next() {
                Some("n1") => node = address(),
                Some("admin") => admin = address(),
                _ => {}
            }
            if admin.is_some() {
                break;
            }
        }
        Served { child, node: node.unwrap(), admin: admin.unwrap() }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn connect(address: &str) -> MultiplexedConnection {
    let client = redis::Client::open(format!("redis://{address}/")).unwrap();
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

async fn order(admin: &str, words: &[&str]) {
    let client = redis::Client::open(format!("redis://{admin}/")).unwrap();
    let info = redis::AsyncConnectionConfig::new();
    let mut desk = client.get_multiplexed_async_connection_with_config(&info).await.unwrap();
    let mut order = cmd(words[0]);
    order.arg(&words[1..]);
    let _: Value = order.query_async(&mut desk).await.unwrap();
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

#[test]
fn a_lock_on_redis_rs_does_on_a_served_node_what_it_does_on_redis() {
    let served = Served::new();
    run(async {
        let (mut one, mut other) = (connect(&served.node).await, connect(&served.node).await);
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
    let served = Served::new();
    run(async {
        let mut one = connect(&served.node).await;
        order(&served.admin, &["FAULT", "PAUSE", "n1", "200ms"]).await;
        assert!(acquire(&mut one, "a", 5_000).await, "late, but granted");
        order(&served.admin, &["FAULT", "PAUSE", "n1", "1500ms"]).await;
        let mut get = cmd("GET");
        let reply: RedisResult<Value> = get.arg("lock").query_async(&mut one).await;
        assert!(reply.unwrap_err().is_timeout(), "beyond its time-out nobody knows");
        let mut late = connect(&served.node).await;
        late.set_response_timeout(Duration::from_secs(10));
        assert_eq!(release(&mut late, "a").await, 1, "the lock was kept");
    });
}
