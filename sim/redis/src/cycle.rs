//! The periodic tasks of a node: it deletes expired keys, and saves all keys.

use std::rc::Rc;

use lockstorm_platform::host::Host;
use lockstorm_platform::time::{Clock, MILLISECOND};
use lockstorm_platform::trace::Origin;

use crate::node::Append;
use crate::server::{Server, TICK_MS};
use crate::signal::{First, first};

/// Starts the tasks that a node always runs.
pub fn start(server: &Rc<Server>) {
    server.host.spawn(expire_in_time(Rc::clone(server)));
    if server.node.borrow().config.append != Append::None {
        server.sync_from_now_on();
    }
    if !server.node.borrow().config.save.is_empty() {
        save_from_now_on(server);
    }
}

/// Starts to check the save points, unless that is already running.
pub fn save_from_now_on(server: &Rc<Server>) {
    if !server.saves.replace(true) {
        server.host.spawn(save_in_time(Rc::clone(server)));
    }
}

/// Saves all keys when a save point is reached, as long as there are save points.
async fn save_in_time(server: Rc<Server>) {
    while !server.node.borrow().save_points().is_empty() {
        server.host.sleep(TICK_MS * MILLISECOND).await;
        let mut node = server.node.borrow_mut();
        node.set_time(server.host.now(Clock::Wall));
        let due = node.must_save();
        drop(node);
        if due {
            server.save_in_background();
        }
    }
    server.saves.set(false);
}

/// Deletes keys at the first tick after they expire. A replica never does. Ticks follow the
/// monotonic clock: what the wall clock does between two of them is never noticed.
async fn expire_in_time(server: Rc<Server>) {
    loop {
        let seen = server.ends.count();
        let next = next_expiry_ms(&server);
        server.waits_until_ms.set(next);
        let Some(next) = next else {
            server.ends.past(seen).await;
            continue;
        };
        if let First::That(()) = first(server.ends.past(seen), tick_after(&server.host, next)).await
        {
            expire_now(&server).await;
        }
    }
}

/// Waits for the first tick at which the wall clock reads more than an expiry time: at that time
/// itself the key still exists.
async fn tick_after(host: &Host, expiry_ms: u64) {
    host.sleep_until(Clock::Wall, expiry_ms.saturating_add(1).saturating_mul(MILLISECOND)).await;
    let tick = TICK_MS * MILLISECOND;
    host.sleep_until(Clock::Monotonic, host.now(Clock::Monotonic).next_multiple_of(tick)).await;
}

/// When keys are next deleted: after a pause; again at the next tick while the cycle is disabled.
fn next_expiry_ms(server: &Server) -> Option<u64> {
    let node = server.node.borrow();
    if node.peers.master.is_some() {
        return None;
    }
    let next = node.keyspace.next_end_ms()?;
    let now = server.host.now(Clock::Wall) / MILLISECOND;
    let rests_until = if node.active_expire_disabled { now } else { 0 };
    Some(next.max(rests_until).max(node.pause().map_or(0, |pause| pause.until_ms)))
}

async fn expire_now(server: &Server) {
    // In its turn: no key disappears while a slow command or script holds the node.
    let turn = server.turn.clone().lock().await;
    {
        let mut node = server.node.borrow_mut();
        node.set_time(server.host.now(Clock::Wall));
        node.expire_all();
    }
    if server.publish(Origin::Node) {
        server.write_log().await;
    }
    drop(turn);
}
