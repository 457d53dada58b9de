//! The real side: a redis-server of the test's own, on a socket file, because two tests that search
//! for free ports at the same time may find the same one.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use crate::corpus::{Echo, Heard, Words};
use crate::fake::PATIENCE_MS;
use crate::item::items;

/// The name of redis-server's RDB.
const FILE: &str = "dump.rdb";

/// See the head of this file.
pub struct Real {
    process: Child,
    folder: TempDir,
    connections: BTreeMap<String, UnixStream>,
    heard: Echo,
}

/// The reading of the real clock.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("fits")
}

/// Waits in real time.
pub fn sleep_ms(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// The bytes of a request.
pub fn encode(words: &Words) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

impl Real {
    /// Starts the installed server with these settings; `None` if there is none.
    pub fn start(settings: &[(String, String)]) -> Option<Real> {
        Real::start_server("redis-server", settings, None)
    }

    /// Starts a server from this file with these settings, and an RDB to load; `None` if it does
    /// not exist.
    pub fn start_server(
        server: &str,
        settings: &[(String, String)],
        file: Option<&[u8]>,
    ) -> Option<Real> {
        let folder = TempDir::new().expect("a folder for the server");
        if let Some(file) = file {
            std::fs::write(folder.path().join(FILE), file).expect("a file can be written");
        }
        let mut command = Command::new(server);
        command
            .args(["--save", "", "--port", "0", "--enable-debug-command", "yes"])
            .args(["--unixsocket".as_ref(), folder.path().join("redis.sock").as_os_str()])
            .args(["--dir".as_ref(), folder.path().as_os_str()])
            .stdout(Stdio::null());
        for (name, value) in settings {
            command.args([&format!("--{name}"), value]);
        }
        let process = command.spawn().ok()?;
        let (connections, heard) = (BTreeMap::new(), Echo::new());
        let mut real = Real { process, folder, connections, heard };
        for _ in 0..500 {
            if UnixStream::connect(real.socket()).is_ok() {
                return Some(real);
            }
            let ended = real.process.try_wait().expect("a child").is_some();
            assert!(!ended, "{server} has ended: {settings:?}");
            sleep_ms(20);
        }
        panic!("{server} does not listen in {}", real.folder.path().display());
    }

    /// The RDB that it has written, or started with.
    pub fn file(&self) -> Vec<u8> {
        std::fs::read(self.folder.path().join(FILE)).expect("there is a file")
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("redis.sock")
    }

    /// A connection without a name.
    pub fn connect(&self) -> UnixStream {
        UnixStream::connect(self.socket()).expect("redis-server listens")
    }

    /// Sends bytes on a connection, which is opened if necessary.
    pub fn send(&mut self, name: &str, bytes: &[u8]) {
        if !self.connections.contains_key(name) {
            let stream = self.connect();
            self.connections.insert(name.to_owned(), stream);
            // Otherwise this connection and the fence's would go through the server's rounds
            // together.
            self.fence();
        }
        let stream = self.connections.get_mut(name).expect("it was opened");
        stream.set_nonblocking(false).expect("a socket");
        let _ = stream.write_all(bytes);
        // The server reads 16 KiB per round.
        (0..=bytes.len() / 16_000).for_each(|_| self.fence());
    }

    /// Waits until the server has read everything sent to it and has sent all immediate replies: it
    /// accepts, reads and writes in rounds. QUIT gets a reply even while clients are paused and is
    /// not shown to MONITOR.
    pub fn fence(&self) {
        let mut stream = self.connect();
        stream.write_all(b"QUIT\r\n").expect("redis-server reads");
        let _ = stream.read_to_end(&mut Vec::new());
    }

    /// Waits until something has arrived on a connection, if that is soon.
    pub fn be_patient(&mut self, name: &str) {
        let until = Instant::now() + Duration::from_millis(PATIENCE_MS + 50);
        loop {
            self.listen();
            if self.heard.contains_key(name) || Instant::now() > until {
                return;
            }
            sleep_ms(1);
        }
    }

    /// What all connections received, in complete replies.
    pub fn heard(&mut self) -> Echo {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            self.listen();
            if self.heard.values().all(|heard| heard.closed || items(&heard.bytes).1.is_empty()) {
                break;
            }
            assert!(Instant::now() < until, "half a reply: {:?}", self.heard);
            sleep_ms(1);
        }
        std::mem::take(&mut self.heard)
    }

    fn listen(&mut self) {
        let mut closed = Vec::new();
        for (name, stream) in &mut self.connections {
            stream.set_nonblocking(true).expect("a socket");
            let mut bytes = Vec::new();
            let end = stream.read_to_end(&mut bytes);
            let open = matches!(&end, Err(error) if error.kind() == ErrorKind::WouldBlock);
            if bytes.is_empty() && open {
                continue;
            }
            let heard = self.heard.entry(name.clone()).or_default();
            heard.bytes.extend_from_slice(&bytes);
            heard.closed = !open;
            closed.extend((!open).then(|| name.clone()));
        }
        closed.iter().for_each(|name| self.close(name));
    }

    /// Closes a connection from the client's side.
    pub fn close(&mut self, name: &str) {
        self.connections.remove(name);
    }

    /// Closes all connections, and resets the server's state.
    pub fn forget(&mut self) {
        self.connections.clear();
        self.heard.clear();
        let mut stream = self.connect();
        let all =
            b"FLUSHALL\r\nSCRIPT FLUSH\r\nFUNCTION FLUSH\r\nDEBUG SET-ACTIVE-EXPIRE 0\r\nQUIT\r\n";
        stream.write_all(all).expect("redis-server reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("redis-server answers");
        assert_eq!(answer, b"+OK\r\n".repeat(5), "{}", answer.escape_ascii());
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a connection received; nothing if it does not exist.
pub fn of(echo: &Echo, name: &str) -> Heard {
    echo.get(name).cloned().unwrap_or_default()
}
