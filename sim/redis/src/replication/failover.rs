//! FAILOVER: the master delays writes until a replica has caught up, and becomes its replica.

use std::rc::Rc;

use lockstorm_platform::time::{Clock, MILLISECOND};
use lockstorm_platform::trace::Origin;

use crate::requests::resume_paused;
use crate::server::Server;
use crate::signal::first;

impl Server {
    /// Waits for a replica that has caught up, and turns to it (`updateFailoverStatus`).
    pub fn fail_over(self: &Rc<Server>) {
        let server = Rc::clone(self);
        self.host.spawn(async move { server.wait_for_replica().await });
    }

    async fn wait_for_replica(self: &Rc<Server>) {
        loop {
            let seen = self.acknowledged.count();
            let Some(until_ms) = self.try_handing_over() else { return };
            let more = self.acknowledged.past(seen);
            match until_ms {
                None => more.await,
                Some(until) => {
                    let until = until.saturating_mul(MILLISECOND);
                    first(more, self.host.sleep_until(Clock::Wall, until)).await;
                }
            }
        }
    }

    /// Turns to a replica that has caught up, or gives up at the deadline. Returns the deadline in
    /// Unix milliseconds while it still waits; the outer `None` if it does not.
    fn try_handing_over(self: &Rc<Server>) -> Option<Option<u64>> {
        let mut node = self.node.borrow_mut();
        node.set_time(self.host.now(Clock::Wall));
        let failover = node.peers.failover.filter(|failover| !failover.in_progress)?;
        let late = failover.until_ms.is_some_and(|until| node.clock.now_ms >= until);
        let to = match late {
            true => failover.to.filter(|_| failover.force),
            false => node.caught_up(failover.to),
        };
        // Set before the role changes: the link to the replica sends PSYNC FAILOVER only if it is
        // set.
        if let (Some(_), Some(failover)) = (to, &mut node.peers.failover) {
            failover.in_progress = true;
        }
        drop(node);
        match (to, late) {
            (Some(_), _) => self.change_role(to),
            (None, true) => self.end_failover(),
            (None, false) => return Some(failover.until_ms),
        }
        None
    }

    /// Whether this node is turning to a replica that must become its master.
    pub fn hands_over(&self) -> bool {
        self.node.borrow().peers.failover.is_some_and(|failover| failover.in_progress)
    }

    /// Aborts a failover: a node that has already turned to its replica is master again.
    pub fn abort_failover(self: &Rc<Server>) {
        if self.hands_over() {
            // Before the failover ends: the delayed writes must run on a master.
            self.change_role(None);
        }
        self.end_failover();
    }

    /// Ends the failover; the delayed requests are executed now.
    pub fn end_failover(self: &Rc<Server>) {
        let mut node = self.node.borrow_mut();
        // Taken first: as long as it is set, the delayed requests stay paused.
        if node.peers.failover.take().is_none() {
            return;
        }
        node.set_time(self.host.now(Clock::Wall));
        resume_paused(&mut node);
        drop(node);
        // The resumed requests ran outside the turn of a connection: nothing else publishes their
        // effects.
        self.publish(Origin::Node);
        self.acknowledged.raise();
        self.ends.raise();
        self.wake();
    }
}
