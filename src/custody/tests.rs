//! Hand-made histories: for each claim, what must be accepted and what must be rejected.

use std::net::{Ipv4Addr, SocketAddrV4};

use bytes::Bytes;
use lockstorm_platform::time::{Instant, MILLISECOND, Nanos, Readings, Stamp};
use lockstorm_platform::trace::{
    Connection, Entry, Event, HostId, KeyChange, KeyName, Leg, Origin, Request,
};

use crate::custody::finding::{Certainty, CustodyJudgement, CustodyKind, CustodyVerdict};
use crate::custody::state::{Custody, CustodyTerms};
use crate::custody::{line, text};

fn address(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)
}

/// Builds a service's records. Clients are ports, nodes are numbers.
struct CustodySketch {
    custody: Custody,
    at: Nanos,
    db: u16,
    requests: std::collections::BTreeMap<(u16, u16), u32>,
}

impl CustodySketch {
    fn new(nodes: u16, quorum: usize) -> CustodySketch {
        let node = |n: u16| (HostId(n), format!("n{}", n + 1), address(7001 + n));
        let nodes = (0..nodes).map(node).collect();
        let custody = Custody::new(CustodyTerms { nodes, quorum });
        CustodySketch { custody, at: 0, db: 0, requests: std::collections::BTreeMap::new() }
    }

    fn event(&mut self, node: u16, event: Event) {
        let readings = Readings { wall: self.at, mono: self.at, boot: self.at };
        let stamp = Stamp::new(Instant { seq: 0, at: self.at }, readings);
        self.custody.take(Entry { stamp, host: HostId(node), event });
    }

    fn lock(&self) -> KeyName {
        KeyName { db: self.db, name: b"lock"[..].into() }
    }

    fn select(self, db: u16) -> CustodySketch {
        CustodySketch { db, ..self }
    }

    fn wait(mut self, ms: u64) -> CustodySketch {
        self.at += ms * MILLISECOND;
        self
    }

    /// A client's request that changes `lock` or nothing, without a reply.
    fn unanswered(
        mut self,
        (client, node): (u16, u16),
        line: &str,
        change: Option<(KeyChange, Option<u64>)>,
    ) -> CustodySketch {
        let nth = self.requests.entry((client, node)).or_default();
        let connection = Connection { client: address(client), server: address(7001 + node) };
        let request = Request { connection, nth: *nth };
        *nth += 1;
        let words: Vec<Bytes> = line.split(' ').map(|w| Bytes::from(w.to_owned())).collect();
        let sets = matches!(change, Some((KeyChange::Set, _)));
        let value = if words[0].starts_with(b"EVAL") { words.last() } else { words.get(2) };
        let values = vec![value.filter(|_| sets).cloned()];
        self.event(node, Event::Words { request, db: self.db, words, values });
        if let Some((change, ttl)) = change {
            let until_ms = ttl.map(|ttl| self.at / MILLISECOND + ttl);
            let origin = Origin::Request(request);
            let key = self.lock();
            self.event(node, Event::Key { key, change, origin, until_ms });
        }
        self.event(node, Event::Message { request, leg: Leg::Applied, command: "", op: None });
        self
    }

    /// Like [`CustodySketch::unanswered`], and the reply is written.
    fn request(
        self,
        who: (u16, u16),
        line: &str,
        change: Option<(KeyChange, Option<u64>)>,
    ) -> CustodySketch {
        let mut sketch = self.unanswered(who, line, change);
        let nth = sketch.requests[&who] - 1;
        let connection = Connection { client: address(who.0), server: address(7001 + who.1) };
        let request = Request { connection, nth };
        let replied = Event::Message { request, leg: Leg::Replied, command: "", op: None };
        sketch.event(who.1, replied);
        sketch
    }

    fn takes(self, client: u16, token: &str, ttl: u64) -> CustodySketch {
        self.takes_on((client, 0), token, ttl)
    }

    fn takes_on(self, who: (u16, u16), token: &str, ttl: u64) -> CustodySketch {
        let line = format!("SET lock {token} NX PX {ttl}");
        self.request(who, &line, Some((KeyChange::Set, Some(ttl))))
    }

    fn takes_for_ever(self, client: u16, token: &str) -> CustodySketch {
        self.request((client, 0), &format!("SETNX lock {token}"), Some((KeyChange::Set, None)))
    }

    fn refuses(self, client: u16, token: &str) -> CustodySketch {
        self.request((client, 0), &format!("SET lock {token} NX PX 9"), None)
    }

