//! Plans that are drawn for locks with options: the commands that a hunt prints for a finding read
//! its plan again.

use crate::field::Takes;
use crate::hunt::drawing::Alphabet;
use crate::hunt::seeded::{Hunt, draw};
use crate::hunt::strategy::Strategy;
use crate::lock::algorithm::{Algorithm, Nodes};
use crate::lock::catalogue::{ALGORITHMS, find};
use crate::lock::library::LIBRARIES;
use crate::lock::options::{OPTIONS, set};
use crate::plan::base_plan::{base_plan, base_plan_of_library};
use crate::plan::{Plan, TopologyKind};
use crate::run::Lab;

/// All plans that are drawn for `base` are valid.
#[track_caller]
fn check(base: Plan, what: &str) {
    let lock = *find(&base.lock.algorithm).expect("it is of the catalogue");
    let hunt = Hunt::new(Lab::default(), base, Alphabet::of(lock), 1..=1);
    for seed in 1..=20 {
        let checked = draw(&hunt, seed, Strategy::Random).validate();
        assert!(checked.is_ok(), "{what}, seed {seed}: {checked:?}");
    }
}

fn topology(lock: &Algorithm) -> TopologyKind {
    match lock.nodes {
        Nodes::Quorum => TopologyKind::Independent,
        _ if lock.waits_for_replicas => TopologyKind::Replicated,
        _ => TopologyKind::Single,
    }
}

#[test]
fn of_each_library() {
    for library in &LIBRARIES {
        let lock = find(library.lock).expect("it is of the catalogue");
        check(base_plan_of_library(library, topology(lock)), library.name);
    }
}

#[test]
fn of_each_value_of_an_option() {
    for lock in &ALGORITHMS {
        for option in OPTIONS.iter().filter(|option| (option.of.has)(lock)) {
            let Takes::Word(values) = option.field.takes else { continue };
            for value in values {
                let mut base = base_plan(lock.name, topology(lock));
                base.lock = set(&base.lock, option.field.key, value).expect("it takes the value");
                if base.validate().is_ok() {
                    check(base, &format!("{} with {} = {value}", lock.name, option.field.key));
                }
            }
        }
    }
}
