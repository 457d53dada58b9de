//! Small traces and the changes that they imply. Histories are letters, causes are numbers.

use std::net::{Ipv4Addr, SocketAddrV4};

use lockstorm_platform::time::{Instant, MILLISECOND, Readings, Stamp};
use lockstorm_platform::trace::{
    Connection, Entry, Event, HostId, KeyChange, KeyName, Leg, Origin, Place, Request,
};

use super::{Bounds, CausedChange, Provenance};

fn connection(number: u16) -> Connection {
    let address = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    Connection { client: address(number), server: address(1) }
}

fn number<T: std::str::FromStr>(word: &str) -> T {
    word.parse().unwrap_or_else(|_| panic!("'{word}' is not a number"))
}

fn history(word: &str) -> u64 {
    u64::from(word.as_bytes()[0])
}

fn key(word: &str) -> KeyName {
    KeyName::new(0, word.as_bytes().into())
}

/// `7`: request 7. `A10`: the stream of history A up to 10. `-`: the node.
fn origin(word: &str) -> Origin {
    match word.split_at(1) {
        ("-", _) => Origin::Node,
        (letter, offset) if letter.starts_with(char::is_alphabetic) => {
            Origin::Replication { history: history(letter), offset: number(offset) }
        }
        _ => Origin::Request(Request { connection: connection(0), nth: number(word) }),
    }
}

fn change(word: &str) -> KeyChange {
    match word {
        "set" => KeyChange::Set,
        "change" => KeyChange::Changed,
        "extend" => KeyChange::Extended,
        "delete" => KeyChange::Deleted,
        "expire" => KeyChange::Expired,
        other => panic!("'{other}' is no change"),
    }
}

/// The keys at the end of a line: `a b`.
fn keys(words: &[&str]) -> Vec<KeyName> {
    words.iter().map(|word| key(word)).collect()
}

fn event(words: &[&str]) -> Event {
    match words {
        ["tells", at, by] => match origin(at) {
            Origin::Replication { history, offset } => {
                Event::Propagated { history, offset, origin: origin(by) }
            }
            _ => panic!("'{at}' is no place"),
        },
        ["goes-on", new, "from", at] => match origin(at) {
            Origin::Replication { history: earlier, offset: to } => {
                Event::Continued { history: history(new), earlier, to }
            }
            _ => panic!("'{at}' is no place"),
        },
        ["sends", number] => Event::Snapshot { connection: connection(self::number(number)) },
        ["gets", number, rest @ ..] => {
            let resync = Some(connection(self::number(number)));
            Event::Loaded { keys: keys(rest), resync, file: None }
        }
        ["replies"] => {
            let request = Request { connection: connection(0), nth: 0 };
            Event::Message { request, leg: Leg::Replied, command: "SET", op: None }
        }
        ["declines"] => {
            let request = Request { connection: connection(0), nth: 0 };
            Event::Declined { request, word: "LOADING".to_owned() }
        }
        ["saves"] => Event::Dumped { appends: None },
        ["rewrites", own] => Event::Dumped { appends: Some(number(own)) },
        ["starts", "from", mark, changes, rest @ ..] => {
            let file = Some(Place { mark: number(mark), changes: number(changes) });
            Event::Loaded { keys: keys(rest), resync: None, file }
        }
        ["comes-back", rest @ ..] => Event::Loaded { keys: keys(rest), resync: None, file: None },
        [what, name, by, until @ ..] => {
            let until_ms = until.first().map(|word| number(word));
            Event::Key { key: key(name), change: change(what), origin: origin(by), until_ms }
        }
        other => panic!("'{other:?}' means nothing"),
    }
}

fn line(node: &str, change: &CausedChange<u32>) -> String {
    let CausedChange { key, change, until_ms, by, unacknowledged } = change;
    let until = until_ms.map(|until| format!(" {until}")).unwrap_or_default();
    let by = by.map_or("-".to_owned(), |by| by.to_string());
    let unacknowledged = if *unacknowledged { " unacknowledged" } else { "" };
    format!("{node} {change:?} {key} {by}{until}{unacknowledged}")
}

