//! An addition to the resource's value, which happens in one step, and what it depends on.

use std::fmt;

use lockstorm_platform::time::Nanos;

/// The word for "none" in a request.
const NONE: &str = "-";

/// What is added to the resource's value, and what decides whether it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addition {
    /// What is added.
    pub by: i64,
    /// The smallest result; `None` for any.
    pub least: Option<i64>,
    /// The largest result; `None` for any.
    pub most: Option<i64>,
    /// Whether it happens before its result is compared: a refused addition stays in the value.
    pub first: bool,
    /// How long the value lives from the addition that begins with 0 on, ns; `None` if the addition
    /// sets no end.
    pub lasts: Option<Nanos>,
}

impl Addition {
    /// An addition without a condition.
    pub fn of(by: i64) -> Addition {
        Addition { by, ..Addition::default() }
    }

    /// The value after the addition, and whether it is accepted.
    pub fn to(&self, value: i64) -> (i64, bool) {
        let sum = value.saturating_add(self.by);
        let is_within =
            self.least.is_none_or(|least| sum >= least) && self.most.is_none_or(|most| sum <= most);
        (if is_within || self.first { sum } else { value }, is_within)
    }

    /// Reads what [`Addition`]'s `Display` has written; `None` if it is none.
    pub fn read(words: &[&str]) -> Option<Addition> {
        let [by, least, most, order, lasts] = words else { return None };
        let first = match *order {
            "add-first" => true,
            "test-first" => false,
            _ => return None,
        };
        let (least, most, lasts) = (optional(least)?, optional(most)?, optional(lasts)?);
        Some(Addition { by: by.parse().ok()?, least, most, first, lasts })
    }
}

impl fmt::Display for Addition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = if self.first { "add-first" } else { "test-first" };
        write!(f, "{} {} {} {order}", self.by, Word(self.least), Word(self.most))?;
        write!(f, " {}", Word(self.lasts))
    }
}

/// A number, or the word for none.
pub struct Word<T>(pub Option<T>);

impl<T: fmt::Display> fmt::Display for Word<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(number) => number.fmt(f),
            None => f.write_str(NONE),
        }
    }
}

/// A number or [`NONE`]; `None` if it is neither.
pub fn optional<T: std::str::FromStr>(word: &str) -> Option<Option<T>> {
    if word == NONE { Some(None) } else { word.parse().ok().map(Some) }
}

#[cfg(test)]
mod tests {
    use super::Addition;

    #[test]
    fn an_addition_is_read_as_it_was_written() {
        let within = Addition { by: -1, least: Some(0), ..Addition::default() };
        let limited = Addition {
            most: Some(20),
            first: true,
            lasts: Some(60_000_000_000),
            ..Addition::of(1)
        };
        for addition in [Addition::of(3), within, limited] {
            let text = addition.to_string();
            let words: Vec<&str> = text.split(' ').collect();
            assert_eq!(Addition::read(&words), Some(addition), "{text}");
        }
        assert_eq!(Addition::read(&["1", "-", "-", "sometimes", "-"]), None);
    }

    #[test]
    fn a_refused_addition_stays_only_if_it_happens_before_the_test() {
        let tested = Addition { most: Some(2), ..Addition::of(1) };
        assert_eq!(tested.to(1), (2, true));
        assert_eq!(tested.to(2), (2, false));
        assert_eq!(Addition { first: true, ..tested }.to(2), (3, false));
        assert_eq!(Addition { by: -1, least: Some(0), ..tested }.to(0), (0, false));
    }
}
