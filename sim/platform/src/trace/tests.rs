//! The trace hash: it differs whenever a recorded event differs.

use std::net::{Ipv4Addr, SocketAddrV4};

use super::{
    Connection, Edge, Event, Happening, HostId, KeyChange, KeyName, Leg, Origin, Request, Sight,
    Trace,
};
use crate::time::Readings;
use crate::trace::exchange::Exchange;

fn digest(at: u64, host: u16, event: Event) -> u128 {
    let mut trace = Trace::new(false);
    trace.record(at, Readings::default(), HostId(host), event);
    trace.digest().digest
}

fn address(last: u8) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, last), 6379)
}

fn request(client: u8, server: u8, nth: u32) -> Request {
    Request { connection: Connection { client: address(client), server: address(server) }, nth }
}

fn message(request: Request, leg: Leg, command: &'static str, op: Option<u32>) -> Event {
    Event::Message { request, leg, command, op }
}

fn name(db: usize, name: &[u8]) -> KeyName {
    KeyName::new(db, name.into())
}

fn key(key: &[u8], change: KeyChange, origin: Origin, until_ms: Option<u64>) -> Event {
    Event::Key { key: name(0, key), change, origin, until_ms }
}

/// Events that differ from their neighbours in one field each.
fn flips() -> Vec<Event> {
    let request_origin = Origin::Request(request(1, 2, 3));
    let (keys, more) = (vec![name(0, b"k")], vec![name(0, b"k"), name(0, b"l")]);
    let connection = request(1, 2, 0).connection;
    vec![
        Event::Step { label: "asking" },
        Event::Step { label: "granted" },
        Event::Outcome { op: 1, what: "acquire" },
        Event::Outcome { op: 2, what: "acquire" },
        Event::Outcome { op: 2, what: "acquired" },
        message(request(1, 2, 3), Leg::Sent, "SET", Some(1)),
        message(request(4, 2, 3), Leg::Sent, "SET", Some(1)),
        message(request(1, 4, 3), Leg::Sent, "SET", Some(1)),
        message(request(1, 2, 4), Leg::Sent, "SET", Some(1)),
        message(request(1, 2, 3), Leg::Applied, "SET", Some(1)),
        message(request(1, 2, 3), Leg::Sent, "GET", Some(1)),
        message(request(1, 2, 3), Leg::Sent, "SET", Some(2)),
        message(request(1, 2, 3), Leg::Sent, "SET", None),
        key(b"k", KeyChange::Set, request_origin, None),
        key(b"l", KeyChange::Set, request_origin, None),
        key(b"k", KeyChange::Deleted, request_origin, None),
        Event::Key {
            key: name(1, b"k"),
            change: KeyChange::Set,
            origin: request_origin,
            until_ms: None,
        },
        key(b"k", KeyChange::Set, Origin::Node, None),
        key(b"k", KeyChange::Set, Origin::Replication { history: 1, offset: 7 }, None),
        key(b"k", KeyChange::Set, Origin::Replication { history: 1, offset: 8 }, None),
        key(b"k", KeyChange::Set, request_origin, Some(9)),
        key(b"k", KeyChange::Set, request_origin, Some(10)),
        Event::Unreached { to: address(1), command: "SET", op: 1 },
        Event::Unreached { to: address(2), command: "SET", op: 1 },
        Event::Propagated { history: 1, offset: 1, origin: request_origin },
        Event::Propagated { history: 1, offset: 2, origin: request_origin },
        Event::Propagated { history: 1, offset: 2, origin: Origin::Node },
        Event::Loaded { keys: keys.clone(), resync: None, file: None },
        Event::Loaded { keys, resync: Some(connection), file: None },
        Event::Loaded { keys: more, resync: None, file: None },
        Event::Loaded { keys: vec![name(3, b"k")], resync: None, file: None },
        Event::Snapshot { connection },
        Event::Role { master: None },
        Event::Role { master: Some(address(1)) },
        Event::Role { master: Some(address(2)) },
        Event::Fault { id: 1, edge: Edge::Start },
        Event::Fault { id: 1, edge: Edge::End },
        Event::Fault { id: 2, edge: Edge::Start },
        Event::Note { text: "one".to_owned() },
        Event::Note { text: "two".to_owned() },
    ]
}

#[test]
fn every_field_of_every_event_moves_the_hash() {
    let mut seen = std::collections::BTreeMap::new();
    for event in flips() {
        for (at, host) in [(1, 1), (2, 1), (1, 2)] {
            let here = (at, host, event.clone());
            if let Some(twin) = seen.insert(digest(at, host, event.clone()), here.clone()) {
                panic!("{twin:?} and {here:?} have the same hash");
            }
        }
    }
}

#[test]
fn a_remark_is_kept_and_moves_neither_the_hash_nor_the_count() {
    let master = address(1);
    for remark in [
        Event::Saw { sight: Sight::Down, master },
        Event::Declined { request: request(1, 2, 3), word: "READONLY".to_owned() },
        Event::Names { request: request(1, 2, 3), keys: Vec::new() },
        Event::Exchanged(request(1, 2, 3), Exchange::default()),
        Event::Content { key: KeyName::new(0, b"k"[..].into()), digest: 1 },
        Event::Ordered { fault: 1, connection: request(1, 2, 3).connection },
        Event::Dumped { appends: Some(1) },
        Event::Continued { history: 2, earlier: 1, to: 9 },
    ] {
        let mut trace = Trace::new(false);
        let stamp = trace.record(1, Readings::default(), HostId(1), remark);
        assert_eq!(trace.digest(), Trace::new(false).digest());
        assert_eq!(trace.entries().len(), 1);
        assert_eq!(trace.next_instant(1), stamp.instant());
    }
}

#[test]
fn every_field_of_every_happening_moves_the_hash() {
    let digest = |at, kind, a, b, payload: &[u8]| {
        let mut trace = Trace::new(false);
        trace.happen(at, kind, a, b, payload);
        trace.digest().digest
    };
    let same = digest(1, Happening::Delivery, 2, 3, b"bytes");
    assert_eq!(same, digest(1, Happening::Delivery, 2, 3, b"bytes"));
    let kinds = [
        Happening::Timer,
        Happening::Draw,
        Happening::Run,
        Happening::Connection,
        Happening::Process,
    ];
    let mut others: Vec<u128> = kinds.iter().map(|kind| digest(1, *kind, 2, 3, b"bytes")).collect();
    others.extend([
        digest(9, Happening::Delivery, 2, 3, b"bytes"),
        digest(1, Happening::Delivery, 9, 3, b"bytes"),
        digest(1, Happening::Delivery, 2, 9, b"bytes"),
        digest(1, Happening::Delivery, 2, 3, b"bytez"),
        digest(1, Happening::Delivery, 2, 3, b"byte"),
    ]);
    assert!(others.iter().all(|other| *other != same));
}

#[test]
fn the_hash_does_not_depend_on_how_records_fall_into_the_buffer() {
    let digest = |flushes: bool| {
        let mut trace = Trace::new(false);
        for n in 0..20_000_u64 {
            let length = usize::try_from(n % 97).expect("small");
            trace.happen(n, Happening::Delivery, 1, 2, &[7; 97][..length]);
            if flushes {
                trace.flush();
            }
        }
        trace.digest()
    };
    assert_eq!(digest(true), digest(false));
    assert_eq!(digest(true).records, 20_000);
}
