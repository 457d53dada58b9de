//! Locks that their release hands on: it takes a waiter out of the queue and sets the key for that
//! waiter. Correct ones keep their promise, also if nobody hears of a hand-over in time; one that
//! hands the lock to the newest, one that forgets who waits, and one that counts the lease from the
//! wrong moment are found. Beside them, a lock whose keys are bounded by their values alone.

mod baton;
mod dated;

use lockstorm::check::verdict::Kind;
use lockstorm::explain::mechanism::how::How;
use lockstorm::own::{Algorithm, HuntTest, TopologyKind, hunt_own};

use crate::amount::amount;
use crate::found::{how, is_in_model, kinds};

fn hunt(lock: Algorithm) -> HuntTest {
    hunt_own(lock, TopologyKind::Single).within_assumptions().clients(4)
}

/// `LOCKSTORM_SHAPES` sets the number of plans for each lock.
#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_lock_that_is_handed_on_keeps_its_promise() {
    let plans = amount("LOCKSTORM_SHAPES", 500) as u64;
    for lock in [baton::BATON, baton::UNORDERED, baton::USHERED, dated::DATED] {
        let tally = hunt(lock).seeds(1..=plans).holds();
        assert!(tally.struck_in_hold > plans / 8, "{}: {tally:?}", lock.name);
    }
}

#[test]
fn a_release_that_hands_the_lock_to_the_newest_is_found() {
    let finding = hunt(baton::NEWEST).seeds(1..=100).finds();
    assert!(kinds(&finding).contains(&Kind::Overtaken), "{:?}", kinds(&finding));
    let (how, sentence) = how(&finding);
    assert_eq!(how, How::QueueSkipped, "{sentence}");
    let parts = ["'s release handed the lock on n1 to c", " had stood in it since "];
    assert!(parts.iter().all(|part| sentence.contains(part)), "{sentence}");
    assert!(is_in_model(&finding));
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_release_that_forgets_who_waits_is_found() {
    let finding = hunt(baton::DISPERSING).seeds(1..=1_000).finds();
    assert_eq!(kinds(&finding), [Kind::Overtaken]);
    let (how, sentence) = how(&finding);
    assert_eq!(how, How::QueueSkipped, "{sentence}");
    assert!(sentence.contains(", in a place that c"), "{sentence}");
    assert!(sentence.contains("'s release removed at "), "{sentence}");
    assert!(is_in_model(&finding));
}

#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_lease_that_is_counted_from_the_news_of_it_is_found() {
    let finding = hunt(baton::LATE_LEASE).seeds(1..=1_000).finds();
    let wrong = [Kind::LostEarly, Kind::DoubleGrant];
    assert!(kinds(&finding).iter().any(|kind| wrong.contains(kind)), "{:?}", kinds(&finding));
}

/// A waiter that has left, or died, is handed a key that nobody gives back.
#[test]
#[cfg_attr(debug_assertions, ignore = "it is long: a release build runs it")]
fn a_key_that_is_handed_over_for_good_is_told_as_that() {
    let finding = hunt(baton::ENDLESS).seeds(1..=400).finds();
    let (_, sentence) = how(&finding);
    let parts =
        ["'s release at ", " handed the key on n1 to c", "'s acquire of ", "nobody gave it back"];
    assert!(parts.iter().all(|part| sentence.contains(part)), "{sentence}");
}
