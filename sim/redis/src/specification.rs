//! What each command is: its name, its arity, its flags, and which of its words are keys.
//!
//! Facts alone, as Redis reports them, in `commands.txt`; `later.txt` has the commands of other
//! servers, of which a node has those of its own server, and `sentinel.txt` those that only a
//! Sentinel has. `execution` joins them with the functions that execute commands.
//!
//! - `flags`: what a command is allowed to do
//! - `keys`: which words of a request are keys

pub(crate) mod flags;
pub mod keys;

use std::sync::LazyLock;

use bytes::Bytes;

use crate::compat::Difference;
use crate::specification::flags::Flags;

/// Maximum length of a name.
const MAX_NAME_LEN: usize = 16;

const FACTS: &str = include_str!("specification/commands.txt");
const LATER: &str = include_str!("specification/later.txt");
const SENTINEL_FACTS: &str = include_str!("specification/sentinel.txt");

/// Commands of Redis that the node does not have.
const UNKNOWN: [&str; 2] = ["lolwut", "sync"];

/// The node commands that a Sentinel also has.
const SHARED: [&str; 14] = [
    "acl",
    "auth",
    "client",
    "command",
    "hello",
    "info",
    "ping",
    "psubscribe",
    "publish",
    "punsubscribe",
    "role",
    "shutdown",
    "subscribe",
    "unsubscribe",
];

/// What one command is.
#[derive(Debug)]
pub struct Command {
    /// Its name in upper case; `CLIENT|ID` for a subcommand.
    pub(crate) name: &'static str,
    /// Its first word in upper case, as in traces: `CLIENT`.
    pub head: &'static str,
    /// Its name in lower case, as in error texts.
    pub lower: &'static str,
    order: u128,
    /// Its number of words, name included; negative: the minimum number.
    pub(crate) arity: i32,
    /// Its flags.
    pub(crate) flags: Flags,
    /// The first key, the last one (from the end if negative) and the step between keys.
    pub(crate) keys: (i64, i64, i64),
    /// The words of the facts, unparsed: flags, categories, tips, key specifications.
    pub(crate) documented: [&'static str; 4],
    /// The difference that adds it; `None` if every server has it.
    pub(crate) since: Option<Difference>,
    /// Its index among all specified commands, by which its function is found.
    pub(crate) index: usize,
    /// Its subcommands, by name.
    pub subcommands: Vec<Command>,
}

static TABLE: LazyLock<Vec<Command>> =
    LazyLock::new(|| read_all(lines(FACTS).chain(lines(LATER)), 0));
static SENTINEL_TABLE: LazyLock<Vec<Command>> = LazyLock::new(|| {
    let is_there = |line: &&str| {
        let name = line.split([' ', '|']).next().unwrap_or_default();
        SHARED.contains(&name)
    };
    let before = with_subcommands(&TABLE).count();
    read_all(lines(FACTS).filter(is_there).chain(lines(SENTINEL_FACTS)), before)
});

/// Every command of a node, by name.
pub fn all() -> &'static [Command] {
    &TABLE
}

/// Every command of a Sentinel, by name.
pub(crate) fn all_of_sentinel() -> &'static [Command] {
    &SENTINEL_TABLE
}

fn lines(facts: &'static str) -> impl Iterator<Item = &'static str> {
    facts.lines().filter(|line| !line.starts_with('#'))
}

/// Commands, each followed by its subcommands.
pub(crate) fn with_subcommands(table: &[Command]) -> impl Iterator<Item = &Command> {
    table.iter().flat_map(|command| [command].into_iter().chain(&command.subcommands))
}

/// The names of all commands of Redis, with their categories: also those without a function.
pub(crate) fn facts() -> impl Iterator<Item = (&'static str, &'static str)> {
    lines(FACTS).filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?, words.nth(5)?))
    })
}

/// The commands of these facts, by name; `before` others precede them in the numbering.
fn read_all(facts: impl Iterator<Item = &'static str>, before: usize) -> Vec<Command> {
    let mut table: Vec<Command> = Vec::new();
    for command in facts.map(read).filter(|command| !UNKNOWN.contains(&command.lower)) {
        match command.lower.split_once('|') {
            None => table.push(command),
            Some((container, _)) => {
                let container = table.iter_mut().rfind(|command| command.lower == container);
                container.expect("a container comes before its parts").subcommands.push(command);
            }
        }
    }
    table.sort_by_key(|command| command.order);
    let mut index = before;
    for command in &mut table {
        for numbered in [&mut command.index].into_iter().chain(indices(&mut command.subcommands)) {
            *numbered = index;
            index += 1;
        }
    }
    table
}

fn indices(commands: &mut [Command]) -> impl Iterator<Item = &mut usize> {
    commands.iter_mut().map(|command| &mut command.index)
}