/// Plays a story with one entry per line; its place in the trace is the line number, counted from
/// 1. Compares the changes that replicas, resynchronisations and starts imply.
#[track_caller]
fn check_in(bounds: Bounds, story: &str, expected: &str) {
    let mut provenance = Provenance::bounded(bounds);
    let mut lines = Vec::new();
    for (seq, text) in (1..).zip(story.trim().lines()) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let readings = Readings { wall: 1_000 * MILLISECOND, ..Readings::default() };
        let stamp = Stamp::new(Instant { seq, at: seq }, readings);
        let host = HostId(number(&words[0][1..]));
        let event = event(&words[1..]);
        let is_known =
            matches!(event, Event::Key { origin: Origin::Request(_) | Origin::Node, .. });
        let changes = provenance.take(&Entry { stamp, host, event }, |request| Some(request.nth));
        if !is_known {
            lines.extend(changes.iter().map(|change| line(words[0], change)));
        }
    }
    let expected: Vec<&str> = expected.trim().lines().map(str::trim).collect();
    assert_eq!(lines, expected);
}

#[track_caller]
fn check(story: &str, expected: &str) {
    check_in(Bounds { places: usize::MAX, copies: usize::MAX }, story, expected);
}

#[test]
fn what_a_replica_applies_has_the_cause_that_its_master_knows() {
    check(
        "n1 set k 7\nn1 tells A10 7\nn2 set k A10\nn1 expire k -\nn1 tells A20 -\nn2 delete k A20",
        "n2 Set k 7\nn2 Deleted k -",
    );
}

/// The restarted master has reached the same offset before its replica wakes up.
#[test]
fn a_replica_that_slept_through_a_restart_applies_the_old_stream() {
    check(
        "n1 set k 7\nn1 tells A10 7\nn1 delete k 8\nn1 tells A20 8\n\
         n1 starts from 0 0\n\
         n1 set k 9\nn1 tells B10 9\nn1 set l 10\nn1 tells B20 10\n\
         n2 set k A10\nn2 delete k A20\nn2 set k B10",
        "n2 Set k 7\nn2 Deleted k 8\nn2 Set k 9",
    );
}

/// A change that was not announced has no cause, even if another history has one at that offset.
#[test]
fn an_offset_alone_names_nothing() {
    check("n1 set k 7\nn1 tells A10 7\nn2 set k B10\nn2 set k A11", "n2 Set k -\nn2 Set k -");
}

/// n3 learns late that n2 was promoted: what it lacked of the old history arrives under the new id.
#[test]
fn a_promoted_replica_goes_on_with_the_old_history_up_to_its_promotion() {
    check(
        "n1 set a 1\nn1 tells A10 1\nn1 set b 2\nn1 tells A20 2\nn2 set a A10\nn2 set b A20\n\
         n2 goes-on B from A20\n\
         n1 set z 9\nn1 tells A30 9\n\
         n2 set c 3\nn2 tells B30 3\n\
         n3 set a A10\nn3 set b B20\nn3 set c B30\nn4 set z A30",
        "n2 Set a 1\nn2 Set b 2\nn3 Set a 1\nn3 Set b 2\nn3 Set c 3\nn4 Set z 9",
    );
}

#[test]
fn promotions_follow_each_other_and_replicas_pass_on_what_came() {
    check(
        "n1 set a 1\nn1 tells A10 1\nn2 goes-on B from A10\nn2 set b 2\nn2 tells B20 2\n\
         n3 goes-on C from B20\nn3 set c 3\nn3 tells C30 3\n\
         n4 set a C10\nn4 set b C20\nn4 set c C30\nn5 set a B10\nn5 set b C20",
        "n4 Set a 1\nn4 Set b 2\nn4 Set c 3\nn5 Set a 1\nn5 Set b 2",
    );
}

/// A real server reports no offsets that are valid on all nodes: its replicas forward the stream
/// under names of their own.
#[test]
fn a_stream_may_be_passed_on_under_another_name() {
    check("n1 tells A10 7\nn2 set k A10\nn2 tells X5 A10\nn3 set k X5", "n2 Set k 7\nn3 Set k 7");
}

