//! RDB, the serialisation format of Redis 7.0 (version 10): a file of all data, one key for DUMP,
//! the libraries for FUNCTION DUMP.
//!
//! Pure functions between bytes and values. All input is validated, whatever its source: bytes that
//! are not an RDB are refused, and use no more memory than a fixed multiple of their size.
//!
//! - `kind`: opcodes and type bytes
//! - `write`, `read`: values
//! - `cursor`: the unread input
//! - `listpack`, `ziplist`: small encodings, new and old
//! - `lzf`, `crc64`: compression and checksum

pub(crate) mod crc64;
pub(crate) mod cursor;
pub(crate) mod kind;
pub(crate) mod listpack;
pub(crate) mod lzf;
pub(crate) mod read;
pub(crate) mod write;
pub(crate) mod ziplist;

use bytes::Bytes;

use crate::keyspace::limits::Limits;
use crate::keyspace::{DATABASES, Database, Keyspace, Value};
use crate::rdb::crc64::crc64;
use crate::rdb::cursor::{Cursor, WrongRdb};

/// The version that is written, and the newest that is read.
const VERSION: u16 = 10;
/// Older files have no checksum.
const FIRST_WITH_CHECKSUM: u16 = 5;
/// Bytes of version and checksum at the end of a dump.
const FOOT: usize = 10;

/// The metadata of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts<'a> {
    /// When it was written, in Unix seconds.
    pub written_s: u64,
    /// Bytes of memory that its writer used.
    pub used_memory: u64,
    /// The replication offset of its contents, if it goes to a replica or may.
    pub stream: Option<Stream<'a>>,
    /// Whether it is the first part of an append-only file.
    pub is_base: bool,
}

/// A position in a replication stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream<'a> {
    /// The database that the stream has selected; -1 for none.
    pub db: i64,
    /// The history's id.
    pub id: &'a str,
    /// The offset.
    pub offset: u64,
}

/// A whole file: metadata, libraries and keys, in the order of Redis.
pub fn save<'a>(
    keyspace: &Keyspace,
    limits: &Limits,
    libraries: impl IntoIterator<Item = &'a Bytes>,
    facts: &Facts,
) -> Bytes {
    let mut out = format!("REDIS{VERSION:04}").into_bytes();
    put_facts(facts, &mut out);
    put_libraries(libraries, &mut out);
    for (number, db) in keyspace.iter().filter(|(_, db)| !db.is_empty()) {
        out.push(kind::DATABASE);
        write::length(number, &mut out);
        put_database(db, limits, &mut out);
    }
    out.push(kind::END);
    out.extend(crc64(&out).to_le_bytes());
    Bytes::from(out)
}

fn put_facts(facts: &Facts, out: &mut Vec<u8>) {
    let mut put = |name: &str, text: &str| {
        out.push(kind::FACT);
        write::string(name.as_bytes(), out);
        write::string(text.as_bytes(), out);
    };
    put("redis-ver", "7.0.15");
    put("redis-bits", "64");
    put("ctime", &facts.written_s.to_string());
    put("used-mem", &facts.used_memory.to_string());
    if let Some(stream) = &facts.stream {
        put("repl-stream-db", &stream.db.to_string());
        put("repl-id", stream.id);
        put("repl-offset", &stream.offset.to_string());
    }
    put("aof-base", if facts.is_base { "1" } else { "0" });
}

fn put_libraries<'a>(libraries: impl IntoIterator<Item = &'a Bytes>, out: &mut Vec<u8>) {
    for code in libraries {
        out.push(kind::FUNCTION);
        write::string(code, out);
    }
}

fn put_database(db: &Database, limits: &Limits, out: &mut Vec<u8>) {
    out.push(kind::SIZES);
    write::length(db.len(), out);
    write::length(db.ending(), out);
    db.iter().for_each(|(key, entry)| write::entry(key, entry, limits, out));
}

/// The contents of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// All keys, expired ones included. When they were last used is unknown.
    pub keyspace: Keyspace,
    /// The code of every library.
    pub libraries: Vec<Bytes>,
    /// Its metadata.
    pub facts: Vec<(Bytes, Bytes)>,
    /// Its length in bytes: more may follow.
    pub length: usize,
}

