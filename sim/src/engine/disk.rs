//! A host's files: what is in the page cache, and how much of it would survive a loss of power.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::platform::{Disk, LocalFuture};

/// One file.
#[derive(Default)]
struct File {
    bytes: Vec<u8>,
    /// What is on the medium.
    durable: Vec<u8>,
}

/// Every file of a host.
#[derive(Default)]
pub struct Files {
    files: BTreeMap<String, File>,
    /// Whether fsync answers and does nothing.
    pub lies: bool,
}

impl Files {
    /// What a loss of power leaves.
    pub fn lose_power(&mut self) {
        for file in self.files.values_mut() {
            file.bytes.clone_from(&file.durable);
        }
    }
}

/// A process's view of its host's files.
pub struct HostDisk(pub Rc<RefCell<Files>>);

impl Disk for HostDisk {
    fn read(&self, file: &str) -> Vec<u8> {
        self.0.borrow().files.get(file).map(|file| file.bytes.clone()).unwrap_or_default()
    }

    fn append(&self, file: &str, bytes: &[u8]) {
        let mut files = self.0.borrow_mut();
        files.files.entry(file.to_owned()).or_default().bytes.extend_from_slice(bytes);
    }

    fn replace(&self, file: &str, bytes: &[u8]) {
        self.0.borrow_mut().files.entry(file.to_owned()).or_default().bytes = bytes.to_vec();
    }

    fn sync(&self, file: &str) -> LocalFuture<'static, ()> {
        let mut files = self.0.borrow_mut();
        if !files.lies
            && let Some(File { bytes, durable }) = files.files.get_mut(file)
        {
            sync_tail(bytes, durable);
        }
        Box::pin(std::future::ready(()))
    }
}

/// Files grow at their end: only what is new has to be copied, unless the file was replaced.
fn sync_tail(bytes: &[u8], durable: &mut Vec<u8>) {
    if bytes.starts_with(durable) {
        durable.extend_from_slice(&bytes[durable.len()..]);
    } else {
        durable.clear();
        durable.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::{Files, HostDisk};
    use crate::platform::Disk;
    use std::cell::RefCell;
    use std::rc::Rc;

    #[test]
    fn power_loss_keeps_what_was_synced_and_a_lying_disk_keeps_nothing() {
        let files = Rc::new(RefCell::new(Files::default()));
        let disk = HostDisk(Rc::clone(&files));
        disk.append("aof", b"one");
        drop(disk.sync("aof"));
        disk.append("aof", b"two");
        assert_eq!(disk.read("aof"), b"onetwo");
        files.borrow_mut().lies = true;
        drop(disk.sync("aof"));
        files.borrow_mut().lose_power();
        assert_eq!(disk.read("aof"), b"one");
    }
}
