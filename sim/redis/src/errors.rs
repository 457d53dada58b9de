//! Error texts that several commands share.

use bytes::Bytes;

use crate::frame::Reply;

/// A value of the wrong type.
pub const WRONGTYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
/// Invalid words or combinations of words.
pub const SYNTAX: &str = "ERR syntax error";
/// Not an integer where one is required.
pub const NOT_INTEGER: &str = "ERR value is not an integer or out of range";

/// The error for a wrong number of words.
pub fn wrong_arity(name: &str) -> Reply {
    Reply::Error(format!("ERR wrong number of arguments for '{name}' command").into())
}

/// The error for a subcommand that a command does not have.
pub fn unknown_subcommand(container: &str, word: &[u8]) -> Reply {
    let mut text = b"ERR unknown subcommand '".to_vec();
    text.extend_from_slice(printed(word, 128));
    text.extend_from_slice(format!("'. Try {container} HELP.").as_bytes());
    Reply::Error(text.into())
}

/// The part of a word that C prints: at most `most` bytes, and none after a NUL.
pub fn printed(word: &[u8], most: usize) -> &[u8] {
    let end = word.iter().take(most).position(|byte| *byte == 0);
    &word[..end.unwrap_or(word.len().min(most))]
}

/// Redis quotes the first 128 bytes of the name and of the arguments.
pub fn unknown_command(args: &[Bytes]) -> Reply {
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(printed(&args[0], 128));
    text.extend_from_slice(b"', with args beginning with: ");
    let start = text.len();
    for arg in &args[1..] {
        let length = text.len() - start;
        if length >= 128 {
            break;
        }
        text.push(b'\'');
        text.extend_from_slice(printed(arg, 128 - length));
        text.extend_from_slice(b"' ");
    }
    Reply::Error(text.into())
}
