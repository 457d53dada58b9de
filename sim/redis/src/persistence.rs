//! The contents of a node's files: the append-only file as commands, all keys as an RDB.
//!
//! This file turns values into bytes and back; `files` decides when to write and to sync.

use bytes::{Bytes, BytesMut};

use crate::effects::PropagatedCommand;
use crate::frame::{Arguments, encode_request, in_17_digits};
use crate::keyspace::{Database, Value};
use crate::node::Node;
use crate::rdb::cursor::WrongRdb;
use crate::rdb::{self, Facts, Stream, save};
use crate::script::library;

/// Encodes commands for a file or a replication stream. A unit of several commands is wrapped in
/// MULTI and EXEC; SELECT is inserted where the database changes.
#[derive(Debug, Default)]
pub struct Script {
    /// The database of the last command.
    selected: Option<usize>,
}

impl Script {
    /// Makes the next command begin with SELECT.
    pub(crate) fn forget_database(&mut self) {
        self.selected = None;
    }

    /// Appends commands; `each` is called for every command when its bytes are written.
    pub fn write(
        &mut self,
        commands: &[PropagatedCommand],
        out: &mut BytesMut,
        mut each: impl FnMut(&PropagatedCommand, &BytesMut),
    ) {
        for (unit, wrapped) in units(commands) {
            if wrapped {
                // As in Redis, MULTI belongs to the database of its first command.
                self.select(unit[0].db, out);
                encode_request(out, &["MULTI"]);
            }
            for command in unit {
                self.select(command.db, out);
                encode_request(out, &command.command);
                each(command, out);
            }
            if wrapped {
                encode_request(out, &["EXEC"]);
            }
        }
    }

    /// How many commands that makes, including the MULTI and EXEC around a unit, without SELECT.
    /// Commands for replicas alone do not count.
    pub(crate) fn length(commands: &[PropagatedCommand]) -> u64 {
        let kept = |unit: &[PropagatedCommand]| {
            unit.iter().filter(|command| !command.is_publish()).count() as u64
        };
        units(commands).map(|(unit, wrapped)| kept(unit) + if wrapped { 2 } else { 0 }).sum()
    }

    fn select(&mut self, db: usize, out: &mut BytesMut) {
        if self.selected.replace(db) != Some(db) {
            encode_request(out, &["SELECT", &db.to_string()]);
        }
    }
}

/// Commands by the unit that propagated them, and whether MULTI and EXEC surround it.
fn units(commands: &[PropagatedCommand]) -> impl Iterator<Item = (&[PropagatedCommand], bool)> {
    let units = commands.chunk_by(|one, next| one.unit == next.unit);
    units.map(|unit| (unit, unit.len() > 1 && unit.iter().any(|command| !command.by_node)))
}

/// All data of a node as an RDB, with its replication offset if it has a backlog.
pub(crate) fn dump(node: &Node) -> Bytes {
    let history = &node.history;
    let db = i64::try_from(node.peers.link.resumes_in.unwrap_or(0)).unwrap_or(0);
    let stream = Stream { db, id: &history.id, offset: history.offset };
    let facts = Facts {
        written_s: node.clock.now_ms / 1_000,
        used_memory: 1 << 20,
        stream: history.is_kept().then_some(stream),
        is_base: false,
    };
    let libraries = node.scripts.libraries.values().map(|library| &library.code);
    save(&node.keyspace, &node.limits, libraries, &facts)
}

/// Replaces all data of the node by that of an RDB. A master leaves out expired keys, a replica
/// leaves that to its master. A node that loads its own file continues the history that the file
/// names.
///
/// # Errors
/// If it is not a valid RDB: then the node is unchanged.
pub(crate) fn restore(node: &mut Node, bytes: &[u8]) -> Result<(), WrongRdb> {
    let contents = rdb::load(bytes, &node.limits)?;
    node.keyspace = contents.keyspace;
    node.usage.meter = None;
    node.scripts.libraries.clear();
    for code in &contents.libraries {
        // A library that Redis kept can be loaded; if another version's library cannot, the keys
        // matter more than the library.
        let _ = library::load(&mut node.scripts.libraries, code, true);
    }
    let over = if node.peers.master.is_none() {
        node.keyspace.expired(node.clock.now_ms)
    } else {
        Vec::new()
    };
    for (db, key) in &over {
        node.keyspace.db_mut(*db).remove(key);
    }
    node.saving.loaded = [node.keyspace.keys().len() as u64, over.len() as u64];
    let fact = |name: &str| {
        let found = contents.facts.iter().find(|(known, _)| known == name.as_bytes());
        found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    };
    let number = |name: &str| fact(name).and_then(|text| text.parse::<u64>().ok());
    // Replicas that continued from this offset would keep the keys that were dropped here.
    if let (Some(id), Some(offset), true) =
        (fact("repl-id"), number("repl-offset"), over.is_empty())
    {
        let db = number("repl-stream-db").and_then(|db| usize::try_from(db).ok());
        node.resume(id, offset, db.unwrap_or(0));
    }
    Ok(())
}

