//! The files of a running node: the append-only file between execution and disk, and the file of
//! all keys. What stands in them is in `persistence` and `rdb`.

use std::rc::Rc;

use bytes::{Bytes, BytesMut};

use crate::platform::Host;
use crate::redis::compat::Difference;
use crate::redis::cycle;
use crate::redis::frame::Reply;
use crate::redis::node::{Append, Node, Told};
use crate::redis::persistence::{Script, dump, load, restore, snapshot};
use crate::redis::server::Server;
use crate::time::{Clock, MILLISECOND};

/// The append-only file's name on the node's disk.
const APPENDED: &str = "appendonly.aof";
/// That of the file of all keys.
const SAVED: &str = "dump.rdb";

/// The append-only file between execution and disk.
#[derive(Default)]
pub struct Log {
    script: Script,
    /// Executed and not yet written.
    pending: BytesMut,
    /// Bytes written since the start, and how many of them are known to be synced.
    written: u64,
    synced: u64,
    /// The offset of the stream up to which they are written.
    offset: u64,
}

impl Log {
    /// Takes what was executed. What is only said is not kept.
    pub fn take(&mut self, commands: &[Told]) {
        if commands.iter().any(Told::is_said_only) {
            let kept: Vec<Told> =
                commands.iter().filter(|told| !told.is_said_only()).cloned().collect();
            self.script.write(&kept, &mut self.pending, |_, _| {});
        } else {
            self.script.write(commands, &mut self.pending, |_, _| {});
        }
    }
}

/// Whether there is a file that a start has to read.
pub fn has_file(host: &Host, node: &Node) -> bool {
    let name = if node.config.append == Append::None { SAVED } else { APPENDED };
    !host.disk().read(name).is_empty()
}

/// Reads what the disk holds: the append-only file if the node keeps one, else that of all keys.
/// False if the node must not start with it: the file is torn and that is not to be mended, or
/// no file at all.
pub fn read_files(host: &Host, node: &mut Node) -> bool {
    if node.config.append == Append::None {
        let bytes = host.disk().read(SAVED);
        let good = bytes.is_empty() || restore(node, &bytes).is_ok();
        node.saving.changes = 0;
        return good;
    }
    let bytes = host.disk().read(APPENDED);
    let whole = load(node, &bytes);
    node.propagates = true;
    if whole == bytes.len() {
        return true;
    }
    node.config.mends_torn_file && host.disk().replace(APPENDED, &bytes[..whole]).is_ok()
}

impl Server {
    /// Writes what was executed to the file, and syncs it if every write is: to be done before
    /// any reply goes out.
    pub async fn write_log(&self) {
        if self.node.borrow().sentinel.is_some() {
            return self.save_sentinel().await;
        }
        self.append_pending();
        if self.node.borrow().config.append == Append::Always {
            self.sync_log().await;
        }
    }

    /// Appends what waits. Where the disk takes nothing, a node that syncs every write ends, since
    /// it has promised more than it can hold; others refuse writes and try again.
    fn append_pending(&self) {
        let mut log = self.log.borrow_mut();
        let mut node = self.node.borrow_mut();
        if !log.pending.is_empty() {
            let good = self.host.disk().append(APPENDED, &log.pending).is_ok();
            node.saving.append_failed = !good;
            if good {
                log.written += log.pending.len() as u64;
                log.pending.clear();
            } else if node.config.append == Append::Always {
                self.ended.raise();
            }
        }
        if log.pending.is_empty() {
            log.offset = node.history.offset;
            let everysec = node.config.append == Append::Everysec;
            if log.synced == log.written || everysec && node.differs(Difference::WrittenIsSynced) {
                self.note_synced(&mut node, log.offset);
            }
        }
    }

    /// The file is synced up to this offset: who waits for that with WAITAOF looks again.
    fn note_synced(&self, node: &mut Node, offset: u64) {
        if node.differs(Difference::WaitAof) && node.saving.synced < offset {
            node.saving.synced = offset;
            self.acknowledged.raise();
        }
    }

    /// Whether something that was to be synced before its reply could not even be written.
    pub fn has_broken_its_word(&self) -> bool {
        let node = self.node.borrow();
        node.saving.append_failed && node.config.append == Append::Always
    }

    /// Syncs the file, if anything was written that is not known to be synced. Who comes while
    /// another sync is under way waits for one of his own.
    pub async fn sync_log(&self) {
        self.append_pending();
        let Log { written, synced, offset, .. } = *self.log.borrow();
        if synced < written {
            self.host.disk().sync(APPENDED).await;
            let mut log = self.log.borrow_mut();
            log.synced = log.synced.max(written);
            self.note_synced(&mut self.node.borrow_mut(), offset);
        }
    }

    /// Begins a file with what the node holds: `appendonly` was turned on.
    pub async fn begin_log(self: &Rc<Server>) {
        cycle::sync_from_now_on(self);
        self.rewrite_log().await;
    }

    /// Puts this keyspace in the place of the file, after a full resynchronisation.
    pub async fn rewrite_log(&self) {
        if self.node.borrow().config.append == Append::None {
            return;
        }
        let bytes = snapshot(&self.node.borrow());
        let good = self.host.disk().replace(APPENDED, &bytes).is_ok();
        let mut node = self.node.borrow_mut();
        node.saving.append_failed = !good;
        node.saving.synced = 0;
        drop(node);
        *self.log.borrow_mut() = Log { written: 1, ..Log::default() };
        self.sync_log().await;
    }

    /// Saves all keys while everybody waits: SAVE, SHUTDOWN.
    pub async fn save(&self) -> Reply {
        if self.node.borrow().saving.begun.is_some() {
            return Reply::error("ERR Background save already in progress");
        }
        let bytes = dump(&self.node.borrow());
        match self.keep(bytes).await {
            true => Reply::OK,
            false => Reply::error("ERR"),
        }
    }

    /// Saves all keys as they are now, and is done at the tick after the time that this takes:
    /// BGSAVE, save points.
    pub fn save_in_background(self: &Rc<Server>) {
        let mut node = self.node.borrow_mut();
        node.set_time(self.host.now(Clock::Wall));
        let now_s = node.now_ms / 1_000;
        node.saving.begun = Some((now_s, node.saving.changes));
        node.saving.tried_s = now_s;
        let (bytes, time) = (dump(&node), node.config.save_time);
        drop(node);
        let server = Rc::clone(self);
        self.host.spawn(async move {
            server.host.sleep(time).await;
            let now_ms = server.host.now(Clock::Wall) / MILLISECOND;
            let tick = (now_ms / cycle::TICK_MS + 1) * cycle::TICK_MS;
            server.host.sleep_until(Clock::Wall, tick * MILLISECOND).await;
            server.keep(bytes).await;
        });
    }

    /// Puts the file in its place, whole and synced; whether the disk took it.
    async fn keep(&self, bytes: Bytes) -> bool {
        let good = self.host.disk().replace(SAVED, &bytes).is_ok();
        if good {
            self.host.disk().sync(SAVED).await;
        }
        let mut node = self.node.borrow_mut();
        node.set_time(self.host.now(Clock::Wall));
        let now_s = node.now_ms / 1_000;
        node.saving.end(now_s, good);
        good
    }
}
