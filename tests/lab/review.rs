//! The review of a lock: it joins what hunts, the matrix and explanations find, and adds nothing.

use std::path::Path;
use std::time::Duration;

use lockstorm::explain::finding::Finding;
use lockstorm::explore::budget::{Budget, Spending};
use lockstorm::hunt::matrix::{Contender, FAMILIES, matrix, row};
use lockstorm::hunt::quarry::Quarry;
use lockstorm::hunt::review::{Inquiry, Judged, Review};
use lockstorm::hunt::wording::Wording;
use lockstorm::plan::TopologyKind;
use lockstorm::plan::base_plan::base_plan;
use lockstorm::report::hunt::Audience;
use lockstorm::report::review::{pages, text};
use lockstorm::run::Lab;

use crate::NO_TIME;

/// A time that nobody uses up.
const ENDLESS: Budget = Budget { length: Duration::from_secs(u32::MAX as u64), ..NO_TIME };

fn reviewed(lock: &str, seeds: u64, limit: Budget) -> Review {
    let mut quarry = Quarry::like(base_plan(lock, TopologyKind::Single));
    quarry.seeds = 1..=seeds;
    Inquiry::of(&Lab::default(), &quarry).expect("it makes sense").review(limit)
}

fn reader() -> Audience<'static> {
    Audience {
        folder: Path::new("reports"),
        is_whole: false,
        command: Some("lockstorm review".to_owned()),
        wording: Wording::Options,
        again: &|_: &Finding, path: &Path| format!("lockstorm replay {}", path.display()),
        others: "",
    }
}

#[test]
fn a_review_has_all_that_was_found_about_a_lock() {
    let review = reviewed("px-constant", 8, ENDLESS);
    assert_eq!(review.judged(), Judged::Broken);
    assert!(!review.weaknesses.is_empty(), "the snapshot shows what it is about");
    insta::assert_snapshot!(text(&review, &reader()));
    let pages = pages(&review, &reader());
    assert_eq!(pages.len(), 1 + review.weaknesses.len(), "a plan for each way to break it");
    let chapters: Vec<&str> =
        pages[0].text.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(chapters.len(), 8, "{chapters:?}");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn without_time_a_review_says_what_it_left_out() {
    let review = reviewed("px-constant", 200, NO_TIME);
    assert_eq!(review.beyond.scouted.tally.runs, 64, "one batch is run");
    assert_eq!(review.plans, 8, "and one of the row");
    let said = text(&review, &reader());
    let bugs = review.weaknesses.iter().filter(|one| one.found.is_bug()).count();
    assert!(bugs > 0 && bugs < review.weaknesses.len(), "{bugs} bugs, and others");
    assert!(said.contains(&format!("within what it assumes: {bugs} way")), "{said}");
    for part in ["where the budget ended", "because the time was up", "HELD", "not shrunk"] {
        let has = said.contains(part);
        assert_eq!(has, part != "HELD", "'{part}' in:\n{said}");
    }
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn the_row_of_a_review_is_that_of_the_matrix() {
    let lab = Lab::default();
    let contender = Contender::find("token-lua").expect("a lock");
    let rows = matrix(&lab, &[contender], &FAMILIES, &(1..=12), &|| {}, || false);
    let base = base_plan("token-lua", TopologyKind::Single);
    let (cells, plans) = row(&lab, &base, 1..=12, &Spending::of(None));
    assert_eq!(plans, 12);
    for ((family, cell), known) in FAMILIES.iter().zip(&cells).zip(&rows[0].cells) {
        match family.name {
            // The matrix gives it a replica there, a review leaves it as it is configured.
            "failover" => assert!(cell.impossible.is_some()),
            name => assert_eq!(cell, known, "{name}"),
        }
    }
}
