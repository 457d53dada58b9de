//! A file to write.

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its name within the report folder.
    pub name: String,
    /// Its text.
    pub text: String,
}
