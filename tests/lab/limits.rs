//! The largest allowed plans run: documented limits are not refused, and nothing panics. One more
//! of each is refused.

use lockstorm::check::verdict::Verdict;
use lockstorm::explore::examine;
use lockstorm::run::Lab;
use lockstorm::scenario::Scenario;

/// A short scenario with this topology and this many clients.
fn text(topology: &str, lock: &str, clients: u32) -> String {
    format!(
        "name = 'large'\nask = 'x'\nheal_at = '1s'\nuntil = '7s'\n[topology]\n{topology}\n\
         [lock]\nalgorithm = '{lock}'\nttl = '1s'\n\
         [workload]\nkind = 'counter'\nclients = {clients}\nrounds = 1\nhold = '50ms'\n\
         stagger = '0s'\nretry = '200ms'\n"
    )
}

/// The largest runs and holds; one more is refused with this text.
fn check(lab: &Lab, largest: &str, more: &str, refusal: &str) {
    let refused = Scenario::parse("more", more).expect_err("this is too many").render(false);
    assert!(refused.contains(refusal), "{refused}");
    let plan =
        Scenario::parse("largest", largest).unwrap_or_else(|no| panic!("{}", no.render(false)));
    let finding = examine::plan(lab, &plan.plan(1));
    assert_eq!(finding.judgement.verdict, Verdict::Holds, "{largest}");
    assert!(finding.judgement.counts.grants > 0, "{:?}", finding.judgement.counts);
}

#[test]
fn a_thousand_clients_run() {
    let clients = |clients| text("kind = 'single'", "token-lua", clients);
    check(&Lab::default(), &clients(1_000), &clients(1_001), "these are too many clients");
}

#[test]
fn ninety_nine_nodes_run_in_every_topology() {
    let lab = Lab::default();
    for (kind, lock, least, more) in [
        ("independent", "redlock", 99, 100),
        ("replicated", "token-lua", 99, 100),
        ("sentinel", "token-lua", 99, 100),
    ] {
        let nodes = |n| text(&format!("kind = '{kind}'\nnodes = {n}"), lock, 2);
        check(&lab, &nodes(least), &nodes(more), "100 nodes are too many");
    }
    let nodes = |n, each| {
        text(&format!("kind = 'cluster'\nnodes = {n}\nreplicas = {each}"), "token-lua", 2)
    };
    check(&lab, &nodes(99, 0), &nodes(100, 0), "100 nodes are too many");
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn ninety_nine_sentinels_run() {
    let lab = Lab::default();
    let sentinels =
        |n| text(&format!("kind = 'sentinel'\nnodes = 2\nsentinels = {n}"), "token-lua", 2);
    check(&lab, &sentinels(99), &sentinels(100), "100 Sentinels cannot watch");
}
