//! The search over sets of parts, compared with a look at all sets.

use proptest::collection::vec;
use proptest::proptest;

use super::{Found, find};
use crate::ledger::part::{Part, Parts};

fn parts(bits: u32) -> Parts {
    (0..u32::BITS).filter(|bit| bits >> bit & 1 == 1).map(Part::Fault).collect()
}

fn bits(parts: &Parts) -> u32 {
    parts.iter().filter_map(|part| part.fault()).fold(0, |bits, fault| bits | 1 << fault)
}

/// What a search finds if the violation occurs with the sets of parts for which `is_there` holds,
/// of `count` parts.
fn found(count: u32, spared: u32, is_there: &dyn Fn(u32) -> bool) -> Found {
    let all = (1 << count) - 1;
    let list: Vec<Part> = parts(all).into_iter().collect();
    let mut trial = |outs: &[Parts]| outs.iter().map(|out| is_there(all & !bits(out))).collect();
    find(&list, &parts(spared), &mut trial)
}

/// The same from a look at all sets.
fn looked(count: u32, is_there: &dyn Fn(u32) -> bool) -> Found {
    let all: u32 = (1 << count) - 1;
    let there: Vec<u32> = (0..=all).filter(|set| is_there(*set)).collect();
    let is_minimal =
        |set: &&u32| !there.iter().any(|other| other != *set && other & *set == *other);
    let list = |set: u32| -> Vec<Part> { parts(set).into_iter().collect() };
    let common = there.iter().fold(all, |common, set| common & set);
    let alone = (0..count).filter(|part| !is_there(all & !(1 << part)));
    let alone = alone.fold(0, |alone, part| alone | 1 << part);
    let mut sufficient: Vec<Vec<Part>> =
        there.iter().filter(is_minimal).map(|set| list(*set)).collect();
    sufficient.sort_by_key(|set| (set.len(), set.clone()));
    let (necessary, needed_here) = (list(common), list(alone & !common));
    Found { necessary, sufficient, needed_here, may_be_more: false }
}

proptest! {
    /// Of few parts, whatever hides what.
    #[test]
    fn of_few_parts_all_sets_are_found(count in 0..=5_u32, table: u32) {
        let all = (1 << count) - 1;
        let is_there = |set: u32| set == all || table >> set & 1 == 1;
        assert_eq!(found(count, 0, &is_there), looked(count, &is_there));
    }

    /// Of many parts, if none hides anything.
    #[test]
    fn of_many_parts_all_sets_are_found(count in 6..=8_u32, sets in vec(0..256_u32, 1..4)) {
        let all = (1 << count) - 1;
        let is_there = |set: u32| sets.iter().any(|least| least & all & !set == 0);
        let mut found = found(count, 0, &is_there);
        found.sufficient.sort_by_key(|set| (set.len(), set.clone()));
        let whole = looked(count, &is_there);
        assert!(found == whole || found.may_be_more, "{found:?} instead of {whole:?}");
    }

    /// Of many parts, whatever hides what: nothing is called necessary without which the violation
    /// is known to occur, and each set suffices and needs each of its parts.
    #[test]
    fn nothing_that_is_spared_is_necessary(
        count in 6..=8_u32, spared in 1..256_u32, sets in vec(0..256_u32, 0..9), bare: bool,
        shows: bool,
    ) {
        let all = (1 << count) - 1;
        let spared = spared & all;
        let shows = shows && (bare || spared != all);
        let is_there = |set: u32| match set {
            _ if set == all => true,
            0 => bare,
            _ if set == all & !spared => shows,
            _ => sets.contains(&set),
        };
        let found = found(count, spared, &is_there);
        for set in &found.sufficient {
            let set = bits(&set.iter().copied().collect());
            let mut each = (0..count).filter(|part| set >> part & 1 == 1);
            let is_less = each.any(|part| is_there(set & !(1 << part)));
            assert!(is_there(set) && !is_less, "{set:b} of {found:?}");
        }
        let necessary = bits(&found.necessary.iter().copied().collect());
        assert_eq!(necessary & spared, 0, "{found:?}");
        assert!(necessary == 0 || !bare, "{found:?}");
        let is_known = |left: u32| {
            let sufficient = found.sufficient.iter();
            let mut sufficient = sufficient.map(|set| bits(&set.iter().copied().collect()));
            sufficient.any(|set| set & left == set)
        };
        let is_spared_known = !shows || is_known(all & !spared);
        assert!(is_spared_known && (!bare || is_known(0)), "{found:?}");
    }
}

/// A fault hides the violation unless the work is long: with both it occurs, and with neither.
#[test]
fn what_only_undoes_another_part_is_not_necessary() {
    let found = found(2, 0b11, &|set| set != 0b10);
    assert_eq!((found.necessary, found.sufficient), (vec![], vec![vec![]]));
    assert_eq!(found.needed_here, [Part::Fault(0)]);
}

/// Of many parts only the fault itself and the whole plan violate: all others hide what it does.
#[test]
fn a_fault_that_is_enough_alone_is_found_among_many_that_hide_it() {
    let found = found(6, 0, &|set| set == 0b111_111 || set == 0b1);
    assert_eq!((found.necessary.len(), &found.sufficient[..]), (1, &[vec![Part::Fault(0)]][..]));
    assert_eq!(found.needed_here.len(), 5);
}

/// Of many parts, two pairs suffice: once no choice of one part from each leads anywhere, the
/// search knows that there is no third set.
#[test]
fn a_search_that_tried_all_choices_says_that_there_is_no_more() {
    let found = found(6, 0, &|set| set & 0b11 == 0b11 || set & 0b1100 == 0b1100);
    assert_eq!((found.sufficient.len(), found.may_be_more), (2, false));
}
