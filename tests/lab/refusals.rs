//! Mistakes in user input: each file in `bad-scenarios` is refused with the text beside it, and no
//! input panics.

use std::fs;
use std::path::Path;

use lockstorm::plan::Plan;
use lockstorm::scenario::{self, Scenario};
use proptest::prelude::{any, prop_oneof, proptest};
use proptest::sample::Index;
use proptest::strategy::{Just, Strategy};

/// A scenario that uses every table.
const WHOLE: &str = include_str!("../whole.toml");

#[test]
fn every_bad_scenario_is_refused_with_its_place_and_a_mend() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad-scenarios");
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "toml"));
    files.sort();
    assert!(files.len() >= 25);
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../bad-scenarios");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let _bound = settings.bind_to_scope();
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let refusal = Scenario::parse(name, &text).expect_err(name);
        insta::assert_snapshot!(name, refusal.render(false));
    }
}

#[test]
fn a_remedy_that_no_scenario_is_named_is_refused() {
    let ill = |remedy: &str| {
        let text = WHOLE.replacen("ask =", &format!("remedy = [\"{remedy}\"]\nask ="), 1);
        [Scenario::parse("whole.toml", &text).unwrap()]
    };
    let healed = WHOLE.replacen("name = \"", "name = \"healed-", 1);
    let known = [Scenario::parse("healed.toml", &healed).unwrap()];
    let name = &known[0].name;
    scenario::link(&mut ill(name), &known).unwrap();
    scenario::link(&mut ill("kept-elsewhere"), &known).unwrap();
    let misspelt = name.replacen("healed", "heeled", 1);
    let refusal = scenario::link(&mut ill(&misspelt), &known).unwrap_err().render(false);
    assert!(refusal.contains(&format!("there is no scenario '{misspelt}'")), "{refusal}");
    assert!(refusal.contains(&format!("did you mean '{name}'?")), "{refusal}");
    assert!(refusal.contains("[whole.toml:"), "{refusal}");
}

#[test]
fn a_plan_survives_its_text() {
    let plan = Scenario::parse("whole.toml", WHOLE).unwrap().plan(7);
    let text = plan.to_json();
    assert_eq!(Plan::from_json("plan.json", &text).unwrap(), plan);
    assert_eq!(plan.to_json(), text);
    let other = Scenario::parse("whole.toml", WHOLE).unwrap().plan(8);
    assert_ne!(plan.digest(), other.digest());
}

#[test]
fn a_plan_that_is_none_of_ours_is_refused() {
    let text = Scenario::parse("whole.toml", WHOLE).unwrap().plan(7).to_json();
    let swaps = [
        ("\"format\": 1", "\"format\": 3"),
        ("\"seed\": 7", "\"seed\": 7, \"sead\": 8"),
        ("\"seed\": 7", "\"seed\": -7"),
        ("\"extra\"", "\"more\": 1, \"extra\""),
        ("\"target\": \"n2\"", "\"target\": \"n9\""),
        ("\"target\": \"n2\"", "\"target\": \"n2 ->\""),
        ("\"id\": 2", "\"id\": 1"),
        ("\"nodes\": 3", "\"nodes\": 4000000000"),
        ("\"quorum\": null", "\"quorum\": 2"),
        ("{", "["),
    ];
    let mut all = String::new();
    for (old, new) in swaps {
        assert!(text.contains(old), "{old}");
        let refusal = Plan::from_json("plan.json", &text.replacen(old, new, 1)).expect_err(new);
        all += &refusal.render(false);
    }
    all += &Plan::from_json("plan.json", "").expect_err("nothing").render(false);
    insta::assert_snapshot!(all);
}

/// A random edit of a text, as by a typing mistake.
#[derive(Clone, Debug)]
enum Slip {
    Cut(Index, Index),
    Insert(Index, String),
    SwapLines(Index, Index),
    Replace(Index, String),
}

fn slips() -> impl Strategy<Value = Slip> {
    let scrap = prop_oneof![
        Just("-".to_owned()),
        Just("\"".to_owned()),
        Just("99999999999999999999".to_owned()),
        Just("4294967295".to_owned()),
        Just("-9223372036854775808".to_owned()),
        Just("0".to_owned()),
        Just("ä€\u{1F512}".to_owned()),
        Just("\r\n[lock]\n".to_owned()),
        Just("[[fault]]\n".to_owned()),
        Just("30d".to_owned()),
        Just("n3 ".to_owned()),
        "\\PC{0,8}",
    ];
    let place = any::<Index>;
    prop_oneof![
        (place(), place()).prop_map(|(a, b)| Slip::Cut(a, b)),
        (place(), scrap.clone()).prop_map(|(a, text)| Slip::Insert(a, text)),
        (place(), place()).prop_map(|(a, b)| Slip::SwapLines(a, b)),
        (place(), scrap).prop_map(|(a, text)| Slip::Replace(a, text)),
    ]
}

fn slipped(text: &str, slip: &Slip) -> String {
    let char_at = |index: &Index| text.floor_char_boundary(index.index(text.len() + 1));
    match slip {
        Slip::Cut(a, b) => {
            let (a, b) = (char_at(a), char_at(b));
            let end = text.floor_char_boundary(b.clamp(a, a + 20).min(text.len()));
            format!("{}{}", &text[..a], &text[end.max(a)..])
        }
        Slip::Insert(a, scrap) => format!("{}{scrap}{}", &text[..char_at(a)], &text[char_at(a)..]),
        Slip::SwapLines(a, b) => {
            let mut lines: Vec<&str> = text.lines().collect();
            let count = lines.len().max(1);
            if !lines.is_empty() {
                lines.swap(a.index(count), b.index(count));
            }
            lines.join("\n")
        }
        Slip::Replace(a, scrap) => {
            let mut words: Vec<&str> = text.split(' ').collect();
            let nth = a.index(words.len());
            words[nth] = scrap;
            words.join(" ")
        }
    }
}

proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 512, failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_slip_of_a_scenario_panics(changes in proptest::collection::vec(slips(), 1..4)) {
        let text = changes.iter().fold(WHOLE.to_owned(), |text, slip| slipped(&text, slip));
        match Scenario::parse("slip.toml", &text) {
            Ok(scenario) => { scenario.plan(1).validate().unwrap(); }
            Err(refusal) => assert!(!refusal.render(false).is_empty()),
        }
    }

    #[test]
    fn no_slip_of_a_plan_panics(changes in proptest::collection::vec(slips(), 1..4)) {
        let whole = Scenario::parse("whole.toml", WHOLE).unwrap().plan(7).to_json();
        let text = changes.iter().fold(whole, |text, slip| slipped(&text, slip));
        match Plan::from_json("slip.json", &text) {
            Ok(plan) => plan.validate().unwrap(),
            Err(refusal) => assert!(!refusal.render(false).is_empty()),
        }
    }
}
