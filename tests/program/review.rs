//! `review` as a user runs it: its exit codes, its files, and what it refuses.

use crate::cli::{Folder, check};

#[test]
fn a_review_is_one_report_and_ends_with_what_it_found() {
    let folder = Folder::new("review");
    let review = |lock: &'static str, seeds: &'static str| {
        ["review", "--lock", lock, "--seeds", seeds, "--jobs", "1"]
    };
    let list = "report: reports/review-none-single.md";
    let said = check(&folder, &review("none", "1..2"), 1, &["review of none, seeds 1..2", list]);
    let parts = ["What it promises", "What breaks it, and what heals it", "Not tested"];
    assert!(parts.iter().all(|part| said.contains(part)), "{said}");
    assert_eq!(
        said,
        check(&folder, &review("none", "1..2"), 1, &[]),
        "the same seeds, the same report"
    );
    let page = std::fs::read_to_string(folder.0.join("reports/review-none-single.md")).unwrap();
    let command = "`lockstorm review --lock none --seeds 1..2 --jobs 1`";
    assert!(page.contains(command) && page.contains("\n## What it promises\n"), "{page}");
    check(
        &folder,
        &review("token-lua", "1..4"),
        0,
        &["HELD  review-token-lua-single", "in 4 plans"],
    );
    check(
        &folder,
        &review("rslock", "1..4"),
        0,
        &["HELD  review-rslock-independent", "rslock 0.10.0 held"],
    );
}

#[test]
fn a_review_refuses_what_a_hunt_refuses() {
    let folder = Folder::new("no-review");
    let review = |more: &[&'static str]| [&["review", "--lock"][..], more].concat();
    check(&folder, &review(&["redlok"]), 3, &["invalid value 'redlok'", "'redlock'"]);
    check(&folder, &review(&["setnx", "--ttl", "3s"]), 3, &["has no time to live"]);
    check(&folder, &review(&["token-lua", "--budget", "0s"]), 3, &["runs no plan"]);
    check(&folder, &review(&["token-lua", "--option", "ttl=3s"]), 3, &["--ttl 3s"]);
    check(&folder, &review(&["token-lua", "--option", "order=sequential"]), 3, &["has no quorum"]);
    let kind = review(&["token-lua", "--topology", "singel"]);
    check(&folder, &kind, 3, &["invalid value 'singel'", "'single'"]);
    assert!(!folder.0.join("reports").exists(), "nothing is written");
}
