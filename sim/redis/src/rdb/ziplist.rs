//! The predecessors of listpacks: ziplists before Redis 7, and zipmaps before those. They are read
//! and never written.

use bytes::Bytes;

use crate::rdb::cursor::{Cursor, WrongRdb};

const END: u8 = 0xFF;
/// A length that does not fit into one byte is in the four bytes after this one.
const LONG: u8 = 0xFE;

/// The elements of a ziplist; integers as text.
///
/// # Errors
/// If it is not a ziplist.
pub fn elements(bytes: &[u8]) -> Result<Vec<Bytes>, WrongRdb> {
    let mut cursor = Cursor::new(bytes);
    let size = cursor.little(4)?;
    // The offset of the last element and the number of elements follow.
    cursor.take(6)?;
    if size != bytes.len() as u64 {
        return Err(WrongRdb("a ziplist of another size"));
    }
    let mut elements = Vec::new();
    loop {
        match cursor.byte()? {
            END => break,
            LONG => drop(cursor.take(4)?),
            _ => {}
        }
        elements.push(element(&mut cursor)?);
    }
    if cursor.rest().is_empty() { Ok(elements) } else { Err(WrongRdb("more than a ziplist")) }
}

fn element(cursor: &mut Cursor) -> Result<Bytes, WrongRdb> {
    let head = cursor.byte()?;
    let number = match head {
        0..0x40 => return cursor.copy(usize::from(head)),
        0x40..0x80 => {
            let length = usize::from(head & 0x3F) << 8 | usize::from(cursor.byte()?);
            return cursor.copy(length);
        }
        0x80 => {
            let length = cursor.big(4)?;
            return cursor.copy(usize::try_from(length).unwrap_or(usize::MAX));
        }
        0xC0 => cursor.signed(2)?,
        0xD0 => cursor.signed(4)?,
        0xE0 => cursor.signed(8)?,
        0xF0 => cursor.signed(3)?,
        0xFE => cursor.signed(1)?,
        0xF1..=0xFD => i64::from(head & 0xF) - 1,
        _ => return Err(WrongRdb("no kind of element")),
    };
    Ok(Bytes::from(number.to_string()))
}

/// Keys and values of a zipmap, in turn.
///
/// # Errors
/// If it is not a zipmap.
pub fn zipmap_elements(bytes: &[u8]) -> Result<Vec<Bytes>, WrongRdb> {
    let mut cursor = Cursor::new(bytes);
    cursor.byte()?;
    let mut elements = Vec::new();
    while let Some(length) = zipmap_length(&mut cursor)? {
        elements.push(cursor.copy(length)?);
        let length = zipmap_length(&mut cursor)?.ok_or(WrongRdb("a key without a value"))?;
        let unused = cursor.byte()?;
        elements.push(cursor.copy(length)?);
        cursor.take(usize::from(unused))?;
    }
    if cursor.rest().is_empty() { Ok(elements) } else { Err(WrongRdb("more than a zipmap")) }
}

fn zipmap_length(cursor: &mut Cursor) -> Result<Option<usize>, WrongRdb> {
    Ok(match cursor.byte()? {
        END => None,
        LONG => Some(usize::try_from(cursor.little(4)?).unwrap_or(usize::MAX)),
        length => Some(usize::from(length)),
    })
}

#[cfg(test)]
mod tests {
    use super::{elements, zipmap_elements};

    #[track_caller]
    fn check(read: &[bytes::Bytes], expected: &[&str]) {
        let read: Vec<_> = read.iter().map(|bytes| String::from_utf8_lossy(bytes)).collect();
        assert_eq!(read, expected);
    }

    #[test]
    fn elements_of_every_kind_are_read() {
        let mut bytes = vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, b'a', 3, 0xF1, 2, 0xFD];
        bytes.extend([2, 0xFE, 0xFF, 2, 0xC0, 0, 0x80, 4, 0xF0, 0, 0, 1, 5, 0x40, 1, b'b', END]);
        bytes[0] = u8::try_from(bytes.len()).unwrap();
        check(&elements(&bytes).unwrap(), &["a", "0", "12", "-1", "-32768", "65536", "b"]);
        for end in 0..bytes.len() {
            elements(&bytes[..end]).unwrap_err();
        }
        let map = [1, 1, b'k', 2, 1, b'v', b'w', 0, END];
        check(&zipmap_elements(&map).unwrap(), &["k", "vw"]);
        zipmap_elements(&[1, 1, b'k', END]).unwrap_err();
    }

    const END: u8 = super::END;
}
