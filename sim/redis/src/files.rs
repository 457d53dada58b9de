//! The files of a running node: the append-only file and the RDB file. Their contents are in
//! `persistence` and `rdb`.
//!
//! - `log`: the append-only file between execution and disk
//! - `sentinel`: the file of a Sentinel

pub mod sentinel;

use std::rc::Rc;

use bytes::{Bytes, BytesMut};
use lockstorm_platform::host::Host;
use lockstorm_platform::time::{Clock, MILLISECOND, SECOND};
use lockstorm_platform::trace::{Event, Place};

use crate::append_only_file::Log;
use crate::compat::Difference;
use crate::frame::Reply;
use crate::node::{Append, Node};
use crate::persistence::{changes_of_snapshot, dump, restore, snapshot};
use crate::replay::{Replayed, load};
use crate::saving::Saving;
use crate::server::{Server, TICK_MS};

/// The name of the append-only file on the node's disk.
const APPENDED: &str = "appendonly.aof";
/// The name of the RDB file.
const SAVED: &str = "dump.rdb";

/// Whether there is a file to load at the start.
pub fn has_file(host: &Host, node: &Node) -> bool {
    let name = if node.config.append == Append::None { SAVED } else { APPENDED };
    !host.disk().read(name).is_empty()
}

/// Loads from disk: the append-only file if the node keeps one, otherwise the RDB file. Returns how
/// far into the node's changes the file reaches. `None` if the node must not start with it: the
/// file is invalid, or torn and must not be truncated.
pub fn read_files(host: &Host, node: &mut Node) -> Option<Place> {
    if node.config.append == Append::None {
        let bytes = host.disk().read(SAVED);
        let good = bytes.is_empty() || restore(node, &bytes).is_ok();
        node.saving.changes = 0;
        return good.then(|| Place { mark: host.disk().mark_of(SAVED), changes: 0 });
    }
    let bytes = host.disk().read(APPENDED);
    let mark = host.disk().mark_of(APPENDED);
    let Replayed { whole, changes } = load(node, &bytes);
    node.propagation.is_consumed = true;
    let good = whole == bytes.len()
        || node.config.truncates_torn_file && replace(host, APPENDED, &bytes[..whole], mark);
    good.then_some(Place { mark, changes })
}

/// Replaces a file by these bytes and sets their mark; returns whether the disk accepted them.
fn replace(host: &Host, file: &str, bytes: &[u8], mark: u64) -> bool {
    let good = host.disk().replace(file, bytes).is_ok();
    if good {
        host.disk().mark(file, mark);
    }
    good
}

impl Server {
    /// Writes the executed commands to the file, and syncs it under `appendfsync always`. Must
    /// precede any reply.
    pub async fn write_log(&self) {
        if self.node.borrow().sentinel.is_some() {
            return sentinel::save(self).await;
        }
        let flushed = self.node.borrow_mut().saving.flushed.take();
        if let Some((bytes, changes)) = flushed {
            let mark = self.mark(None);
            self.keep_now(bytes, mark, changes).await;
        }
        self.append_pending();
        if self.node.borrow().config.append == Append::Always {
            self.sync_log().await;
        }
    }

    /// Appends the pending commands. If the disk refuses them, a node that syncs every write stops,
    /// since it cannot keep its guarantee; others refuse writes and retry.
    fn append_pending(&self) {
        let mut log = self.log.borrow_mut();
        let good = log.pending().is_empty() || self.append(&log);
        let mut node = self.node.borrow_mut();
        if !log.pending().is_empty() {
            node.saving.append_failed = !good;
            if good {
                log.wrote_pending();
            } else if node.config.append == Append::Always {
                self.ended.raise();
            }
        }
        // Only if nothing is pending does the file contain the stream up to the current offset.
        if log.pending().is_empty() {
            let offset = node.history.offset;
            let everysec = node.config.append == Append::Everysec;
            if log.reach(offset) || everysec && node.differs(Difference::WrittenIsSynced) {
                self.note_synced(&mut node, offset);
            }
        }
    }

    /// Appends the pending commands, or replaces the file by all keys; returns whether the disk
    /// accepted it.
    fn append(&self, log: &Log) -> bool {
        if log.is_stale() {
            let (bytes, mark) = self.base();
            return replace(&self.host, APPENDED, &bytes, mark);
        }
        self.host.disk().append(APPENDED, log.pending()).is_ok()
    }

