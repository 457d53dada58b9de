//! Locks of this crate on real redis-servers, in a runtime as a service has it.
#![cfg(feature = "live")]
#![allow(clippy::disallowed_methods, reason = "what is tested lives in real time")]

use std::fs;
use std::future::Future;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use lockstorm::lock::algorithm::Nodes;
use lockstorm::lock::catalogue::ALGORITHMS;
use lockstorm::own::{Extended, Released};
use lockstorm::production::{LockBuilder, Loss, NotAcquired};
use redis::FromRedisValue;

/// A redis-server on a free port; it ends with this value.
struct Server {
    port: u16,
    process: Child,
}

impl Server {
    /// `None` if there is no redis-server.
    fn start(arguments: &[&str]) -> Option<Server> {
        Server::run(&[&["--save", ""][..], arguments].concat())
    }

    fn run(arguments: &[&str]) -> Option<Server> {
        let port = free_port();
        let mut command = Command::new("redis-server");
        command.args(arguments).args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        command.stdout(Stdio::null()).current_dir(env!("CARGO_TARGET_TMPDIR"));
        let Ok(process) = command.spawn() else {
            eprintln!("skipped: there is no redis-server");
            return None;
        };
        let mut server = Server { port, process };
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert_eq!(server.process.try_wait().unwrap(), None, "it ended at once");
            thread::sleep(Duration::from_millis(5));
        }
        Some(server)
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A lock on this server alone. It is patient, because the machine of a test may be busy.
    fn lock(&self, name: &str, ttl: u64) -> LockBuilder {
        let builder = LockBuilder::of(name).key("k").ttl(Duration::from_millis(ttl));
        builder.option("timeout", "2s").node(&self.address())
    }

    /// Runs a command on a connection of its own.
    fn command<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let client = redis::Client::open(format!("redis://{}", self.address())).unwrap();
        let mut command = redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(word);
        }
        command.query(&mut client.get_connection().unwrap()).unwrap()
    }

    fn signal(&self, signal: &str) {
        let process = self.process.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &process]).status().unwrap();
        assert!(sent.success());
    }

    fn stop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// As a service runs its locks: on one thread, within a `LocalSet`.
fn serve<T>(service: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, service)
}

async fn pass(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}

/// Waits until something is true that has to become true.
async fn soon(is_true: impl Fn() -> bool) {
    for _ in 0..500 {
        if is_true() {
            return;
        }
        pass(10).await;
    }
    panic!("it did not become true");
}

fn refused<T>(outcome: Result<T, NotAcquired>, why: &str) {
    let Err(NotAcquired::Refused(said)) = outcome else { panic!("it is not refused: {why}") };
    // The address of a node that could not be connected to is another one in each run.
    let said = said.split_once(" (127.0.0.1:").map_or(said.clone(), |(before, after)| {
        let (_, failed) = after.split_once(": ").expect("a port, and why");
        format!("{before} ({failed}")
    });
    assert!(said.starts_with(why), "'{said}', and not '{why}'");
}

#[test]
fn one_caller_holds_the_lock_and_only_the_owner_releases_it() {
    let Some(redis) = Server::start(&[]) else { return };
    serve(async {
        let builder = redis.lock("token-lua", 10_000);
        let (mut first, mut second) = (builder.open().unwrap(), builder.open().unwrap());
        let held = first.acquire().await.unwrap();
        let token = held.token().to_owned();
        assert_eq!(redis.command::<String>(&["GET", "k"]), token);
        refused(second.acquire().await, "held by another");
        assert_eq!(first.release(held).await, Released::Released);
        let held = second.acquire().await.unwrap();
        assert_ne!(held.token(), token, "each grant has an owner value of its own");
        redis.command::<()>(&["SET", "k", "another's"]);
        assert_eq!(second.release(held).await, Released::NotMine);
        assert_eq!(redis.command::<String>(&["GET", "k"]), "another's");
    });
}

