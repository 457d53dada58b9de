//! Listpacks: the small encoding of lists, hashes and sorted sets. Each element is an integer or a
//! string, followed by its own length.

use bytes::Bytes;

use crate::frame::integer;
use crate::rdb::cursor::{Cursor, WrongRdb};

/// Size of the header, and the byte after the last element.
const HEAD: usize = 6;
const END: u8 = 0xFF;
/// The count of a listpack whose elements were not counted.
const MANY: usize = 0xFFFF;

/// A listpack being written.
pub struct Listpack {
    bytes: Vec<u8>,
    count: usize,
}

impl Default for Listpack {
    fn default() -> Listpack {
        Listpack { bytes: vec![0; HEAD], count: 0 }
    }
}

impl Listpack {
    /// Adds an element: as an integer if its text is one.
    pub fn push(&mut self, element: &[u8]) {
        let start = self.bytes.len();
        match integer(element) {
            Some(number) => self.put_integer(number),
            None => self.put_string(element),
        }
        let length = self.bytes.len() - start;
        put_length_behind(length, &mut self.bytes);
        self.count += 1;
    }

    fn put_integer(&mut self, number: i64) {
        let bytes = number.to_le_bytes();
        match number {
            0..=127 => self.bytes.push(bytes[0]),
            -4096..=4095 => self.bytes.extend([0xC0 | bytes[1] & 0x1F, bytes[0]]),
            -0x8000..=0x7FFF => self.put(0xF1, &bytes[..2]),
            -0x80_0000..=0x7F_FFFF => self.put(0xF2, &bytes[..3]),
            -0x8000_0000..=0x7FFF_FFFF => self.put(0xF3, &bytes[..4]),
            _ => self.put(0xF4, &bytes),
        }
    }

    fn put_string(&mut self, text: &[u8]) {
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes();
        match text.len() {
            0..64 => self.bytes.push(0x80 | length[0]),
            64..4096 => self.bytes.extend([0xE0 | length[1], length[0]]),
            _ => self.put(0xF0, &length),
        }
        self.bytes.extend_from_slice(text);
    }

    fn put(&mut self, head: u8, bytes: &[u8]) {
        self.bytes.push(head);
        self.bytes.extend_from_slice(bytes);
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Its size in bytes.
    pub fn size(&self) -> usize {
        self.bytes.len() + 1
    }

    /// Its bytes.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(END);
        let size = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        let count = u16::try_from(self.count).unwrap_or(u16::MAX);
        self.bytes[..4].copy_from_slice(&size.to_le_bytes());
        self.bytes[4..HEAD].copy_from_slice(&count.to_le_bytes());
        self.bytes
    }
}

/// An element's length is read backwards: seven bits per byte, the lowest last.
fn put_length_behind(length: usize, out: &mut Vec<u8>) {
    for nth in (0..size_of_length(length)).rev() {
        let bits = (length >> (7 * nth) & 0x7F) as u8;
        let is_first = nth + 1 == size_of_length(length);
        out.push(if is_first { bits } else { bits | 0x80 });
    }
}

fn size_of_length(length: usize) -> usize {
    match length {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

/// The elements of a listpack; integers as text.
///
/// # Errors
/// If it is not a listpack.
pub fn elements(bytes: &[u8]) -> Result<Vec<Bytes>, WrongRdb> {
    let mut cursor = Cursor::new(bytes);
    let (size, count) = (cursor.little(4)?, cursor.little(2)?);
    if size != bytes.len() as u64 {
        return Err(WrongRdb("a listpack of another size"));
    }
    let mut elements = Vec::new();
    loop {
        let start = cursor.rest().len();
        let head = cursor.byte()?;
        if head == END {
            break;
        }
        elements.push(element(head, &mut cursor)?);
        let length = start - cursor.rest().len();
        cursor.take(size_of_length(length))?;
    }
    let counted = count == MANY as u64 || count == elements.len() as u64;
    if counted && cursor.rest().is_empty() {
        return Ok(elements);
    }
    Err(WrongRdb("a listpack with another end"))
}

fn element(head: u8, cursor: &mut Cursor) -> Result<Bytes, WrongRdb> {
    let number = match head {
        0..0x80 => i64::from(head),
        0x80..0xC0 => return cursor.copy(usize::from(head & 0x3F)),
        0xC0..0xE0 => {
            let bits = i64::from(head & 0x1F) << 8 | i64::from(cursor.byte()?);
            if bits < 1 << 12 { bits } else { bits - (1 << 13) }
        }
        0xE0..0xF0 => {
            let length = usize::from(head & 0xF) << 8 | usize::from(cursor.byte()?);
            return cursor.copy(length);
        }
        0xF0 => {
            let length = cursor.little(4)?;
            return cursor.copy(usize::try_from(length).unwrap_or(usize::MAX));
        }
        0xF1..=0xF3 => cursor.signed(usize::from(head - 0xEF))?,
        0xF4 => cursor.signed(8)?,
        _ => return Err(WrongRdb("no kind of element")),
    };
    Ok(Bytes::from(number.to_string()))
}

#[cfg(test)]
mod tests {
    use super::{Listpack, elements};

    #[test]
    fn elements_of_every_size_are_found_again() {
        let numbers = [0, 127, 128, -1, -4096, 4095, 4096, 32767, -32769, 8_388_607, 1 << 31];
        let mut texts: Vec<String> = numbers.iter().map(i64::to_string).collect();
        texts.extend([0, 63, 64, 4095, 4096, 20_000].map(|length| "x".repeat(length)));
        texts.extend([i64::MIN.to_string(), i64::MAX.to_string(), "007".to_owned()]);
        let mut pack = Listpack::default();
        texts.iter().for_each(|text| pack.push(text.as_bytes()));
        assert_eq!(pack.len(), texts.len());
        let size = pack.size();
        let bytes = pack.finish();
        assert_eq!(
            (elements(&bytes).unwrap(), bytes.len()),
            (texts.into_iter().map(Into::into).collect(), size)
        );
        for end in 0..bytes.len() {
            elements(&bytes[..end]).unwrap_err();
        }
    }
}