    fn releases(self, client: u16, token: &str) -> CustodySketch {
        self.request(
            (client, 0),
            &format!("EVAL s 1 lock {token}"),
            Some((KeyChange::Deleted, None)),
        )
    }

    fn deletes(self, client: u16) -> CustodySketch {
        self.request((client, 0), "DEL lock", Some((KeyChange::Deleted, None)))
    }

    fn by_itself(mut self, node: u16, change: KeyChange) -> CustodySketch {
        let (key, origin) = (self.lock(), Origin::Node);
        self.event(node, Event::Key { key, change, origin, until_ms: None });
        self
    }

    /// `SET lock value`, of which nodes record only the change.
    fn sets_plainly(mut self, client: u16) -> CustodySketch {
        let connection = Connection { client: address(client), server: address(7001) };
        let origin = Origin::Request(Request { connection, nth: 0 });
        let (key, change) = (self.lock(), KeyChange::Set);
        self.event(0, Event::Key { key, change, origin, until_ms: None });
        self.deletes(client)
    }

    fn hangs_up(mut self, client: u16) -> CustodySketch {
        let connection = Connection { client: address(client), server: address(7001) };
        self.event(0, Event::Ended { connection });
        self
    }

    fn restarts(mut self, node: u16, keys: &[&str]) -> CustodySketch {
        let keys = keys.iter().map(|key| KeyName::new(0, key.as_bytes().into())).collect();
        self.event(node, Event::Loaded { keys, resync: None, file: None });
        self
    }

    /// A client's last request was written to the stream of a history.
    fn propagates(mut self, who: (u16, u16), history: u64, offset: u64) -> CustodySketch {
        let nth = self.requests[&who] - 1;
        let connection = Connection { client: address(who.0), server: address(7001 + who.1) };
        let origin = Origin::Request(Request { connection, nth });
        self.event(who.1, Event::Propagated { history, offset, origin });
        self
    }

    /// A replica applies its stream up to an offset.
    fn applies(mut self, node: u16, history: u64, offset: u64, change: KeyChange) -> CustodySketch {
        let (key, origin) = (self.lock(), Origin::Replication { history, offset });
        let until_ms = Some(self.at / MILLISECOND + 1_000);
        self.event(node, Event::Key { key, change, origin, until_ms });
        self
    }

    fn resyncs(mut self, from: u16, to: u16, keys: &[&str]) -> CustodySketch {
        let connection = Connection { client: address(to), server: address(7001 + from) };
        self.event(from, Event::Snapshot { connection });
        let keys = keys.iter().map(|key| KeyName::new(0, key.as_bytes().into())).collect();
        self.event(to, Event::Loaded { keys, resync: Some(connection), file: None });
        self
    }

    fn judged(&self) -> CustodyJudgement {
        self.custody.judge(self.at)
    }

    #[track_caller]
    fn finds(&self, kind: CustodyKind, certainty: Certainty) {
        let judgement = self.judged();
        let found: Vec<_> = judgement.findings.iter().map(|f| (f.kind, f.certainty)).collect();
        assert_eq!(found, [(kind, certainty)], "{:#?}", text::judgement(&judgement));
        let verdict = match certainty {
            Certainty::Unproven => CustodyVerdict::Unknown("what was found may be innocent"),
            _ => CustodyVerdict::Violated,
        };
        assert_eq!(judgement.verdict, verdict);
    }

    #[track_caller]
    fn holds(&self) {
        let judgement = self.judged();
        assert_eq!(judgement.verdict, CustodyVerdict::Holds, "{:#?}", text::judgement(&judgement));
    }
}

fn one() -> CustodySketch {
    CustodySketch::new(1, 1)
}

#[test]
fn nothing_tested_is_no_pass() {
    let why = "no lock was seen: nothing was tested";
    assert_eq!(one().judged().verdict, CustodyVerdict::Unknown(why));
    let data = one().request((1, 0), "SET lock a", Some((KeyChange::Set, None)));
    assert_eq!(data.judged().verdict, CustodyVerdict::Unknown(why), "plain data is no lock");
}

#[test]
fn taking_turns_is_well() {
    let first = one().takes(1, "a", 1_000).refuses(2, "b").wait(100).releases(1, "a");
    first
        .takes(2, "b", 1_000)
        .wait(2_000)
        .by_itself(0, KeyChange::Expired)
        .takes(1, "c", 9)
        .holds();
}