#[test]
fn a_deadline_is_before_the_end_of_the_key() {
    let Some(redis) = Server::start(&[]) else { return };
    serve(async {
        let mut lock = redis.lock("token-lua", 5_000).open().unwrap();
        // The node executes the request, and starts the lease, only after this.
        redis.command::<()>(&["CLIENT", "PAUSE", "800", "WRITE"]);
        let held = lock.acquire().await.unwrap();
        let key = redis.command::<u64>(&["PTTL", "k"]);
        let left = held.left().unwrap();
        assert!(left + Duration::from_millis(200) < Duration::from_millis(key), "{left:?} {key}");
        assert!(left > Duration::from_millis(1_000), "{left:?}");
    });
}

#[test]
fn an_extend_prolongs_the_lease_and_finds_a_key_that_is_gone() {
    let Some(redis) = Server::start(&[]) else { return };
    serve(async {
        let mut lock = redis.lock("token-lua", 2_000).open().unwrap();
        let mut held = lock.acquire().await.unwrap();
        pass(300).await;
        let before = held.left().unwrap();
        assert!(before <= Duration::from_millis(1_700), "{before:?}");
        assert!(matches!(lock.extend(&mut held).await, Extended::Kept(Some(_))));
        assert!(held.left().unwrap() > before + Duration::from_millis(100));
        assert!(redis.command::<u64>(&["PTTL", "k"]) > 1_700);
        let lost = held.lost();
        redis.command::<()>(&["DEL", "k"]);
        assert_eq!(lock.extend(&mut held).await, Extended::Lost);
        assert_eq!((lost.await, held.is_lost()), (Loss::Reported, true));
        assert_eq!(held.left(), Some(Duration::ZERO));
    });
}

#[test]
fn a_renewed_lease_outlives_its_time_to_live_and_ends_with_the_release() {
    let Some(redis) = Server::start(&[]) else { return };
    serve(async {
        let builder = redis.lock("token-lua-renewed", 1_500).option("renew_every", "300ms");
        let mut lock = builder.open().unwrap();
        let held = lock.acquire().await.unwrap();
        let lost = held.lost();
        pass(2_000).await;
        assert_eq!(redis.command::<String>(&["GET", "k"]), held.token());
        assert!(!held.is_lost() && held.left() > Some(Duration::ZERO));
        assert_eq!(lock.release(held).await, Released::Released);
        assert_eq!(lost.await, Loss::Released);
        assert!(!redis.command::<bool>(&["EXISTS", "k"]));
    });
}

#[test]
fn a_key_that_is_deleted_behind_the_back_of_its_holder_is_reported() {
    let Some(redis) = Server::start(&[]) else { return };
    serve(async {
        let builder = redis.lock("token-lua-renewed", 20_000).option("renew_every", "100ms");
        let mut lock = builder.open().unwrap();
        let held = lock.acquire().await.unwrap();
        redis.command::<()>(&["DEL", "k"]);
        // Long before the lease is over.
        let loss = tokio::time::timeout(Duration::from_secs(5), held.lost()).await;
        assert_eq!(loss.unwrap(), Loss::Reported);
        assert!(held.is_lost());
    });
}

#[test]
fn a_lease_that_nobody_extends_is_over_in_time() {
    let Some(redis) = Server::start(&[]) else { return };
    serve(async {
        let mut lock = redis.lock("token-lua", 300).open().unwrap();
        let held = lock.acquire().await.unwrap();
        assert_eq!(held.lost().await, Loss::Over);
        assert_eq!(held.left(), Some(Duration::ZERO));
    });
}

#[test]
fn a_grant_that_is_dropped_is_renewed_no_more() {
    let Some(redis) = Server::start(&[]) else { return };
    serve(async {
        let builder = redis.lock("token-lua-renewed", 600).option("renew_every", "100ms");
        let mut lock = builder.open().unwrap();
        let held = lock.acquire().await.unwrap();
        let lost = held.lost();
        drop(held);
        assert_eq!(lost.await, Loss::Released);
        pass(300).await;
        assert!(redis.command::<i64>(&["PTTL", "k"]) < 400, "it is still renewed");
        soon(|| !redis.command::<bool>(&["EXISTS", "k"])).await;
        lock.acquire().await.unwrap();
    });
}

