//! Opcodes and type bytes of an RDB: types of values, encodings of strings, and the opcodes between
//! the keys.

/// A string.
pub const STRING: u8 = 0;
/// A list, element by element.
pub const LIST: u8 = 1;
/// A set, member by member.
pub const SET: u8 = 2;
/// A sorted set with scores as text.
pub const SORTED_SET_IN_TEXT: u8 = 3;
/// A hash, field by field.
pub const HASH: u8 = 4;
/// A sorted set with scores as doubles.
pub const SORTED_SET: u8 = 5;
/// A hash as a zipmap: Redis before 2.6.
pub const HASH_AS_ZIPMAP: u8 = 9;
/// A list as a ziplist: Redis before 3.2.
pub const LIST_AS_ZIPLIST: u8 = 10;
/// A set of integers.
pub const SET_OF_INTEGERS: u8 = 11;
/// A sorted set as a ziplist: Redis before 7.
pub const SORTED_SET_AS_ZIPLIST: u8 = 12;
/// A hash as a ziplist: Redis before 7.
pub const HASH_AS_ZIPLIST: u8 = 13;
/// A list of ziplists: Redis before 7.
pub const LIST_OF_ZIPLISTS: u8 = 14;
/// A hash as a listpack.
pub const HASH_AS_LISTPACK: u8 = 16;
/// A sorted set as a listpack.
pub const SORTED_SET_AS_LISTPACK: u8 = 17;
/// A list of listpacks, and of elements that are too large for one.
pub const LIST_OF_LISTPACKS: u8 = 18;

/// A library of functions.
pub const FUNCTION: u8 = 245;
/// Idle time of the next key.
pub const IDLE: u8 = 248;
/// Access frequency of the next key.
pub const FREQUENCY: u8 = 249;
/// Metadata of the file.
pub const FACT: u8 = 250;
/// How many keys the database has, and how many with an expiry time.
pub const SIZES: u8 = 251;
/// Expiry time of the next key, in milliseconds.
pub const ENDS_AT_MS: u8 = 252;
/// Expiry time of the next key, in seconds.
pub const ENDS_AT_S: u8 = 253;
/// The database of the following keys.
pub const DATABASE: u8 = 254;
/// End of the file.
pub const END: u8 = 255;

/// A string that is a number of 8 bits.
pub const IN_8_BITS: u8 = 0xC0;
/// A string that is a number of 16 bits.
pub const IN_16_BITS: u8 = 0xC1;
/// A string that is a number of 32 bits.
pub const IN_32_BITS: u8 = 0xC2;
/// A compressed string.
pub const COMPRESSED: u8 = 0xC3;
