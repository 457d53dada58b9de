//! Files: the installed redis-server loads what the node writes, and the node loads what
//! redis-server writes, without any loss.

use lockstorm_redis::keyspace::Keyspace;
use lockstorm_redis::keyspace::limits::Limits;
use lockstorm_redis::node::Node;
use lockstorm_redis::rdb::{Contents, Facts, Stream, load, save};

use crate::corpus::{Step, Words, scripts, with_times, words};
use crate::fake::Fake;
use crate::real::{Real, encode, now_ms};
use crate::shapes::{Dice, Shapes};

/// The number of random requests that fill the node in addition to those of the scripts.
const REQUESTS: usize = 3_000;

/// A node filled by the scripts about values and by random requests.
fn filled(start_ms: u64) -> Node {
    let mut fake = Fake::start(&[], start_ms);
    for script in scripts().iter().filter(|script| ["dumps", "sets"].contains(&&*script.name)) {
        for (step, _) in &script.steps {
            if let Step::Ask(name, line) = step {
                query(&mut fake, name, &words(&with_times(line, start_ms)));
            }
        }
    }
    let (shapes, mut dice) = (Shapes::read(None), Dice(7));
    for nth in 0..REQUESTS {
        // One connection each, so that no request waits forever.
        query(&mut fake, &format!("c{nth}"), &shapes.draw(&mut dice));
    }
    fake.node
}

/// Sends a request, unless it would flush the other keys and libraries.
fn query(fake: &mut Fake, name: &str, words: &Words) {
    let flushes = |word: &Vec<u8>| word.to_ascii_uppercase().starts_with(b"FLUSH");
    if !words.iter().any(flushes) {
        fake.request(name, words);
        fake.heard();
    }
}

fn file_of(node: &Node, written_s: u64) -> bytes::Bytes {
    let stream = Stream { db: 0, id: &node.history.id, offset: 7 };
    let facts = Facts { written_s, used_memory: 1 << 20, stream: Some(stream), is_base: false };
    let libraries = node.scripts.libraries.values().map(|library| &library.code);
    save(&node.keyspace, &node.limits, libraries, &facts)
}

fn names(contents: &Contents) -> Vec<String> {
    let name = |fact: &(bytes::Bytes, _)| String::from_utf8_lossy(&fact.0).into_owned();
    contents.facts.iter().map(name).collect()
}

/// Fails at the first key that differs.
#[track_caller]
fn same(read: &Keyspace, written: &Keyspace) {
    for (number, db) in written.iter() {
        for (key, entry) in db.iter() {
            let name = key.escape_ascii();
            assert_eq!(read.db(number).get(key), Some(entry), "{name} of {number}");
        }
    }
    assert_eq!(read.keys(), written.keys());
}

#[test]
fn a_file_goes_to_the_installed_redis_and_back() {
    let start_ms = now_ms();
    let mut node = filled(start_ms);
    node.set_time(now_ms() * 1_000_000);
    // Removes what would expire on the way.
    for (db, key) in node.keyspace.expired(start_ms + 1_000_000) {
        node.keyspace.db_mut(db).remove(&key);
    }
    let file = file_of(&node, start_ms / 1000);
    let ours = load(&file, &Limits::default()).expect("we read what we wrote");
    same(&ours.keyspace, &node.keyspace);
    assert_eq!(ours.length, file.len());
    let Some(mut real) = Real::start_server("redis-server", &[], Some(&file)) else {
        eprintln!("SKIPPED: redis-server is not installed; the file was read by its writer alone");
        return;
    };
    real.send("", &encode(&vec![b"SAVE".to_vec()]));
    real.be_patient("");
    assert_eq!(real.heard()[""].bytes, b"+OK\r\n");
    let theirs = load(&real.file(), &Limits::default()).expect("we read what Redis wrote");
    let (keys, libraries) = (node.keyspace.keys().len(), node.scripts.libraries.len());
    assert!(keys > 30 && libraries > 0, "{keys} keys and {libraries} libraries to compare");
    same(&theirs.keyspace, &node.keyspace);
    let mut codes = [ours.libraries.clone(), theirs.libraries.clone()];
    codes.iter_mut().for_each(|codes| codes.sort());
    assert_eq!(codes[0], codes[1]);
    assert_eq!(names(&ours), names(&theirs));
}

#[test]
fn what_is_no_file_is_refused() {
    let node = filled(1_900_000_000_000);
    let file = file_of(&node, 0);
    let (mut dice, limits) = (Dice(3), Limits::default());
    for _ in 0..200 {
        let end = dice.roll(file.len());
        assert!(load(&file[..end], &limits).is_err());
        let mut other = file.to_vec();
        other[end] ^= 1 << dice.roll(8);
        // The checksum detects it, if nothing else does.
        assert!(load(&other, &limits).is_err());
    }
}
