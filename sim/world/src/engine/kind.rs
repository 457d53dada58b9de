//! The engines by their names, and the constructor of each.

use lockstorm_platform::network::Latency;
use lockstorm_platform::rng::Chance;
use lockstorm_platform::time::MILLISECOND;
use lockstorm_platform::trace::Trace;
use serde::{Deserialize, Serialize};

use crate::engine::event::EventEngine;
use crate::engine::interface::Engine;
#[cfg(feature = "live")]
use crate::engine::live::{LiveEngine, ports::Ports};
use crate::engine::state::State;
#[cfg(feature = "turmoil")]
use crate::engine::turmoil::TurmoilEngine;

/// The engine that drives a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    /// Our own, in integer nanoseconds: see [`crate::engine::event`].
    #[default]
    Event,
    /// turmoil's, in whole milliseconds.
    #[cfg(feature = "turmoil")]
    Turmoil,
    /// Real sockets and real time: see [`crate::engine::live`].
    #[cfg(feature = "live")]
    Live,
}

impl EngineKind {
    /// The engine's word: `event`.
    pub fn word(self) -> &'static str {
        match self {
            EngineKind::Event => "event",
            #[cfg(feature = "turmoil")]
            EngineKind::Turmoil => "turmoil",
            #[cfg(feature = "live")]
            EngineKind::Live => "live",
        }
    }

    /// An engine without hosts at true time zero.
    pub(crate) fn engine(
        self,
        chance: Chance,
        latency: Latency,
        trace: Trace,
        whole_ms: bool,
    ) -> Box<dyn Engine> {
        match self {
            #[cfg(feature = "turmoil")]
            EngineKind::Turmoil => {
                let state = State::new(chance, latency, trace, MILLISECOND);
                Box::new(TurmoilEngine::new(state))
            }
            #[cfg(feature = "live")]
            EngineKind::Live => {
                let state = State::new(chance, latency, trace, 1);
                Box::new(LiveEngine::new(state, Ports::default()))
            }
            EngineKind::Event => {
                let grain = if whole_ms { MILLISECOND } else { 1 };
                Box::new(EventEngine::new(State::new(chance, latency, trace, grain)))
            }
        }
    }
}