#[test]
fn a_full_resynchronisation_brings_what_the_snapshot_held() {
    check(
        "n1 set a 1\nn1 tells A10 1\nn2 set a A10\nn2 set mine 2\nn1 set b 3 5000\n\
         n1 sends 5\n\
         n1 delete b 4\nn1 set b 6\nn1 tells A20 6\n\
         n2 gets 5 a b\nn2 set b A20",
        "n2 Set a 1\nn2 LostAtFailover mine -\nn2 Set b 3 5000\nn2 Set b 6",
    );
    // A key with the same name but another creator: one is lost, the other is new. The same key
    // with a later expiry stays.
    check(
        "n1 set a 1\nn2 set a 2\nn1 set b 3 5000\nn1 tells A10 3\nn2 set b A10 5000\n\
         n1 extend b 4 6000\nn1 sends 5\nn2 gets 5 a b",
        "n2 Set b 3 5000\nn2 LostAtFailover a -\nn2 Extended b - 6000\nn2 Set a 1",
    );
    // A key that was past its expiry when it disappeared has expired.
    check("n1 sends 5\nn2 set a 2 999\nn2 gets 5", "n2 Expired a - 999");
}

#[test]
fn a_start_brings_what_the_file_holds_and_no_more() {
    let made = "n1 set a 1\nn1 delete a 2\nn1 set a 3\nn1 set b 4\n";
    for (start, expected) in [
        ("n1 starts from 0 4 a b", ""),
        ("n1 starts from 0 3 a", "n1 LostAtRestart b -"),
        ("n1 starts from 0 2", "n1 LostAtRestart a -\nn1 LostAtRestart b -"),
        ("n1 starts from 0 1 a", "n1 LostAtRestart a -\nn1 LostAtRestart b -\nn1 Set a 1"),
        ("n1 starts from 0 0", "n1 LostAtRestart a -\nn1 LostAtRestart b -"),
        // A node without a file, and one that does not report what it read.
        ("n1 comes-back a", "n1 LostAtRestart b -"),
    ] {
        check(&format!("{made}n1 replies\n{start}"), expected);
    }
}

/// The first start reads one change of two. Later changes are appended after that one.
#[test]
fn what_was_lost_at_one_start_does_not_count_at_the_next() {
    check(
        "n1 set a 1\nn1 set a 2\nn1 starts from 0 1 a\nn1 set a 3\nn1 set a 4\n\
         n1 starts from 0 2 a\nn1 starts from 0 2 a",
        "n1 LostAtRestart a -\nn1 Set a 1\nn1 LostAtRestart a -\nn1 Set a 3",
    );
}

#[test]
fn a_start_that_undoes_only_what_had_no_reply_says_so() {
    let deleted = "n1 set a 1\nn1 replies\nn1 delete a 2\n";
    check(&format!("{deleted}n1 starts from 0 1 a"), "n1 Set a 1 unacknowledged");
    check(&format!("{deleted}n1 replies\nn1 starts from 0 1 a"), "n1 Set a 1");
    // At the last reply the key was that of another operation.
    check("n1 set a 1\nn1 set a 2\nn1 replies\nn1 delete a 3\nn1 starts from 0 1 a", "n1 Set a 1");
    let extended = "n1 set a 1 5000\nn1 extend a 2 6000\nn1 replies\nn1 extend a 3 7000\n";
    check(&format!("{extended}n1 starts from 0 2 a"), "n1 Extended a - 6000 unacknowledged");
    check(&format!("{extended}n1 starts from 0 1 a"), "n1 Extended a - 5000");
    check(
        "n1 set a 1 5000\nn1 replies\nn1 extend a 2 6000\nn1 extend a 3 7000\n\
         n1 starts from 0 1 a",
        "n1 Extended a - 5000 unacknowledged",
    );
    let counted = "n1 set a 1\nn1 change a 2\nn1 replies\nn1 change a 3\n";
    check(&format!("{counted}n1 starts from 0 2 a"), "n1 Changed a - unacknowledged");
    check(&format!("{counted}n1 starts from 0 1 a"), "n1 Changed a -");
    // The expiry is that of the last reply, but the value is older.
    check(
        "n1 set a 1 5000\nn1 change a 2 5000\nn1 replies\nn1 extend a 3 6000\n\
         n1 starts from 0 1 a",
        "n1 Extended a - 5000",
    );
}

