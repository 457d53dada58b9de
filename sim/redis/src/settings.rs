//! The parameters of a node: the valid values of each, and the values that CONFIG SET gave them.
//!
//! The facts are in `settings/parameters.txt`, as Redis reports them. A parameter without effect on
//! the node is still kept and reported.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bytes::Bytes;

use crate::frame::integer;

const FACTS: &str = include_str!("settings/parameters.txt");

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// `yes` or `no`.
    Bool,
    /// A number between two bounds.
    Number(i64, i64),
    /// A number of bytes with a unit, without a maximum.
    Bytes,
    /// The same with a minimum; the maximum is that of a signed number.
    Memory(u64),
    /// A number of bytes, or a percentage of `maxmemory`.
    Percent,
    /// One word of this comma-separated list.
    Enum(&'static str),
    /// Anything.
    Text,
    /// The node's port: it cannot change.
    Port,
    /// Pairs of seconds and changes.
    Save,
    /// Limits of output buffers by class.
    Limits,
    /// Classes of keyspace notifications.
    Classes,
    /// Three numbers.
    Three,
    /// Percentiles.
    Percentiles,
    /// Can only be set at the start.
    Immutable,
    /// Cannot be set by CONFIG SET unless that was allowed at the start.
    Protected,
}

/// One parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// The name under which its value is kept; differs from `name` for an alias.
    pub kept_as: &'static str,
    /// Its type.
    pub kind: ParameterKind,
    default: &'static str,
}

static PARAMETERS: LazyLock<Vec<Parameter>> = LazyLock::new(|| {
    let lines = FACTS.lines().filter(|line| !line.starts_with('#'));
    let rows: Vec<[&'static str; 3]> = lines.map(columns).collect();
    let row = |name: &str| rows.iter().find(|row| row[0] == name).expect("a known name");
    let read = |[name, kind, rest]: &[&'static str; 3]| {
        let [kept_as, kind, default] = if *kind == "as" { *row(rest) } else { [*name, kind, rest] };
        Parameter { name, kept_as, kind: kind_of(kind), default }
    };
    rows.iter().map(read).collect()
});

fn columns(line: &'static str) -> [&'static str; 3] {
    let mut words = line.splitn(3, ' ');
    [(); 3].map(|()| words.next().unwrap_or_default())
}

fn kind_of(text: &'static str) -> ParameterKind {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    match kind {
        "bool" => ParameterKind::Bool,
        "number" => {
            let (least, most) = rest.split_once(',').expect("two bounds");
            ParameterKind::Number(least.parse().expect("a number"), most.parse().expect("a number"))
        }
        "memory" => ParameterKind::Memory(rest.parse().expect("a number")),
        "bytes" => ParameterKind::Bytes,
        "percent" => ParameterKind::Percent,
        "enum" => ParameterKind::Enum(rest),
        "text" => ParameterKind::Text,
        "port" => ParameterKind::Port,
        "save" => ParameterKind::Save,
        "limits" => ParameterKind::Limits,
        "classes" => ParameterKind::Classes,
        "three" => ParameterKind::Three,
        "percentiles" => ParameterKind::Percentiles,
        "immutable" => ParameterKind::Immutable,
        "protected" => ParameterKind::Protected,
        other => panic!("no kind of parameter: {other}"),
    }
}

/// Every parameter, by name.
pub fn all() -> &'static [Parameter] {
    &PARAMETERS
}

/// The parameter of this name, ignoring case.
pub fn find(name: &[u8]) -> Option<&'static Parameter> {
    all().iter().find(|parameter| parameter.name.as_bytes().eq_ignore_ascii_case(name))
}

/// The values that differ from the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    changed: BTreeMap<&'static str, String>,
}

impl Settings {
    /// The value of a parameter.
    pub fn get(&self, parameter: &Parameter) -> &str {
        self.changed.get(parameter.kept_as).map_or(parameter.default, String::as_str)
    }

    /// The value of the parameter of this name; empty if there is none.
    pub fn text(&self, name: &str) -> &str {
        find(name.as_bytes()).map_or("", |parameter| self.get(parameter))
    }

