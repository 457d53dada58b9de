//! The keys that a request names, where they tell whether it concerns the key of its lock.

use bytes::Bytes;
use lockstorm_redis::specification::find;
use lockstorm_redis::specification::keys::keys_of;

/// The keys that a request names, given as its command and its arguments; none if one of them is
/// known to be the lock's. A script that names no key may use any, and so may one whose text is not
/// there, has the lock's key in it, or is of a lock whose key is not known.
pub(super) fn other_keys(lock_key: Option<&str>, words: &[&[u8]]) -> Vec<Bytes> {
    // The rule for nearly every request; the table of keys is slow to read.
    let is_own = |key: &str| words.iter().skip(1).any(|word| *word == key.as_bytes());
    let Some(command) = words.first().and_then(|name| find(name)) else { return Vec::new() };
    let has_key = |text: &[u8]| {
        lock_key.is_none_or(|lock_key| String::from_utf8_lossy(text).contains(lock_key))
    };
    let may_use_any = match command.name {
        "EVAL" | "EVAL_RO" => words.get(1).is_some_and(|text| has_key(text)),
        "EVALSHA" | "EVALSHA_RO" | "FCALL" | "FCALL_RO" => true,
        _ => false,
    };
    if may_use_any || lock_key.is_some_and(is_own) {
        return Vec::new();
    }
    let words: Vec<Bytes> = words.iter().map(|word| Bytes::copy_from_slice(word)).collect();
    keys_of(command, &words).into_iter().map(|key| words[key.at].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::other_keys;

    #[test]
    fn a_request_names_the_lock_or_other_keys_or_none() {
        let names = |text: &str, key: Option<&str>| {
            let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
            let keys = other_keys(key, &words);
            keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names("INCR unlocks", Some("lock")), ["unlocks"]);
        assert_eq!(names("RENAMENX a b", Some("lock")), ["a", "b"]);
        assert_eq!(names("EVAL script 1 lock:tmp", Some("lock")), ["lock:tmp"]);
        assert_eq!(names("DEL a lock", None), ["a", "lock"]);
        let scripts = ["EVAL script 0", "EVALSHA text 1 a", "EVAL call('del','lock') 1 a"];
        let own = ["GET lock", "RENAMENX tmp lock", "DEL a lock", "EVAL script 2 a lock"];
        for none in ["PING", "EXEC", "PUBLISH channel text"].iter().chain(&scripts).chain(&own) {
            assert!(names(none, Some("lock")).is_empty(), "{none}");
        }
        assert!(names("EVAL script 1 lock:tmp", None).is_empty());
    }
}
