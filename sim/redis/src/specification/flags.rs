//! The flags of a command, as a set.

use bitflags::bitflags;

bitflags! {
    /// The flags of a command, named as in the facts of Redis.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Flags: u32 {
        /// Changes keys.
        const WRITE = 1;
        /// Reads keys.
        const READONLY = 1 << 1;
        /// Refused beyond `maxmemory`.
        const DENYOOM = 1 << 2;
        /// May not be called by a script.
        const NOSCRIPT = 1 << 3;
        /// Allowed while the node loads its file.
        const LOADING = 1 << 4;
        /// Not shown to MONITOR.
        const SKIP_MONITOR = 1 << 5;
        /// Allowed before AUTH.
        const NO_AUTH = 1 << 6;
        /// Not allowed inside a transaction.
        const NO_MULTI = 1 << 7;
        /// Allowed while a script holds the node.
        const ALLOW_BUSY = 1 << 8;
        /// May change keys or propagate something.
        const MAY_REPLICATE = 1 << 9;
        /// For administrators.
        const ADMIN = 1 << 10;
        /// Allowed on a replica whose link to the master is down.
        const STALE = 1 << 11;
        /// May block.
        const BLOCKING = 1 << 12;
    }
}

impl Flags {
    /// The flags among the words of the facts; words without meaning for the node are ignored.
    pub fn of(words: &str) -> Flags {
        words.split(',').filter_map(|word| Flags::from_name(&word.to_uppercase())).collect()
    }
}
