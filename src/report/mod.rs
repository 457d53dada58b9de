//! A file a format.
