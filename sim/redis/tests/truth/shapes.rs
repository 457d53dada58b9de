//! The shapes of random requests: `shapes.txt`, and the generator that fills them.
//!
//! `name: this | that` lists the words that `<name>` may become, `[family]` begins a family, `3 SET
//! <key> <value> {NX|XX|}` is a shape with its weight. `<name>+` is one to three of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use bytes::Bytes;
use lockstorm_redis::specification::{all, look_up_in};

use crate::corpus::{Words, folder, line, words};
use crate::rules::{CALL, PCALL, inner};

/// A separate generator that always gives the same numbers for a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// A number below `sides`.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^= word >> 31;
        usize::try_from(word % u64::try_from(sides).expect("fits")).expect("fits")
    }

    /// True in one of `cases` cases.
    pub fn one_in(&mut self, cases: usize) -> bool {
        self.roll(cases) == 0
    }

    fn pick<'a, T>(&mut self, pool: &'a [T]) -> &'a T {
        &pool[self.roll(pool.len())]
    }
}

/// All shapes of commands that the node has.
pub struct Shapes {
    pools: BTreeMap<String, Vec<String>>,
    /// The text of each shape, repeated by its weight.
    shapes: Vec<String>,
}

impl Shapes {
    /// Parses `shapes.txt`; with a family's name only what is under that heading.
    pub fn read(family: Option<&str>) -> Shapes {
        let text = std::fs::read_to_string(folder().join("shapes.txt")).expect("there are shapes");
        let (mut pools, mut shapes, mut heading) = (BTreeMap::new(), Vec::new(), String::new());
        for text in text.lines().filter(|text| !text.starts_with('#') && !text.is_empty()) {
            if let Some(name) = text.strip_prefix('[') {
                name.trim_end_matches(']').clone_into(&mut heading);
            } else if text.starts_with(|first: char| first.is_ascii_digit()) {
                let (weight, shape) = text.split_once(' ').expect("weight and shape");
                let weight = weight.parse().expect("a weight");
                if family.is_none_or(|family| family == heading) && is_known(shape) {
                    shapes.extend(std::iter::repeat_n(shape.to_owned(), weight));
                }
            } else {
                let (name, words) = text.split_once(": ").unwrap_or_else(|| panic!("what: {text}"));
                let words = words.split(" | ").map(str::to_owned).collect();
                pools.insert(name.to_owned(), words);
            }
        }
        assert!(!shapes.is_empty(), "no shape of a known command");
        Shapes { pools, shapes }
    }

    /// Whether a command, by its full name in lower case, has a shape.
    pub fn draws(&self, command: &str) -> bool {
        let name = command.replace('|', " ") + " ";
        self.shapes.iter().any(|shape| (shape.to_ascii_lowercase() + " ").starts_with(&name))
    }

    /// A random request.
    pub fn draw(&self, dice: &mut Dice) -> Words {
        loop {
            let request = self.draw_any(dice);
            if !is_missing(inner(&request)) {
                return request;
            }
        }
    }

    fn draw_any(&self, dice: &mut Dice) -> Words {
        let shape = dice.pick(&self.shapes).clone();
        let mut request = words(&self.fill(&shape, dice));
        // A cursor that no scan returned means something else on each side.
        if dice.one_in(40) && !request[0].ends_with(b"SCAN") {
            let at = dice.roll(request.len());
            match dice.roll(3) {
                0 if request.len() > 1 => drop(request.remove(at)),
                1 => request.push(words(&self.fill("<any>", dice)).remove(0)),
                _ if at > 0 => request[at] = words(&self.fill("<any>", dice)).remove(0),
                _ => {}
            }
        }
        if dice.one_in(20) {
            request[0] = request[0].to_ascii_lowercase();
        }
        if dice.one_in(25) && !request[0].starts_with(b"<") {
            let script = if dice.one_in(2) { CALL } else { PCALL };
            let head = ["EVAL", script, "0"].map(|word| word.as_bytes().to_vec());
            request = head.into_iter().chain(request).collect();
        }
        request
    }

    /// Fills the placeholders of a text.
    fn fill(&self, text: &str, dice: &mut Dice) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['<', '{']) {
            out.push_str(&rest[..at]);
            if rest[at..].starts_with('{') {
                let (choices, length) = choices(&rest[at..]);
                match &choices[..] {
                    [_] => out.push('{'),
                    choices => out.push_str(&self.fill(choices[dice.roll(choices.len())], dice)),
                }
                rest = &rest[at + length..];
                continue;
            }
            let Some(length) = rest[at..].find('>') else { break };
            let inside = &rest[at + 1..at + length];
            rest = &rest[at + length + 1..];
            let Some(pool) = self.pools.get(inside) else {
                assert!(inside.starts_with("now+"), "<{inside}> in {text}");
                out.push_str(&format!("<{inside}>"));
                continue;
            };
            let more = rest.strip_prefix('+');
            let times = if more.is_some() { 1 + dice.roll(3) } else { 1 };
            rest = more.unwrap_or(rest);
            let one = |_| {
                let words = dice.pick(pool).clone();
                self.fill(&words, dice)
            };
            let filled: Vec<String> = (0..times).map(one).collect();
            out.push_str(&filled.join(" "));
        }
        out + rest
    }
}

/// The choices of a `{this|that}` at the text's front, and its length; braces without a choice are
/// plain text.
fn choices(text: &str) -> (Vec<&str>, usize) {
    let (mut found, mut depth, mut from) = (Vec::new(), 0, 1);
    for (at, byte) in text.bytes().enumerate() {
        match (byte, depth) {
            (b'{', _) => depth += 1,
            (b'|', 1) => {
                found.push(&text[from..at]);
                from = at + 1;
            }
            (b'}', 1) if !found.is_empty() => {
                found.push(&text[from..at]);
                return (found, at + 1);
            }
            (b'}', 1) => break,
            (b'}', _) => depth -= 1,
            _ => {}
        }
    }
    (vec![text], 1)
}

/// Whether the node has the command of a shape; its full name must be in the shape.
fn is_known(shape: &str) -> bool {
    let words: Vec<Bytes> = shape.split(' ').map(|word| word.to_owned().into()).collect();
    words[0].starts_with(b"{") || &words[0][..] == b"NOSUCH" || look_up_in(all(), &words).is_some()
}

/// Whether this is a command of Redis that the node does not have (yet).
fn is_missing(words: &[Vec<u8>]) -> bool {
    const FACTS: &str = include_str!("../../src/specification/commands.txt");
    static NAMES: LazyLock<BTreeSet<&str>> =
        LazyLock::new(|| FACTS.lines().filter_map(|line| line.split(' ').next()).collect());
    let args: Vec<Bytes> = words.iter().take(2).map(|word| word.clone().into()).collect();
    let name = |words: &[Bytes]| {
        let lower: Vec<_> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
        String::from_utf8_lossy(&lower.join(&b'|')).into_owned()
    };
    let is_known = NAMES.contains(&name(&args[..1])[..]) || NAMES.contains(&name(&args)[..]);
    is_known && look_up_in(all(), &args).is_none()
}

#[test]
fn every_shape_can_be_filled_and_said_in_one_line() {
    let shapes = Shapes::read(None);
    let mut dice = Dice(1);
    for shape in &shapes.shapes {
        let request = words(&shapes.fill(shape, &mut dice));
        assert_eq!(words(&line(&request)), request, "{shape}");
    }
}
