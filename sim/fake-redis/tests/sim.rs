//! A service of a user's own in a turmoil simulation of his own, with our server as its cache and
//! its lock.

#![expect(clippy::disallowed_methods, reason = "a service on turmoil uses tokio as it is")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use lockstorm_fake_redis::sim::SimRedis;
use lockstorm_fake_redis::{Append, Builder, FakeRedis};
use lockstorm_redis::frame::Reply;
use lockstorm_redis::frame::decode::decode_reply;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use turmoil::net::{TcpListener, TcpStream};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// A connection to Redis as a service might write it.
struct Redis {
    stream: TcpStream,
    buffer: BytesMut,
}

impl Redis {
    async fn connect() -> Outcome<Redis> {
        Ok(Redis { stream: TcpStream::connect("redis:6379").await?, buffer: BytesMut::new() })
    }

    async fn request(&mut self, request: &str) -> Outcome<Reply> {
        self.stream.write_all(format!("{request}\r\n").as_bytes()).await?;
        loop {
            if let Some(reply) = decode_reply(&mut self.buffer).expect("a reply") {
                return Ok(reply);
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err("Redis has closed the connection".into());
            }
        }
    }
}

/// How often the expensive page was made.
type Made = Rc<Cell<u32>>;

/// Serves a page from its cache; whoever holds the lock makes it, the others wait.
async fn serve(made: Made) -> Outcome<()> {
    let listener = TcpListener::bind("0.0.0.0:80").await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        let made = Rc::clone(&made);
        tokio::task::spawn_local(async move {
            let page = page(&made).await.unwrap_or_else(|error| error.to_string().into());
            let _ = stream.write_all(&page).await;
        });
    }
}

