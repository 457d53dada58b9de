//! What may differ between two servers, and why: `rules.txt`. Everything else, including every
//! error, is compared byte for byte.

use std::collections::BTreeMap;

use crate::corpus::{Words, folder};
use crate::item::{Item, items};

/// How a reply is normalised for the comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The elements are unordered.
    Sorted,
    /// The elements are unordered pairs.
    SortedPairs,
    /// The elements of each array in the reply are unordered.
    SortedInside,
    /// A number that is not negative.
    AnyCount,
    /// The bytes of a bulk string are unordered, except for the checksum at the end.
    BytesSorted,
    /// Every bulk string.
    AnyBulks,
    /// A non-negative number that differs from the other side's by at most this much.
    Within(u64),
    /// The values with these names in text of `name=value` or `name:value`, or after these names.
    Fields(Vec<String>),
}

/// One line of `rules.txt`.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The command's full name in lower case.
    pub command: String,
    what: What,
}

/// All rules, and the requests queued on each connection: the reply of EXEC contains theirs.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The lines of the file.
    pub rules: Vec<Rule>,
    queued: BTreeMap<String, Vec<Words>>,
}

/// A script that only calls the request in its arguments.
pub const CALL: &str = "return redis.call(unpack(ARGV))";
/// The same with `pcall`.
pub const PCALL: &str = "return redis.pcall(unpack(ARGV))";

impl Rules {
    /// Parses `rules.txt`: lines of `command: what: reason`.
    pub fn read() -> Rules {
        let text = std::fs::read_to_string(folder().join("rules.txt")).expect("there are rules");
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        Rules { rules: lines.map(rule).collect(), queued: BTreeMap::new() }
    }

    /// The same, read once per process.
    pub fn read_once() -> Rules {
        static READ: std::sync::LazyLock<Rules> = std::sync::LazyLock::new(Rules::read);
        READ.clone()
    }

    /// The normal form of the reply to a request for the comparison with the other side's, if that
    /// is already known; and the rules that applied.
    pub fn apply(
        &mut self,
        connection: &str,
        words: &Words,
        bytes: &[u8],
        other: &[u8],
    ) -> (Vec<u8>, Vec<usize>) {
        let ((mut found, rest), (other, _)) = (items(bytes), items(other));
        let mut used = Vec::new();
        let mut queued = self.queued.remove(connection).unwrap_or_default();
        match &words[0].to_ascii_uppercase()[..] {
            _ if bytes == b"+QUEUED\r\n" => {
                queued.extend(std::iter::repeat_n(words.clone(), replies_to(words)));
            }
            b"EXEC" => {
                // Replies beyond the announced ones follow.
                if let Some((Item::Many(_, replies), more)) = found.split_first_mut() {
                    let others = other.first().map_or(&[][..], Item::parts);
                    let others: Vec<&Item> = others.iter().chain(other.iter().skip(1)).collect();
                    let replies = replies.iter_mut().chain(more).enumerate();
                    for ((nth, reply), words) in replies.zip(&queued) {
                        self.apply_one(words, reply, others.get(nth).copied(), &mut used);
                    }
                }
                queued.clear();
            }
            b"MULTI" if bytes == b"+OK\r\n" => queued.clear(),
            _ => {
                for (nth, item) in found.iter_mut().enumerate() {
                    self.apply_one(words, item, other.get(nth), &mut used);
                }
            }
        }
        self.queued.insert(connection.to_owned(), queued);
        if used.is_empty() {
            return (bytes.to_vec(), used);
        }
        let mut out = Vec::new();
        found.iter().for_each(|item| item.write(&mut out));
        out.extend_from_slice(rest);
        (out, used)
    }

    fn apply_one(
        &self,
        words: &Words,
        item: &mut Item,
        other: Option<&Item>,
        used: &mut Vec<usize>,
    ) {
        if item.is_error() {
            return;
        }
        let words = inner(words);
        for (at, rule) in self.rules.iter().enumerate().filter(|(_, rule)| rule.is_for(words)) {
            rule.what.apply(item, other);
            used.push(at);
        }
    }
}

/// How many replies a request has in a transaction: one, or one for each channel.
fn replies_to(words: &Words) -> usize {
    let name = words[0].to_ascii_uppercase();
    let is_for_each = name.ends_with(b"SUBSCRIBE") && name != b"SSUBSCRIBE";
    if is_for_each { words.len().max(2) - 1 } else { 1 }
}

/// The request that one of the test's scripts calls, or the request itself.
pub fn inner(words: &[Vec<u8>]) -> &[Vec<u8>] {
    let is = |at: usize, text: &str| words.get(at).is_some_and(|word| word == text.as_bytes());
    let wraps = (is(1, CALL) || is(1, PCALL)) && is(2, "0") && words.len() > 3;
    if wraps { &words[3..] } else { words }
}

fn rule(line: &str) -> Rule {
    let parts: Vec<&str> = line.splitn(3, ": ").collect();
    let &[command, what, _reason] = &parts[..] else { panic!("command: what: reason in {line}") };
    let what = match what {
        "sorted" => What::Sorted,
        "sorted pairs" => What::SortedPairs,
        "sorted inside" => What::SortedInside,
        "bytes sorted" => What::BytesSorted,
        "any count" => What::AnyCount,
        "any bulks" => What::AnyBulks,
        other if other.starts_with("within ") => {
            What::Within(other[7..].parse().expect("a number behind within"))
        }
        other => {
            let names = other.strip_prefix("fields ").unwrap_or_else(|| panic!("what is {other}"));
            What::Fields(names.split(',').map(str::to_owned).collect())
        }
    };
    Rule { command: command.to_owned(), what }
}

