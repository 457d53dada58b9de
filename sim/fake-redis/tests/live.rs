//! Whole flows of a live fake server, with a real client. Time is real here: nothing waits for an
//! exact moment, only for what has to come.

#![expect(clippy::disallowed_methods, reason = "a test of a live server waits in real time")]

#[path = "live/clock.rs"]
mod clock;
#[path = "live/connections.rs"]
mod connections;
#[path = "live/failover.rs"]
mod failover;
#[path = "live/faults.rs"]
mod faults;
#[path = "live/life.rs"]
mod life;
#[path = "live/settings.rs"]
mod settings;
