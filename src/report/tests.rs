//! Snapshot tests of every format, with hand-made findings.

use insta::{assert_binary_snapshot, assert_snapshot};
use lockstorm_platform::time::SECOND;

use crate::check::signature::Signature;
use crate::check::verdict::{Kind, Verdict};
use crate::explain::cause::outcome_words;
use crate::explain::experiment::{Changed, Experiments, Fresh, PlanChange, Remedied, ServiceLevel};
use crate::explain::explanation::explain;
use crate::explain::finding::Finding;
use crate::explain::fixture;
use crate::history::History;
use crate::report::index::{Entry, Linked};
use crate::report::{index, json, markdown, svg, text};

fn check(finding: &Finding) {
    let explanation = explain(finding);
    let name = &finding.scenario;
    assert_snapshot!(format!("{name}.md"), markdown::page(finding, &explanation));
    assert_snapshot!(format!("{name}.text"), text::page(finding, &explanation, false));
    let picture = svg::picture(finding, &explanation);
    assert_binary_snapshot!(&format!("{name}.svg"), picture.into_bytes());
}

#[test]
fn a_pause_that_outlives_the_lease() {
    check(&fixture::gc_pause::finding());
}

#[test]
fn an_amnesiac_restart() {
    check(&fixture::amnesia::finding());
}

#[test]
fn a_foreign_delete() {
    check(&fixture::foreign::finding());
}

#[test]
fn a_key_that_nobody_removes() {
    check(&fixture::orphan::stuck());
}

#[test]
fn a_renewal_that_revives() {
    check(&fixture::revived::finding());
}

#[test]
fn runs_that_hold() {
    check(&fixture::crowd::finding());
    check(&fixture::orphan::held());
}

#[test]
fn the_index_groups_by_lock() {
    let entries: Vec<Entry> = fixture::all().iter().map(Entry::of).collect();
    let some = Linked::Some(&["gc-pause-outlives-lease"], "INDEX.md");
    assert_snapshot!(index::page(&entries, some));
    let all = index::page(&entries, Linked::All);
    for Entry { scenario, .. } in &entries {
        assert!(all.contains(&format!("[{scenario}]({scenario}.md)")), "{all}");
    }
    assert!(!all.contains("INDEX.md"), "the reader has every report here");
}

#[test]
fn json_brings_the_finding_back() {
    for finding in fixture::all() {
        let document = json::document(&finding, &explain(&finding));
        let mut value: serde_json::Value = serde_json::from_str(&document).unwrap();
        let back: Finding = serde_json::from_value(value["finding"].take()).unwrap();
        assert_eq!(back, finding);
    }
}

#[test]
fn colour_is_only_there_when_requested() {
    let finding = fixture::gc_pause::finding();
    let explanation = explain(&finding);
    let plain = text::page(&finding, &explanation, false);
    let coloured = text::page(&finding, &explanation, true);
    assert!(!plain.contains('\u{1b}') && coloured.contains('\u{1b}'));
}

#[test]
fn a_picture_is_well_formed_and_fetches_nothing() {
    for finding in fixture::all() {
        let picture = svg::picture(&finding, &explain(&finding));
        let links = picture.matches("http").count();
        assert_eq!(links, 1, "only the name space is an address");
        assert!(!picture.contains("<script"));
        assert_eq!(picture.matches("<title").count(), picture.matches("</title>").count());
    }
}

#[test]
fn a_run_without_events_is_reported_all_the_same() {
    let mut finding = fixture::gc_pause::finding();
    finding.history = History::default();
    finding.judgement.verdict = Verdict::Unknown("nothing was tested".to_owned());
    finding.class = None;
    let explanation = explain(&finding);
    assert!(explanation.story.lines.is_empty());
    let page = markdown::page(&finding, &explanation);
    assert!(page.starts_with("# Unknown: nothing was tested.\n"), "{page}");
    assert!(svg::picture(&finding, &explanation).ends_with("</svg>\n"));
}

#[test]
fn a_change_after_which_nothing_was_tested_is_not_told_as_a_pass() {
    let check = |is_unknown, is_untested, said: &str| {
        let (change, kinds) = (PlanChange::Halved(1), Vec::new());
        let changed = Changed { change, kinds, stays: false, later: None, is_untested, is_unknown };
        assert_eq!(outcome_words(&changed), said);
    };
    check(false, false, "nothing is violated");
    check(true, false, "nothing is violated, and the verdict is unknown");
    check(true, true, "nothing is tested: nobody is granted the lock");
}

#[test]
fn remedies_that_tested_nothing_are_not_among_those_that_do_not_heal() {
    let remedy = |name: &str, is_unknown: bool| Remedied {
        name: name.to_owned(),
        scenario_plan: String::new(),
        diff: vec!["lock.ttl: 10s, then 41s".to_owned()],
        kinds: if is_unknown { Vec::new() } else { vec![Kind::StaleHolder] },
        is_unknown,
        service: ServiceLevel::default(),
        on_fresh: Fresh::default(),
    };
    let heals = |remedies: &[Remedied]| {
        let mut finding = fixture::gc_pause::finding();
        finding.experiments =
            Some(Experiments { remedies: remedies.to_vec(), ..Experiments::default() });
        let lines = text::short(&finding, &explain(&finding));
        let from = lines.iter().position(|line| line.starts_with("  heals:")).expect("it is told");
        let lines_of_it: Vec<&str> = lines[from..].iter().map(|line| line.trim()).collect();
        lines_of_it.join(" ")
    };
    let (fails, unknown) = (remedy("a look", false), remedy("a longer lease", true));
    let untested = "tested nothing: a longer lease (lock.ttl: 10s, then 41s)";
    assert_eq!(heals(&[]), "heals:  no known remedy applies here");
    assert_eq!(
        heals(&[fails.clone(), fails.clone()]),
        "heals:  none of the 2 remedies that were tried"
    );
    assert_eq!(
        heals(&[fails, unknown.clone()]),
        format!("heals:  none of the 2 remedies that were tried; 1 of them {untested}")
    );
    assert_eq!(
        heals(&[unknown]),
        format!("heals:  unknown: the one remedy that was tried {untested}")
    );
}

#[test]
fn a_remedy_that_shuts_a_lock_for_longer_says_so() {
    let mut finding = fixture::gc_pause::finding();
    let own = ServiceLevel::of(&finding.judgement.availability).longest_unavailable;
    let tried = |longest_unavailable| Remedied {
        name: "a longer lease".to_owned(),
        scenario_plan: String::new(),
        diff: Vec::new(),
        kinds: Vec::new(),
        is_unknown: false,
        service: ServiceLevel { longest_unavailable, ..ServiceLevel::default() },
        on_fresh: Fresh { runs: 50, held: 50, unknown: 0 },
    };
    let mut page = |kinds: &[Kind], longest| {
        let remedies = vec![tried(longest)];
        finding.experiments = Some(Experiments { remedies, ..Experiments::default() });
        let signature = Signature::of(&finding.judgement.verdict);
        finding.signature = Some(Signature { kinds: kinds.to_vec(), ..signature });
        let lines = text::short(&finding, &explain(&finding));
        lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
    };
    assert!(page(&[Kind::Leak], own + 6 * SECOND).contains("but nobody could get the lock here"));
    assert!(!page(&[Kind::Leak], own).contains("but nobody could get the lock here"));
    assert!(!page(&[Kind::StaleHolder], own + 6 * SECOND).contains("but nobody could get"));
}
