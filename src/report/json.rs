//! Everything as JSON: first the explanation, then the finding with plan and history.

use serde::Serialize;

use crate::explain::explanation::Explanation;
use crate::explain::finding::Finding;
use crate::report::mark;

/// The contents of the file.
#[derive(Serialize)]
struct JsonReport<'a> {
    /// The mark: see [`mark`].
    written_by: &'static str,
    explanation: &'a Explanation,
    finding: &'a Finding,
}

/// The report of one finding, indented, with a line break at its end.
pub fn document(finding: &Finding, explanation: &Explanation) -> String {
    let report = JsonReport { written_by: mark::WRITTEN_BY, explanation, finding };
    let mut text = serde_json::to_string_pretty(&report).expect("plain data becomes JSON");
    text.push('\n');
    text
}
