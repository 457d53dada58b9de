//! The turn of a request: which requests wait, how long a fault delays one, and Redis's order:
//! execution, then the trace, the file and the replicas, then the reply.

use std::rc::Rc;

use lockstorm_platform::host::Slowness;
use lockstorm_platform::time::{Clock, MILLISECOND, Nanos};
use lockstorm_platform::trace::{Origin, Request};

use crate::frame::{Arguments, Reply};
use crate::request_record;
use crate::requests;
use crate::script::begins;
use crate::server::Server;
use crate::session::After;
use crate::signal::{First, first};
use crate::specification::find;
use crate::specification::flags::Flags;

impl Server {
    /// Executes a request in its turn. Its reply is appended to the connection's output buffer.
    pub async fn execute(self: &Rc<Server>, id: u64, request: Request, args: &Arguments) {
        self.wait_for_script().await;
        let is_busy = self.node.borrow().scripts.busy.is_some();
        // A slow script holds the turn; requests that get BUSY meanwhile must not wait for it.
        let turn = if is_busy { None } else { Some(self.turn.clone().lock().await) };
        // Read before the delay: a command sees the time at which it began.
        let wall = self.host.now(Clock::Wall);
        let slowness = self.host.slowness();
        if slowness.command > 0 {
            self.host.slowed(Slowness { script: 0, ..slowness });
            self.host.sleep(slowness.command).await;
        }
        let is_slow = slowness.script > 0 && !is_busy && runs_script(args);
        let executed = self.node.borrow().figures.executed;
        if !is_slow || self.run_slowly(id, args, slowness.script).await {
            self.request(id, request, wall, args);
        }
        // No await since the execution: effects reach trace, file and stream in execution order.
        self.publish(Origin::Request(request));
        self.wake();
        // DEBUG SLEEP keeps the turn, because it blocks all clients.
        if let Some(nap) = self.settle(id, executed) {
            self.host.sleep(nap).await;
        }
        drop(turn);
    }

    /// Notes the replication offset after a session's request was executed: its effects lie at or
    /// before this offset, and WAIT uses it. Returns how long the request still holds the node.
    fn settle(&self, id: u64, executed: u64) -> Option<Nanos> {
        let mut node = self.node.borrow_mut();
        let (offset, runs) = (node.history.offset, node.figures.executed != executed);
        let session = node.clients.get_mut(id)?;
        if runs {
            session.replication.last_write = offset;
        }
        match session.after {
            After::Sleep(nap) => Some(nap),
            _ => None,
        }
    }

    /// While a script holds the node, requests wait until the BUSY threshold.
    async fn wait_for_script(&self) {
        loop {
            let seen = self.freed.count();
            let Some(busy_from) = self.busy_from() else { return };
            if self.host.now(Clock::Wall) >= busy_from {
                return;
            }
            let is_busy = self.host.sleep_until(Clock::Wall, busy_from);
            first(self.freed.past(seen), is_busy).await;
        }
    }

    /// The time from which others get the BUSY reply, if a script holds the node.
    fn busy_from(&self) -> Option<Nanos> {
        let node = self.node.borrow();
        let busy = node.scripts.busy.as_ref()?;
        let from_ms = busy.since_ms.saturating_add(node.config.busy_after_ms);
        Some(from_ms.saturating_mul(MILLISECOND))
    }

    /// Lets a script that a fault makes slow hold the node before it does anything. False if it was
    /// killed meanwhile: then its caller already has the reply.
    async fn run_slowly(&self, id: u64, args: &Arguments, length: Nanos) -> bool {
        self.host.slowed(Slowness { command: 0, script: length });
        let since_ms = self.host.now(Clock::Wall) / MILLISECOND;
        let busy = begins(&self.node.borrow(), id, since_ms, args);
        // Read now, because SCRIPT KILL clears `busy`.
        let text = busy.killed.clone();
        let seen = self.freed.count();
        self.node.borrow_mut().scripts.busy = Some(busy);
        if let First::This(()) = first(self.host.sleep(length), self.freed.past(seen)).await {
            self.node.borrow_mut().scripts.busy = None;
            self.freed.raise();
            return true;
        }
        if let Some(session) = self.node.borrow_mut().clients.get_mut(id) {
            session.replies.push(&Reply::Error(text));
        }
        false
    }

    fn request(&self, id: u64, request: Request, wall: Nanos, args: &Arguments) {
        let mut node = self.node.borrow_mut();
        node.set_time(wall);
        node.clock.running_us = self.host.now(Clock::Wall) / 1_000;
        let was_busy = node.scripts.busy.is_some();
        if let Some(observe) = &*self.observer.borrow() {
            observe(request, args);
        }
        // Read before the execution: EXEC empties the queue.
        let transaction = request_record::transaction(&self.host, &node, id, args);
        requests::request(&mut node, id, args);
        request_record::record(&self.host, &node, id, request, args, transaction);
        if was_busy && node.scripts.busy.is_none() {
            self.freed.raise();
        }
    }
}

/// Whether a request runs a script.
fn runs_script(args: &Arguments) -> bool {
    find(&args[0]).is_some_and(|command| command.flags.intersects(Flags::SKIP_MONITOR))
}