/// Reads a file.
///
/// # Errors
/// If it is not an RDB, or contains something unknown.
pub fn load(bytes: &[u8], limits: &Limits) -> Result<Contents, WrongRdb> {
    let mut cursor = Cursor::new(bytes);
    let version = version(&mut cursor)?;
    let (mut contents, mut db, mut until_ms) = (Contents::default(), 0, None);
    loop {
        match cursor.byte()? {
            kind::END => break,
            kind::FACT => contents.facts.push((cursor.string()?, cursor.string()?)),
            kind::FUNCTION => contents.libraries.push(cursor.string()?),
            kind::SIZES => drop((cursor.length()?, cursor.length()?)),
            kind::IDLE => drop(cursor.length()?),
            kind::FREQUENCY => drop(cursor.byte()?),
            kind::ENDS_AT_MS => until_ms = Some(cursor.little(8)?),
            kind::ENDS_AT_S => until_ms = Some(cursor.little(4)?.saturating_mul(1000)),
            kind::DATABASE => {
                let number = Some(cursor.length()?).filter(|number| *number < DATABASES);
                db = number.ok_or(WrongRdb("a database that there is not"))?;
            }
            of => {
                let (key, until_ms) = (cursor.string()?, until_ms.take());
                if let Some(mut value) = read::value(of, &mut cursor)? {
                    value.settle(limits);
                    contents.keyspace.db_mut(db).set(&key, value, until_ms);
                }
            }
        }
    }
    let sum = crc64(&bytes[..bytes.len() - cursor.rest().len()]);
    if version >= FIRST_WITH_CHECKSUM && ![0, sum].contains(&cursor.little(8)?) {
        return Err(WrongRdb("another checksum"));
    }
    contents.length = bytes.len() - cursor.rest().len();
    Ok(contents)
}

fn version(cursor: &mut Cursor) -> Result<u16, WrongRdb> {
    let wrong = WrongRdb("it does not begin like an RDB");
    let digits = cursor.take(9)?.strip_prefix(b"REDIS").ok_or(wrong)?;
    let version = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    version.filter(|version| (1..=VERSION).contains(version)).ok_or(wrong)
}

/// One value in the format of DUMP.
pub(crate) fn dump(value: &Value, limits: &Limits) -> Bytes {
    let mut out = vec![write::kind_of(value)];
    write::value(value, limits, &mut out);
    with_foot(out)
}

/// All libraries in the format of FUNCTION DUMP.
pub(crate) fn dump_libraries<'a>(libraries: impl IntoIterator<Item = &'a Bytes>) -> Bytes {
    let mut out = Vec::new();
    put_libraries(libraries, &mut out);
    with_foot(out)
}

fn with_foot(mut out: Vec<u8>) -> Bytes {
    out.extend(VERSION.to_le_bytes());
    out.extend(crc64(&out).to_le_bytes());
    Bytes::from(out)
}

/// Whether version and checksum at the end of a dump are valid.
pub(crate) fn is_checked(dump: &[u8]) -> bool {
    let Some(foot) = dump.len().checked_sub(FOOT) else { return false };
    let version = u16::from_le_bytes([dump[foot], dump[foot + 1]]);
    let sum = crc64(&dump[..foot + 2]).to_le_bytes();
    version <= VERSION && dump[foot + 2..] == sum
}

/// The value of a dump. As in Redis, it is not checked that the value ends where the version
/// begins.
///
/// # Errors
/// If there is no valid value.
pub(crate) fn dumped(dump: &[u8], limits: &Limits) -> Result<Value, WrongRdb> {
    let mut cursor = Cursor::new(dump);
    let of = cursor.byte()?;
    let mut value = read::value(of, &mut cursor)?.ok_or(WrongRdb("nothing is in it"))?;
    value.settle(limits);
    Ok(value)
}

/// The code of every library of a dump.
///
/// # Errors
/// If it contains something else.
pub(crate) fn dumped_libraries(dump: &[u8]) -> Result<Vec<Bytes>, WrongRdb> {
    let mut cursor = Cursor::new(dump);
    let mut libraries = Vec::new();
    while cursor.rest().len() > FOOT {
        if cursor.byte()? != kind::FUNCTION {
            return Err(WrongRdb("given type is not a function"));
        }
        let code = cursor.string();
        libraries.push(code.map_err(|_| WrongRdb("Failed loading library code"))?);
    }
    Ok(libraries)
}
