//! Reports: one file per format. Pure functions of a finding and its explanation.
//!
//! No file is read or written here, nothing is printed, and nothing is decided: formats only render
//! what [`crate::explain`] found.

pub mod causes;
pub mod content;
pub mod index;
pub mod json;
pub mod mark;
pub mod markdown;
pub mod service;
pub mod settings;
pub mod svg;
pub mod text;

#[cfg(test)]
mod tests;
