//! How soon hunts find what there is to find: the plans until the first violation, for each lock,
//! topology and family of faults.

#![allow(clippy::disallowed_methods, reason = "how long a hunt takes is real time")]

use std::fs;
use std::time::Instant;

use lockstorm::explore::trial::attempt;
use lockstorm::hunt::drawing::Alphabet;
use lockstorm::hunt::search::{BATCH, Until, scout};
use lockstorm::hunt::seeded::{Hunt, draw};
use lockstorm::lock::catalogue::ALGORITHMS;
use lockstorm::plan::TopologyKind;
use lockstorm::plan::base_plan::base_plan;
use lockstorm::plan::lack::lack;
use lockstorm::run::Lab;
use lockstorm_platform::fault::verbs::{self, ROWS};
use rayon::prelude::{IntoParallelIterator, ParallelIterator};

use crate::amount::{number, sample};

const TOPOLOGIES: [TopologyKind; 5] = [
    TopologyKind::Single,
    TopologyKind::Replicated,
    TopologyKind::Sentinel,
    TopologyKind::Cluster,
    TopologyKind::Independent,
];

/// A row in which so many plans show nothing is taken for one that is not violated.
const QUIET: u64 = 300;
/// The plans that one hunt may take.
const MOST: u64 = 1_000;
/// The plans within which half of the hunts of a violated row find it.
const MEDIAN: u64 = 100;

/// The rows that take longer, and the plans that half of their hunts may take for now: what they
/// show needs two rare events in one plan.
const SLOW: [(&str, u64); 10] = [
    ("setnx Cluster replica-lag", MOST),
    ("setnx Replicated clock-step", MOST),
    ("token-lua-renewed Cluster crash", 300),
    ("token-lua-renewed Cluster delay", MOST),
    ("token-lua-renewed Cluster jitter", MOST),
    ("token-lua-renewed Cluster loss", MOST),
    ("token-lua-renewed Cluster power-loss", 400),
    ("token-lua-renewed Replicated delay", MOST),
    ("token-lua-renewed Single delay", 500),
    ("token-lua-renewed Single loss", MOST),
];

/// The rows of which half of the hunts take at most [`SOON`] plans: that one of them shows nothing
/// in [`QUIET`] plans is a bug that hunts no longer see, and no chance.
const SOON_FOUND: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/rows-that-hunts-find.txt");
const SOON: u64 = 30;

/// The hunts of a row, and one of so many rows, unless the environment asks for more. With three
/// hunts chance alone takes the median of a row far from its own.
const FEW: u64 = 5;
const SOME: usize = 20;

/// The part of a row's name that the environment asks for. Without it all rows are.
fn asked() -> Option<String> {
    std::env::var("LOCKSTORM_ROW").ok()
}

fn is_written_anew() -> bool {
    std::env::var("LOCKSTORM_GOLDEN").is_ok_and(|word| word == "write")
}

/// One lock on one topology under one kind of fault.
struct Row {
    hunt: Hunt,
    what: String,
}

fn rows() -> Vec<Row> {
    let words: Vec<&str> = ROWS.iter().filter(|row| row.is_drawn).map(|row| row.word).collect();
    let mut rows = Vec::new();
    for lock in ALGORITHMS {
        for kind in TOPOLOGIES {
            let base = base_plan(lock.name, kind);
            if base.validate().is_err() {
                continue;
            }
            for word in &words {
                let row = verbs::find(word).expect("a verb");
                if lack(&base.topology, row).is_some() {
                    continue;
                }
                let verbs = [(*word).to_owned()].into();
                let alphabet = Alphabet { verbs, ..Alphabet::of(lock) };
                let base = base.clone();
                let hunt = Hunt::new(Lab::default(), base, alphabet, 1..=1);
                rows.push(Row { hunt, what: format!("{} {kind:?} {word}", lock.name) });
            }
        }
    }
    rows
}

/// The plans of a hunt until one is violated, if `most` suffice.
fn plans(hunt: &Hunt, from: u64, most: u64) -> Option<u64> {
    // One after the other, as far as no result changes which strategy draws the next one.
    let first = (1..=most).zip(hunt.portfolio().batch(BATCH as usize));
    for (nth, strategy) in first {
        if attempt(&hunt.lab, &draw(hunt, from + nth, strategy)).is_violated() {
            return Some(nth);
        }
    }
    let whole = Hunt { seeds: from + 1..=from + most, ..hunt.clone() };
    let scouted = scout(&whole, Until::First, None, &|_| {});
    (!scouted.groups.is_empty()).then_some(scouted.tally.runs)
}

/// The median over these hunts, and that of their seconds; `None` if the row is not violated,
/// [`MOST`] if a hunt found nothing.
fn median(hunt: &Hunt, hunts: u64) -> Option<(u64, f64)> {
    plans(hunt, 0, QUIET)?;
    let each = |nth| {
        let since = Instant::now();
        (plans(hunt, nth * MOST, MOST).unwrap_or(MOST), since.elapsed().as_secs_f64())
    };
    let mut all: Vec<(u64, f64)> = (0..hunts).map(each).collect();
    all.sort_by(|one, other| one.partial_cmp(other).expect("numbers"));
    all.get(all.len() / 2).copied()
}

#[test]
fn half_of_the_hunts_find_a_violated_row_soon() {
    let hunts = number("LOCKSTORM_REACH").map_or(FEW, |hunts| hunts as u64);
    let one_of = if hunts > FEW { 1 } else { SOME };
    let asked = asked();
    let is_asked = |row: &Row| asked.as_ref().is_none_or(|part| row.what.contains(part));
    let rows: Vec<Row> = sample(rows().into_iter().step_by(one_of).filter(is_asked));
    let names: Vec<String> = rows.iter().map(|row| row.what.clone()).collect();
    let mut found: Vec<((u64, f64), String)> = rows
        .into_par_iter()
        .filter_map(|row| Some((median(&row.hunt, hunts)?, row.what)))
        .collect();
    found.sort_by(|one, other| one.partial_cmp(other).expect("numbers"));
    for ((median, seconds), what) in found.iter().rev() {
        println!("{median:>5} plans {seconds:>7.2} s  {what}");
    }
    let of_row = |what: &str| found.iter().find(|(_, row)| row == what);
    if hunts > FEW && asked.is_none() && is_written_anew() {
        let mut soon: Vec<&str> =
            found.iter().filter(|row| row.0.0 <= SOON).map(|row| row.1.as_str()).collect();
        soon.sort_unstable();
        fs::write(SOON_FOUND, soon.join("\n") + "\n").expect("the rows are written");
    }
    let listed = fs::read_to_string(SOON_FOUND).expect("a list of rows");
    let is_lost = |what: &&String| of_row(what).is_none() && listed.lines().any(|row| row == *what);
    let lost: Vec<&String> = names.iter().filter(is_lost).collect();
    assert!(lost.is_empty(), "no hunt finds: {lost:#?}");
    let most = |what: &str| SLOW.iter().find(|(row, _)| *row == what).map_or(MEDIAN, |row| row.1);
    let late: Vec<_> = found.iter().filter(|((median, _), what)| *median > most(what)).collect();
    assert!(late.is_empty(), "{} of {}: {late:#?}", late.len(), found.len());
    assert!(!found.is_empty(), "some rows are violated");
}
