//! The executor against real Redis: recorded answers, byte for byte, and the same requests sent
//! to a redis-server where one is installed.
//!
//! A case is two lines of a file in `redis/`: `> request` and what redis-server answered.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a real server lives in real time"
)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use lockstorm_sim::redis::command::admission::apply;
use lockstorm_sim::redis::frame::decode::decode_reply;
use lockstorm_sim::redis::frame::request::RequestReader;
use lockstorm_sim::redis::frame::{Arguments, Reply};
use lockstorm_sim::redis::node::{Node, NodeConfig};
use lockstorm_sim::redis::session::{After, Session};
use tempfile::TempDir;

const FILES: [(&str, &str); 9] = [
    ("strings", include_str!("redis/strings.txt")),
    ("expiry", include_str!("redis/expiry.txt")),
    ("hashes", include_str!("redis/hashes.txt")),
    ("transactions", include_str!("redis/transactions.txt")),
    ("connection", include_str!("redis/connection.txt")),
    ("scripts", include_str!("redis/scripts.txt")),
    ("subscriptions", include_str!("redis/subscriptions.txt")),
    ("users", include_str!("redis/users.txt")),
    ("administration", include_str!("redis/administration.txt")),
];

/// Requests with the recorded answers.
fn cases(file: &'static str) -> Vec<(&'static str, &'static str)> {
    let lines: Vec<&str> = file.lines().filter(|line| !line.starts_with("# ")).collect();
    let case = |pair: &[&'static str]| (pair[0].strip_prefix("> ").expect("a request"), pair[1]);
    lines.chunks_exact(2).map(case).collect()
}

fn parse(line: &str) -> Arguments {
    let mut buffer = BytesMut::from(format!("{line}\r\n").as_bytes());
    RequestReader::default().next(&mut buffer).expect("well formed").expect("whole")
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("fits")
}

/// A node without a machine, as a connection of its own sees it.
struct Ours {
    node: Node,
    session: Session,
}

impl Ours {
    fn new() -> Ours {
        let node = Node::new(NodeConfig::default(), now_ms(), [1, 2, 3]);
        Ours { node, session: Session { id: 1, ..Session::default() } }
    }

    fn answer(&mut self, line: &str) -> BytesMut {
        self.node.set_time(now_ms() * 1_000_000);
        let mut reply = apply(&mut self.node, &mut self.session, &parse(line));
        if let After::Wait { .. } = std::mem::take(&mut self.session.after) {
            reply = Reply::Integer(0);
        }
        let mut bytes = std::mem::take(&mut self.session.output);
        reply.encode(&mut bytes);
        bytes
    }
}

fn escape(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| match byte {
        b'\\' => text + "\\\\",
        b'\r' => text + "\\r",
        b'\n' => text + "\\n",
        b' '..=b'~' => text + &char::from(*byte).to_string(),
        other => text + &format!("\\x{other:02x}"),
    })
}

