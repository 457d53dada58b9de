//! A position in bytes being read. It never reads or allocates more than the input has.

use bytes::Bytes;

/// Why bytes are not an RDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongRdb(pub &'static str);

/// The unread bytes.
#[derive(Clone, Debug)]
pub struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// A cursor at the start of these bytes.
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor(bytes)
    }

    /// The unread bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// The next bytes.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], WrongRdb> {
        let split = self.0.split_at_checked(count);
        let (taken, rest) = split.ok_or(WrongRdb("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    /// A copy of the next bytes.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn copy(&mut self, count: usize) -> Result<Bytes, WrongRdb> {
        self.take(count).map(Bytes::copy_from_slice)
    }

    /// The next byte.
    ///
    /// # Errors
    /// If there is none.
    pub fn byte(&mut self) -> Result<u8, WrongRdb> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// An unsigned little-endian number of at most eight bytes.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn little(&mut self, count: usize) -> Result<u64, WrongRdb> {
        let bytes = self.take(count)?;
        Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// An unsigned big-endian number of at most eight bytes.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn big(&mut self, count: usize) -> Result<u64, WrongRdb> {
        let bytes = self.take(count)?;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// A signed little-endian number of at most eight bytes.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn signed(&mut self, count: usize) -> Result<i64, WrongRdb> {
        let unused = 64 - 8 * count;
        let number = self.little(count)?;
        Ok((number << unused).cast_signed() >> unused)
    }
}
