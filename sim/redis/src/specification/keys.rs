//! Which words of a request are keys, and how they are accessed: the key specifications.

use bytes::Bytes;

use crate::frame::integer;
use crate::specification::Command;

/// The permitted or actual access to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Its value is read.
    pub(crate) reads: bool,
    /// It is changed.
    pub(crate) writes: bool,
}

impl Access {
    /// Reads and writes.
    pub(crate) const BOTH: Access = Access { reads: true, writes: true };

    /// From the letters of an ACL rule.
    pub(crate) fn of_letters(letters: &[u8]) -> Option<Access> {
        let mut access = Access { reads: false, writes: false };
        for letter in letters {
            match letter.to_ascii_uppercase() {
                b'R' => access.reads = true,
                b'W' => access.writes = true,
                _ => return None,
            }
        }
        (!letters.is_empty()).then_some(access)
    }

    /// Its prefix of a pattern in an ACL rule.
    pub(crate) fn prefix(self) -> &'static str {
        match (self.reads, self.writes) {
            (true, false) => "%R~",
            (false, true) => "%W~",
            _ => "~",
        }
    }

    /// The union of both.
    pub(crate) fn and(self, other: Access) -> Access {
        Access { reads: self.reads || other.reads, writes: self.writes || other.writes }
    }

    /// Whether this access permits the other.
    pub(crate) fn covers(self, other: Access) -> bool {
        self.reads >= other.reads && self.writes >= other.writes
    }

    fn of_flags(flags: &str) -> Access {
        let has = |word| flags.split('+').any(|flag| flag == word);
        Access { reads: has("access"), writes: has("insert") || has("delete") || has("update") }
    }
}

/// A word of a request that is a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPosition {
    /// Its index.
    pub at: usize,
    /// How it is accessed.
    pub(crate) access: Access,
    /// The flags of its specification, joined by `+`.
    pub(crate) flags: &'static str,
}

/// One key specification of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeySpecification {
    /// Joined by `+`.
    pub(crate) flags: &'static str,
    /// Where the search begins: `index:n` or `unknown`.
    pub(crate) begin: &'static str,
    /// How keys are found from there: `range:`, `keynum:` or `unknown`.
    pub(crate) find: &'static str,
    /// Whether Redis has a note on it.
    pub(crate) noted: bool,
}

/// The key specifications of a command.
pub(crate) fn specifications(command: &Command) -> impl Iterator<Item = KeySpecification> {
    command.documented[3].split(';').filter(|text| !text.is_empty()).map(|text| {
        let mut parts = text.split('@');
        let mut part = || parts.next().unwrap_or_default();
        KeySpecification { flags: part(), begin: part(), find: part(), noted: part() == "note" }
    })
}

/// Whether neither a command nor any of its subcommands names a key.
pub fn is_keyless(command: &Command) -> bool {
    let mut forms = [command].into_iter().chain(&command.subcommands);
    forms.all(|form| specifications(form).next().is_none())
}

/// The numbers after a colon: `range:0,1,0`.
pub(crate) fn numbers(text: &str) -> Vec<i64> {
    let list = text.split_once(':').map_or("", |(_, list)| list);
    list.split(',').filter_map(|number| number.parse().ok()).collect()
}

/// The keys of a request; none if its words are invalid.
pub fn keys_of(command: &Command, args: &[Bytes]) -> Vec<KeyPosition> {
    match command.name {
        "SET" => set_key(args),
        "SORT" => sort_keys(args),
        _ => {
            let mut places = Vec::new();
            for specification in specifications(command) {
                match found(&specification, args) {
                    Some(found) => places.extend(found),
                    None if specification.begin == "unknown" => {}
                    None => return Vec::new(),
                }
            }
            places
        }
    }
}

fn place(at: usize, flags: &'static str) -> KeyPosition {
    KeyPosition { at, access: Access::of_flags(flags), flags }
}

fn found(specification: &KeySpecification, args: &[Bytes]) -> Option<Vec<KeyPosition>> {
    let begin = usize::try_from(*numbers(specification.begin).first()?).ok()?;
    let &[one, two, three] = &numbers(specification.find)[..] else { return None };
    let words = i64::try_from(args.len()).ok()?;
    let from = i64::try_from(begin).ok()?;
    let (first, last, step) = if specification.find.starts_with("range") {
        (from, if one >= 0 { from + one } else { words + one }, two)
    } else {
        let count = integer(args.get(usize::try_from(from + one).ok()?)?)?;
        let first = from + two;
        (first, first.checked_add(count.checked_sub(1)?.checked_mul(three)?)?, three)
    };
    if last >= words || last < first || step < 1 {
        return None;
    }
    let places = (first..=last).step_by(usize::try_from(step).ok()?);
    places.map(|at| Some(place(usize::try_from(at).ok()?, specification.flags))).collect()
}

/// SET reads only with GET among its options.
fn set_key(args: &[Bytes]) -> Vec<KeyPosition> {
    let gets = args.iter().skip(3).any(|word| word.eq_ignore_ascii_case(b"GET"));
    vec![place(1, if gets { "RW+access+update" } else { "OW+update" })]
}

/// SORT writes the key after its last STORE.
fn sort_keys(args: &[Bytes]) -> Vec<KeyPosition> {
    let mut places = vec![place(1, "RO+access")];
    let mut store = None;
    let mut at = 2;
    while at < args.len() {
        at += match &args[at].to_ascii_uppercase()[..] {
            b"LIMIT" => 2,
            b"GET" | b"BY" => 1,
            b"STORE" if at + 1 < args.len() => {
                store = Some(at + 1);
                1
            }
            _ => 0,
        };
        at += 1;
    }
    places.extend(store.map(|at| place(at, "OW+update")));
    places
}
