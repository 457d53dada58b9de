//! The keys that a request names, if they show whether the request concerns the key of its lock.

use bytes::Bytes;
use lockstorm_redis::specification::find;
use lockstorm_redis::specification::keys::keys_of;

/// The keys that a request names, given its command and its arguments; none if one of them is known
/// to be the lock's. A script uses only the keys that it names, as the documentation of EVAL
/// requires. A script that names none may use any.
pub(super) fn other_keys(lock_key: Option<&str>, command: &str, args: &[&[u8]]) -> Vec<Bytes> {
    let is_own = |key: &str| args.contains(&key.as_bytes());
    // Nearly every request does this, and the table of commands and keys is slow to read.
    if lock_key.is_some_and(is_own) {
        return Vec::new();
    }
    let words = [command.as_bytes()].into_iter().chain(args.iter().copied());
    let words: Vec<Bytes> = words.map(Bytes::copy_from_slice).collect();
    let Some(command) = find(command.as_bytes()) else { return Vec::new() };
    keys_of(command, &words).into_iter().map(|key| words[key.at].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::other_keys;

    #[test]
    fn a_request_names_the_lock_or_other_keys_or_none() {
        let names = |text: &str, key: Option<&str>| {
            let mut words = text.split(' ');
            let command = words.next().expect("a text has a word");
            let args: Vec<&[u8]> = words.map(str::as_bytes).collect();
            let keys = other_keys(key, command, &args);
            keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names("INCR unlocks", Some("lock")), ["unlocks"]);
        assert_eq!(names("RENAMENX a b", Some("lock")), ["a", "b"]);
        assert_eq!(names("EVAL script 1 lock:tmp", Some("lock")), ["lock:tmp"]);
        assert_eq!(names("DEL a lock", None), ["a", "lock"]);
        let own = ["GET lock", "RENAMENX tmp lock", "DEL a lock", "EVAL script 2 a lock"];
        for none in ["PING", "EXEC", "PUBLISH channel text", "EVAL script 0"].iter().chain(&own) {
            assert!(names(none, Some("lock")).is_empty(), "{none}");
        }
    }
}
