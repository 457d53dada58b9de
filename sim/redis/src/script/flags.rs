//! The flags in a script's first line, or in the registration of a function.

use bytes::Bytes;

use crate::frame::Reply;
use crate::frame::request::split_line;
use crate::specification::flags::Flags;

/// A set of flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags(u8);

impl ScriptFlags {
    /// It does not write.
    pub const NO_WRITES: ScriptFlags = ScriptFlags(1);
    /// It may run beyond `maxmemory`.
    pub const ALLOW_OOM: ScriptFlags = ScriptFlags(1 << 1);
    /// It may run on a replica whose link to the master is down.
    pub const ALLOW_STALE: ScriptFlags = ScriptFlags(1 << 2);
    /// It may not run in a cluster.
    pub const NO_CLUSTER: ScriptFlags = ScriptFlags(1 << 3);
    /// It may use keys of several slots.
    pub const ALLOW_CROSS_SLOT: ScriptFlags = ScriptFlags(1 << 4);

    const NAMES: [&'static str; 5] =
        ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

    /// The flag of this name.
    pub fn named(name: &[u8]) -> Option<ScriptFlags> {
        let nth = ScriptFlags::NAMES.iter().position(|known| known.as_bytes() == name)?;
        Some(ScriptFlags(1 << nth))
    }

    /// Whether a flag is in the set.
    pub fn has(self, flag: ScriptFlags) -> bool {
        self.0 & flag.0 != 0
    }

    /// The union of both sets.
    pub fn and(self, other: ScriptFlags) -> ScriptFlags {
        ScriptFlags(self.0 | other.0)
    }

    /// The names of the flags in the set, in Redis's order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let flagged = move |(nth, name): (u8, _)| (self.0 >> nth & 1 == 1).then_some(name);
        (0_u8..).zip(ScriptFlags::NAMES).filter_map(flagged)
    }

    /// The command flags of a command that runs a script with these flags.
    pub fn narrow(self, command: Flags) -> Flags {
        let own = Flags::STALE.and(Flags::DENYOOM).and(Flags::WRITE).and(Flags::MAY_REPLICATE);
        let mut flags = command.without(own);
        if !self.has(ScriptFlags::NO_WRITES) {
            flags = flags.and(Flags::WRITE);
        }
        if !self.has(ScriptFlags::NO_WRITES.and(ScriptFlags::ALLOW_OOM)) {
            flags = flags.and(Flags::DENYOOM);
        }
        if self.has(ScriptFlags::ALLOW_STALE) { flags.and(Flags::STALE) } else { flags }
    }
}

/// The shebang line of a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shebang {
    /// Its flags; `None` if there is no such line.
    pub flags: Option<ScriptFlags>,
    /// Its length without the line end.
    pub length: usize,
}

impl Shebang {
    /// Reads `#!lua flags=...`.
    ///
    /// # Errors
    /// Redis's error text for an invalid line.
    pub fn of(body: &[u8]) -> Result<Shebang, Reply> {
        if !body.starts_with(b"#!") {
            return Ok(Shebang::default());
        }
        let Some(length) = body.iter().position(|byte| *byte == b'\n') else {
            return Err(Reply::error("ERR Invalid script shebang"));
        };
        let Some(words) = split_line(&body[..length]).filter(|words| !words.is_empty()) else {
            return Err(Reply::error("ERR Invalid engine in script shebang"));
        };
        if &words[0][..] != b"#!lua" {
            return Err(quoting("Unexpected engine in script shebang: ", &words[0]));
        }
        let mut flags = ScriptFlags::default();
        for word in &words[1..] {
            let Some(names) = word.strip_prefix(b"flags=") else {
                return Err(quoting("Unknown lua shebang option: ", word));
            };
            for name in names.split(|byte| *byte == b',').filter(|_| !names.is_empty()) {
                let flag = ScriptFlags::named(name);
                let unknown = || quoting("Unexpected flag in script shebang: ", name);
                flags = flags.and(flag.ok_or_else(unknown)?);
            }
        }
        Ok(Shebang { flags: Some(flags), length })
    }
}

/// An error that quotes a word.
pub fn quoting(text: &str, word: &[u8]) -> Reply {
    Reply::Error(Bytes::from([b"ERR ", text.as_bytes(), word].concat()))
}
