//! Swarm testing: a plan may have only half of the faults, and varies only half of the parameters.

use proptest::sample::subsequence;
use proptest::test_runner::TestRunner;

use crate::hunt::drawing::{Alphabet, rows, sampled};
use crate::plan::Plan;

/// The alphabet with half of its verbs that plans like this can have, and half of its parameters.
pub fn half(base: &Plan, alphabet: &Alphabet, runner: &mut TestRunner) -> Alphabet {
    let varies = some(alphabet.varies.iter().copied().collect(), runner).into_iter().collect();
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