async fn page(made: &Made) -> Outcome<Vec<u8>> {
    let mut redis = Redis::connect().await?;
    loop {
        if let Reply::Bulk(page) = redis.request("GET page").await? {
            return Ok(page.to_vec());
        }
        if redis.request("SET lock me NX PX 5000").await? == Reply::simple("OK") {
            // Whoever had the lock before may have made it meanwhile.
            if redis.request("EXISTS page").await? == Reply::Integer(0) {
                tokio::time::sleep(Duration::from_secs(1)).await;
                made.set(made.get() + 1);
                redis.request("SET page hello PX 60000").await?;
            }
            redis.request("DEL lock").await?;
            continue;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Three visitors at once, each through a service of its own; what they were shown, and how often
/// the page was made.
fn visit(meanwhile: impl Fn(u64, &SimRedis)) -> (Vec<String>, u32) {
    let mut sim = turmoil::Builder::new().rng_seed(1).epoch(std::time::UNIX_EPOCH).build();
    let redis = FakeRedis::in_sim(&mut sim, "redis");
    let (made, shown) = (Made::default(), Rc::<RefCell<Vec<String>>>::default());
    for nth in 0..3 {
        let made = Rc::clone(&made);
        sim.host(format!("service{nth}").as_str(), move || serve(Rc::clone(&made)));
        let shown = Rc::clone(&shown);
        sim.client(format!("visitor{nth}").as_str(), async move {
            let mut stream = TcpStream::connect((format!("service{nth}"), 80)).await?;
            let mut page = String::new();
            stream.read_to_string(&mut page).await?;
            shown.borrow_mut().push(page);
            Ok(())
        });
    }
    let mut ms = 0;
    while !sim.step().expect("no host fails") {
        ms += 1;
        meanwhile(ms, &redis);
    }
    let shown = shown.borrow().clone();
    (shown, made.get())
}

fn all(page: &str) -> Vec<String> {
    vec![page.to_owned(); 3]
}

#[test]
fn one_makes_the_page_and_all_are_shown_it() {
    assert_eq!(visit(|_, _| {}), (all("hello"), 1));
}

#[test]
fn a_paused_node_lets_them_wait_and_no_more() {
    let pause = |ms, redis: &SimRedis| match ms {
        300 => redis.pause(),
        3_000 => redis.resume(),
        _ => {}
    };
    assert_eq!(visit(pause), (all("hello"), 1));
}

#[test]
fn a_clock_that_is_set_forward_ends_the_lock_early() {
    let step = |ms, redis: &SimRedis| {
        if ms == 500 {
            redis.advance(Duration::from_secs(6));
        }
    };
    let (shown, made) = visit(step);
    assert_eq!((shown, made), (all("hello"), 2));
}

type Sim = turmoil::Sim<'static>;

/// A service that does this in a simulation with a server that is set up so.
fn run<F>(builder: Builder, service: impl FnOnce(SimRedis) -> F)
where
    F: Future<Output = Outcome<()>> + 'static,
{
    let mut sim: Sim = turmoil::Builder::new().rng_seed(1).epoch(std::time::UNIX_EPOCH).build();
    let redis = builder.in_sim(&mut sim, "redis").expect("good settings");
    sim.client("service", service(redis));
    sim.run().expect("no host fails");
}

/// What the server does takes hold when its host runs next.
async fn moment() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

fn left_after_a_crash(append: Append, left: Option<&'static str>) {
    run(FakeRedis::builder().append(append), async move |redis| {
        let mut connection = Redis::connect().await?;
        connection.request("SET key value").await?;
        redis.crash();
        assert!(connection.request("GET key").await.is_err(), "the connection is broken");
        assert!(Redis::connect().await.is_err(), "a dead process refuses");
        assert_eq!(redis.keys(), Vec::<String>::new());
        redis.restart();
        moment().await;
        Redis::connect().await?;
        assert_eq!(redis.get("key").as_deref(), left);
        Ok(())
    });
}

#[test]
fn what_a_server_wrote_down_survives_its_crash() {
    left_after_a_crash(Append::Always, Some("value"));
    left_after_a_crash(Append::None, None);
}

#[test]
fn what_was_not_synced_is_lost_with_the_power() {
    run(FakeRedis::builder().append(Append::Always), async |redis| {
        let mut connection = Redis::connect().await?;
        connection.request("SET synced 1").await?;
        redis.lie_about_fsync();
        connection.request("SET key value").await?;
        redis.power_loss();
        moment().await;
        redis.restart();
        moment().await;
        assert_eq!(redis.keys(), ["synced"]);
        Ok(())
    });
}

#[test]
fn the_clock_is_moved_and_requests_are_seen() {
    run(FakeRedis::builder().password("secret"), async |redis| {
        assert_eq!(redis.url(), "redis://:secret@redis:6379");
        let mut connection = Redis::connect().await?;
        connection.request("AUTH secret").await?;
        connection.request("SET key value PX 1000").await?;
        redis.freeze_clock();
        tokio::time::sleep(Duration::from_secs(2)).await;
        let left = redis.ttl("key").expect("its end has not come");
        redis.step_back(Duration::from_secs(1));
        assert_eq!(redis.ttl("key"), Some(left + Duration::from_secs(1)));
        redis.thaw_clock();
        redis.advance(Duration::from_secs(2));
        assert_eq!(redis.ttl("key"), None);
        assert_eq!(redis.requests(), ["AUTH secret", "SET key value PX 1000"]);
        Ok(())
    });
}

#[test]
fn commands_are_slow_for_as_long_as_it_is_said() {
    run(FakeRedis::builder(), async |redis| {
        let mut connection = Redis::connect().await?;
        redis.slow_commands(Duration::from_secs(2));
        let asked = turmoil::sim_elapsed();
        connection.request("PING").await?;
        let took = turmoil::sim_elapsed().zip(asked).map(|(now, asked)| now - asked);
        assert!(took >= Some(Duration::from_secs(2)), "{took:?}");
        redis.slow_commands(Duration::ZERO);
        let asked = turmoil::sim_elapsed();
        connection.request("PING").await?;
        let took = turmoil::sim_elapsed().zip(asked).map(|(now, asked)| now - asked);
        assert!(took < Some(Duration::from_secs(2)), "{took:?}");
        Ok(())
    });
}

#[test]
fn the_same_seed_draws_the_same() {
    let drawn = |seed| {
        let drawn = Rc::new(RefCell::new(Reply::Nil));
        let kept = Rc::clone(&drawn);
        run(FakeRedis::builder().seed(seed), async move |_| {
            let mut connection = Redis::connect().await?;
            connection.request("SADD set a b c d e f g h i j k l m n o p q r s t").await?;
            *kept.borrow_mut() = connection.request("SRANDMEMBER set 10").await?;
            Ok(())
        });
        drawn.replace(Reply::Nil)
    };
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
}

#[test]
fn a_simulated_server_has_no_replicas() {
    let mut sim: Sim = turmoil::Builder::new().build();
    let refused = FakeRedis::builder().replicas(1).in_sim(&mut sim, "redis");
    let text = refused.err().expect("it is refused").to_string();
    assert_eq!(text, "replicas(1): a server in a simulation has none");
}
