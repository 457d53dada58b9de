//! Files to write: the pages about one finding.

use crate::explain::explanation::explain;
use crate::explain::finding::Finding;
use crate::report::{json, mark, markdown, svg};

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its name within the report folder.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// The endings of the names of one scenario's pages.
const ENDINGS: [&str; 4] = [".md", ".svg", ".json", ".plan.json"];

/// The pages about one scenario on one seed.
pub fn of_finding(finding: &Finding) -> Vec<Page> {
    let explanation = explain(finding);
    let page = |ending: &str, text: String| {
        let name = format!("{}{ending}", finding.scenario);
        Page { name, text }
    };
    let [report, picture, whole, plan] = ENDINGS;
    vec![
        page(report, mark::marked(&markdown::page(finding, &explanation))),
        page(picture, mark::marked(&svg::picture(finding, &explanation))),
        page(whole, json::document(finding, &explanation)),
        page(plan, finding.plan.to_json()),
    ]
}

/// The names of the pages about a scenario of this name.
pub fn names(scenario: &str) -> impl Iterator<Item = String> {
    ENDINGS.map(|ending| format!("{scenario}{ending}")).into_iter()
}
