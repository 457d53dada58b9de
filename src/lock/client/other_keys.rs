//! Whether a request concerns the key of its lock.

use bytes::Bytes;
use lockstorm_redis::specification::find;
use lockstorm_redis::specification::keys::keys_of;

/// Whether a request, given as its command and its arguments, names keys, and none of them is the
/// lock's. A script that names no key may use any.
pub(super) fn names_others_alone(lock_key: &str, words: &[&[u8]]) -> bool {
    // The rule for nearly every request; the table of keys is slow to read.
    if words.iter().skip(1).any(|word| *word == lock_key.as_bytes()) {
        return false;
    }
    let Some(command) = words.first().and_then(|name| find(name)) else { return false };
    let words: Vec<Bytes> = words.iter().map(|word| Bytes::copy_from_slice(word)).collect();
    !keys_of(command, &words).is_empty()
}

#[cfg(test)]
mod tests {
    use super::names_others_alone;

    #[test]
    fn a_request_names_the_lock_or_other_keys_or_none() {
        let names = |text: &str| {
            let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
            names_others_alone("lock", &words)
        };
        for other in ["INCR unlocks", "DEL lock:tmp", "RENAMENX a b", "EVAL script 1 lock:tmp"] {
            assert!(names(other), "{other}");
        }
        let none = ["PING", "EXEC", "PUBLISH channel text", "EVAL script 0"];
        for own in ["GET lock", "RENAMENX tmp lock", "DEL a lock", "EVAL script 2 a lock"] {
            assert!(!names(own), "{own}");
        }
        assert!(none.iter().all(|request| !names(request)));
    }
}
