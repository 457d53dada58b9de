//! The part of a node that only a Sentinel has.

use lockstorm_platform::trace::Event;

use crate::node::Node;
use crate::sentinel::{SentinelMoment, sight};
use crate::session::{Channel, Session};
use lockstorm_platform::time::Ms;

/// The wall clock in a Sentinel's type.
pub fn to_ms(now_ms: u64) -> Ms {
    Ms::try_from(now_ms).unwrap_or(Ms::MAX / 4)
}

impl Node {
    /// The current time for the Sentinel of this node, and a draw for steps that need one.
    pub fn moment(&mut self) -> SentinelMoment {
        let chance = self.dice.draw(1 << 32);
        SentinelMoment { ms: to_ms(self.clock.now_ms), chance: u64::try_from(chance).unwrap_or(0) }
    }

    /// The file of this node's Sentinel, if it must be rewritten.
    pub fn take_file(&mut self) -> Option<String> {
        let sentinel = self.sentinel.as_mut().filter(|sentinel| sentinel.unsaved)?;
        sentinel.unsaved = false;
        Some(sentinel.write_file())
    }

    /// What it has seen since the previous call, for the trace.
    pub fn take_sights(&mut self) -> Vec<Event> {
        let sentinel = self.sentinel.as_mut();
        sentinel.map(|sentinel| std::mem::take(&mut sentinel.sights)).unwrap_or_default()
    }

    /// Publishes the events of this node's Sentinel to its subscribers.
    pub fn publish_events(&mut self) {
        let Some(sentinel) = &mut self.sentinel else { return };
        let events = std::mem::take(&mut sentinel.events);
        let mut nobody = Session::default();
        sentinel.sights.extend(events.iter().filter_map(|(event, text)| sight(event, text)));
        for (event, text) in events {
            self.clients.publish(&mut nobody, Channel::Plain, event.as_bytes(), text.as_bytes());
        }
    }
}
