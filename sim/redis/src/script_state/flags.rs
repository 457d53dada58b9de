//! The flags in a script's first line, or in the registration of a function.

use bitflags::bitflags;
use bytes::Bytes;

use crate::frame::Reply;
use crate::frame::request::split_line;
use crate::specification::flags::Flags;

bitflags! {
    /// The flags of a script, in Redis's order and with its names.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ScriptFlags: u8 {
        /// It does not write.
        const NO_WRITES = 1;
        /// It may run beyond `maxmemory`.
        const ALLOW_OOM = 1 << 1;
        /// It may run on a replica whose link to the master is down.
        const ALLOW_STALE = 1 << 2;
        /// It may not run in a cluster.
        const NO_CLUSTER = 1 << 3;
        /// It may use keys of several slots.
        const ALLOW_CROSS_SLOT_KEYS = 1 << 4;
    }
}

impl ScriptFlags {
    /// The flag of this name, as Redis writes it.
    pub fn named(name: &[u8]) -> Option<ScriptFlags> {
        ScriptFlags::all().iter().find(|flag| flag.names().any(|own| own.as_bytes() == name))
    }

    /// The names of the flags in the set, in Redis's order.
    pub fn names(self) -> impl Iterator<Item = String> {
        self.iter_names().map(|(name, _)| name.replace('_', "-").to_lowercase())
    }

    /// The command flags of a command that runs a script with these flags.
    pub fn narrow(self, command: Flags) -> Flags {
        let own =
            Flags::STALE.union(Flags::DENYOOM).union(Flags::WRITE).union(Flags::MAY_REPLICATE);
        let mut flags = command.difference(own);
        if !self.intersects(ScriptFlags::NO_WRITES) {
            flags = flags.union(Flags::WRITE);
        }
        if !self.intersects(ScriptFlags::NO_WRITES.union(ScriptFlags::ALLOW_OOM)) {
            flags = flags.union(Flags::DENYOOM);
        }
        if self.intersects(ScriptFlags::ALLOW_STALE) { flags.union(Flags::STALE) } else { flags }
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
                flags = flags.union(flag.ok_or_else(unknown)?);
            }
        }
        Ok(Shebang { flags: Some(flags), length })
    }
}

/// An error that quotes a word.
pub fn quoting(text: &str, word: &[u8]) -> Reply {
    Reply::Error(Bytes::from([b"ERR ", text.as_bytes(), word].concat()))
}