    /// Records that the file is synced up to this offset; sessions blocked in WAITAOF are checked
    /// again.
    fn note_synced(&self, node: &mut Node, offset: u64) {
        if node.differs(Difference::WaitAof) && node.saving.synced < offset {
            node.saving.synced = offset;
            self.acknowledged.raise();
        }
    }

    /// Whether data that had to be synced before its reply could not even be written.
    pub fn has_broken_its_word(&self) -> bool {
        let node = self.node.borrow();
        node.saving.append_failed && node.config.append == Append::Always
    }

    /// Syncs the file if any written byte is not known to be synced. A caller that arrives during
    /// another sync waits for one of its own.
    pub async fn sync_log(&self) {
        self.append_pending();
        // Read before the sync, which does not cover bytes written while it runs.
        let unsynced = self.log.borrow().unsynced();
        if let Some((written, offset)) = unsynced {
            self.host.disk().sync(APPENDED).await;
            self.log.borrow_mut().note_synced(written);
            self.note_synced(&mut self.node.borrow_mut(), offset);
        }
    }

    /// Starts the task that syncs the file each second, unless it runs: for `appendfsync everysec`,
    /// also if CONFIG SET chooses that later.
    pub fn sync_from_now_on(self: &Rc<Server>) {
        if self.syncs.replace(true) {
            return;
        }
        let server = Rc::clone(self);
        self.host.spawn(async move {
            loop {
                server.host.sleep(SECOND).await;
                if server.node.borrow().config.append == Append::Everysec {
                    server.sync_log().await;
                }
            }
        });
    }

    /// Begins a file with all keys of the node: `appendonly` was turned on.
    pub async fn begin_log(self: &Rc<Server>) {
        self.sync_from_now_on();
        self.rewrite_log().await;
    }

    /// Replaces the file by this keyspace, after a full resynchronisation.
    pub async fn rewrite_log(&self) {
        if self.node.borrow().config.append == Append::None {
            return;
        }
        let (bytes, mark) = self.base();
        let good = replace(&self.host, APPENDED, &bytes, mark);
        {
            let saving = &mut self.node.borrow_mut().saving;
            saving.append_failed = !good;
            saving.synced = 0;
            // Cancels a BGREWRITEAOF under way: its keys are outdated.
            saving.rewriting = None;
        }
        // Drops what is pending: the snapshot already contains it.
        *self.log.borrow_mut() = Log::anew(good);
        self.sync_log().await;
    }

    /// The first part of an append-only file that is rewritten now, and its mark.
    fn base(&self) -> (BytesMut, u64) {
        let node = self.node.borrow();
        let bytes = snapshot(&node);
        (bytes, self.mark(Some(changes_of_snapshot(&node))))
    }

    /// Records in the trace that all keys are taken as of now; returns the mark that identifies the
    /// file.
    fn mark(&self, appends: Option<u64>) -> u64 {
        self.host.record(Event::Dumped { appends }).seq
    }

    /// Saves all keys while all clients wait: SAVE, SHUTDOWN.
    pub async fn save(&self) -> Reply {
        if self.node.borrow().saving.begun.is_some() {
            return Reply::error("ERR Background save already in progress");
        }
        let (bytes, changes) = {
            let mut node = self.node.borrow_mut();
            node.saving.saves += 1;
            (dump(&node), node.saving.changes)
        };
        let mark = self.mark(None);
        match self.keep_now(bytes, mark, changes).await {
            true => Reply::OK,
            false => Reply::error("ERR"),
        }
    }

    /// Writes all keys to the RDB file while all clients wait; returns whether the disk accepted
    /// them.
    async fn keep_now(&self, bytes: Bytes, mark: u64, changes: u64) -> bool {
        let good = self.keep(bytes, mark).await;
        if good {
            let now_s = self.now_s();
            self.node.borrow_mut().saving.saved(now_s, changes);
        }
        good
    }

