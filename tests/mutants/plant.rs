//! Mutants in the text of the code: each expression becomes a choice at run time between the
//! original and the replacement of a mutant.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::table::Mutant;

/// The module that reports whether a mutant is switched on. It exists only in the copy.
pub const SWITCH: &str = r#"//! Which planted bug is switched on.

use std::sync::OnceLock;

/// Whether it is this one.
pub fn on(id: &str) -> bool {
    static ON: OnceLock<Option<String>> = OnceLock::new();
    let on = ON.get_or_init(|| std::env::var("LOCKSTORM_MUTANT").ok());
    on.as_deref() == Some(id)
}
"#;

/// The files that mutants change, with all mutants planted; `read` returns the text of a file.
///
/// # Errors
/// A line for each mutant that matches nowhere, or in more than one place.
pub fn planted(
    mutants: &[Mutant],
    read: impl Fn(&str) -> Result<String, String>,
) -> Result<BTreeMap<String, String>, Vec<String>> {
    let mut by_file: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        by_file.entry(&mutant.file).or_default().push(mutant);
    }
    let (mut files, mut wrong) = (BTreeMap::new(), Vec::new());
    for (file, mutants) in by_file {
        match read(file) {
            Ok(text) => match with_all(&text, &mutants) {
                Ok(text) => drop(files.insert(file.to_owned(), text)),
                Err(why) => wrong.extend(why),
            },
            Err(why) => wrong.push(format!("{file}: {why}")),
        }
    }
    if wrong.is_empty() { Ok(files) } else { Err(wrong) }
}

fn with_all(text: &str, mutants: &[&Mutant]) -> Result<String, Vec<String>> {
    let mut places: BTreeMap<(usize, usize), Vec<&Mutant>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for mutant in mutants {
        match place(text, mutant) {
            Ok(Range { start, end }) => places.entry((start, end)).or_default().push(mutant),
            Err(why) => wrong.push(format!("{}: {why} in {}", mutant.id, mutant.file)),
        }
    }
    let mut planted = text.to_owned();
    let mut free_from = usize::MAX;
    for ((start, end), mutants) in places.into_iter().rev() {
        if end > free_from {
            wrong.push(format!("{}: its place overlaps another's", mutants[0].id));
        }
        free_from = start;
        planted.replace_range(start..end, &choice(&text[start..end], &mutants));
    }
    if wrong.is_empty() { Ok(planted) } else { Err(wrong) }
}

/// The place of the text that a mutant replaces.
fn place(text: &str, mutant: &Mutant) -> Result<Range<usize>, &'static str> {
    let marked = "there is no «expression» to be replaced";
    let (before, rest) = mutant.find.split_once('«').ok_or(marked)?;
    let (inside, after) = rest.split_once('»').ok_or(marked)?;
    let whole = [before, inside, after].concat();
    let mut found = text.match_indices(&whole);
    let (at, _) = found.next().ok_or("its text does not stand")?;
    if found.next().is_some() {
        return Err("its text stands more than once");
    }
    if inside == mutant.put {
        return Err("it changes nothing");
    }
    let start = at + before.len();
    Ok(start..start + inside.len())
}

fn choice(original: &str, mutants: &[&Mutant]) -> String {
    // The lowest package has the switch: every other one depends on it.
    let lowest = mutants[0].file.starts_with("sim/platform/");
    let switch = if lowest { "crate" } else { "lockstorm_platform" };
    let branch = |mutant: &&Mutant| {
        format!("if {switch}::mutant::on({:?}) {{ {} }} else ", mutant.id, mutant.put)
    };
    let branches: String = mutants.iter().map(branch).collect();
    format!("({branches}{{ {original} }})")
}
