//! Keys and hashes of traces as text.

use std::fmt;

use crate::trace::{Digest, KeyName};

/// The name, followed by the database unless that is 0.
impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.name))?;
        match self.db {
            0 => Ok(()),
            db => write!(f, " (db {db})"),
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.digest)
    }
}
