//! What is blamed for a broken assumption: several faults that strike one node, one fault that
//! breaks two assumptions, faults that struck the dead.

use lockstorm::scenario::Scenario;

use super::built::{explained, run};

/// Checks that the sentences about broken assumptions begin with these texts, in order.
fn check(text: &str, said: &[&str]) {
    let plan = Scenario::parse("blame", text).expect("a scenario").plan(1);
    let (trial, class) = run(&plan);
    let sentences = explained(&plan, trial, class);
    let begins = sentences.iter().zip(said).all(|(sentence, said)| sentence.starts_with(said));
    assert!(begins && sentences.len() == said.len(), "{sentences:#?}");
}

/// Near the heal there is no time for a later return: a disk that forgets nothing shows the same.
/// The failover breaks both assumptions, so no trial removes one of the two alone.
#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_node_that_forgets_near_the_heal_is_not_to_blame_for_the_lack_of_a_leader() {
    check(
        include_str!("../../mechanisms/a-crash-near-the-heal-that-forgets-nothing-needed.toml"),
        &[
            "no replica is made master: n3 was made master; take this away, and nothing is \
             violated (then this is kept: for at most 5 s after the heal clients find \
             too few masters).",
            "for at most 5 s after the heal clients find too few masters: clients found too few \
             masters for 18 s, which does not happen once the failover of n3 and the crash of \
             n3 are removed; take all of this away, and nothing is violated (then these are \
             kept: no node that forgets keys is back before 3 s have passed; no replica \
             is made master).",
        ],
    );
}

/// Without the first crash the second leads to a failover, so the trial removes both.
#[test]
fn a_crash_after_the_failover_is_not_said_to_have_led_to_it() {
    check(
        include_str!("../../mechanisms/a-crash-after-the-failover-leads-to-none.toml"),
        &[
            "no replica is made master: n2 (at 3.376 s) was made master, which does not happen \
             once the crash (fault 1) of n1 and the crash (fault 2) of n1 are removed; take all \
             of this away, and nothing is violated (then this is kept: replicas have \
             what is written to their master 5 s after the heal).",
            "replicas have what is written to their master 5 s after the heal: a master had too \
             few replicas for at least 17.955 s after the heal, which does not happen once the \
             crash (fault 2) of n1 is removed; take this away, and nothing is violated.",
        ],
    );
}

/// The first crash came while n1 led, the second when n2 did.
#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_crash_of_a_former_master_is_not_said_to_have_led_to_the_next_failover() {
    check(
        include_str!("../../mechanisms/a-crash-between-two-failovers.toml"),
        &["no replica is made master: n2 (at 7.482 s) was made master, which does not happen \
             once the crash (fault 2) of n1 and the crash (fault 3) of n1 are removed; take all \
             of this away, and nothing is violated."],
    );
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn of_two_restarts_that_each_suffice_the_sentence_says_which() {
    check(
        include_str!("../../mechanisms/two-restarts-that-each-suffice.toml"),
        &["no node that forgets keys is back before 10 s have passed: either n1 was back after \
             0 s (fault 1), or n1 was back after 0 s (fault 2); one of these alone is enough."],
    );
}

/// Two crashes broke one assumption each by itself, and only the second broke another one.
#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_fault_is_not_said_to_have_broken_what_only_another_fault_of_its_kind_broke() {
    check(
        include_str!("../../mechanisms/a-restart-before-a-failover.toml"),
        &[
            "no node that forgets keys is back before 10 s have passed: n1 was back after 200 \
             ms (fault 1); take this away, and there is no double-grant, corruption or \
             not-linearizable.",
            "no replica is made master: n2 (at 10.081 s) was made master, which does not happen \
             once the crash (fault 3) of n1 is removed; take this away, and there is no leak.",
        ],
    );
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn faults_that_struck_a_dead_master_are_not_said_to_have_kept_it_away() {
    check(
        include_str!("../../mechanisms/faults-that-struck-a-dead-master.toml"),
        &[
            "no replica is made master: n2 (at 25.324 s) was made master, which does not happen \
             once the crash (fault 1) of n1, the pause of n1 and the crash (fault 3) of n1 are \
             removed; take all of this away, and nothing is violated (then this is kept: replicas \
             have what is written to their master 5 s after the heal).",
            "replicas have what is written to their master 5 s after the heal: a master had too \
             few replicas for at least 17.955 s after the heal, which does not happen once the \
             crash (fault 1) of n1, the pause of n1 and the crash (fault 3) of n1 are removed; \
             take all of this away, and nothing is violated (then this is kept: no \
             replica is made master).",
        ],
    );
}

/// If the first crash is removed and the second lasts longer instead, a failover comes about in
/// another way. That run shows nothing about the lock.
#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn an_outage_of_two_crashes_that_leads_to_a_failover_is_not_the_fault_of_the_lock() {
    check(
        include_str!("../../mechanisms/an-outage-of-two-crashes.toml"),
        &["either no node that forgets keys is back before 10 s have passed (n1 was back \
             after 1.4 s (2 faults)), or no replica is made master (n3 (at 7.522 s) was made \
             master, which does not happen once the crash (fault 3) of n1 is removed); one of \
             these alone is enough."],
    );
}

/// If the first crash lasts longer instead, it leads to a failover of its own. That the run has a
/// failover too, from a later crash, does not make that one a cause.
#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_restart_is_enough_though_a_longer_outage_leads_to_a_failover_like_a_later_one() {
    check(
        include_str!("../../mechanisms/a-restart-that-would-fail-over-if-longer.toml"),
        &["no node that forgets keys is back before 10 s have passed: n1 was back after 200 ms \
           (fault 1); take this away, and nothing is violated."],
    );
}

/// The last crash leads to a failover only in a run without the second and the third.
#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn what_breaks_an_assumption_in_a_smaller_plan_is_not_told_as_of_the_run() {
    check(
        include_str!("../../mechanisms/a-failover-of-a-smaller-plan.toml"),
        &[
            "no replica is made master: n2 (at 3.854 s) was made master, which does not happen \
             once the crash (fault 2) of n1 is removed; take this away, and nothing is violated.",
            "no node that forgets keys is back before 10 s have passed: n1 was back after 4 s \
             (fault 4), which breaks this only once other parts of the plan are removed; take this \
             away, and there is no stuck.",
            "no replica is made master: a replica is made master through the crash (fault 4) of \
             n1, once other parts of the plan are removed; take this away, and there is no stuck.",
        ],
    );
}
