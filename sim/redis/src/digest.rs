//! Digests as Redis writes them: SHA1 for scripts, SHA256 for passwords.

use bytes::Bytes;
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// The SHA1 of a text in lower-case hexadecimal.
pub fn sha1_hex(text: &[u8]) -> Bytes {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digest = Sha1::digest(text);
    let nibbles = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    Bytes::from_iter(nibbles.map(|nibble| DIGITS[usize::from(nibble)]))
}

/// The SHA256 of a text in lower-case hexadecimal.
pub fn sha256_hex(text: &[u8]) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}