    /// The value of the parameter of this name as a number; 0 if it is not one.
    pub fn number(&self, name: &str) -> i64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// Whether the parameter of this name is `yes`.
    pub fn is_on(&self, name: &str) -> bool {
        self.text(name) == "yes"
    }

    /// Turns on the lazy freeing that is the default of Valkey 8.0 and later.
    pub fn free_lazily(&mut self) {
        let lazy = all().iter().filter(|parameter| parameter.name.starts_with("lazyfree-lazy-"));
        lazy.for_each(|parameter| self.set(parameter, "yes".to_owned()));
    }

    /// The command that propagates a deletion, lazy or not by the parameter of this name.
    pub fn deletion(&self, lazy: &str) -> Bytes {
        Bytes::from_static(if self.is_on(lazy) { b"UNLINK" } else { b"DEL" })
    }

    /// Sets a parameter to a value that [`Parameter::read`] returned.
    pub fn set(&mut self, parameter: &Parameter, value: String) {
        self.changed.insert(parameter.kept_as, value);
    }
}

impl Parameter {
    /// A value in the form in which it is kept.
    ///
    /// # Errors
    /// Redis's error text for an invalid value.
    pub fn read(&self, value: &[u8], old: &str) -> Result<String, String> {
        let text = String::from_utf8_lossy(value).into_owned();
        match self.kind {
            ParameterKind::Bool => match text.to_ascii_lowercase().as_str() {
                word @ ("yes" | "no") => Ok(word.to_owned()),
                _ => Err("argument must be 'yes' or 'no'".to_owned()),
            },
            ParameterKind::Number(least, most) => read_number(value, least, most),
            ParameterKind::Bytes => read_memory(&text, 0, u64::MAX),
            ParameterKind::Memory(least) => read_memory(&text, least, u64::MAX >> 1),
            ParameterKind::Percent => read_percent(&text),
            ParameterKind::Enum(words) => read_word(&text, words),
            ParameterKind::Text => Ok(text),
            ParameterKind::Port => {
                read_number(value, 0, 65_535)?;
                Err("Unable to listen on this port. Check server logs.".to_owned())
            }
            ParameterKind::Save => read_save(&text),
            ParameterKind::Limits => read_limits(&text, old),
            ParameterKind::Classes => read_classes(&text),
            ParameterKind::Three => read_three(&text),
            ParameterKind::Percentiles => read_percentiles(&text),
            ParameterKind::Immutable => Err("can't set immutable config".to_owned()),
            ParameterKind::Protected => Err("can't set protected config".to_owned()),
        }
    }
}

fn read_number(value: &[u8], least: i64, most: i64) -> Result<String, String> {
    let number = integer(value).ok_or("argument couldn't be parsed into an integer")?;
    if (least..=most).contains(&number) {
        return Ok(number.to_string());
    }
    Err(format!("argument must be between {least} and {most} inclusive"))
}

fn read_memory(text: &str, least: u64, most: u64) -> Result<String, String> {
    let bytes = bytes_of(text).ok_or("argument must be a memory value")?;
    if (least..=most).contains(&bytes) {
        return Ok(bytes.to_string());
    }
    Err(format!("argument must be between {least} and {most} inclusive"))
}

fn read_percent(text: &str) -> Result<String, String> {
    if let Some(number) = text.strip_suffix('%').and_then(|digits| integer(digits.as_bytes())) {
        return match number {
            101.. => Err("percentage argument must be less or equal to 100".to_owned()),
            0.. => Ok(text.to_owned()),
            _ => Err("argument must be a memory or percent value".to_owned()),
        };
    }
    let bytes = bytes_of(text).ok_or("argument must be a memory or percent value")?;
    Ok(bytes.to_string())
}

