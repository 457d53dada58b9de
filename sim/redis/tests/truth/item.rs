//! Replies of RESP2 and RESP3 as trees, with a small parser and writer that share nothing with the
//! codec under test.

/// One reply, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// A reply of one line, with its first byte: `+OK`, `:1`, `$-1`, `_`.
    Line(Vec<u8>),
    /// `$` and `=`: bytes after their length.
    Bulk(u8, Vec<u8>),
    /// `*`, `%`, `~` and `>`: items after their number.
    Many(u8, Vec<Item>),
}

/// The complete items at the front of the bytes, and the remaining bytes.
pub fn items(mut bytes: &[u8]) -> (Vec<Item>, &[u8]) {
    let mut found = Vec::new();
    while let Some((item, rest)) = item(bytes) {
        found.push(item);
        bytes = rest;
    }
    (found, bytes)
}

fn item(bytes: &[u8]) -> Option<(Item, &[u8])> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, rest) = (&bytes[..end], &bytes[end + 2..]);
    let number = std::str::from_utf8(line.get(1..)?).ok().and_then(|text| text.parse().ok());
    let Some(number): Option<usize> = number else {
        return Some((Item::Line(line.to_vec()), rest));
    };
    match line[0] {
        kind @ (b'$' | b'=') => {
            let text = rest.get(..number)?.to_vec();
            Some((Item::Bulk(kind, text), rest.get(number + 2..)?))
        }
        kind @ (b'*' | b'~' | b'>' | b'%') => {
            let count = if kind == b'%' { number * 2 } else { number };
            let (mut parts, mut rest) = (Vec::new(), rest);
            for _ in 0..count {
                let (part, behind) = item(rest)?;
                parts.push(part);
                rest = behind;
            }
            Some((Item::Many(kind, parts), rest))
        }
        _ => Some((Item::Line(line.to_vec()), rest)),
    }
}

impl Item {
    /// Appends the item's bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Item::Line(line) => out.extend_from_slice(line),
            Item::Bulk(kind, text) => {
                out.push(*kind);
                out.extend_from_slice(format!("{}\r\n", text.len()).as_bytes());
                out.extend_from_slice(text);
            }
            Item::Many(kind, parts) => {
                let count = if *kind == b'%' { parts.len() / 2 } else { parts.len() };
                out.push(*kind);
                out.extend_from_slice(format!("{count}\r\n").as_bytes());
                parts.iter().for_each(|part| part.write(out));
                return;
            }
        }
        out.extend_from_slice(b"\r\n");
    }

    /// The items inside.
    pub fn parts(&self) -> &[Item] {
        match self {
            Item::Many(_, parts) => parts,
            _ => &[],
        }
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Item::Line(line) if line.starts_with(b"-"))
    }
}

/// Bytes as in a file of cases: one line of plain characters.
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b'\r' => text.push_str("\\r"),
            b'\n' => text.push_str("\\n"),
            b' '..=b'~' => text.push(char::from(*byte)),
            other => text.push_str(&format!("\\x{other:02x}")),
        }
    }
    text
}

/// The inverse of [`escape`].
pub fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let (byte, length) = match (first, behind) {
            (b'\\', [b'r', ..]) => (b'\r', 1),
            (b'\\', [b'n', ..]) => (b'\n', 1),
            (b'\\', [b'\\', ..]) => (b'\\', 1),
            (b'\\', [b'x', digits @ ..]) => {
                let digits = digits.get(..2).and_then(|two| std::str::from_utf8(two).ok());
                let value = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
                (value.unwrap_or_else(|| panic!("two digits behind \\x: {text}")), 3)
            }
            (plain, _) => (*plain, 0),
        };
        bytes.push(byte);
        rest = &behind[length..];
    }
    bytes
}

#[test]
fn what_is_escaped_comes_back() {
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(unescape(&escape(&all)), all);
}

#[test]
fn items_are_cut_where_they_end() {
    let bytes = b"%1\r\n+a\r\n*2\r\n$-1\r\n,1.5\r\n>2\r\n=5\r\ntxt:a\r\n#t\r\n*0\r\n$9\r\nab";
    let (found, rest) = items(bytes);
    let mut again = Vec::new();
    found.iter().for_each(|item| item.write(&mut again));
    assert_eq!((found.len(), rest), (3, &b"$9\r\nab"[..]));
    assert_eq!([&again[..], rest].concat(), bytes);
}