fn read(line: &'static str) -> Command {
    let words: Vec<&'static str> = line.split(' ').collect();
    let &[lower, arity, flags, first, last, step, categories, tips, specifications] = &words[..]
    else {
        panic!("nine words a line: {line}");
    };
    let number = |word: &str| word.parse::<i64>().expect("a number");
    let documented = [flags, categories, tips, specifications];
    let name: &'static str = lower.to_ascii_uppercase().leak();
    Command {
        name,
        head: name.split('|').next().unwrap_or(name),
        lower,
        order: order(lower.as_bytes()).unwrap_or_default(),
        arity: i32::try_from(number(arity)).expect("a small number"),
        flags: Flags::of(flags),
        keys: (number(first), number(last), number(step)),
        documented: documented.map(|words| if words == "-" { "" } else { words }),
        since: since(lower),
        index: 0,
        subcommands: Vec::new(),
    }
}

/// The difference that adds a command of `later.txt`.
fn since(lower: &str) -> Option<Difference> {
    match lower {
        "client|setinfo" => Some(Difference::ClientSetInfo),
        "delex" => Some(Difference::DelEx),
        "delifeq" => Some(Difference::DelIfEq),
        "digest" => Some(Difference::Digest),
        "waitaof" => Some(Difference::WaitAof),
        _ => None,
    }
}

/// Finds a command of a node by its name, ignoring case; subcommands are not searched.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    find_in(all(), name)
}

/// Like [`find`], in another table.
pub(crate) fn find_in(table: &'static [Command], name: &[u8]) -> Option<&'static Command> {
    let order = order(name)?;
    table.binary_search_by_key(&order, |command| command.order).ok().map(|at| &table[at])
}

/// A name in upper case as a number: commands are looked up by comparing these, because every
/// request needs a lookup.
fn order(name: &[u8]) -> Option<u128> {
    if name.last() == Some(&0) {
        return None;
    }
    let mut upper = [0; MAX_NAME_LEN];
    let own = upper.get_mut(..name.len())?;
    own.copy_from_slice(name);
    own.make_ascii_uppercase();
    Some(u128::from_be_bytes(upper))
}

/// Finds the command of a request in a table: the subcommand if the name alone is a container.
pub fn look_up_in(table: &'static [Command], args: &[Bytes]) -> Option<&'static Command> {
    let command = find_in(table, args.first()?)?;
    match args.get(1) {
        Some(word) if !command.subcommands.is_empty() => command.subcommand(word),
        _ => Some(command),
    }
}

/// Finds a command of a table by its full name: `client|id`.
pub fn find_full_in(table: &'static [Command], name: &[u8]) -> Option<&'static Command> {
    let mut parts = name.splitn(2, |byte| *byte == b'|');
    let command = find_in(table, parts.next()?)?;
    match parts.next() {
        None => Some(command),
        Some(part) => command.subcommand(part),
    }
}

impl Command {
    /// The subcommand of this name, ignoring case.
    pub(crate) fn subcommand(&'static self, word: &[u8]) -> Option<&'static Command> {
        let own = |command: &&Command| {
            let part = command.lower.rsplit('|').next().unwrap_or_default();
            part.as_bytes().eq_ignore_ascii_case(word)
        };
        self.subcommands.iter().find(own)
    }

    /// Whether this number of words is valid.
    pub(crate) fn takes(&self, words: usize) -> bool {
        let words = i32::try_from(words).unwrap_or(i32::MAX);
        if self.arity < 0 { words >= -self.arity } else { words == self.arity }
    }
}

/// The name in upper case of the command with this first word, if there is such a command.
pub fn name(word: &[u8]) -> Option<&'static str> {
    find(word).map(|command| command.name)
}

#[cfg(test)]
mod tests {
    use super::{
        MAX_NAME_LEN, UNKNOWN, all, all_of_sentinel, facts, find_in, name, with_subcommands,
    };

    #[test]
    fn the_table_is_in_order_and_found_in_any_case() {
        assert!(all().windows(2).all(|pair| pair[0].order < pair[1].order));
        assert!(all().iter().all(|c| c.name.len() <= MAX_NAME_LEN));
        assert!(all().iter().all(|c| name(c.lower.as_bytes()) == Some(c.name)));
        assert_eq!((name(b"nosuch"), name(b""), name(b"get\0")), (None, None, None));
    }

    #[test]
    fn every_command_has_an_index_of_its_own_without_gaps() {
        let tables = with_subcommands(all()).chain(with_subcommands(all_of_sentinel()));
        assert!(tables.enumerate().all(|(nth, command)| command.index == nth));
    }

    #[test]
    fn what_the_node_does_not_have_is_a_command_of_redis() {
        assert!(UNKNOWN.iter().all(|name| facts().any(|(known, _)| known == *name)));
    }

    #[test]
    fn a_sentinel_has_its_own_commands_and_some_of_a_nodes() {
        let names: Vec<&str> = all_of_sentinel().iter().map(|command| command.lower).collect();
        let real = "acl auth client command hello info ping psubscribe publish punsubscribe role \
                    sentinel shutdown subscribe unsubscribe";
        assert_eq!(names.join(" "), real);
        assert!(find_in(all_of_sentinel(), b"sentinel").is_some());
        assert_eq!(name(b"sentinel"), None);
    }
}
