//! A host's files: the content of the page cache, and how much of it survives a loss of power.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use lockstorm_platform::host::{Disk, LocalFuture};

use crate::engine::counters::DiskCounters;

/// One file.
#[derive(Default)]
struct File {
    bytes: Vec<u8>,
    /// The content on the medium.
    durable: Vec<u8>,
    /// The offset of the last write.
    last: usize,
    /// The mark of the bytes, and of the content on the medium.
    mark: u64,
    durable_mark: u64,
}

/// Every file of a host.
#[derive(Default)]
pub struct Files {
    files: BTreeMap<String, File>,
    /// Whether fsync returns without syncing.
    pub lies: bool,
    /// Whether a loss of power tears the last write.
    pub tears: bool,
    /// Whether every write fails.
    pub is_full: bool,
    /// What faults met on it.
    pub counters: DiskCounters,
}

impl Files {
    /// Reverts to what survives a loss of power: the synced data. On a tearing disk, the kernel had
    /// written all unsynced data except half of the last write.
    pub fn lose_power(&mut self) {
        for file in self.files.values_mut() {
            debug_assert!(file.last <= file.bytes.len(), "the last write lies within the file");
            if self.tears && file.bytes.len() > file.durable.len() {
                self.counters.torn += 1;
                let start = file.last.max(file.durable.len());
                let end = start + (file.bytes.len() - start) / 2;
                debug_assert!(
                    (file.durable.len()..=file.bytes.len()).contains(&end),
                    "a torn file has no less than was synced and no more than was written"
                );
                file.durable = file.bytes[..end].to_vec();
                file.durable_mark = file.mark;
            }
            file.bytes.clone_from(&file.durable);
            file.mark = file.durable_mark;
            // The last write may be gone, so the previous offset may lie beyond the end.
            file.last = file.bytes.len();
        }
    }

    /// The file of this name, unless the disk is full.
    fn writable(&mut self, file: &str) -> io::Result<&mut File> {
        if self.is_full {
            self.counters.refused += 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(self.files.entry(file.to_owned()).or_default())
    }
}

/// A process's view of its host's files.
pub struct HostDisk(pub Rc<RefCell<Files>>);

impl Disk for HostDisk {
    fn read(&self, file: &str) -> Vec<u8> {
        self.0.borrow().files.get(file).map(|file| file.bytes.clone()).unwrap_or_default()
    }

    fn append(&self, file: &str, bytes: &[u8]) -> io::Result<()> {
        let mut files = self.0.borrow_mut();
        // Before any byte is written: a write that is refused leaves the file as it was.
        let file = files.writable(file)?;
        file.last = file.bytes.len();
        file.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn replace(&self, file: &str, bytes: &[u8]) -> io::Result<()> {
        let mut files = self.0.borrow_mut();
        let file = files.writable(file)?;
        // `durable` keeps the previous content: without a sync the rename itself can be lost.
        file.bytes = bytes.to_vec();
        file.last = 0;
        Ok(())
    }

    fn mark(&self, file: &str, mark: u64) {
        if let Some(file) = self.0.borrow_mut().files.get_mut(file) {
            file.mark = mark;
        }
    }

    fn mark_of(&self, file: &str) -> u64 {
        self.0.borrow().files.get(file).map_or(0, |file| file.mark)
    }

    fn sync(&self, file: &str) -> LocalFuture<'static, ()> {
        let mut files = self.0.borrow_mut();
        let files = &mut *files;
        if let Some(File { bytes, durable, mark, durable_mark, .. }) = files.files.get_mut(file) {
            if files.lies {
                files.counters.unsynced += u64::from(bytes != durable);
            } else {
                sync_tail(bytes, durable);
                *durable_mark = *mark;
            }
        }
        Box::pin(std::future::ready(()))
    }
}

/// Files are append-only: only new data must be copied, unless the file was replaced.
fn sync_tail(bytes: &[u8], durable: &mut Vec<u8>) {
    if bytes.starts_with(durable) {
        durable.extend_from_slice(&bytes[durable.len()..]);
    } else {
        durable.clear();
        durable.extend_from_slice(bytes);
    }
    debug_assert_eq!(durable.len(), bytes.len(), "all that was written is on the medium");
}

#[cfg(test)]
mod tests {
    use lockstorm_platform::host::Disk;

    use super::{Files, HostDisk};
    use std::cell::RefCell;
    use std::rc::Rc;

    #[test]
    fn power_loss_keeps_what_was_synced_and_a_lying_disk_keeps_nothing() {
        let files = Rc::new(RefCell::new(Files::default()));
        let disk = HostDisk(Rc::clone(&files));
        disk.append("aof", b"one").unwrap();
        drop(disk.sync("aof"));
        disk.append("aof", b"two").unwrap();
        assert_eq!(disk.read("aof"), b"onetwo");
        files.borrow_mut().lies = true;
        drop(disk.sync("aof"));
        files.borrow_mut().lose_power();
        assert_eq!(disk.read("aof"), b"one");
    }

    #[test]
    fn the_mark_of_a_file_shares_the_fate_of_its_bytes() {
        let files = Rc::new(RefCell::new(Files::default()));
        let disk = HostDisk(Rc::clone(&files));
        disk.append("aof", b"one").unwrap();
        drop(disk.sync("aof"));
        disk.replace("aof", b"base").unwrap();
        disk.mark("aof", 7);
        assert_eq!((disk.mark_of("aof"), disk.mark_of("rdb")), (7, 0));
        files.borrow_mut().lose_power();
        assert_eq!((disk.read("aof"), disk.mark_of("aof")), (b"one".to_vec(), 0));
        disk.replace("aof", b"base").unwrap();
        disk.mark("aof", 7);
        drop(disk.sync("aof"));
        disk.append("aof", b"more").unwrap();
        files.borrow_mut().lose_power();
        assert_eq!((disk.read("aof"), disk.mark_of("aof")), (b"base".to_vec(), 7));
    }

    #[test]
    fn a_disk_that_tears_keeps_half_of_the_last_write_and_a_full_one_takes_nothing() {
        let files = Rc::new(RefCell::new(Files::default()));
        let disk = HostDisk(Rc::clone(&files));
        files.borrow_mut().tears = true;
        disk.append("aof", b"one").unwrap();
        drop(disk.sync("aof"));
        files.borrow_mut().lose_power();
        assert_eq!(disk.read("aof"), b"one", "what was synced is whole");
        disk.append("aof", b"second").unwrap();
        disk.append("aof", b"last").unwrap();
        files.borrow_mut().is_full = true;
        assert!(disk.append("aof", b"more").is_err() && disk.replace("aof", b"").is_err());
        files.borrow_mut().lose_power();
        assert_eq!(disk.read("aof"), b"onesecondla");
    }
}
