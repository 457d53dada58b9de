//! A file to be written.

/// A file to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its name within the folder of reports.
    pub name: String,
    /// Its text.
    pub text: String,
}