#[test]
fn a_lock_of_another_database_is_another_lock() {
    let both = || one().takes(1, "a", 1_000).select(1).takes(2, "b", 1_000);
    both().releases(2, "b").select(0).releases(1, "a").holds();
    both().select(2).takes(3, "c", 1_000).holds();
    let again = both().select(0).wait(1).by_itself(0, KeyChange::Evicted);
    again.takes(4, "d", 1_000).finds(CustodyKind::DoubleGrant, Certainty::Proven);
}

#[test]
fn a_release_with_anothers_token_is_foreign_for_certain() {
    let stale = one().takes(1, "a", 100).wait(200).by_itself(0, KeyChange::Expired);
    let stale = stale.takes(2, "b", 1_000);
    let line = "EVAL s 1 lock a";
    let gone = Some((KeyChange::Deleted, None));
    stale.request((1, 0), line, gone).finds(CustodyKind::ForeignRelease, Certainty::Proven);
}

#[test]
fn a_release_without_token_is_foreign_by_connection() {
    let held = || one().takes(1, "a", 1_000);
    held().deletes(2).finds(CustodyKind::ForeignRelease, Certainty::ByConnection);
    held().hangs_up(1).deletes(2).finds(CustodyKind::ForeignRelease, Certainty::Unproven);
    held().deletes(1).holds();
    held().releases(2, "a").holds();
}

#[test]
fn connections_prove_nothing_where_one_owner_uses_two() {
    let pooled = one().takes(1, "a", 1_000).releases(2, "a").takes(2, "b", 1_000).deletes(1);
    pooled.finds(CustodyKind::ForeignRelease, Certainty::Unproven);
    assert!(pooled.judged().is_pooled);
}

#[test]
fn an_extension_is_foreign_like_a_release() {
    let longer = Some((KeyChange::Extended, Some(9_000)));
    let held = || one().takes(1, "a", 1_000);
    let foreign = held().request((2, 0), "PEXPIRE lock 9000", longer);
    foreign.finds(CustodyKind::ForeignExtend, Certainty::ByConnection);
    held().request((1, 0), "PEXPIRE lock 9000", longer).holds();
    held().request((2, 0), "EVAL s 1 lock a", longer).holds();
}

#[test]
fn an_overwritten_lock_is_foreign_and_granted_twice() {
    let over = one().takes(1, "a", 1_000).wait(1);
    let over = over.request((2, 0), "SET lock b PX 1000", Some((KeyChange::Set, Some(1_000))));
    let kinds: Vec<CustodyKind> =
        over.judged().findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(kinds, [CustodyKind::ForeignRelease, CustodyKind::DoubleGrant]);
    let plain = one().takes(1, "a", 1_000).wait(1).sets_plainly(2);
    plain.finds(CustodyKind::ForeignRelease, Certainty::ByConnection);
    let again = one().takes(1, "a", 1_000).wait(1);
    again.request((2, 0), "SET lock a XX PX 1000", Some((KeyChange::Set, Some(1_000)))).holds();
}

#[test]
fn a_lease_that_is_cut_short_is_granted_twice() {
    for change in [KeyChange::Expired, KeyChange::Evicted] {
        let cut = || one().takes(1, "a", 1_000).wait(500).by_itself(0, change);
        cut().takes(2, "b", 1_000).finds(CustodyKind::DoubleGrant, Certainty::Proven);
        cut().holds();
        cut().wait(500).takes(2, "b", 1_000).holds();
        cut().takes(1, "b", 1_000).holds();
    }
    let lost = one().takes(1, "a", 1_000).wait(500).restarts(0, &[]);
    lost.takes(2, "b", 1_000).finds(CustodyKind::DoubleGrant, Certainty::Proven);
    one().takes(1, "a", 1_000).wait(500).restarts(0, &["lock"]).refuses(2, "b").holds();
    let unknown = one().unanswered((1, 0), "SET lock a NX PX 9", Some((KeyChange::Set, Some(9))));
    let unknown = unknown.wait(1).by_itself(0, KeyChange::Evicted);
    unknown.takes(2, "b", 1_000).holds();
}

#[test]
fn equal_tokens_leave_connections_alone() {
    let cut = || one().takes(1, "x", 1_000).wait(500).by_itself(0, KeyChange::Evicted);
    cut().takes(2, "x", 1_000).finds(CustodyKind::DoubleGrant, Certainty::ByConnection);
}

#[test]
fn a_lock_whose_owner_never_learned_of_it_leaks_when_it_keeps_others_out() {
    let line = "SET lock a NX PX 1000";
    let left = || {
        let set = Some((KeyChange::Set, Some(1_000)));
        one().unanswered((1, 0), line, set).hangs_up(1)
    };
    left().refuses(2, "b").finds(CustodyKind::Leak, Certainty::Proven);
    left().holds();
    left().refuses(2, "b").releases(3, "a").holds();
    let ended = left().refuses(2, "b").wait(1_001).by_itself(0, KeyChange::Expired);
    ended.finds(CustodyKind::Leak, Certainty::Proven);
}