/// Commands that recreate this node's data on an empty node: libraries and keys.
pub(crate) fn snapshot(node: &Node) -> BytesMut {
    let mut out = BytesMut::new();
    for library in node.scripts.libraries.values() {
        encode_request(&mut out, &[&b"FUNCTION"[..], b"LOAD", &library.code]);
    }
    for (number, db) in node.keyspace.iter().filter(|(_, db)| !db.is_empty()) {
        encode_request(&mut out, &["SELECT", &number.to_string()]);
        for (key, entry) in db.iter() {
            encode_request(&mut out, &creation(key, &entry.value));
            if let Some(until) = entry.until_ms() {
                let until = until.to_string();
                encode_request(&mut out, &[&b"PEXPIREAT"[..], key, until.as_bytes()]);
            }
        }
    }
    out
}

/// How many key changes the execution of a [`snapshot`] makes.
pub(crate) fn changes_of_snapshot(node: &Node) -> u64 {
    let changes = |db: &Database| db.len() as u64 + db.ending() as u64;
    node.keyspace.iter().map(|(_, db)| changes(db)).sum()
}

fn creation(key: &[u8], value: &Value) -> Arguments {
    let word = Bytes::copy_from_slice;
    match value {
        Value::String(bytes) => vec![word(b"SET"), word(key), bytes.clone()],
        Value::Hash(hash) => {
            let pairs = hash.in_order().into_iter().flat_map(|(f, v)| [f.clone(), v.clone()]);
            [word(b"HSET"), word(key)].into_iter().chain(pairs).collect()
        }
        Value::List(list) => {
            let elements = list.0.iter().cloned();
            [word(b"RPUSH"), word(key)].into_iter().chain(elements).collect()
        }
        Value::Set(set) => [word(b"SADD"), word(key)].into_iter().chain(set.iter()).collect(),
        Value::SortedSet(set) => {
            let score = |score: f64| Bytes::from(in_17_digits(score));
            let pairs = set.iter().flat_map(|(member, s)| [score(s), member.clone()]);
            [word(b"ZADD"), word(key)].into_iter().chain(pairs).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Script, snapshot};
    use crate::execution::apply;
    use crate::node::{Node, NodeConfig};
    use crate::replay::load;
    use crate::session::Session;
    use bytes::{Bytes, BytesMut};

    const NOW: u64 = 1_000_000;

    fn node() -> Node {
        let mut node = Node::new(NodeConfig::default(), NOW, [1, 2, 3]);
        node.propagation.is_consumed = true;
        node
    }

    fn words(line: &str) -> Vec<Bytes> {
        line.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
    }

    /// Executes lines; `@n` moves the clock by n ms. Returns the node and its file.
    fn run(lines: &[&str]) -> (Node, BytesMut) {
        let (mut node, mut session) = (node(), Session::default());
        let (mut script, mut file) = (Script::default(), BytesMut::new());
        for line in lines {
            match line.strip_prefix('@') {
                Some(ms) => {
                    let ms: u64 = ms.parse().unwrap();
                    node.set_time((node.clock.now_ms + ms) * 1_000_000);
                    node.expire_all();
                }
                None => drop(apply(&mut node, &mut session, &words(line))),
            }
            let commands = std::mem::take(&mut node.effects.commands);
            script.write(&commands, &mut file, |_, _| {});
        }
        (node, file)
    }

    /// The file as lines of words.
    fn lines_of(file: &[u8]) -> Vec<String> {
        let mut reader = crate::frame::request::RequestReader::default();
        let mut buffer = BytesMut::from(file);
        let mut lines = Vec::new();
        while let Some(args) = reader.next(&mut buffer).unwrap() {
            let words: Vec<_> = args.iter().map(|word| String::from_utf8_lossy(word)).collect();
            lines.push(words.join(" "));
        }
        lines
    }

    #[track_caller]
    fn check(lines: &[&str], expected: &[&str]) {
        assert_eq!(lines_of(&run(lines).1), expected);
    }

    #[test]
    fn times_are_propagated_as_absolute_ones_and_nothing_is_propagated_for_nothing() {
        check(
            &[
                "SET p v NX PXAT 9000000",
                "SET k v NX PX 100",
                "SET k w NX PX 100",
                "PEXPIRE k 50",
                "EXPIRE k 7 XX",
            ],
            &[
                "SELECT 0",
                "SET p v PXAT 9000000",
                "SET k v PXAT 1000100",
                "PEXPIREAT k 1000050",
                "PEXPIREAT k 1007000 XX",
            ],
        );
        check(
            &["SETEX k 1 v", "GETEX k PX 5", "PEXPIRE k -1", "SETNX n 1", "GETDEL n", "DEL n"],
            &[
                "SELECT 0",
                "SET k v PXAT 1001000",
                "PEXPIREAT k 1000005",
                "DEL k",
                "SETNX n 1",
                "DEL n",
            ],
        );
        check(&["SET k v PX 100", "@101"], &["SELECT 0", "SET k v PXAT 1000100", "DEL k"]);
    }

    #[test]
    fn a_unit_of_several_commands_is_wrapped() {
        check(
            &["MULTI", "SET a 1", "SELECT 3", "INCR a", "EXEC", "SET b 1"],
            &["SELECT 0", "MULTI", "SET a 1", "SELECT 3", "INCR a", "EXEC", "SET b 1"],
        );
    }

    #[test]
    fn a_loaded_file_gives_the_same_keys_and_a_torn_tail_is_cut() {
        let lines = ["SET a 1 PX 10", "HSET h x 1 y 2", "MULTI", "INCR a", "INCR b", "EXEC"];
        let (node, file) = run(&lines);
        let mut again = self::node();
        assert_eq!(load(&mut again, &file).whole, file.len());
        assert_eq!(again.keyspace, node.keyspace);
        let mut torn = self::node();
        let whole = load(&mut torn, &file[..file.len() - 1]).whole;
        assert_eq!(lines_of(&file[..whole]).len(), 3, "the transaction without end is cut");
        let keys = torn.keyspace.keys().into_iter().map(|key| key.to_string());
        assert_eq!(keys.collect::<Vec<_>>(), ["a", "h"]);
    }

    #[test]
    fn a_snapshot_gives_the_same_keys_expired_ones_included() {
        let (mut node, _) = run(&["SET a 1 PX 10", "SELECT 2", "HSET h x 1 y 2"]);
        node.set_time((NOW + 100) * 1_000_000);
        let mut copy = self::node();
        copy.set_time((NOW + 100) * 1_000_000);
        load(&mut copy, &snapshot(&node));
        assert_eq!(copy.keyspace, node.keyspace);
    }

    #[test]
    fn libraries_are_in_the_file_and_in_the_snapshot() {
        let (mut node, mut session) = (node(), Session::default());
        let code = "#!lua name=l\nredis.register_function('f', function(k) \
            redis.call('set', k[1], 1) return redis.call('incr', k[1]) end)";
        for words in [&["FUNCTION", "LOAD", code][..], &["FCALL", "f", "1", "k"], &["FLUSHALL"]] {
            let args: Vec<_> =
                words.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
            apply(&mut node, &mut session, &args);
        }
        let mut file = BytesMut::new();
        Script::default().write(&node.effects.commands, &mut file, |_, _| {});
        for bytes in [&file[..], &snapshot(&node)] {
            let mut again = self::node();
            assert_eq!(load(&mut again, bytes).whole, bytes.len());
            assert_eq!(again.scripts.libraries.len(), 1);
            let reply = apply(&mut again, &mut session, &words("FCALL f 1 k"));
            assert_eq!(reply, crate::frame::Reply::Integer(2));
        }
    }
}
