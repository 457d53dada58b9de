//! What the profile of a lock or of a client library says.

use lockstorm::hunt::matrix::Contender;
use lockstorm::hunt::profile::Profile;
use lockstorm::report::profile::text;
use lockstorm::run::Lab;
use lockstorm::scenario::Scenario;

#[test]
fn a_scenario_of_a_library_is_on_the_page_of_that_library_alone() {
    let text_of = "name = \"of-redsync\"\nask = \"Does it hold?\"\n\
                   topology = { kind = \"independent\", nodes = 5 }\n\
                   lock = { library = \"redsync\", ttl = \"10s\" }\n";
    let scenarios = [Scenario::parse("of-redsync.toml", text_of).expect("it is valid")];
    let has_it = |name: &str| {
        let contender = Contender::find(name).expect("it is known");
        text(&Profile::of(&Lab::default(), contender, &scenarios)).contains("- of-redsync: Does it")
    };
    let found = ["redsync", "redlock", "rslock"].map(has_it);
    assert_eq!(found, [true, false, false]);
}

/// A page that did not say what an option is where a scenario omits it would be of no use.
#[test]
fn an_option_has_its_default_on_the_page_of_a_lock_and_its_own_value_on_that_of_a_library() {
    let line = |name: &str, key: &str| {
        let contender = Contender::find(name).expect("it is known");
        let text = text(&Profile::of(&Lab::default(), contender, &[]));
        let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{key} ")));
        let words: Vec<&str> = line.expect("it has it").split_whitespace().take(3).collect();
        words[1..].join(" ")
    };
    for (name, key, value) in [
        ("redlock", "replies", "all whether"),
        ("redlock", "tries", "3 number"),
        ("redlock", "timeout", "50 ms"),
        ("redlock", "quorum", "- how"),
        ("redlock", "resend", "0 how"),
        ("pottery", "replies", "quorum whether"),
        ("redsync", "tries", "32 number"),
        ("token-lua-renewed", "cancel_renewal", "false whether"),
    ] {
        assert_eq!(line(name, key), value, "{key} of {name}");
    }
}
