//! The flags of a command, as a set.

/// The flags of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u32);

impl Flags {
    /// Changes keys.
    pub const WRITE: Flags = Flags(1);
    /// Reads keys.
    pub const READONLY: Flags = Flags(1 << 1);
    /// Refused beyond `maxmemory`.
    pub const DENYOOM: Flags = Flags(1 << 2);
    /// May not be called by a script.
    pub const NOSCRIPT: Flags = Flags(1 << 3);
    /// Allowed while the node loads its file.
    pub const LOADING: Flags = Flags(1 << 4);
    /// Not shown to MONITOR.
    pub const SKIP_MONITOR: Flags = Flags(1 << 5);
    /// Allowed before AUTH.
    pub const NO_AUTH: Flags = Flags(1 << 6);
    /// Not allowed inside a transaction.
    pub const NO_MULTI: Flags = Flags(1 << 7);
    /// Allowed while a script holds the node.
    pub const ALLOW_BUSY: Flags = Flags(1 << 8);
    /// May change keys or propagate something.
    pub const MAY_REPLICATE: Flags = Flags(1 << 9);
    /// For administrators.
    pub const ADMIN: Flags = Flags(1 << 10);
    /// Allowed on a replica whose link to the master is down.
    pub const STALE: Flags = Flags(1 << 11);
    /// May block.
    pub const BLOCKING: Flags = Flags(1 << 12);

    /// Whether the two have a flag in common.
    pub fn any(self, other: Flags) -> bool {
        self.0 & other.0 != 0
    }

    /// The union of both.
    pub const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// All flags except the other's.
    pub fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    /// The flags among the words of the facts; words without meaning for the node are ignored.
    pub fn of(words: &str) -> Flags {
        let flag = |word| match word {
            "write" => Flags::WRITE,
            "readonly" => Flags::READONLY,
            "denyoom" => Flags::DENYOOM,
            "noscript" => Flags::NOSCRIPT,
            "loading" => Flags::LOADING,
            "skip_monitor" => Flags::SKIP_MONITOR,
            "no_auth" => Flags::NO_AUTH,
            "no_multi" => Flags::NO_MULTI,
            "allow_busy" => Flags::ALLOW_BUSY,
            "may_replicate" => Flags::MAY_REPLICATE,
            "admin" => Flags::ADMIN,
            "stale" => Flags::STALE,
            "blocking" => Flags::BLOCKING,
            _ => Flags::default(),
        };
        words.split(',').map(flag).fold(Flags::default(), Flags::and)
    }
}