#[test]
fn a_node_without_a_reply_is_unknown_and_one_that_is_down_refuses() {
    let Some(mut redis) = Server::start(&[]) else { return };
    serve(async {
        let builder = redis.lock("token-lua", 10_000);
        let (mut lock, mut other) = (builder.open().unwrap(), builder.open().unwrap());
        redis.command::<()>(&["CLIENT", "PAUSE", "10000", "WRITE"]);
        let mut hasty = builder.option("timeout", "100ms").open().unwrap();
        assert_eq!(hasty.acquire().await.err(), Some(NotAcquired::Unknown));
        redis.command::<()>(&["CLIENT", "UNPAUSE"]);
        let mut held = lock.acquire().await.unwrap();
        redis.stop();
        assert_eq!(lock.extend(&mut held).await, Extended::Unknown);
        assert!(!held.is_lost(), "its lease goes on");
        refused(other.acquire().await, "no connection (Connection refused");
        assert_eq!(lock.release(held).await, Released::Unknown);
    });
}

#[test]
fn what_an_acquire_without_a_reply_may_have_left_is_released() {
    let Some(redis) = Server::start(&[]) else { return };
    serve(async {
        let builder = redis.lock("token-lua", 60_000).option("timeout", "100ms");
        let mut lock = builder.open().unwrap();
        redis.signal("STOP");
        assert_eq!(lock.acquire().await.err(), Some(NotAcquired::Unknown));
        redis.signal("CONT");
        // The node executes now what it has received.
        let executed = || redis.command::<String>(&["INFO", "commandstats"]);
        soon(|| executed().contains("cmdstat_set:calls=1,")).await;
        soon(|| !redis.command::<bool>(&["EXISTS", "k"])).await;
    });
}

#[test]
fn redlock_needs_two_of_three_nodes() {
    let servers: Vec<Server> = (0..3).filter_map(|_| Server::start(&[])).collect();
    let Ok(mut servers) = <[Server; 3]>::try_from(servers) else { return };
    serve(async {
        let builder = LockBuilder::of("redlock").key("k").ttl(Duration::from_secs(10));
        let builder = builder.option("timeout", "2s");
        let all = servers.iter().fold(builder, |builder, one| builder.node(&one.address()));
        let (mut lock, mut other) = (all.open().unwrap(), all.open().unwrap());
        servers[0].stop();
        let mut held = lock.acquire().await.unwrap();
        for server in &servers[1..] {
            assert_eq!(server.command::<String>(&["GET", "k"]), held.token());
        }
        refused(other.acquire().await, "0 of 3 nodes granted, 2 needed (Connection refused");
        assert!(matches!(lock.extend(&mut held).await, Extended::Kept(Some(_))));
        assert!(held.left().unwrap() < Duration::from_millis(9_898), "it deducts for drift");
        servers[1].stop();
        assert_eq!(lock.extend(&mut held).await, Extended::Unknown);
        assert_eq!(lock.release(held).await, Released::Unknown);
        assert!(!servers[2].command::<bool>(&["EXISTS", "k"]));
        refused(lock.acquire().await, "1 of 3 nodes granted, 2 needed");
        assert!(!servers[2].command::<bool>(&["EXISTS", "k"]), "a failed try is released");
    });
}

#[test]
fn every_lock_of_the_catalogue_for_one_node_runs_on_it() {
    let Some(redis) = Server::start(&[]) else { return };
    serve(async {
        let alone = |nodes| nodes == Nodes::First;
        let locks = ALGORITHMS.iter().filter(|lock| alone(lock.nodes) && !lock.waits_for_replicas);
        for algorithm in locks {
            redis.command::<()>(&["FLUSHALL"]);
            let mut builder = LockBuilder::of(algorithm.name).key("k").node(&redis.address());
            if algorithm.needs_ttl {
                builder = builder.ttl(Duration::from_secs(10));
            }
            if algorithm.name == "latch" {
                builder = builder.option("parties", "1");
            }
            let mut lock = builder.open().unwrap();
            let held = lock.acquire().await;
            let held = held.unwrap_or_else(|why| panic!("{}: {why}", algorithm.name));
            assert_eq!(lock.release(held).await, Released::Released, "{}", algorithm.name);
        }
    });
}