impl Rule {
    fn is_for(&self, words: &[Vec<u8>]) -> bool {
        let mut parts = self.command.split('|');
        let fits = |(part, word): (&str, &Vec<u8>)| word.eq_ignore_ascii_case(part.as_bytes());
        words.len() >= parts.clone().count() && parts.by_ref().zip(words).all(fits)
    }
}

impl What {
    /// Whether this is the name of a value that may differ.
    fn names(&self, item: &Item) -> bool {
        let (What::Fields(names), Item::Bulk(_, text)) = (self, item) else { return false };
        names.iter().any(|name| name.as_bytes() == text)
    }

    fn apply(&self, item: &mut Item, other: Option<&Item>) {
        match (self, item) {
            (What::Sorted, Item::Many(_, parts)) => parts.sort(),
            (What::SortedPairs, Item::Many(_, parts)) => {
                let mut pairs: Vec<Vec<Item>> = parts.chunks(2).map(<[Item]>::to_vec).collect();
                pairs.sort();
                *parts = pairs.concat();
            }
            (What::SortedInside, Item::Many(_, parts)) => {
                parts.iter_mut().for_each(|part| What::Sorted.apply(part, None));
            }
            (What::AnyCount, Item::Line(line)) if line.starts_with(b":") && line[1] != b'-' => {
                *line = b":*".to_vec();
            }
            (What::Within(most), item) => {
                let counts = other.and_then(count).zip(count(item));
                if let Some((theirs, _)) = counts.filter(|(a, b)| a.abs_diff(*b) <= *most) {
                    *item = Item::Line(format!(":{theirs}").into_bytes());
                }
            }
            (What::AnyBulks | What::Fields(_), Item::Many(_, parts)) => {
                for at in 1..parts.len() {
                    if self.names(&parts[at - 1]) {
                        parts[at] = Item::Line(b"*".to_vec());
                    }
                }
                parts.iter_mut().for_each(|part| self.apply(part, None));
            }
            (What::BytesSorted, Item::Bulk(_, bytes)) if has_no_order(bytes) => {
                bytes.truncate(bytes.len() - 8);
                bytes.sort_unstable();
            }
            (What::AnyBulks, item @ Item::Bulk(..)) => *item = Item::Line(b"$*".to_vec()),
            (What::Fields(names), Item::Bulk(_, text)) => *text = masked(text, names),
            _ => {}
        }
    }
}

/// Whether a dump begins like that of a set or a hash in its large encoding.
fn has_no_order(dump: &[u8]) -> bool {
    dump.len() > 10 && matches!(dump[0], 2 | 4)
}

/// A number that is not negative.
fn count(item: &Item) -> Option<u64> {
    let Item::Line(line) = item else { return None };
    std::str::from_utf8(line.strip_prefix(b":")?).ok()?.parse().ok()
}

/// Text with the named values replaced by stars.
fn masked(text: &[u8], names: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in text.split_inclusive(|byte| matches!(byte, b' ' | b'\r' | b'\n')) {
        let named = |name: &&String| {
            let rest = part.strip_prefix(name.as_bytes())?;
            rest.starts_with(b"=").then_some(()).or(rest.starts_with(b":").then_some(()))
        };
        let Some(name) = names.iter().find(|name| named(name).is_some()) else {
            out.extend_from_slice(part);
            continue;
        };
        out.extend_from_slice(&part[..=name.len()]);
        out.push(b'*');
        out.extend(part.last().filter(|last| last.is_ascii_whitespace()));
    }
    out
}

#[test]
fn a_rule_is_for_one_command_and_no_error() {
    let mut rules = Rules::read();
    rules.rules = vec![
        rule("keys: sorted: a hash's order"),
        rule("client|info: fields id: ids"),
        rule("pttl: within 2: time"),
    ];
    let mut form = |line: &str, bytes: &str| {
        let words = crate::corpus::words(line);
        String::from_utf8(rules.apply("a", &words, bytes.as_bytes(), b":7\r\n").0).expect("text")
    };
    assert_eq!(form("KEYS *", "*2\r\n$1\r\nb\r\n$1\r\na\r\n"), "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
    assert_eq!(form("MGET x", "*2\r\n$1\r\nb\r\n$1\r\na\r\n"), "*2\r\n$1\r\nb\r\n$1\r\na\r\n");
    assert_eq!(form("CLIENT INFO", "$11\r\nid=123 b=id\r\n"), "$9\r\nid=* b=id\r\n");
    assert_eq!(form("CLIENT INFO", "-ERR id=1\r\n"), "-ERR id=1\r\n");
    assert_eq!(form("PTTL k", ":9\r\n"), ":7\r\n");
    assert_eq!(form("PTTL k", ":10\r\n"), ":10\r\n");
    assert_eq!(form("PTTL k", ":-1\r\n"), ":-1\r\n");
    form("MULTI", "+OK\r\n");
    form("KEYS *", "+QUEUED\r\n");
    let exec = form("EXEC", "*1\r\n*2\r\n$1\r\nb\r\n$1\r\na\r\n");
    assert_eq!(exec, "*1\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n");
}
