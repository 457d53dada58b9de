//! The program as tests start it, and a client that only sends and receives bytes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// A serving program, stopped with its test at the latest.
pub struct Served {
    pub child: Child,
    pub output: BufReader<ChildStdout>,
    pub input: Option<ChildStdin>,
    pub nodes: Vec<u16>,
    pub sentinels: Vec<u16>,
    pub admin: u16,
    pub greeting: String,
}

impl Served {
    pub fn new(arguments: &[&str]) -> Served {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockstorm"));
        let command = command.arg("serve").args(["--port", "0", "--for", "60s"]).args(arguments);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (mut nodes, mut sentinels) = (Vec::new(), Vec::new());
        let (mut admin, mut greeting) = (None, String::new());
        while admin.is_none() {
            let mut line = String::new();
            assert!(output.read_line(&mut line).unwrap() > 0, "it ended: {greeting}");
            let mut words = line.split_whitespace();
            let (name, address) = (words.next().unwrap(), words.next().unwrap_or_default());
            let port = address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
            let is_nth = name[1..].parse::<u32>().is_ok();
            match (&name[..1], port) {
                ("n", Some(port)) if is_nth => nodes.push(port),
                ("s", Some(port)) if is_nth => sentinels.push(port),
                _ if name == "admin" => admin = port,
                _ => {}
            }
            greeting += &line;
        }
        let input = child.stdin.take();
        Served { child, output, input, nodes, sentinels, admin: admin.unwrap(), greeting }
    }

    pub fn client(&self) -> Client {
        Client::to(self.nodes[0])
    }

    /// Sends an order to the admin port.
    pub fn order(&self, line: &str) -> String {
        Client::to(self.admin).request(line)
    }

    /// Stops it; returns its last output, and its exit code.
    pub fn end(mut self) -> (String, Option<i32>) {
        assert_eq!(self.order("SHUTDOWN"), "+OK\r\n");
        let mut said = String::new();
        self.output.read_to_string(&mut said).unwrap();
        (said, self.child.wait().unwrap().code())
    }

    #[track_caller]
    pub fn ends_with(self, code: i32, texts: &[&str]) {
        let (said, ended) = self.end();
        assert_eq!(ended, Some(code), "{said}");
        for text in texts {
            assert!(said.contains(text), "'{text}' is not said:\n{said}");
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that only sends and receives bytes.
pub struct Client(pub TcpStream);

impl Client {
    pub fn to(port: u16) -> Client {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client(stream)
    }

    pub fn patient(self, ms: u64) -> Client {
        self.0.set_read_timeout(Some(Duration::from_millis(ms))).unwrap();
        self
    }

    pub fn send(&mut self, line: &str) {
        let words = line.split(' ').map(|word| format!("${}\r\n{word}\r\n", word.len()));
        let count = line.split(' ').count();
        let request = format!("*{count}\r\n{}", words.collect::<String>());
        self.0.write_all(request.as_bytes()).unwrap();
    }

    /// The bytes of the next read; empty if the connection was closed or nothing arrived.
    pub fn hear(&mut self) -> String {
        let mut bytes = [0; 8192];
        let count = self.0.read(&mut bytes).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }

    pub fn request(&mut self, line: &str) -> String {
        self.send(line);
        self.hear()
    }
}
