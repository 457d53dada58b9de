//! Blocked sessions, as tasks: connections are woken, and waits end in time.

use std::rc::Rc;

use lockstorm_platform::time::{Clock, MILLISECOND, Nanos};
use lockstorm_platform::trace::{Event, Origin};

use crate::requests::end_waits;
use crate::server::{Server, TICK_MS};
use crate::signal::{First, Signal, first};

impl Server {
    /// Wakes the connections with new output, and the task that watches timeouts.
    pub fn wake(self: &Rc<Server>) {
        let mut node = self.node.borrow_mut();
        if node.clients.has_woken() {
            self.raise_wakes(&mut node);
        }
        if node.cluster.as_ref().is_some_and(|cluster| cluster.wants_something()) {
            self.bus.raise();
        }
        if node.clients.take_new_wait() {
            self.watch_ends(&node, node.keyspace.next_end_ms());
            drop(node);
            self.waits.raise();
            if !self.tended.replace(true) {
                self.host.spawn(end_waits_in_time(Rc::clone(self)));
            }
        }
    }
}

/// Ends blocking commands and pauses at the first tick after their timeout.
async fn end_waits_in_time(server: Rc<Server>) {
    loop {
        let seen = server.waits.count();
        let next = server.node.borrow().clients.next_deadline_ms();
        let Some(next) = next else {
            server.waits.past(seen).await;
            continue;
        };
        let tick = next.div_ceil(TICK_MS).saturating_mul(TICK_MS).saturating_mul(MILLISECOND);
        let tick = server.host.sleep_until(Clock::Wall, tick);
        if let First::That(()) = first(server.waits.past(seen), tick).await {
            let turn = server.turn.clone().lock().await;
            {
                let mut node = server.node.borrow_mut();
                node.set_time(server.host.now(Clock::Wall));
                end_waits(&mut node);
            }
            if server.publish(Origin::Node) {
                server.write_log().await;
            }
            server.wake();
            drop(turn);
        }
    }
}

/// Waits until a session's WAIT or WAITAOF is acknowledged or the session is unblocked; a timeout
/// takes effect at the next tick.
pub async fn wait(server: &Server, id: u64, wake: &Signal) {
    let Some(quorum) = server.node.borrow_mut().look_for_quorum(id, false) else { return };
    // Unrequested acknowledgements arrive only once a second.
    server.feeds.borrow_mut().request_acknowledgement(&mut server.node.borrow_mut());
    let until = (quorum.timeout_ms > 0).then(|| {
        let until = server.host.now(Clock::Monotonic) / MILLISECOND;
        let until = until.saturating_add(quorum.timeout_ms);
        until.div_ceil(TICK_MS).saturating_mul(TICK_MS).saturating_mul(MILLISECOND)
    });
    loop {
        let (acknowledged, woken) = (server.acknowledged.count(), wake.count());
        let late = until.is_some_and(|until: Nanos| server.host.now(Clock::Monotonic) >= until);
        let too_few = late && server.node.borrow().acknowledged(&quorum) < quorum.replicas;
        if server.node.borrow_mut().look_for_quorum(id, late).is_none() {
            if too_few {
                server.host.record(Event::Unreplicated);
            }
            return;
        }
        let more = first(server.acknowledged.past(acknowledged), wake.past(woken));
        match until {
            None => {
                more.await;
            }
            Some(until) => {
                let tick = server.host.sleep_until(Clock::Monotonic, until);
                first(more, tick).await;
            }
        }
    }
}
