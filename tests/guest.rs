//! A user's own service in a turmoil simulation of its own, with a fake node as its cache and its
//! lock.

#![cfg(feature = "turmoil")]
#![expect(clippy::disallowed_methods, reason = "a service on turmoil uses tokio as it is")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use lockstorm::guest::add_node;
use lockstorm_platform::time::SECOND;
use lockstorm_redis::frame::Reply;
use lockstorm_redis::frame::decode::decode_reply;
use lockstorm_redis::node::{Append, NodeConfig};
use lockstorm_world::engine::turmoil::guest::Guest;
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

    async fn ask(&mut self, request: &str) -> Outcome<Reply> {
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

/// Serves a page from its cache; the holder of the lock makes it, the others wait.
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
        if let Reply::Bulk(page) = redis.ask("GET page").await? {
            return Ok(page.to_vec());
        }
        if redis.ask("SET lock me NX PX 5000").await? == Reply::simple("OK") {
            // The previous holder of the lock may have made it meanwhile.
            if redis.ask("EXISTS page").await? == Reply::Integer(0) {
                tokio::time::sleep(Duration::from_secs(1)).await;
                made.set(made.get() + 1);
                redis.ask("SET page hello PX 60000").await?;
            }
            redis.ask("DEL lock").await?;
            continue;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Three simultaneous visitors, each through a service of its own; returns what they received, and
/// how often the page was made.
fn visit(config: NodeConfig, meanwhile: impl Fn(u64, &Guest)) -> (Vec<String>, u32) {
    let mut sim = turmoil::Builder::new().rng_seed(1).epoch(std::time::UNIX_EPOCH).build();
    let redis = add_node(&mut sim, "redis", config, 1);
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
    assert_eq!(visit(NodeConfig::default(), |_, _| {}), (all("hello"), 1));
}

#[test]
fn a_paused_node_lets_them_wait_and_no_more() {
    let pause = |ms, node: &Guest| match ms {
        300 => node.pause(true),
        3_000 => node.pause(false),
        _ => {}
    };
    assert_eq!(visit(NodeConfig::default(), pause), (all("hello"), 1));
}

#[test]
fn a_clock_that_is_set_forward_ends_the_lock_early() {
    let step = |ms, node: &Guest| {
        if ms == 500 {
            node.step_clock(6 * SECOND.cast_signed());
        }
    };
    let (shown, made) = visit(NodeConfig::default(), step);
    assert_eq!((shown, made), (all("hello"), 2));
}

/// The value of a key after a crash and a start.
fn after_a_crash(append: Append) -> Reply {
    let mut sim = turmoil::Builder::new().rng_seed(1).epoch(std::time::UNIX_EPOCH).build();
    let redis = add_node(&mut sim, "redis", NodeConfig { append, ..NodeConfig::default() }, 1);
    let left = Rc::new(RefCell::new(Reply::Nil));
    let found = Rc::clone(&left);
    sim.client("service", async move {
        let mut connection = Redis::connect().await?;
        connection.ask("SET key value").await?;
        redis.crash();
        assert!(connection.ask("GET key").await.is_err(), "the connection is broken");
        assert!(Redis::connect().await.is_err(), "a dead process refuses");
        redis.start();
        tokio::time::sleep(Duration::from_millis(10)).await;
        *found.borrow_mut() = Redis::connect().await?.ask("GET key").await?;
        Ok(())
    });
    sim.run().expect("no host fails");
    left.replace(Reply::Nil)
}

#[test]
fn what_a_node_wrote_down_survives_its_crash() {
    assert_eq!(after_a_crash(Append::Always), Reply::Bulk("value".into()));
    assert_eq!(after_a_crash(Append::None), Reply::Nil);
}