#[test]
fn a_node_with_a_password_is_given_it() {
    let Some(redis) = Server::start(&["--requirepass", "secret"]) else { return };
    serve(async {
        let builder = redis.lock("token-lua", 10_000);
        let mut lock = builder.clone().password("secret").open().unwrap();
        let held = lock.acquire().await.unwrap();
        assert_eq!(lock.release(held).await, Released::Released);
        let mut user = builder.clone().user("default", "secret").open().unwrap();
        assert!(user.acquire().await.is_ok());
        let wrong = builder.clone().password("wrong").open().unwrap().acquire().await;
        refused(wrong, "no connection (WRONGPASS");
        let without = builder.open().unwrap().acquire().await.err();
        assert!(without.unwrap().to_string().contains("NOAUTH"));
    });
}

#[test]
fn sentinels_name_the_master() {
    let Some(redis) = Server::start(&[]) else { return };
    let file = format!("{}/sentinel-{}.conf", env!("CARGO_TARGET_TMPDIR"), redis.port);
    let monitor = format!("sentinel monitor orders 127.0.0.1 {} 1\n", redis.port);
    fs::write(&file, monitor).unwrap();
    let sentinel = Server::run(&[&file, "--sentinel"]).unwrap();
    serve(async {
        let (here, down) = (sentinel.address(), format!("127.0.0.1:{}", free_port()));
        let builder = LockBuilder::of("token-lua").key("k").ttl(Duration::from_secs(10));
        let known = builder.clone().option("tries", "20").sentinels([&*down, &*here], "orders");
        let mut lock = known.open().unwrap();
        let held = lock.acquire().await.unwrap();
        assert_eq!(redis.command::<String>(&["GET", "k"]), held.token());
        assert_eq!(lock.release(held).await, Released::Released);
        let mut unknown = builder.sentinels([&*here], "others").open().unwrap();
        refused(unknown.acquire().await, "no connection");
    });
    fs::remove_file(&file).unwrap();
}

#[test]
fn a_cluster_names_the_node_of_the_key() {
    let file = format!("nodes-{}.conf", free_port());
    let own = ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"];
    let arguments = [&own[..], &["--cluster-config-file", &file]].concat();
    let Some(redis) = Server::start(&arguments) else { return };
    redis.command::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    serve(async {
        let state = || redis.command::<String>(&["CLUSTER", "INFO"]);
        soon(|| state().contains("cluster_state:ok")).await;
        let builder = LockBuilder::of("token-lua").key("k").ttl(Duration::from_secs(10));
        let builder = builder.option("timeout", "2s").option("tries", "20");
        let mut lock = builder.cluster([&*redis.address()]).open().unwrap();
        let held = lock.acquire().await.unwrap();
        assert_eq!(redis.command::<String>(&["GET", "k"]), held.token());
        assert_eq!(lock.release(held).await, Released::Released);
    });
    let _ = fs::remove_file(format!("{}/{file}", env!("CARGO_TARGET_TMPDIR")));
}

/// A service whose runtime has many threads: its locks live on a thread of their own.
#[test]
fn a_service_with_many_threads_sends_its_work_to_the_thread_of_its_locks() {
    let Some(redis) = Server::start(&[]) else { return };
    let builder = redis.lock("token-lua-renewed", 10_000);
    let (orders, mut received) = tokio::sync::mpsc::channel::<tokio::sync::oneshot::Sender<_>>(8);
    let locks = thread::spawn(move || {
        serve(async {
            let mut lock = builder.open().unwrap();
            let mut last = None;
            while let Some(reply) = received.recv().await {
                let held = lock.acquire().await.unwrap();
                assert!(reply.send(held.lost()).is_ok());
                last = Some(lock.release(held).await);
            }
            last
        })
    });
    serve(async {
        let (send, reply) = tokio::sync::oneshot::channel();
        orders.send(send).await.unwrap();
        assert_eq!(reply.await.unwrap().await, Loss::Released);
    });
    drop(orders);
    assert_eq!(locks.join().unwrap(), Some(Released::Released));
}
