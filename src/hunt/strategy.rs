//! How a hunt draws its plans: the names of the strategies, and which one draws each plan.
//!
//! A plan follows from a seed and one strategy. The portfolio decides which strategy draws which
//! seed: see [`portfolio`].

pub mod bounds;
pub mod lineage;
pub mod portfolio;
pub mod priorities;
pub mod swarm;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::refusal::{Refusal, one_of};

/// The names on the command line.
pub const WORDS: [&str; 6] = ["portfolio", "random", "swarm", "priorities", "lineage", "bounds"];

/// How one plan is drawn from a seed.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Any faults, at any time.
    #[default]
    Random,
    /// Half of the faults and half of the parameters are left out, others in each plan. So rare
    /// combinations are not crowded out (swarm testing).
    Swarm,
    /// Clients of different speed, which change at a few points (probabilistic concurrency
    /// testing).
    Priorities,
    /// Faults that strike what the exclusivity of a run without faults rested on (lineage-driven
    /// fault injection).
    Lineage,
    /// Work, clocks and faults at the bounds of what the lock promises to withstand (boundary
    /// values).
    Bounds,
}

/// The strategies of a hunt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Strategies {
    /// All of them. Those that find more get more of the next plans.
    #[default]
    Portfolio,
    /// One strategy for all plans.
    Only(Strategy),
}

impl Strategy {
    /// Every strategy, in the order in which a hunt first tries them.
    pub const ALL: [Strategy; 5] = [
        Strategy::Random,
        Strategy::Swarm,
        Strategy::Priorities,
        Strategy::Lineage,
        Strategy::Bounds,
    ];

    /// Its name on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Strategy::Random => "random",
            Strategy::Swarm => "swarm",
            Strategy::Priorities => "priorities",
            Strategy::Lineage => "lineage",
            Strategy::Bounds => "bounds",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Strategies {
    /// Its name on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Strategies::Portfolio => WORDS[0],
            Strategies::Only(strategy) => strategy.word(),
        }
    }
}

impl From<Strategy> for Strategies {
    fn from(strategy: Strategy) -> Strategies {
        Strategies::Only(strategy)
    }
}

impl FromStr for Strategies {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Strategies, Refusal> {
        let all = [Strategies::Portfolio].into_iter().chain(Strategy::ALL.map(Strategies::Only));
        all.into_iter().find(|known| known.word() == text).ok_or_else(|| {
            let what = format!("there is no strategy '{text}'");
            Refusal::new(what, one_of(text, &WORDS))
        })
    }
}

impl TryFrom<String> for Strategies {
    type Error = String;

    fn try_from(text: String) -> Result<Strategies, String> {
        text.parse().map_err(|refusal: Refusal| refusal.to_string())
    }
}

impl From<Strategies> for String {
    fn from(strategies: Strategies) -> String {
        strategies.word().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{Strategies, Strategy, WORDS};

    #[test]
    fn each_strategy_is_read_by_its_name() {
        for word in WORDS {
            assert_eq!(word.parse::<Strategies>().map(Strategies::word), Ok(word));
        }
        let one = |strategy| Ok(Strategies::Only(strategy));
        assert_eq!("swarm".parse(), one(Strategy::Swarm));
        let refused = |text: &str| text.parse::<Strategies>().expect_err("none").to_string();
        assert_eq!(refused("swam"), "there is no strategy 'swam' (did you mean 'swarm'?)");
        let all = "there is no strategy 'genetic' (one of: portfolio, random, swarm, priorities, \
                   lineage, bounds)";
        assert_eq!(refused("genetic"), all);
    }
}