#[test]
fn a_lock_without_end_that_is_left_over_leaks() {
    let left = || one().takes_for_ever(1, "a");
    left().hangs_up(1).finds(CustodyKind::Leak, Certainty::ByConnection);
    left().finds(CustodyKind::Leak, Certainty::Unproven);
    left().deletes(1).holds();
    left().request((1, 0), "EXPIRE lock 9", Some((KeyChange::Extended, Some(9_000)))).holds();
}

#[test]
fn two_tokens_with_a_majority_at_once_are_granted_twice() {
    let first =
        || CustodySketch::new(3, 2).takes_on((1, 0), "a", 1_000).takes_on((1, 1), "a", 1_000);
    let amnesiac = || first().wait(100).restarts(1, &[]);
    let double = amnesiac().takes_on((2, 1), "b", 1_000).takes_on((2, 2), "b", 1_000);
    double.finds(CustodyKind::DoubleGrant, Certainty::Proven);
    amnesiac().takes_on((2, 1), "b", 1_000).holds();
    let late = amnesiac().wait(1_000).takes_on((2, 1), "b", 1_000).takes_on((2, 2), "b", 1_000);
    late.holds();
    let released = amnesiac().releases(1, "a");
    released.takes_on((2, 1), "b", 1_000).takes_on((2, 2), "b", 1_000).holds();
}

#[test]
fn a_promoted_replica_without_the_key_grants_it_twice() {
    let held = || CustodySketch::new(2, 1).takes(1, "a", 1_000).wait(100);
    held().takes_on((2, 1), "b", 1_000).finds(CustodyKind::DoubleGrant, Certainty::Proven);
    held().wait(1_000).takes_on((2, 1), "b", 1_000).holds();
}

/// The copy on n2 belongs to the request at its offset in the history that n2 follows: the
/// restarted master has reached the same offset in another history.
#[test]
fn a_replica_copies_from_its_history_and_not_from_its_master() {
    let taken = || CustodySketch::new(2, 1).takes(1, "a", 1_000).propagates((1, 0), 7, 10);
    let late = || {
        let restarted = taken().restarts(0, &[]).takes(2, "b", 1_000).propagates((2, 0), 8, 10);
        restarted.applies(1, 7, 10, KeyChange::Set)
    };
    let release = "EVAL s 1 lock b";
    let deleted = Some((KeyChange::Deleted, None));
    late().holds();
    late().request((2, 1), release, deleted).finds(CustodyKind::ForeignRelease, Certainty::Proven);
    late().applies(1, 8, 10, KeyChange::Set).request((2, 1), release, deleted).holds();
}

#[test]
fn what_a_master_sends_belongs_to_whom_it_belonged_there() {
    let sent = || CustodySketch::new(2, 1).takes(1, "a", 1_000).resyncs(0, 1, &["lock"]).wait(1);
    sent().request((1, 1), "EVAL s 1 lock a", Some((KeyChange::Deleted, None))).holds();
    sent()
        .request((2, 1), "DEL lock", Some((KeyChange::Deleted, None)))
        .finds(CustodyKind::ForeignRelease, Certainty::ByConnection);
    // What was written only to the replica is lost.
    let alone = CustodySketch::new(2, 1).takes_on((1, 1), "a", 1_000).wait(1).resyncs(0, 1, &[]);
    alone.takes(2, "b", 1_000).finds(CustodyKind::DoubleGrant, Certainty::Proven);
}

#[test]
fn the_history_is_a_line_a_life_and_a_judgement() {
    let mut sketch = one().takes(1, "a", 1_000).wait(5).deletes(2);
    let ended = sketch.custody.drain();
    let text = line::owned(&ended[0]);
    for part in ["\"line\":\"owned\"", "\"token\":\"a\"", "\"end\":\"foreign-release\""] {
        assert!(text.contains(part), "{text}");
    }
    let lines = line::judgement(&sketch.judged());
    assert!(lines[0].contains("\"kind\":\"foreign-release\""), "{lines:?}");
    assert!(lines[1].contains("\"verdict\":\"violated\""), "{lines:?}");
    let lines = text::judgement(&sketch.judged());
    assert!(lines[1].contains("n1 'lock' with token 'a', created at 0s by SET from 127.0.0.1:1,"));
}
