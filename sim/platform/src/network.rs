//! Message latency: distributions as integer tables, without floats; and how long retransmission
//! delays a message that was lost or met a cut link.

use serde::{Deserialize, Serialize};

use crate::rng::below;
use crate::time::{MILLISECOND, Nanos};

/// The first retransmission timeout of data (Linux's minimum). The timeout doubles with each try.
pub const RETRANSMISSION: Nanos = 200 * MILLISECOND;
/// The number of tries after which a lost message arrives, whatever the link's loss.
pub const MAX_LOST_TRIES: u32 = 6;
/// The maximum time by which loss delays a message: the timeouts of all tries that can be lost.
pub const MAX_LOSS_DELAY: Nanos = RETRANSMISSION * ((1 << MAX_LOST_TRIES) - 1);

/// The maximum time by which a cut link delays a message. The sender does not learn when the link
/// is open again. Its timeout has doubled meanwhile, so the next try may come as long after the
/// outage as the outage lasted.
pub fn max_outage_delay(outage: Nanos) -> Nanos {
    outage.saturating_mul(2).saturating_add(RETRANSMISSION)
}

/// The latency of a link, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Latency {
    /// Always the same.
    Constant(Nanos),
    /// Uniform between the two bounds, both included.
    Uniform {
        /// The minimum.
        min: Nanos,
        /// The maximum.
        max: Nanos,
    },
    /// Exponential around a mean, truncated at seven times the mean.
    Exponential {
        /// The mean.
        mean: Nanos,
    },
    /// Mostly near the median; one in a hundred ten times as long, one in a thousand fifty times.
    LongTail {
        /// The median.
        median: Nanos,
    },
}

/// Quantiles of the exponential distribution at k/32, in thousandths of the mean; the last is the
/// truncation.
const EXPONENTIAL: [u64; 33] = [
    0, 32, 65, 98, 134, 170, 208, 247, 288, 330, 375, 421, 470, 521, 575, 633, 693, 758, 827, 901,
    981, 1068, 1163, 1269, 1386, 1520, 1674, 1856, 2079, 2367, 2773, 3466, 7000,
];

/// Quantiles of the long tail: (of 1000, thousandths of the median).
const LONG_TAIL: [(u64, u64); 6] =
    [(0, 500), (500, 1_000), (900, 1_800), (990, 10_000), (999, 50_000), (1_000, 100_000)];

impl Latency {
    /// The fixed latency, if no draw is needed.
    pub fn constant(&self) -> Option<Nanos> {
        match self {
            Latency::Constant(length) => Some(*length),
            _ => None,
        }
    }

    /// The latency that half of the messages do not exceed.
    pub fn median(&self) -> Nanos {
        self.of(u64::MAX / 2)
    }

    /// The latency for a draw.
    pub fn of(&self, draw: u64) -> Nanos {
        match *self {
            Latency::Constant(length) => length,
            Latency::Uniform { min, max } => {
                debug_assert!(min <= max, "a plan's latencies are validated");
                min + below(draw, (max - min).saturating_add(1))
            }
            Latency::Exponential { mean } => scaled(mean, exponential(draw)),
            Latency::LongTail { median } => scaled(median, long_tail(draw)),
        }
    }
}

fn scaled(length: Nanos, thousandths: u64) -> Nanos {
    let wide = u128::from(length) * u128::from(thousandths) / 1_000;
    u64::try_from(wide).unwrap_or(u64::MAX)
}

fn exponential(draw: u64) -> u64 {
    let place = below(draw, 32 * 1_000);
    let step = usize::try_from(place / 1_000).expect("a step is below 32");
    between(EXPONENTIAL[step], EXPONENTIAL[step + 1], place % 1_000, 1_000)
}

fn long_tail(draw: u64) -> u64 {
    let place = below(draw, 1_000_000);
    let step = LONG_TAIL.windows(2).find(|pair| place < pair[1].0 * 1_000);
    let step = step.expect("the table ends above every draw");
    let (from, to) = (step[0].0 * 1_000, step[1].0 * 1_000);
    between(step[0].1, step[1].1, place - from, to - from)
}

fn between(low: u64, high: u64, part: u64, whole: u64) -> u64 {
    debug_assert!(low <= high && part < whole, "a latency lies within its step of the table");
    low + (high - low) * part / whole
}

#[cfg(test)]
mod tests {
    use super::Latency;

    #[test]
    fn draws_keep_to_the_edges_and_grow() {
        for latency in [
            Latency::Uniform { min: 1_000, max: 5_000 },
            Latency::Exponential { mean: 1_000_000 },
            Latency::LongTail { median: 1_000_000 },
        ] {
            let lengths: Vec<u64> = (0..=1_000).map(|k| latency.of(u64::MAX / 1_000 * k)).collect();
            assert!(lengths.is_sorted(), "{latency:?}");
            assert!(lengths[0] < lengths[1_000]);
        }
        assert_eq!(Latency::Uniform { min: 3, max: 3 }.of(u64::MAX), 3);
    }
}