#[test]
fn the_recorded_answers_are_ours() {
    let mut wrong = Vec::new();
    for (name, file) in FILES {
        let mut ours = Ours::new();
        for (request, expected) in cases(file) {
            let answer = escape(&ours.answer(request));
            if answer != expected {
                wrong.push(format!("{name}: {request}\n  redis {expected}\n  ours  {answer}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// A redis-server of the test's own, and a connection to it. It listens on a socket file: two
/// tests that are told free ports at the same time may be told the same one.
struct Real {
    process: Child,
    _folder: TempDir,
    connection: UnixStream,
    buffer: BytesMut,
}

impl Real {
    fn start() -> Option<Real> {
        let folder = TempDir::new().expect("a folder for the server");
        let socket = folder.path().join("redis.sock");
        let mut process = Command::new("redis-server")
            .args(["--save", "", "--port", "0"])
            .args(["--unixsocket".as_ref(), socket.as_os_str()])
            .args(["--dir".as_ref(), folder.path().as_os_str()])
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        for _ in 0..500 {
            if let Ok(connection) = UnixStream::connect(&socket) {
                return Some(Real {
                    process,
                    _folder: folder,
                    connection,
                    buffer: BytesMut::new(),
                });
            }
            assert!(process.try_wait().expect("a child").is_none(), "redis-server has ended");
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("redis-server does not listen in {}", folder.path().display());
    }

    fn answer(&mut self, line: &str) -> Reply {
        self.connection.write_all(format!("{line}\r\n").as_bytes()).expect("redis-server reads");
        loop {
            if let Some(reply) = decode_reply(&mut self.buffer).expect("a reply") {
                return reply;
            }
            let mut bytes = [0; 4096];
            let read = self.connection.read(&mut bytes).expect("redis-server answers");
            assert!(read > 0, "redis-server closed the connection at {line}");
            self.buffer.extend_from_slice(&bytes[..read]);
        }
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_installed_redis_answers_alike() {
    let mut wrong = Vec::new();
    for (name, file) in FILES {
        let Some(mut real) = Real::start() else {
            eprintln!(
                "SKIPPED: redis-server is not installed; only recorded answers were compared"
            );
            return;
        };
        let mut ours = Ours::new();
        for (request, _) in cases(file).into_iter().filter(|(r, _)| !r.starts_with("QUIT")) {
            let mut expected = BytesMut::new();
            real.answer(request).encode(&mut expected);
            let answer = ours.answer(request);
            if answer != expected {
                let (redis, ours) = (escape(&expected), escape(&answer));
                wrong.push(format!("{name}: {request}\n  redis {redis}\n  ours  {ours}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Commands with places for a key (K), a field (F), a value (V), an integer (N), an end (E), a length
/// that is none (P).
const SHAPES: [&str; 58] = [
    "SET K V",
    "SET K V NX",
    "SET K V XX",
    "SET K V GET",
    "SET K V PXAT E",
    "SET K V EXAT E",
    "SET K V KEEPTTL",
    "SET K V XX GET KEEPTTL",
    "SET K V NX GET",
    "SET K V PX P",
    "SETNX K V",
    "GET K",
    "GETSET K V",
    "GETDEL K",
    "GETEX K",
    "GETEX K PERSIST",
    "GETEX K PXAT E",
    "APPEND K V",
    "STRLEN K",
    "MGET K K",
    "MSET K V K V",
    "MSETNX K V K V",
    "INCR K",
    "DECR K",
    "INCRBY K N",
    "DECRBY K N",
    "DEL K K",
    "UNLINK K",
    "EXISTS K K",
    "TYPE K",
    "PEXPIREAT K E",
    "PEXPIREAT K E NX",
    "PEXPIREAT K E XX",
    "PEXPIREAT K E GT",
    "PEXPIREAT K E LT",
    "PEXPIREAT K E XX LT",
    "EXPIREAT K 1",
    "PERSIST K",
    "PEXPIRETIME K",
    "EXPIRETIME K",
    "HSET K F V",
    "HSET K F V F V",
    "HSETNX K F V",
    "HGET K F",
    "HMGET K F F",
    "HDEL K F",
    "HDEL K F F",
    "HINCRBY K F N",
    "HEXISTS K F",
    "HLEN K",
    "HGETALL K",
    "HKEYS K",
    "HVALS K",
    "MULTI",
    "EXEC",
    "EXEC",
    "DISCARD",
    "DBSIZE",
];

fn drawn<'a>(pool: &[&'a str], state: &mut u64) -> &'a str {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let at = usize::try_from(*state >> 33).expect("31 bits") % pool.len();
    pool[at]
}

fn fill(word: &'static str, state: &mut u64) -> &'static str {
    let pool: &[&'static str] = match word {
        "K" => &["a", "b", "c"],
        "F" => &["f", "g", "h"],
        "V" => &["1", "-7", "9223372036854775807", "x", "\"\""],
        "N" => {
            &["1", "-1", "0", "9223372036854775807", "-9223372036854775808", "07", "x", "100000"]
        }
        "P" => &["0", "-1", "x", "07", "9223372036854775807"],
        "E" => &["33177117420000", "33177117430000", "1", "-5", "9223372036854775807"],
        other => return other,
    };
    drawn(pool, state)
}

#[test]
fn random_requests_are_answered_alike() {
    let Some(mut real) = Real::start() else {
        eprintln!("SKIPPED: redis-server is not installed");
        return;
    };
    let (mut ours, mut state) = (Ours::new(), 1);
    for nth in 0..20_000 {
        let shape = drawn(&SHAPES, &mut state);
        let words: Vec<&str> = shape.split(' ').map(|word| fill(word, &mut state)).collect();
        let request = words.join(" ");
        let mut expected = BytesMut::new();
        real.answer(&request).encode(&mut expected);
        let answer = ours.answer(&request);
        assert_eq!(escape(&answer), escape(&expected), "request {nth}: {request}");
    }
}
