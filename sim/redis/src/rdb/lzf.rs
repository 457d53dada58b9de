//! LZF, the compression of strings in an RDB. An input has many valid compressed forms, and tests
//! compare the bytes, so the search for repetitions is that of Redis's copy of liblzf.
//!
//! `000LLLLL` and L+1 literal bytes; `LLLooooo oooooooo` repeats L+2 bytes from o+1 bytes before;
//! L = 7 has the rest of the length in an extra byte after the first.

use crate::rdb::cursor::{Cursor, WrongRdb};

/// Maximum number of bytes in a literal run.
const MAX_RUN: usize = 32;
/// Maximum distance of a repetition.
const FARTHEST: usize = 1 << 13;
/// Maximum length of a repetition, less the two bytes that every one has.
const MAX_REPETITION: usize = (1 << 8) + (1 << 3);
const PLACES: usize = 1 << 16;

/// Where three bytes were last seen: a hash table without collision handling. 0 means nowhere, and
/// the first byte of the input is never looked up.
struct Seen<'a> {
    input: &'a [u8],
    places: Vec<u32>,
}

impl Seen<'_> {
    /// Notes the three bytes at a position; returns the previous position with the same hash.
    fn note(&mut self, at: usize) -> usize {
        let [first, second, third] = [0, 1, 2].map(|more| u32::from(self.input[at + more]));
        let word = first << 16 | second << 8 | third;
        let place = ((word >> 8).wrapping_sub(word.wrapping_mul(5)) & 0xFFFF) as usize;
        let at = u32::try_from(at).unwrap_or(0);
        std::mem::replace(&mut self.places[place], at) as usize
    }

    /// How many bytes are equal at both positions, at most `most`; the first three are known to be.
    /// The first sixteen comparisons omit the check of the maximum, if it is that large.
    fn common(&self, before: usize, at: usize, most: usize) -> usize {
        let mut length = 2;
        loop {
            length += 1;
            let is_far = most > 16 && length <= 18;
            if (!is_far && length >= most) || self.input[before + length] != self.input[at + length]
            {
                return length;
            }
        }
    }
}

/// The compressed form, if it takes at most `most` bytes.
pub fn compress(input: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut seen = Seen { input, places: vec![0; PLACES] };
    let mut out = Vec::with_capacity(most);
    let (mut run, mut at) = (0, 0);
    while at + 2 < input.len() {
        let before = seen.note(at);
        let same =
            before > 0 && at - before <= FARTHEST && input[before..before + 3] == input[at..at + 3];
        if !same {
            if out.len() + run_size(at - run) >= most {
                return None;
            }
            at += 1;
            if at - run == MAX_RUN {
                put_run(&mut out, &input[run..at]);
                run = at;
            }
            continue;
        }
        put_run(&mut out, &input[run..at]);
        if out.len() + 4 >= most {
            return None;
        }
        let length = seen.common(before, at, (input.len() - at - 2).min(MAX_REPETITION));
        put_repetition(&mut out, at - before - 1, length - 2);
        at += length;
        run = at;
        if at + 2 >= input.len() {
            break;
        }
        // Within a repetition only the last two positions are noted.
        seen.note(at - 2);
        seen.note(at - 1);
    }
    if out.len() + run_size(at - run) + 3 > most {
        return None;
    }
    input[run..].chunks(MAX_RUN).for_each(|run| put_run(&mut out, run));
    Some(out)
}

/// The size of a literal run.
fn run_size(length: usize) -> usize {
    1 + length
}

fn put_run(out: &mut Vec<u8>, run: &[u8]) {
    if !run.is_empty() {
        out.push(u8::try_from(run.len() - 1).unwrap_or(31));
        out.extend_from_slice(run);
    }
}

fn put_repetition(out: &mut Vec<u8>, back: usize, length: usize) {
    let byte = |number: usize| (number & 0xFF) as u8;
    if length < 7 {
        out.push(byte((back >> 8) + (length << 5)));
    } else {
        out.extend([byte((back >> 8) + (7 << 5)), byte(length - 7)]);
    }
    out.push(byte(back));
}

/// The decompressed bytes: exactly `length` of them. Memory grows with the output.
///
/// # Errors
/// If the input is invalid or has another length.
pub fn decompress(input: &[u8], length: usize) -> Result<Vec<u8>, WrongRdb> {
    let mut out: Vec<u8> = Vec::new();
    let mut cursor = Cursor::new(input);
    while !cursor.rest().is_empty() && out.len() <= length {
        let head = usize::from(cursor.byte()?);
        if head < MAX_RUN {
            out.extend_from_slice(cursor.take(head + 1)?);
            continue;
        }
        let count = match head >> 5 {
            7 => 9 + usize::from(cursor.byte()?),
            bits => 2 + bits,
        };
        let back = ((head & 31) << 8) + usize::from(cursor.byte()?) + 1;
        let from = out.len().checked_sub(back).ok_or(WrongRdb("a repetition of nothing"))?;
        (from..from + count).for_each(|at| out.push(out[at]));
    }
    if out.len() == length { Ok(out) } else { Err(WrongRdb("a string of another length")) }
}

#[cfg(test)]
mod tests {
    use super::{compress, decompress};

    #[test]
    fn what_was_compressed_is_found_again() {
        for (text, times) in [("a", 22), ("ab", 40), ("abcdefghij", 3000), ("xyzzy.", 9)] {
            let input = text.repeat(times).into_bytes();
            let small = compress(&input, input.len() - 4).expect("it repeats itself");
            assert!(small.len() < input.len() / 2);
            assert_eq!(decompress(&small, input.len()), Ok(input));
        }
        let distinct: Vec<u8> = (0..=255).collect();
        assert_eq!(compress(&distinct, 252), None);
    }

    #[test]
    fn rubbish_is_refused() {
        for input in [&[31][..], &[32], &[32, 0], &[0, 1, 0xE0, 1], &[0, 1, 255, 255, 0]] {
            decompress(input, 20).unwrap_err();
        }
    }
}
