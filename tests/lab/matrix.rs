//! The qualitative outcome of every cell of the matrix, with its reason: what the catalogue says of
//! each lock is written down, and a change of it has to be looked at.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::SeqCst;

use lockstorm::hunt::matrix::{Cell, Contender, FAMILIES, matrix};
use lockstorm::lock::catalogue::ALGORITHMS;
use lockstorm::run::Lab;

use crate::amount::{is_whole, sample};

const GOLDEN: &str = "tests/golden/matrix.txt";

/// Enough for what a family does to a lock at all; how often is not written down.
const PLANS: u64 = 24;

/// The cell in words: each kind of violation with its class and its mechanism.
fn outcome(cell: &Cell) -> String {
    if let Some(why) = &cell.impossible {
        return format!("impossible: {why}");
    }
    let found = cell.found.iter().map(|found| {
        let kinds: Vec<&str> = found.kinds.iter().map(|kind| kind.word()).collect();
        let class = if found.in_model { "in-model" } else { "out-of-model" };
        format!("{} ({class}, {})", kinds.join(" "), found.mechanism.word())
    });
    let found: Vec<String> = found.collect();
    if found.is_empty() { "held".to_owned() } else { found.join("; ") }
}

#[test]
fn every_cell_is_as_it_is_written_down() {
    let contenders = ALGORITHMS.iter().map(|lock| Contender::find(lock.name).expect("a lock"));
    let contenders: Vec<Contender> = sample(contenders);
    let rows = matrix(&Lab::default(), &contenders, &FAMILIES, &(1..=PLANS), &|| {}, || false);
    let mut lines = String::new();
    for row in &rows {
        for (family, cell) in FAMILIES.iter().zip(&row.cells) {
            lines.push_str(&format!("{} | {} | {}\n", row.lock, family.name, outcome(cell)));
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN);
    if std::env::var_os("LOCKSTORM_GOLDEN").is_some_and(|word| word == "write") {
        assert!(is_whole(), "a debug build tries fewer: write with --release");
        fs::write(&path, &lines).unwrap();
    }
    let golden = fs::read_to_string(path).expect("the outcomes are there");
    let known: BTreeSet<&str> = golden.lines().collect();
    let new: Vec<&str> = lines.lines().filter(|line| !known.contains(line)).collect();
    assert!(new.is_empty(), "other than in {GOLDEN}:\n{}", new.join("\n"));
    assert_eq!(golden.lines().count(), ALGORITHMS.len() * FAMILIES.len(), "lines too many");
}

/// A row that is cut short would look like one whose last families all held.
#[test]
fn a_row_that_is_stopped_is_left_out() {
    static CELLS: AtomicU32 = AtomicU32::new(0);
    let contender = [Contender::find("none").expect("a lock")];
    let count = || {
        CELLS.fetch_add(1, SeqCst);
    };
    let is_stopped = || CELLS.load(SeqCst) > 0;
    let rows = |is_stopped| {
        matrix(&Lab::default(), &contender, &FAMILIES[..4], &(1..=1), &count, is_stopped)
    };
    assert_eq!(rows(|| false).len(), 1);
    assert!(rows(is_stopped).is_empty());
}
