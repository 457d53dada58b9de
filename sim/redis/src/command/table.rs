//! The command table: the name, arguments and flags of each command.
//!
//! The facts are in `commands.txt`, as Redis reports them about itself; here they are joined with
//! the functions that execute. A command without a function is unknown to the node. `later.txt` has
//! the commands of other servers: a node has those of the server that it emulates.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bytes::Bytes;

use crate::command::{Call, Outcome, families};
use crate::compat::Difference;
use crate::sentinel::command as sentinel;

/// Maximum length of a name.
const LONGEST_NAME: usize = 16;

const FACTS: &str = include_str!("commands.txt");
const LATER: &str = include_str!("later.txt");
const SENTINEL_FACTS: &str = include_str!("../sentinel/command/commands.txt");

/// The function that executes a command.
pub type Run = fn(&mut Call) -> Outcome;

/// An entry of the command table.
#[derive(Debug)]
pub struct Command {
    /// Its name in upper case; `CLIENT|ID` for a subcommand.
    pub name: &'static str,
    /// Its first word in upper case, as in traces: `CLIENT`.
    pub head: &'static str,
    /// Its name in lower case, as in error texts.
    pub lower: &'static str,
    order: u128,
    /// Its number of words, name included; negative: the minimum number.
    pub arity: i32,
    /// Its flags.
    pub flags: Flags,
    /// The first key, the last one (from the end if negative) and the step between keys.
    pub keys: (i64, i64, i64),
    /// The words of the facts, unparsed: flags, categories, tips, key specifications.
    pub told: [&'static str; 4],
    /// The difference that adds it; `None` if every server has it.
    pub since: Option<Difference>,
    /// Executes it.
    pub run: Run,
    /// Its subcommands, by name.
    pub subcommands: Vec<Command>,
}

/// The flags of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u32);

impl Flags {
    /// Changes keys.
    pub const WRITE: Flags = Flags(1);
    /// Reads keys.
    pub const READONLY: Flags = Flags(1 << 1);
    /// Refused beyond `maxmemory`.
    pub const DENYOOM: Flags = Flags(1 << 2);
    /// May not be called by a script.
    pub const NOSCRIPT: Flags = Flags(1 << 3);
    /// Allowed while the node loads its file.
    pub const LOADING: Flags = Flags(1 << 4);
    /// Not shown to MONITOR.
    pub const SKIP_MONITOR: Flags = Flags(1 << 5);
    /// Allowed before AUTH.
    pub const NO_AUTH: Flags = Flags(1 << 6);
    /// Not allowed inside a transaction.
    pub const NO_MULTI: Flags = Flags(1 << 7);
    /// Allowed while a script holds the node.
    pub const ALLOW_BUSY: Flags = Flags(1 << 8);
    /// May change keys or propagate something.
    pub const MAY_REPLICATE: Flags = Flags(1 << 9);
    /// For administrators.
    pub const ADMIN: Flags = Flags(1 << 10);
    /// Allowed on a replica whose link to the master is down.
    pub const STALE: Flags = Flags(1 << 11);
    /// May block.
    pub const BLOCKING: Flags = Flags(1 << 12);

    /// Whether the two have a flag in common.
    pub fn any(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// The union of both.
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// All flags except the other's.
    pub fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    fn of(words: &str) -> Flags {
        let flag = |word| match word {
            "write" => Flags::WRITE,
            "readonly" => Flags::READONLY,
            "denyoom" => Flags::DENYOOM,
            "noscript" => Flags::NOSCRIPT,
            "loading" => Flags::LOADING,
            "skip_monitor" => Flags::SKIP_MONITOR,
            "no_auth" => Flags::NO_AUTH,
            "no_multi" => Flags::NO_MULTI,
            "allow_busy" => Flags::ALLOW_BUSY,
            "may_replicate" => Flags::MAY_REPLICATE,
            "admin" => Flags::ADMIN,
            "stale" => Flags::STALE,
            "blocking" => Flags::BLOCKING,
            _ => Flags::default(),
        };
        words.split(',').map(flag).fold(Flags::default(), Flags::and)
    }
}

static TABLE: LazyLock<Vec<Command>> =
    LazyLock::new(|| join(lines(FACTS).chain(lines(LATER)), &runs()));
static SENTINEL_TABLE: LazyLock<Vec<Command>> = LazyLock::new(|| {
    let mut runs = runs();
    runs.extend(sentinel::FAMILY.iter().copied());
    let is_there = |line: &&str| {
        let name = line.split([' ', '|']).next().unwrap_or_default();
        sentinel::SHARED.contains(&name) || matches!(name, "publish" | "role")
    };
    join(lines(FACTS).filter(is_there).chain(lines(SENTINEL_FACTS)), &runs)
});

/// Every command of a node, by name.
pub fn all() -> &'static [Command] {
    &TABLE
}

/// Every command of a Sentinel, by name.
pub fn all_of_sentinel() -> &'static [Command] {
    &SENTINEL_TABLE
}

