//! Which fault a sentence blames for an assumption that the run broke, and what it says of faults
//! that breached nothing in the run.

use lockstorm::scenario::Scenario;

use super::built::{explained, run};

/// Checks that the sentences about broken assumptions begin with these texts, in order.
fn check(text: &str, said: &[&str]) {
    let plan = Scenario::parse("blame", text).expect("a scenario").plan(1);
    let (trial, class) = run(&plan);
    let sentences = explained(&plan, trial, class);
    let begins = sentences.iter().zip(said).all(|(sentence, said)| sentence.starts_with(said));
    assert!(begins && sentences.len() >= said.len(), "{sentences:#?}");
}

/// Near the heal there is no time for a later return: a disk that forgets nothing shows the same.
#[test]
fn a_node_that_forgets_near_the_heal_is_not_to_blame_for_the_lack_of_a_leader() {
    let text =
        include_str!("../../mechanisms/a-crash-near-the-heal-that-forgets-nothing-needed.toml");
    // The failover breaks both, so no trial removes one of the two alone.
    check(
        text,
        &[
            "no replica is made master: n3 was made master; take this away, and nothing is \
             violated (the same fault also broke: for at most 5 s after the heal clients find too \
             few masters).",
            "for at most 5 s after the heal clients find too few masters: failover of n3 and crash \
             of n3 left clients too few masters for 18 s; take all of this away, and nothing is \
             violated (at least one of these faults also broke: no node that forgets keys is back \
             before 3 s have passed; no replica is made master).",
        ],
    );
}

/// Without the first crash the second would lead to a failover, so trials blame both.
#[test]
fn a_crash_after_the_failover_is_not_said_to_have_led_to_it() {
    let text = include_str!("../../mechanisms/a-crash-after-the-failover-leads-to-none.toml");
    let failover = "no replica is made master: crash (fault 1) of n1 led to a failover (without \
                    that, crash (fault 2) of n1 would have); take all of this away, and nothing is \
                    violated";
    check(text, &[failover]);
}

/// The first crash came while n1 led, the second when n2 did.
#[test]
fn a_crash_of_a_former_master_is_not_said_to_have_led_to_the_next_failover() {
    check(
        include_str!("../../mechanisms/a-crash-between-two-failovers.toml"),
        &[
            "no replica is made master: crash (fault 2) of n1 led to a failover (without that, crash \
           (fault 3) of n1 would have); take all of this away, and nothing is violated (at least one \
           of these faults also broke: no node that forgets keys is back before 10 s have \
           passed).",
        ],
    );
}

/// Two crashes broke one assumption each by itself, and only the second broke another one.
#[test]
fn a_fault_is_not_said_to_have_broken_what_only_another_fault_of_its_kind_broke() {
    check(
        include_str!("../../mechanisms/a-restart-before-a-failover.toml"),
        &[
            "no node that forgets keys is back before 10 s have passed: n1 was back after 200 ms; \
             take this away, and there is no double-grant, corruption or not-linearizable.",
            "no replica is made master: crash (fault 3) of n1 led to a failover; take this away, \
             and there is no leak (the same fault also broke: no node that forgets keys is back \
             before 10 s have passed).",
        ],
    );
}

#[test]
fn faults_that_struck_a_dead_master_neither_led_to_a_failover_nor_kept_it_away() {
    check(
        include_str!("../../mechanisms/faults-that-struck-a-dead-master.toml"),
        &[
            "no replica is made master: crash (fault 1) of n1 led to a failover (without that, \
             pause of n1 and crash (fault 3) of n1 would have)",
            "replicas have what is written to their master 5 s after the heal: crash (fault 1) of \
             n1 kept replicas from their master for at least 17.901 s after the heal (without \
             that, pause of n1 and crash (fault 3) of n1 would have)",
        ],
    );
}
