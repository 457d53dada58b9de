//! Scripts of requests with the replies of redis-server: the files of `tests/corpus/`.
//!
//! Line by line: `# ` begins a comment and `! name value` a setting of both servers. `> request` is
//! a request, `b> request` the same on a connection of that name; `@ +50` lets 50 ms pass. A
//! request is followed by its reply, then by what other connections received: `b: >3\r\n...`.
//! `<now+50>` is 50 ms after the script's start, in Unix milliseconds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::BytesMut;
use lockstorm_redis::frame::request::RequestReader;

use crate::item::{escape, unescape};

/// The words of a request.
pub type Words = Vec<Vec<u8>>;

/// The word for no reply at all.
const NOTHING: &str = "(nothing)";
/// The mark after the last bytes of a connection that was closed.
const CLOSED: &str = "(closed)";

/// What a connection received since the previous step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether it was closed after them.
    pub closed: bool,
}

/// What all connections received, by name; silent connections are left out.
pub type Echo = BTreeMap<String, Heard>;

/// A line of a script that acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A request on a connection; the one without a name waits for its reply.
    Ask(String, String),
    /// Milliseconds pass.
    Pass(u64),
    /// A comment.
    Remark(String),
}

/// One file.
#[derive(Clone, Debug, Default)]
pub struct Script {
    /// Its name without ending.
    pub name: String,
    /// Settings of the servers.
    pub settings: Vec<(String, String)>,
    /// The steps, with the recorded result of each.
    pub steps: Vec<(Step, Echo)>,
}

/// The directory of the scripts.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// All scripts of nodes, by name. Every file of the directory is one.
pub fn scripts() -> Vec<Script> {
    scripts_in(&folder())
}

/// The scripts of a directory.
pub fn scripts_in(folder: &Path) -> Vec<Script> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("an entry can be read").path());
    let is_script = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.ends_with(".txt") && !["rules.txt", "shapes.txt", "raw.txt"].contains(&name)
    };
    let mut paths: Vec<PathBuf> = paths.filter(is_script).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a file of cases can be read");
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        Script::read(name, &text)
    };
    paths.into_iter().map(read).collect()
}

/// The words of a request line.
pub fn words(line: &str) -> Words {
    let mut buffer = BytesMut::from(format!("{line}\r\n").as_bytes());
    let args = RequestReader::default().next(&mut buffer);
    let args = args.unwrap_or_else(|_| panic!("quotes in {line}"));
    args.unwrap_or_else(|| panic!("no words in {line}")).iter().map(|arg| arg.to_vec()).collect()
}

/// The line for these words.
pub fn line(words: &Words) -> String {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'\\".contains(byte);
    let quoted = |word: &Vec<u8>| {
        if !word.is_empty() && word.iter().all(plain) {
            return String::from_utf8_lossy(word).into_owned();
        }
        format!("\"{}\"", escape(word).replace('"', "\\\""))
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Replaces each `<now+...>` by a time.
pub fn with_times(line: &str, start_ms: u64) -> String {
    let mut parts = line.split("<now+");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (number, rest) = part.split_once('>').expect("<now+ has an end");
        out.push_str(&(start_ms + number.parse::<u64>().expect("milliseconds")).to_string());
        out.push_str(rest);
    }
    out
}

/// The connection's name at the beginning of a line, and what follows the mark.
fn named<'a>(line: &'a str, mark: &str) -> Option<(&'a str, &'a str)> {
    let (name, rest) = line.split_once(mark)?;
    let is_name = name.len() < 9 && name.bytes().all(|byte| byte.is_ascii_lowercase());
    is_name.then_some((name, rest))
}

impl Script {
    /// Parses a file.
    pub fn read(name: &str, text: &str) -> Script {
        let mut script = Script { name: name.to_owned(), ..Script::default() };
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let mut echo = Echo::new();
            let step = if line.starts_with('#') {
                Step::Remark(line.to_owned())
            } else if let Some(setting) = line.strip_prefix("! ") {
                let (name, value) = setting.split_once(' ').unwrap_or((setting, ""));
                script.settings.push((name.to_owned(), value.to_owned()));
                continue;
            } else if let Some(ms) = line.strip_prefix("@ +") {
                Step::Pass(ms.parse().unwrap_or_else(|_| panic!("milliseconds in {line}")))
            } else if let Some((connection, request)) = named(line, "> ") {
                if let Some(answer) = lines.next_if(|next| !opens_a_step(next)) {
                    echo.insert(connection.to_owned(), Heard::read(answer));
                }
                Step::Ask(connection.to_owned(), request.to_owned())
            } else {
                panic!("{name}: neither a request nor an answer: {line}");
            };
            while let Some((name, told)) = lines.peek().and_then(|line| named(line, ": ")) {
                echo.insert(name.to_owned(), Heard::read(told));
                lines.next();
            }
            echo.retain(|_, heard| *heard != Heard::default());
            script.steps.push((step, echo));
        }
        script
    }

    /// The file's text.
    pub fn write(&self) -> String {
        let setting = |(name, value): &(String, String)| format!("! {name} {value}\n");
        let mut out: String = self.settings.iter().map(setting).collect();
        for (step, echo) in &self.steps {
            let own = match step {
                Step::Ask(name, request) => {
                    let answer = echo.get(name).cloned().unwrap_or_default();
                    out.push_str(&format!("{name}> {request}\n{}\n", answer.write()));
                    Some(name)
                }
                Step::Pass(ms) => {
                    out.push_str(&format!("@ +{ms}\n"));
                    None
                }
                Step::Remark(text) => {
                    out.push_str(&format!("{text}\n"));
                    None
                }
            };
            for (name, heard) in echo.iter().filter(|(name, _)| Some(*name) != own) {
                out.push_str(&format!("{name}: {}\n", heard.write()));
            }
        }
        out
    }
}

/// Whether a line begins a step: then the request before it has no recorded reply yet.
fn opens_a_step(line: &str) -> bool {
    let opens = ["# ", "! ", "@ +"].iter().any(|mark| line.starts_with(mark));
    opens || named(line, "> ").is_some() || named(line, ": ").is_some()
}

impl Heard {
    /// Parses a line.
    pub fn read(text: &str) -> Heard {
        let (text, closed) = match text.strip_suffix(CLOSED) {
            Some(text) => (text, true),
            None => (text, false),
        };
        let bytes = if text == NOTHING { Vec::new() } else { unescape(text) };
        Heard { bytes, closed }
    }

    /// The line for it.
    pub fn write(&self) -> String {
        match (self.bytes.is_empty(), self.closed) {
            (true, false) => NOTHING.to_owned(),
            (_, true) => escape(&self.bytes) + CLOSED,
            (_, false) => escape(&self.bytes),
        }
    }
}

#[test]
fn a_script_is_written_as_it_was_read() {
    let text = "! maxmemory 0\n# what\n> GET a\n$-1\\r\\n\na> SUBSCRIBE x\n*3\\r\\n\n\
                b> PUBLISH x y\n:1\\r\\n\na: *3\\r\\n\n@ +50\nb: *-1\\r\\n\nb> BLPOP a 0\n(nothing)\n> QUIT\n\
                +OK\\r\\n(closed)\n";
    assert_eq!(Script::read("t", text).write(), text);
    let odd = vec![b"a b".to_vec(), b"".to_vec(), b"\"\\\r\xff".to_vec(), b"x".to_vec()];
    assert_eq!(words(&line(&odd)), odd);
    assert_eq!(with_times("SET <now+5> <now+10>", 7), "SET 12 17");
}
