//! What the process is told by its environment: variables, and which program it is.

use std::fs;

use lockstorm_platform::trace::hash_of;

/// A variable of the environment that is set.
#[expect(clippy::disallowed_methods, reason = "which shard runs, not what a plan does")]
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The command that runs this process again, as one types it in a shell.
pub fn command() -> String {
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| quoted(&word.to_string_lossy()));
    ["lockstorm".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./,:=+@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// The hash of the running program: what another build found is not trusted. Empty if it cannot be
/// read.
pub fn build() -> String {
    let program = std::env::current_exe().and_then(fs::read);
    program.map_or_else(|_| String::new(), |bytes| format!("{:016x}", hash_of(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_word_is_one_word_for_a_shell() {
        let words = ["1..20", "pause,crash", "", "my plans", "c1's"].map(quoted);
        assert_eq!(words, ["1..20", "pause,crash", "''", "'my plans'", r"'c1'\''s'"]);
    }
}
