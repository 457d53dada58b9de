//! Every file in `tests/locks/` is a lock of another shape: correct ones must be found clean, and
//! planted bugs must be found. To add a lock, add a file.

mod file;
mod lock;

use std::panic::catch_unwind;

use lockstorm::own::{HuntTest, hunt_own};

use crate::amount::{number, sample};
use crate::found::{is_in_model, kinds};

use self::file::{Expect, File};

/// How many plans a correct lock withstands by default.
const PLANS: usize = 12;

/// Within how many plans a bug is found, unless its file says another number.
const SOON: usize = 200;

/// A hunt for the lock of a file, as its callers use it.
fn hunt(name: &'static str, file: &File) -> HuntTest {
    let mut hunt = hunt_own(lock::algorithm(name), file.topology).within_assumptions();
    if let Some(count) = file.clients {
        hunt = hunt.clients(count);
    }
    if let Some(count) = file.callers {
        hunt = hunt.callers(count);
    }
    if let Some(reenter) = file.reenter {
        hunt = hunt.reenter(reenter);
    }
    if let Some(extend) = file.extends {
        hunt = hunt.extend(extend);
    }
    hunt
}

type Named = (&'static str, &'static File);

/// The names of the files that fail; why has been printed.
fn failing(files: impl IntoIterator<Item = Named>, check: fn(Named)) -> Vec<&'static str> {
    let fails = |file: &Named| catch_unwind(|| check(*file)).is_err();
    files.into_iter().filter(fails).map(|(name, _)| name).collect()
}

fn correct() -> impl Iterator<Item = Named> {
    wanted().filter(|(_, file)| matches!(file.expect, Expect::Clean(_)))
}

fn buggy() -> impl Iterator<Item = Named> {
    wanted().filter(|(_, file)| !matches!(file.expect, Expect::Clean(_)))
}

/// All files, or the one that `LOCKSTORM_LOCK` names.
#[allow(clippy::disallowed_methods, reason = "which file to try, not what is tried")]
fn wanted() -> impl Iterator<Item = Named> {
    let only = std::env::var("LOCKSTORM_LOCK").ok();
    file::all().filter(move |(name, _)| only.as_ref().is_none_or(|only| only == name))
}

fn withstands((name, file): Named) {
    let few = file.plans.unwrap_or(PLANS);
    let plans = number("LOCKSTORM_SHAPES").unwrap_or(few) as u64;
    let tally = hunt(name, file).seeds(1..=plans).holds();
    assert!(tally.struck_in_hold > plans / 8, "{name}: {tally:?}");
}

fn is_found((name, file): Named) {
    let Expect::Found(expected) = &file.expect else { unreachable!("it is buggy") };
    let finding = hunt(name, file).seeds(1..=file.plans.unwrap_or(SOON) as u64).finds();
    let kinds = kinds(&finding);
    assert!(expected.iter().all(|kind| kinds.contains(kind)), "{name}: {kinds:?}");
    assert!(is_in_model(&finding), "{name}: {kinds:?}");
}

/// `LOCKSTORM_SHAPES` sets the number of plans for each lock.
#[test]
fn a_correct_lock_keeps_its_promise() {
    assert_eq!(failing(sample(correct()), withstands), [""; 0]);
}

#[test]
fn a_planted_bug_is_found() {
    assert_eq!(failing(sample(buggy()), is_found), [""; 0]);
}
