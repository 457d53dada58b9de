//! What a node picks at random: members, keys. A generator of its own, so that the picks depend
//! on the node's seed and on what it was asked, and on nothing else.

/// SplitMix64.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chance(u64);

impl Chance {
    /// A generator that begins here.
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        let product = u128::from(self.next()) * bound as u128;
        usize::try_from(product >> 64).unwrap_or_default()
    }

    /// So many different numbers below `bound`, or all of them, in the order drawn.
    pub fn some_below(&mut self, bound: usize, count: usize) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..bound).collect();
        let count = count.min(bound);
        for at in 0..count {
            let other = at + self.below(bound - at);
            numbers.swap(at, other);
        }
        numbers.truncate(count);
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::Chance;

    #[test]
    fn what_is_drawn_is_below_the_bound_and_different() {
        let mut chance = Chance::new(7);
        assert!((0..1_000).all(|_| chance.below(3) < 3));
        assert_eq!(chance.below(0), 0);
        let mut some = chance.some_below(10, 7);
        some.sort_unstable();
        some.dedup();
        assert_eq!((some.len(), some.iter().all(|n| *n < 10)), (7, true));
        assert_eq!(chance.some_below(2, 9).len(), 2);
    }
}