#[test]
fn what_was_sent_before_a_start_is_not_sent_by_a_process_that_loads() {
    check("n1 set a 1\nn1 starts from 0 0", "n1 LostAtRestart a - unacknowledged");
    check(
        "n1 set a 1\nn1 declines\nn1 replies\nn1 starts from 0 0",
        "n1 LostAtRestart a - unacknowledged",
    );
    // The key that the node had acknowledged had expired by then.
    check(
        "n1 set a 1 999\nn1 replies\nn1 expire a -\nn1 set a 2 5000\nn1 starts from 0 0",
        "n1 LostAtRestart a - 5000 unacknowledged",
    );
    // An expired key remains until a request accesses it.
    check(
        "n1 set a 1 999\nn1 replies\nn1 delete a 2\nn1 starts from 0 1 a",
        "n1 Set a 1 999 unacknowledged",
    );
    // A master may have acknowledged what its replica loses.
    check(
        "n1 set a 1\nn1 tells A20 1\nn2 replies\nn2 set a A20\nn2 starts from 0 0",
        "n2 Set a 1\nn2 LostAtRestart a -",
    );
    // The next start has nothing more to undo.
    check(
        "n1 set a 1\nn1 starts from 0 0\nn1 set a 2\nn1 replies\n\
         n1 starts from 0 0",
        "n1 LostAtRestart a - unacknowledged\nn1 LostAtRestart a -",
    );
}

#[test]
fn a_key_comes_back_from_an_old_dump() {
    check(
        "n1 set a 1 5000\nn1 saves\nn1 extend a 2 6000\nn1 starts from 2 0 a",
        "n1 Extended a - 5000",
    );
    check(
        "n1 set a 1\nn1 saves\nn1 delete a 2\nn1 set a 3\nn1 saves\nn1 set b 4\nn1 delete a 5\n\
         n1 replies\nn1 starts from 5 0 a\nn1 starts from 2 0 a",
        "n1 LostAtRestart b -\nn1 Set a 3\nn1 LostAtRestart a -\nn1 Set a 1",
    );
}

/// The rewritten file begins with the two changes that make `a`; the power loss may restore the
/// previous file.
#[test]
fn a_rewritten_file_holds_what_follows_its_dump() {
    let made =
        "n1 set b 0\nn1 delete b 0\nn1 set a 1 5000\nn1 rewrites 2\nn1 set b 2\nn1 set a 3\n";
    for (start, expected) in [
        ("n1 starts from 4 4 a b", ""),
        ("n1 starts from 4 3 a b", "n1 LostAtRestart a -\nn1 Set a 1 5000"),
        ("n1 starts from 4 2 a", "n1 LostAtRestart a -\nn1 LostAtRestart b -\nn1 Set a 1 5000"),
        ("n1 starts from 0 4 a b", "n1 LostAtRestart a -\nn1 Set a 1 5000"),
    ] {
        check(&format!("{made}n1 replies\n{start}"), expected);
    }
}

#[test]
fn a_replica_sends_what_came_to_it_and_keeps_it_in_its_own_file() {
    check(
        "n1 set a 1\nn1 sends 5\nn2 gets 5 a\nn2 rewrites 1\nn1 set b 2\nn1 tells A20 2\n\
         n2 set b A20\nn2 sends 6\nn3 gets 6 a b\nn2 starts from 4 2 a b\nn2 starts from 4 1 a",
        "n2 Set a 1\nn2 Set b 2\nn3 Set a 1\nn3 Set b 2\nn2 LostAtRestart b -",
    );
}

#[test]
fn the_oldest_is_forgotten_where_memory_is_bounded() {
    let bounds = Bounds { places: 2, copies: 1 };
    check_in(
        bounds,
        "n1 tells B10 1\nn1 tells A20 2\nn1 tells A30 3\nn2 set a B10\nn2 set b A20\nn2 set c A30",
        "n2 Set a -\nn2 Set b 2\nn2 Set c 3",
    );
    // Two changes are kept: earlier contents of the file are part of what it begins with.
    let made = "n1 set a 1\nn1 set b 2\nn1 set a 3\nn1 replies\n";
    check_in(bounds, &format!("{made}n1 starts from 0 2 a b"), "n1 LostAtRestart a -\nn1 Set a 1");
    check_in(
        bounds,
        &format!("{made}n1 starts from 0 0"),
        "n1 LostAtRestart a -\nn1 LostAtRestart b -",
    );
    // Two dumps of one kind, of which the older is forgotten; so is a snapshot.
    check_in(
        bounds,
        "n1 set a 1\nn1 saves\nn1 set a 2\nn1 saves\nn1 starts from 2 0 a\nn1 sends 5\n\
         n1 sends 6\nn2 gets 5 a\nn3 gets 6 a",
        "n2 Set a -\nn3 Set a 2",
    );
}