fn lines(facts: &'static str) -> impl Iterator<Item = &'static str> {
    facts.lines().filter(|line| !line.starts_with('#'))
}

fn runs() -> BTreeMap<&'static str, Run> {
    families().iter().flat_map(|family| family.iter()).copied().collect()
}

/// The names of all commands of Redis, with their categories: also those without a function.
pub fn facts() -> impl Iterator<Item = (&'static str, &'static str)> {
    lines(FACTS).filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?, words.nth(5)?))
    })
}

/// Joins facts and functions.
fn join(
    facts: impl Iterator<Item = &'static str>,
    runs: &BTreeMap<&'static str, Run>,
) -> Vec<Command> {
    let mut table: Vec<Command> = Vec::new();
    for line in facts {
        let Some(command) = read(line, runs) else { continue };
        match command.lower.split_once('|') {
            None => table.push(command),
            Some((container, _)) => {
                let container = table.iter_mut().rfind(|command| command.lower == container);
                container.expect("a container comes before its parts").subcommands.push(command);
            }
        }
    }
    table.sort_by_key(|command| command.order);
    table
}

fn read(line: &'static str, runs: &BTreeMap<&str, Run>) -> Option<Command> {
    let words: Vec<&'static str> = line.split(' ').collect();
    let &[lower, arity, flags, first, last, step, categories, tips, specifications] = &words[..]
    else {
        panic!("nine words a line: {line}");
    };
    let number = |word: &str| word.parse::<i64>().expect("a number");
    let told = [flags, categories, tips, specifications];
    let name: &'static str = lower.to_ascii_uppercase().leak();
    Some(Command {
        name,
        head: name.split('|').next().unwrap_or(name),
        lower,
        order: order(lower.as_bytes()).unwrap_or_default(),
        arity: i32::try_from(number(arity)).expect("a small number"),
        flags: Flags::of(flags),
        keys: (number(first), number(last), number(step)),
        told: told.map(|words| if words == "-" { "" } else { words }),
        since: since(lower),
        run: *runs.get(lower)?,
        subcommands: Vec::new(),
    })
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
pub fn find_in(table: &'static [Command], name: &[u8]) -> Option<&'static Command> {
    let order = order(name)?;
    table.binary_search_by_key(&order, |command| command.order).ok().map(|at| &table[at])
}

/// A name in upper case as a number: commands are looked up by comparing these, because every
/// request needs a lookup.
fn order(name: &[u8]) -> Option<u128> {
    if name.last() == Some(&0) {
        return None;
    }
    let mut upper = [0; LONGEST_NAME];
    upper.get_mut(..name.len())?.copy_from_slice(name);
    upper.make_ascii_uppercase();
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
    pub fn subcommand(&'static self, word: &[u8]) -> Option<&'static Command> {
        let own = |command: &&Command| {
            let part = command.lower.rsplit('|').next().unwrap_or_default();
            part.as_bytes().eq_ignore_ascii_case(word)
        };
        self.subcommands.iter().find(own)
    }

    /// Whether this number of words is valid.
    pub fn takes(&self, words: usize) -> bool {
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
    use super::{LONGEST_NAME, all, name};

    #[test]
    fn the_table_is_in_order_and_found_in_any_case() {
        assert!(all().windows(2).all(|pair| pair[0].order < pair[1].order));
        assert!(all().iter().all(|c| c.name.len() <= LONGEST_NAME));
        assert!(all().iter().all(|c| name(c.lower.as_bytes()) == Some(c.name)));
        assert_eq!((name(b"nosuch"), name(b""), name(b"get\0")), (None, None, None));
    }

    #[test]
    fn a_sentinel_has_its_own_commands_and_some_of_a_nodes() {
        let names: Vec<&str> =
            super::all_of_sentinel().iter().map(|command| command.lower).collect();
        let real = "acl auth client command hello info ping psubscribe publish punsubscribe role \
                    sentinel shutdown subscribe unsubscribe";
        assert_eq!(names.join(" "), real);
        let own = super::find_in(super::all_of_sentinel(), b"sentinel").expect("it is there");
        let functions = super::sentinel::FAMILY.iter().filter(|(name, _)| name.contains('|'));
        assert_eq!(own.subcommands.len(), functions.count());
        assert_eq!(name(b"sentinel"), None);
    }

    #[test]
    fn every_function_has_its_facts() {
        let named = |c: &super::Command| 1 + c.subcommands.len();
        let known: usize = all().iter().map(named).sum();
        let functions: usize = super::families().iter().map(|family| family.len()).sum();
        let names: Vec<&str> =
            super::families().iter().flat_map(|f| f.iter()).map(|f| f.0).collect();
        let lost: Vec<_> =
            names.iter().filter(|n| super::find_full_in(all(), n.as_bytes()).is_none()).collect();
        assert_eq!(known, functions, "{lost:?}");
    }
}
