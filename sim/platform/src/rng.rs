//! The only source of randomness. A draw has an address; it is not the next value of a sequence.
//!
//! The address is (purpose, entity, ordinal), so the removal of a fault or a client from a plan
//! changes no other draw. Values come from ChaCha8, one stream per (purpose, entity). A plan may
//! override any single draw by its address.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::Hasher;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher24;

/// What a draw is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// The latency of a message on its link.
    Latency,
    /// Whether a message is lost and has to be retransmitted.
    Loss,
    /// Which of the tasks that are ready at the same instant runs first.
    Tie,
    /// A lock's back-off before it retries.
    Backoff,
    /// A lock's owner token.
    Token,
    /// A workload's choice.
    Workload,
    /// A server's own randomness: replication ids, eviction.
    Server,
    /// A choice made when a plan is created.
    Plan,
}

/// The address of one draw, written as `purpose/entity/ordinal`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DrawKey {
    /// What the draw is for.
    pub(crate) purpose: Purpose,
    /// The entity that draws: a host, a link, a task.
    pub(crate) entity: String,
    /// The number of the draw within (purpose, entity).
    pub(crate) ordinal: u64,
}

impl fmt::Display for DrawKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.purpose.word(), self.entity, self.ordinal)
    }
}

impl From<DrawKey> for String {
    fn from(key: DrawKey) -> String {
        key.to_string()
    }
}

impl TryFrom<String> for DrawKey {
    type Error = String;

    fn try_from(text: String) -> Result<DrawKey, String> {
        let wrong = || format!("'{text}' is no draw: write purpose/entity/ordinal");
        let (purpose, rest) = text.split_once('/').ok_or_else(wrong)?;
        let (entity, ordinal) = rest.rsplit_once('/').ok_or_else(wrong)?;
        let purpose = Purpose::ALL.into_iter().find(|p| p.word() == purpose).ok_or_else(wrong)?;
        let ordinal = ordinal.parse().map_err(|_| wrong())?;
        Ok(DrawKey { purpose, entity: entity.to_owned(), ordinal })
    }
}

impl Purpose {
    /// Every purpose.
    pub(crate) const ALL: [Purpose; 8] = [
        Purpose::Latency,
        Purpose::Loss,
        Purpose::Tie,
        Purpose::Backoff,
        Purpose::Token,
        Purpose::Workload,
        Purpose::Server,
        Purpose::Plan,
    ];

    /// The word for the purpose in a plan.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Purpose::Latency => "latency",
            Purpose::Loss => "loss",
            Purpose::Tie => "tie",
            Purpose::Backoff => "backoff",
            Purpose::Token => "token",
            Purpose::Workload => "workload",
            Purpose::Server => "server",
            Purpose::Plan => "plan",
        }
    }
}

/// How many draws are skipped rather than jumped over.
const NEAR: u64 = 16;

/// The randomness of one world: a seed, and the draws that a plan fixes.
#[derive(Clone, Debug)]
pub struct Chance {
    seed: u64,
    fixed: BTreeMap<DrawKey, u64>,
}

/// The draws of one (purpose, entity), by ordinal.
#[derive(Clone, Debug)]
pub struct Draws {
    place: StreamPlace,
    /// The place of the draws before the last jump: the messages of an operation draw near two
    /// ordinals in turn.
    other: Option<Box<StreamPlace>>,
    fixed: BTreeMap<u64, u64>,
}

/// A position in a stream, as the ordinal of the next draw.
#[derive(Clone, Debug)]
struct StreamPlace {
    stream: ChaCha8Rng,
    next: u64,
}

impl Chance {
    /// Randomness from `seed`; draws in `fixed` return the value given there.
    pub fn new(seed: u64, fixed: BTreeMap<DrawKey, u64>) -> Chance {
        Chance { seed, fixed }
    }

    /// The draws of one purpose and entity. Keep the result in the object that uses it: opening a
    /// stream costs a hash and a key set-up, sequential draws cost almost nothing.
    pub fn draws(&self, purpose: Purpose, entity: &str) -> Draws {
        let mut stream = ChaCha8Rng::seed_from_u64(self.seed);
        let mut name = SipHasher24::new();
        name.write_u8(purpose as u8);
        name.write(entity.as_bytes());
        stream.set_stream(name.finish());
        let here = |key: &DrawKey| key.purpose == purpose && key.entity == entity;
        let fixed =
            self.fixed.iter().filter(|(key, _)| here(key)).map(|(k, v)| (k.ordinal, *v)).collect();
        Draws { place: StreamPlace { stream, next: 0 }, other: None, fixed }
    }
}

