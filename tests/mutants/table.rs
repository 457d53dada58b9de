//! The tables of mutants in their files.

use std::fs;

use serde::Deserialize;

use crate::check::Check;
use crate::root;

/// The tables, and the minimum number of mutants of each.
pub const TABLES: [(&str, usize); 3] = [("locks", 70), ("world", 40), ("checkers", 580)];

/// One planted bug.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutant {
    /// Its name.
    pub id: String,
    /// What is wrong, in one line.
    #[serde(rename = "why")]
    pub _why: String,
    /// The file that it changes.
    pub file: String,
    /// A text that occurs once; the part between « and », an expression, is replaced.
    pub find: String,
    /// Its replacement.
    pub put: String,
    /// Why no hunt for its lock finds it, if none does.
    #[serde(default)]
    pub no_hunt: Option<String>,
    /// The check that must notice it.
    #[serde(rename = "noticed")]
    pub check: Check,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    mutant: Vec<Mutant>,
}

/// The mutants of one table.
pub fn read(name: &str) -> Vec<Mutant> {
    let path = root().join("tests/mutants").join(name).with_extension("toml");
    let text = fs::read_to_string(&path).expect("a table can be read");
    let table: Table = toml::from_str(&text).unwrap_or_else(|why| panic!("{name}.toml: {why}"));
    table.mutant
}

/// Every mutant, in the order of the tables.
pub fn all() -> Vec<Mutant> {
    TABLES.iter().flat_map(|(name, _)| read(name)).collect()
}

/// The requested mutants: `all`, every eighth from the fourth on (`3/8`), or by their ids.
pub fn share(mutants: Vec<Mutant>, asked: &str) -> Vec<Mutant> {
    let share = asked.split_once('/').and_then(|(nth, of)| Some((number(nth)?, number(of)?)));
    let ids: Vec<&str> = asked.split(',').collect();
    let is_asked = |(index, mutant): &(usize, Mutant)| match share {
        Some((nth, of)) => index % of == nth % of,
        None => asked == "all" || ids.contains(&mutant.id.as_str()),
    };
    let asked = mutants.into_iter().enumerate().filter(is_asked);
    asked.map(|(_, mutant)| mutant).collect()
}

fn number(text: &str) -> Option<usize> {
    text.parse().ok().filter(|number| *number > 0)
}
