//! Swarm testing: a plan may have only half of the faults, and varies only half of the parameters.

use proptest::sample::subsequence;
use proptest::test_runner::TestRunner;

use crate::explore::drawing::{Alphabet, rows, sampled};
use crate::explore::parameter::Parameter;
use crate::plan::Plan;

/// The alphabet with half of its verbs that plans like this can have, and half of its parameters.
pub fn half(base: &Plan, alphabet: &Alphabet, runner: &mut TestRunner) -> Alphabet {
    // Callers are rarely drawn at all.
    let (callers, others): (Vec<Parameter>, Vec<Parameter>) =
        alphabet.varies.iter().partition(|parameter| **parameter == Parameter::Callers);
    let varies = some(others, runner).into_iter().chain(callers).collect();
    let alphabet = Alphabet { varies, ..alphabet.clone() };
    let words = rows(base, &alphabet).into_iter().map(|row| row.word.to_owned());
    match words.collect::<Vec<_>>() {
        // Only a disk could have them, and this plan keeps its disks.
        words if words.is_empty() => alphabet,
        words => Alphabet { verbs: some(words, runner).into_iter().collect(), ..alphabet },
    }
}

/// Half of these, rounded up.
fn some<T: Clone + std::fmt::Debug + 'static>(all: Vec<T>, runner: &mut TestRunner) -> Vec<T> {
    let half = all.len().div_ceil(2);
    sampled(&subsequence(all, half), runner)
}