    /// Saves all keys as of now; done at the first tick after the duration of the save: BGSAVE,
    /// save points.
    pub fn save_in_background(self: &Rc<Server>) {
        let now_s = self.now_s();
        let mut node = self.node.borrow_mut();
        node.saving.begin(now_s);
        // Taken now, as by a fork: the file contains no later write.
        let (bytes, nth) = (dump(&node), node.saving.saves);
        drop(node);
        let mark = self.mark(None);
        let server = Rc::clone(self);
        self.host.spawn(async move {
            server.pass_child().await;
            let is_it = |saving: &Saving| saving.begun.is_some() && saving.saves == nth;
            // A save that was ended or replaced meanwhile writes nothing.
            if is_it(&server.node.borrow().saving) {
                let good = server.keep(bytes, mark).await;
                let now_s = server.now_s();
                server.node.borrow_mut().saving.end(now_s, good);
                server.begin_in_turn();
            }
        });
    }

    /// Rewrites the append-only file from the keys as of now, followed by all that is appended
    /// meanwhile: BGREWRITEAOF. If the node keeps no such file, only time passes.
    pub fn rewrite_in_background(self: &Rc<Server>) {
        // Before the file is measured: the keys already include these commands, so they must not
        // follow.
        self.append_pending();
        let mut log = self.log.borrow_mut();
        // What is appended from here on will follow other bytes, so it begins with SELECT.
        log.forget_database();
        let from = log.is_whole().then(|| self.host.disk().read(APPENDED).len());
        let now_s = self.now_s();
        let mut node = self.node.borrow_mut();
        node.saving.begin_rewrite(now_s);
        let nth = node.saving.rewrites;
        drop((node, log));
        let (bytes, mark) = self.base();
        let server = Rc::clone(self);
        self.host.spawn(async move {
            server.pass_child().await;
            let is_it = |saving: &Saving| saving.rewriting.is_some() && saving.rewrites == nth;
            if is_it(&server.node.borrow().saving) {
                let good = server.put_rewritten(bytes, mark, from).await;
                let now_s = server.now_s();
                server.node.borrow_mut().saving.end_rewrite(now_s, good);
                server.begin_in_turn();
            }
        });
    }

    /// Installs a rewritten file: the keys, and what was appended since the old file had `from`
    /// bytes; `None` if the file does not contain all earlier commands. Returns whether the disk
    /// accepted it.
    async fn put_rewritten(&self, mut bytes: BytesMut, mark: u64, from: Option<usize>) -> bool {
        if self.node.borrow().config.append == Append::None {
            return self.host.disk().append(APPENDED, &[]).is_ok();
        }
        // Commands executed meanwhile must be among the bytes that are copied.
        self.append_pending();
        let Some(from) = from else { return false };
        bytes.extend_from_slice(self.host.disk().read(APPENDED).get(from..).unwrap_or_default());
        let good = replace(&self.host, APPENDED, &bytes, mark);
        if good {
            self.log.borrow_mut().wrote_anew();
            self.sync_log().await;
        }
        good
    }

    /// Begins a scheduled save or rewrite at the next tick, if none is under way by then.
    pub fn begin_in_turn(self: &Rc<Server>) {
        if !self.node.borrow().saving.scheduled.contains(&true) {
            return;
        }
        let server = Rc::clone(self);
        self.host.spawn(async move {
            server.pass_tick().await;
            let [saves, rewrites] = server.node.borrow().saving.scheduled;
            if server.node.borrow().saving.is_busy() {
                // The end of the current one checks again.
            } else if saves {
                server.node.borrow_mut().saving.scheduled[0] = false;
                server.save_in_background();
            } else if rewrites {
                server.node.borrow_mut().saving.scheduled[1] = false;
                server.rewrite_in_background();
            }
        });
    }

    /// Waits for the duration of a child process, and until the tick that notices its end.
    async fn pass_child(&self) {
        let time = self.node.borrow().config.save_time;
        self.host.sleep(time).await;
        self.pass_tick().await;
    }

    async fn pass_tick(&self) {
        let now_ms = self.host.now(Clock::Wall) / MILLISECOND;
        let tick = (now_ms / TICK_MS + 1) * TICK_MS;
        self.host.sleep_until(Clock::Wall, tick * MILLISECOND).await;
    }

    /// Sets the node's time, and returns it in Unix seconds.
    fn now_s(&self) -> u64 {
        let wall = self.host.now(Clock::Wall);
        self.node.borrow_mut().set_time(wall);
        wall / SECOND
    }

    /// Replaces the RDB file and syncs it; returns whether the disk accepted it.
    async fn keep(&self, bytes: Bytes, mark: u64) -> bool {
        let good = replace(&self.host, SAVED, &bytes, mark);
        if good {
            self.host.disk().sync(SAVED).await;
        }
        good
    }
}