impl Draws {
    /// The draw with number `ordinal`. Its value does not depend on previous draws.
    pub fn at(&mut self, ordinal: u64) -> u64 {
        if let Some(value) = self.fixed.get(&ordinal) {
            // The stream does not move, and `next` still names its position.
            return *value;
        }
        if !self.place.is_near(ordinal) {
            let other = self.other.get_or_insert_with(|| Box::new(self.place.clone()));
            std::mem::swap(&mut self.place, other);
        }
        self.place.draw(ordinal)
    }
}

impl StreamPlace {
    fn is_near(&self, ordinal: u64) -> bool {
        ordinal.wrapping_sub(self.next) <= NEAR
    }

    /// A jump computes four blocks of the cipher, 32 draws: what is near is reached by drawing.
    fn draw(&mut self, ordinal: u64) -> u64 {
        if self.is_near(ordinal) {
            for _ in 0..ordinal.wrapping_sub(self.next) {
                self.stream.next_u64();
            }
        } else {
            // A draw takes two words of 32 bits.
            self.stream.set_word_pos(u128::from(ordinal) * 2);
        }
        self.next = ordinal.wrapping_add(1);
        self.stream.next_u64()
    }
}

/// Maps a draw to `0..bound` (`bound` 0 gives 0). The bias is below `bound / 2^64`.
pub fn below(draw: u64, bound: u64) -> u64 {
    let wide = u128::from(draw) * u128::from(bound);
    let value = u64::try_from(wide >> 64).expect("the high half of a product of two u64 fits");
    debug_assert!(value < bound.max(1), "a draw stays below its bound");
    value
}

#[cfg(test)]
mod tests {
    use super::{Chance, DrawKey, Purpose, below};
    use std::collections::BTreeMap;

    #[test]
    fn a_draw_does_not_depend_on_the_draws_before_it() {
        let chance = Chance::new(7, BTreeMap::new());
        let mut in_order = chance.draws(Purpose::Latency, "c1>n1");
        let values: Vec<u64> = (0..100).map(|n| in_order.at(n)).collect();
        let mut backwards = chance.draws(Purpose::Latency, "c1>n1");
        for n in (0..100_u64).rev() {
            assert_eq!(backwards.at(n), values[usize::try_from(n).unwrap()]);
        }
        for step in [2, 7, 16, 17, 18, 40] {
            let mut leaps = chance.draws(Purpose::Latency, "c1>n1");
            for n in (0..100_u64).step_by(step) {
                assert_eq!(leaps.at(n), values[usize::try_from(n).unwrap()], "by {step}");
            }
        }
        let mut in_turn = chance.draws(Purpose::Latency, "c1>n1");
        for n in 0..30_u64 {
            for ordinal in [n, n + 70, n + 35].into_iter().take(2 + usize::from(n % 7 == 0)) {
                assert_eq!(in_turn.at(ordinal), values[usize::try_from(ordinal).unwrap()]);
            }
        }
        let other = chance.draws(Purpose::Latency, "c1>n2").at(0);
        assert_ne!(other, values[0]);
    }

    #[test]
    fn a_plan_may_fix_a_single_draw() {
        let key = DrawKey { purpose: Purpose::Tie, entity: "c1/0".to_owned(), ordinal: 3 };
        let free = Chance::new(7, BTreeMap::new()).draws(Purpose::Tie, "c1/0");
        let fixed = Chance::new(7, BTreeMap::from([(key, 42)])).draws(Purpose::Tie, "c1/0");
        let values = |mut draws: super::Draws| (0..6).map(|n| draws.at(n)).collect::<Vec<_>>();
        let (free, fixed) = (values(free), values(fixed));
        assert_eq!(fixed[3], 42);
        assert_eq!((&free[..3], &free[4..]), (&fixed[..3], &fixed[4..]));
    }

    #[test]
    fn an_address_survives_its_text() {
        let key = DrawKey { purpose: Purpose::Loss, entity: "c1>n1/a".to_owned(), ordinal: 9 };
        let text = String::from(key.clone());
        assert_eq!((text.as_str(), DrawKey::try_from(text.clone())), ("loss/c1>n1/a/9", Ok(key)));
        assert!(DrawKey::try_from("luck/c1/0".to_owned()).is_err());
    }

    #[test]
    fn below_stays_below() {
        assert_eq!((below(u64::MAX, 10), below(0, 10), below(u64::MAX, 0)), (9, 0, 0));
    }
}
