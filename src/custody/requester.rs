//! What a request reveals about its sender: whether it tries to take a lock, and which token it
//! carries.

use bytes::Bytes;
use lockstorm_platform::trace::Request;

/// The minimum length of a token that is searched for in a script's text: a shorter one may occur
/// there by chance.
const TELLING: usize = 8;

/// The sender of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requester {
    /// The connection and the number of the request on it.
    pub request: Request,
    /// The command, in upper case.
    pub command: String,
}

impl Requester {
    /// The sender of a request with these words.
    pub fn new(request: Request, words: &[Bytes]) -> Requester {
        let command = words.first().map(|word| String::from_utf8_lossy(word).to_uppercase());
        Requester { request, command: command.unwrap_or_default() }
    }
}

/// Whether the words create a key only if it does not exist, as locks do. A script that creates a
/// key counts as well, because it may take a lock.
pub fn takes_lock(words: &[Bytes]) -> bool {
    let Some(command) = words.first() else { return false };
    match &command.to_ascii_uppercase()[..] {
        b"SETNX" | b"HSETNX" | b"MSETNX" | b"EVAL" | b"EVALSHA" => true,
        _ => words[1..].iter().any(|word| word.eq_ignore_ascii_case(b"NX")),
    }
}

/// The key and the token of a request that can only be an attempt to take a lock.
pub fn tries(words: &[Bytes]) -> Option<(&Bytes, &Bytes)> {
    let [command, key, token, rest @ ..] = words else { return None };
    let plain = command.eq_ignore_ascii_case(b"SETNX") && rest.is_empty();
    let set = command.eq_ignore_ascii_case(b"SET")
        && rest.iter().any(|word| word.eq_ignore_ascii_case(b"NX"));
    (plain || set).then_some((key, token))
}

/// Whether the words carry a token: as an argument, or within the text of a script.
pub fn carries(words: &[Bytes], token: &[u8]) -> bool {
    let Some(command) = words.first() else { return false };
    let scripted =
        command.eq_ignore_ascii_case(b"EVAL") || command.eq_ignore_ascii_case(b"EVALSHA");
    if !scripted {
        return words[1..].iter().any(|word| word == token);
    }
    let keys = words.get(2).and_then(|number| std::str::from_utf8(number).ok()?.parse().ok());
    let arguments = words.iter().skip(3).skip(keys.unwrap_or(0_usize));
    let inside = |word: &Bytes| {
        token.len() >= TELLING && word.windows(token.len()).any(|part| part == token)
    };
    words.get(1).is_some_and(inside) || arguments.into_iter().any(|word| word == token)
}

/// Whether the words drop every key.
pub fn flushes(words: &[Bytes]) -> bool {
    let flush = |name: &[u8]| words.first().is_some_and(|word| word.eq_ignore_ascii_case(name));
    flush(b"FLUSHALL") || flush(b"FLUSHDB")
}

#[cfg(test)]
mod tests {
    use super::{carries, takes_lock, tries};
    use bytes::Bytes;

    fn words(line: &str) -> Vec<Bytes> {
        line.split(' ').map(|word| Bytes::from(word.to_owned())).collect()
    }

    #[test]
    fn locks_are_taken_by_what_creates_only() {
        for (line, takes, is_try) in [
            ("SET lock a NX PX 10", true, true),
            ("set lock a px 10 nx", true, true),
            ("SETNX lock a", true, true),
            ("EVAL script 1 lock a", true, false),
            ("SET lock a PX 10", false, false),
            ("INCR lock", false, false),
        ] {
            assert_eq!(takes_lock(&words(line)), takes, "{line}");
            assert_eq!(tries(&words(line)).is_some(), is_try, "{line}");
        }
    }

    #[test]
    fn a_token_is_an_argument_and_no_number_of_keys() {
        assert!(carries(&words("EVAL script 1 lock token"), b"token"));
        assert!(!carries(&words("EVAL script 1 lock"), b"1"));
        assert!(!carries(&words("EVAL script 1 lock other"), b"token"));
        assert!(carries(&words("EVAL del('lock','0123-4567') 0"), b"0123-4567"));
        assert!(!carries(&words("DEL lock"), b"token"));
    }
}
