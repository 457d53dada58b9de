//! The randomness of a node: generators whose states are its own, so that a draw depends only on
//! the number of previous draws.

/// The generator behind random picks.
#[derive(Clone, Debug, Default)]
pub struct Dice(u64);

impl Dice {
    /// A generator seeded with these draws.
    pub fn new([first, second, third]: [u64; 3]) -> Dice {
        Dice(first ^ second.rotate_left(21) ^ third.rotate_left(42))
    }

    /// A number below `bound`.
    pub fn draw(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let drawn = u128::from(mixed ^ (mixed >> 31)) * bound as u128;
        let drawn = usize::try_from(drawn >> 64).unwrap_or(0);
        debug_assert!(drawn < bound || bound == 0, "what is drawn is below the bound");
        drawn
    }

    /// `count` different numbers below `bound`, or all of them, in the order drawn.
    pub fn draw_some(&mut self, bound: usize, count: usize) -> Vec<usize> {
        let mut numbers: Vec<usize> = (0..bound).collect();
        let count = count.min(bound);
        for at in 0..count {
            let other = at + self.draw(bound - at);
            numbers.swap(at, other);
        }
        numbers.truncate(count);
        numbers
    }
}

/// The generator behind `math.random`: Redis's own (`rand.c`), 48 bits of it.
#[derive(Clone, Debug, Default)]
pub struct ScriptDice(u64);

impl ScriptDice {
    /// The initial state in every process, according to `rand.c`.
    pub fn of_process() -> ScriptDice {
        ScriptDice(0x1234_ABCD_330E)
    }

    /// `redisSrand48`: continues from a seed.
    pub fn seed(&mut self, seed: u64) {
        self.0 = (seed & 0xffff_ffff) << 16 | 0x330E;
    }

    /// `redisLrand48`: the next number of 31 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = (self.0.wrapping_mul(0x5_DEEC_E66D) + 0xB) & 0xffff_ffff_ffff;
        self.0 >> 17
    }
}
