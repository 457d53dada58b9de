//! The mark of a file that lockstorm wrote. Only marked files may be replaced.
//!
//! The mark is at the beginning of the text itself, so it stays with the file wherever that is
//! copied or committed. A plan has no separate mark: no other file begins like a plan.

/// The first line of Markdown and of a picture, which neither shows.
const COMMENT: &str = "<!-- written by lockstorm; a run replaces this file -->\n";
/// The first line of a scenario.
const NOTE: &str = "# written by lockstorm; a run replaces this file\n";
/// The first field of a report's JSON, and its value.
pub const WRITTEN_BY: &str = "lockstorm";
/// The number of bytes of a file that [`is_ours`] needs.
pub const HEAD: u64 = 256;

/// A Markdown page or a picture with the mark in front.
pub fn marked(text: &str) -> String {
    format!("{COMMENT}{text}")
}

/// A scenario with the mark in front.
pub fn noted(text: &str) -> String {
    format!("{NOTE}{text}")
}

/// Whether a file with this beginning was written by lockstorm.
pub fn is_ours(head: &str) -> bool {
    let report = format!("{{\n  \"written_by\": \"{WRITTEN_BY}\",\n");
    let marks = [COMMENT, NOTE, &report];
    marks.into_iter().any(|mark| head.starts_with(mark)) || is_plan(head)
}

/// Whether a file begins like a plan of any version.
fn is_plan(head: &str) -> bool {
    let Some(rest) = head.strip_prefix("{\n  \"format\": ") else { return false };
    let after_number = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    after_number.len() < rest.len() && after_number.starts_with(",\n  \"name\": \"")
}

#[cfg(test)]
mod tests {
    use super::{is_ours, marked, noted};

    #[test]
    fn what_lockstorm_writes_is_known_by_its_beginning_and_nothing_else_is() {
        for (head, ours) in [
            (marked("# Scenarios\n").as_str(), true),
            (noted("name = \"x\"\n").as_str(), true),
            ("{\n  \"written_by\": \"lockstorm\",\n  \"explanation\": {", true),
            ("{\n  \"format\": 1,\n  \"name\": \"x\",\n", true),
            ("{\n  \"format\": 12,\n  \"name\": \"x\",\n", true),
            ("", false),
            ("# Scenarios\n", false),
            ("# My notes\n<!-- written by lockstorm; a run replaces this file -->\n", false),
            ("{\n  \"written_by\": \"me\",\n", false),
            ("{\n  \"format\": ,\n  \"name\": \"x\",\n", false),
            ("{\n  \"format\": 1\n}\n", false),
        ] {
            assert_eq!(is_ours(head), ours, "{head:?}");
        }
    }
}
