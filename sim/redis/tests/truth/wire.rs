//! Raw bytes: redis-server's replies to bytes that are no request, and whether it closes the
//! connection (`raw.txt`); and random bytes, which must do no harm.
//!
//! `> bytes` is one write, escaped; `{70000*a}` repeats the text after the star 70000 times. The
//! writes of a case are followed by the received bytes; each case has its own connection. `!
//! requirepass x` applies to everything after it.

use std::collections::BTreeMap;

use proptest::prelude::{ProptestConfig, Strategy, any, prop_oneof, proptest};

use crate::body::{Wire, command, frame};
use crate::corpus::{Heard, folder};
use crate::item::unescape;
use crate::real::{Real, of};
use crate::writes;

/// One connection.
struct Case {
    password: String,
    /// As in the file.
    sent: Vec<String>,
    answer: Heard,
}

/// The file's cases, by the line of their replies.
fn cases() -> BTreeMap<usize, Case> {
    let text = std::fs::read_to_string(folder().join("raw.txt")).expect("there are raw cases");
    let (mut cases, mut sent, mut password) = (BTreeMap::new(), Vec::new(), String::new());
    for (number, line) in text.lines().enumerate() {
        if let Some(bytes) = line.strip_prefix("> ") {
            sent.push(bytes.to_owned());
        } else if let Some(word) = line.strip_prefix("! requirepass ") {
            word.clone_into(&mut password);
        } else if !line.starts_with('#') {
            let (sent, password) = (std::mem::take(&mut sent), password.clone());
            cases.insert(number, Case { password, sent, answer: Heard::read(line) });
        }
    }
    cases
}

/// The bytes of a write.
fn expanded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('{') {
        bytes.extend(unescape(before));
        let (inside, behind) = behind.split_once('}').expect("a brace ends");
        let (times, what) = inside.split_once('*').expect("times*what");
        bytes.extend(unescape(what).repeat(times.parse().expect("how often")));
        rest = behind;
    }
    bytes.extend(unescape(rest));
    bytes
}

fn ours(case: &Case) -> Heard {
    let mut wire = Wire::new(&case.password);
    let open = case.sent.iter().all(|bytes| wire.feed(&expanded(bytes)));
    assert!(wire.serves_others(), "others are served");
    Heard { bytes: wire.answered(), closed: !open }
}

#[test]
fn raw_bytes_are_answered_as_recorded() {
    if writes() {
        return;
    }
    for (number, case) in cases() {
        assert_eq!(ours(&case).write(), case.answer.write(), "raw.txt:{}", number + 1);
    }
}

#[test]
fn raw_bytes_are_answered_by_the_installed_redis_alike() {
    let mut servers: BTreeMap<String, Real> = BTreeMap::new();
    let text = std::fs::read_to_string(folder().join("raw.txt")).expect("there are raw cases");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut wrong = Vec::new();
    for (number, case) in cases() {
        if !servers.contains_key(&case.password) {
            let setting = ("requirepass".to_owned(), case.password.clone());
            let settings = if case.password.is_empty() { vec![] } else { vec![setting] };
            let Some(real) = Real::start(&settings) else {
                eprintln!("SKIPPED: redis-server is not installed; recorded answers were compared");
                return;
            };
            servers.insert(case.password.clone(), real);
        }
        let real = servers.get_mut(&case.password).expect("it runs");
        case.sent.iter().for_each(|bytes| real.send("a", &expanded(bytes)));
        let answer = of(&real.heard(), "a");
        real.close("a");
        let ours = ours(&case);
        if ours != answer {
            let (redis, ours) = (answer.write(), ours.write());
            wrong.push(format!("raw.txt:{}\n  redis {redis}\n  ours  {ours}", number + 1));
        }
        lines[number] = answer.write();
    }
    if writes() {
        let text = lines.join("\n") + "\n";
        std::fs::write(folder().join("raw.txt"), text).expect("raw.txt can be written");
    }
    assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_is_announced_takes_no_memory_before_it_comes() {
    let mut wire = Wire::new("");
    assert!(wire.feed(b"*2147483647\r\n$536870912\r\n"));
    assert!(wire.kept() < 1024, "{} bytes", wire.kept());
    for _ in 0..1000 {
        assert!(wire.feed(b"0123456789"));
    }
    assert!(wire.kept() < 40_000, "{} bytes", wire.kept());
    assert!(wire.serves_others());
}

/// Bytes that are special to a parser, and sometimes any byte.
fn byte() -> impl Strategy<Value = u8> {
    let known = || proptest::sample::select(&b"*$+-:%~>_#\r\n0123\"'\\ aPING{"[..]);
    prop_oneof![known(), known(), known(), any::<u8>()]
}

/// Requests with some of their bytes changed.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let whole = proptest::sample::select(vec![
        &b"*1\r\n$4\r\nPING\r\n"[..],
        b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$3\r\nx\r\ny\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n",
        b"PING\r\nSET a \"b\\x00c\"\r\n*0\r\n*-1\r\nGET a\r\n",
        b"*2\r\n$4\r\nECHO\r\n$5\r\nhello\r\n*1\r\n*1\r\n*1\r\n$1\r\na\r\n",
    ]);
    let changes = proptest::collection::vec((any::<u16>(), byte()), 0..6);
    (whole, changes).prop_map(|(whole, changes)| {
        let mut bytes = whole.to_vec();
        for (at, byte) in changes {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        bytes
    })
}

/// A number of pieces, their lengths, and the bytes: the input format of the fuzz target.
fn in_pieces(bytes: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let pieces = proptest::collection::vec(0_u8..20, 0..20);
    (pieces, bytes).prop_map(|(pieces, bytes)| {
        let count = u8::try_from(pieces.len()).expect("few");
        [vec![count], pieces, bytes].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn garbage_harms_nobody(data in in_pieces(proptest::collection::vec(byte(), 0..300))) {
        frame(&data);
    }

    #[test]
    fn damaged_requests_harm_nobody(data in in_pieces(damaged())) {
        frame(&data);
    }

    #[test]
    fn no_command_panics(data in proptest::collection::vec(any::<u8>(), 0..400)) {
        command(&data);
    }
}
