//! What a node does on its own: expire keys, sync the file each second, end a WAIT.

use std::rc::Rc;

use lockstorm_platform::time::{Clock, MILLISECOND, Nanos, SECOND};
use lockstorm_platform::trace::{Event, Origin};

use crate::node::Append;
use crate::server::Server;
use crate::signal::{First, Signal, first};

/// Time between two runs of `serverCron` (hz 10).
pub const TICK_MS: u64 = 100;

/// Starts the tasks that a node always runs.
pub fn start(server: &Rc<Server>) {
    server.host.spawn(expire_in_time(Rc::clone(server)));
    if server.node.borrow().config.append != Append::None {
        sync_from_now_on(server);
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

/// Starts to sync the file each second, unless that is already running.
pub fn sync_from_now_on(server: &Rc<Server>) {
    if !server.syncs.replace(true) {
        server.host.spawn(sync_each_second(Rc::clone(server)));
    }
}

/// Deletes keys at the first tick after they expire. A replica never does.
async fn expire_in_time(server: Rc<Server>) {
    loop {
        let seen = server.ends.count();
        let next = next_expiry_ms(&server);
        server.waits_until_ms.set(next);
        let Some(next) = next else {
            server.ends.past(seen).await;
            continue;
        };
        let tick = (next / TICK_MS).saturating_add(1).saturating_mul(TICK_MS);
        let tick = server.host.sleep_until(Clock::Wall, tick.saturating_mul(MILLISECOND));
        if let First::That(()) = first(server.ends.past(seen), tick).await {
            expire_now(&server).await;
        }
    }
}

/// When keys are next deleted: after a pause; again at the next tick while the cycle is disabled.
fn next_expiry_ms(server: &Server) -> Option<u64> {
    let node = server.node.borrow();
    if node.master.is_some() {
        return None;
    }
    let next = node.keyspace.next_end_ms()?;
    let now = server.host.now(Clock::Wall) / MILLISECOND;
    let rests_until = if node.rests { now } else { 0 };
    Some(next.max(rests_until).max(node.pause().map_or(0, |pause| pause.until_ms)))
}

async fn expire_now(server: &Server) {
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

/// Ends blocking commands and pauses at the first tick after their timeout.
pub async fn end_waits_in_time(server: Rc<Server>) {
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
                node.end_waits();
            }
            if server.publish(Origin::Node) {
                server.write_log().await;
            }
            server.wake();
            drop(turn);
        }
    }
}

/// `appendfsync everysec`, until CONFIG SET changes it.
async fn sync_each_second(server: Rc<Server>) {
    loop {
        server.host.sleep(SECOND).await;
        if server.node.borrow().config.append == Append::Everysec {
            server.sync_log().await;
        }
    }
}

/// Waits until a session's WAIT or WAITAOF is acknowledged or the session is unblocked; a timeout
/// takes effect at the next tick.
pub async fn wait(server: &Server, id: u64, wake: &Signal) {
    let Some(quorum) = server.node.borrow_mut().look_for_quorum(id, false) else { return };
    server.feeds.borrow_mut().ask_for_acknowledgement(&mut server.node.borrow_mut());
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
