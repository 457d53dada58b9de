//! How much memory keys take: a model, the same for every run.
//!
//! Strings are counted as `MEMORY USAGE` of Redis 7.0 counts them (with the size classes of its
//! allocator); other values by their elements with a fixed overhead each. Memory of clients,
//! buffers and the server itself is not counted, except [`EMPTY`].

use std::collections::{BTreeMap, BTreeSet};

use crate::frame::integer;
use crate::keyspace::{Entry, Key, Keyspace, Value};

/// What an empty node takes: `maxmemory 1` refuses every write, as in Redis.
pub const EMPTY: u64 = 64;
/// A key's entry in the table of keys, and in that of expiry times.
const PLACE: u64 = 24;
const PLACE_OF_END: u64 = 32;
/// The object header of a value.
const OBJECT: u64 = 16;
/// The overhead of each element of a collection.
const ELEMENT: u64 = 16;
/// Longer strings are allocated separately from their object header.
const MAX_EMBEDDED_LEN: usize = 44;

/// The memory of a node, as `maxmemory` limits it.
#[derive(Clone, Debug, Default)]
pub struct MemoryUse {
    /// The memory that keys take; metered only with a limit.
    pub meter: Option<Meter>,
    /// Whether the current request began beyond `maxmemory`.
    pub is_exceeded: bool,
}

/// The memory that keys take, updated from the keys noted as changed.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    sizes: BTreeMap<(usize, Key), u64>,
    used: u64,
    changed: BTreeSet<(usize, Key)>,
}

impl Meter {
    /// A meter of a whole keyspace.
    pub fn of(keyspace: &Keyspace) -> Meter {
        let mut meter = Meter::default();
        for (number, db) in keyspace.iter() {
            meter.changed.extend(db.iter().map(|(key, _)| (number, Key::clone(key))));
        }
        meter
    }

    /// Notes that a key was changed, created or removed.
    pub fn note(&mut self, db: usize, key: &Key) {
        self.changed.insert((db, Key::clone(key)));
    }

    /// The memory that is used now.
    pub fn used(&mut self, keyspace: &Keyspace) -> u64 {
        while let Some(place) = self.changed.pop_first() {
            let size = keyspace.db(place.0).get(&place.1).map(|entry| with_end(&place.1, entry));
            let old = match size {
                Some(size) => self.sizes.insert(place, size),
                None => self.sizes.remove(&place),
            };
            self.used = self.used + size.unwrap_or(0) - old.unwrap_or(0);
        }
        EMPTY + self.used
    }
}

fn with_end(key: &[u8], entry: &Entry) -> u64 {
    size_of(key, &entry.value) + entry.until_ms().map_or(0, |_| PLACE_OF_END)
}

/// The size of a key, as MEMORY USAGE reports it.
pub fn size_of(key: &[u8], value: &Value) -> u64 {
    PLACE + string_size(key.len()) + value_size(value)
}

fn value_size(value: &Value) -> u64 {
    match value {
        Value::String(bytes) if integer(bytes).is_some() => OBJECT,
        Value::String(bytes) if bytes.len() <= MAX_EMBEDDED_LEN => {
            allocated(OBJECT + 3 + bytes.len() as u64 + 1)
        }
        Value::String(bytes) => OBJECT + string_size(bytes.len()),
        Value::Hash(hash) => {
            let pairs = hash.in_order();
            OBJECT + pairs.iter().map(|(f, v)| element(f.len()) + element(v.len())).sum::<u64>()
        }
        Value::List(list) => OBJECT + list.0.iter().map(|e| element(e.len())).sum::<u64>(),
        Value::Set(set) => OBJECT + set.iter().map(|member| element(member.len())).sum::<u64>(),
        Value::SortedSet(set) => {
            OBJECT + set.iter().map(|(member, _)| element(member.len()) + 8).sum::<u64>()
        }
    }
}

fn element(length: usize) -> u64 {
    ELEMENT + length as u64
}

/// A string with its header and terminating byte.
fn string_size(length: usize) -> u64 {
    let head = match length {
        0..32 => 1,
        32..256 => 3,
        256..65_536 => 5,
        65_536..4_294_967_296 => 9,
        _ => 17,
    };
    allocated(head + length as u64 + 1)
}

/// The size class of an allocation: multiples of 16 up to 128, then four classes per doubling.
fn allocated(bytes: u64) -> u64 {
    match bytes {
        0..=8 => 8,
        9..=128 => bytes.next_multiple_of(16),
        _ => bytes.next_multiple_of(bytes.next_power_of_two() / 8),
    }
}