/// A number of bytes: digits and a unit, of which `k` is 1000 and `kb` 1024. Too many digits give
/// the maximum.
pub fn bytes_of(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let unit: u64 = match text[digits..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1_000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    let number = match &text[..digits] {
        "" => 0,
        digits => digits.parse().unwrap_or(u64::MAX),
    };
    Some(number.wrapping_mul(unit))
}

fn read_word(text: &str, words: &'static str) -> Result<String, String> {
    let known = words.split(',').find(|word| word.eq_ignore_ascii_case(text));
    let wrong =
        || format!("argument(s) must be one of the following: {}", words.replace(',', ", "));
    known.map(str::to_owned).ok_or_else(wrong)
}

fn read_save(text: &str) -> Result<String, String> {
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    let fits = |(at, word): (usize, &&str)| {
        word.parse::<i64>().is_ok_and(|number| number >= if at % 2 == 0 { 1 } else { 0 })
    };
    if words.len().is_multiple_of(2) && words.iter().enumerate().all(fits) {
        return Ok(words.join(" "));
    }
    Err("Invalid save parameters".to_owned())
}

/// Classes that are not named keep their limits.
fn read_limits(text: &str, old: &str) -> Result<String, String> {
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    if words.is_empty() || !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".to_owned());
    }
    let mut limits: Vec<String> = old.split(' ').map(str::to_owned).collect();
    for group in words.chunks_exact(4) {
        let class = match group[0].to_ascii_lowercase().as_str() {
            "normal" => 0,
            "slave" | "replica" => 1,
            "pubsub" => 2,
            _ => {
                return Err(
                    "Invalid client class specified in buffer limit configuration.".to_owned()
                );
            }
        };
        let wrong = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
        let seconds = group[3].parse::<i32>().ok().filter(|seconds| *seconds >= 0);
        let numbers = [bytes_of(group[1]), bytes_of(group[2])];
        let ([Some(hard), Some(soft)], Some(seconds)) = (numbers, seconds) else {
            return Err(wrong.to_owned());
        };
        let numbers = [hard.to_string(), soft.to_string(), seconds.to_string()];
        for (place, number) in limits.iter_mut().skip(class * 4 + 1).zip(numbers) {
            *place = number;
        }
    }
    Ok(limits.join(" "))
}

/// Classes in the order in which Redis reports them; `A` replaces the classes that it includes.
fn read_classes(text: &str) -> Result<String, String> {
    const ALL: &str = "g$lshzxetd";
    if text.chars().any(|class| !"Ag$lshzxeKEtmdn".contains(class)) {
        return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".to_owned());
    }
    let wants = |class: char| text.contains(class) || (text.contains('A') && ALL.contains(class));
    let mut letters = String::new();
    if ALL.chars().all(wants) {
        letters.push('A');
    } else {
        letters.extend("g$lshzxetdn".chars().filter(|class| wants(*class)));
    }
    letters.extend("KEm".chars().filter(|class| wants(*class)));
    if letters.starts_with('A') && wants('n') {
        letters.push('n');
    }
    Ok(letters)
}

fn read_three(text: &str) -> Result<String, String> {
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    if words.len() != 3 {
        return Err("wrong number of arguments".to_owned());
    }
    let fits = |word: &&str| word.parse().is_ok_and(|n: i64| (-2000..=2000).contains(&n));
    if !words.iter().all(fits) {
        return Err(
            "Invalid oom-score-adj-values, elements must be between -2000 and 2000.".to_owned()
        );
    }
    Ok(words.join(" "))
}

fn read_percentiles(text: &str) -> Result<String, String> {
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    let fits = |word: &&str| word.parse().is_ok_and(|p: f64| (0.0..=100.0).contains(&p));
    if words.iter().all(fits) {
        return Ok(words.join(" "));
    }
    Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{all, bytes_of, find, read_classes};

    #[test]
    fn parameters_are_in_order_and_their_defaults_are_values() {
        assert!(all().windows(2).all(|pair| pair[0].name < pair[1].name));
        assert_eq!(find(b"SLAVE-priority").unwrap().kept_as, "replica-priority");
        assert_eq!(find(b"hz ").map(|p| p.name), None);
    }

    #[test]
    fn units_and_classes_are_read_as_redis_does() {
        assert_eq!(bytes_of("1kb"), Some(1024));
        assert_eq!(bytes_of("2K"), Some(2000));
        assert_eq!((bytes_of("1.5gb"), bytes_of("-1"), bytes_of("")), (None, None, Some(0)));
        assert_eq!(read_classes("KEg$lshzxetd").unwrap(), "AKE");
        assert_eq!(read_classes("Kx$").unwrap(), "$xK");
        assert_eq!(read_classes("EKmA").unwrap(), "AKEm");
    }
}
