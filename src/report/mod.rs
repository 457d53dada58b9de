//! Reports: one file per format. Pure functions of a finding and its explanation.
//!
//! No file is read or written here, nothing is printed, and nothing is decided: formats only render
//! what [`crate::explain`] found.

mod causes;
pub mod chapter;
pub(crate) mod content;
mod diagnosis;
pub mod hunt;
pub(crate) mod index;
pub(crate) mod json;
pub(crate) mod mark;
pub(crate) mod markdown;
pub mod matrix;
pub mod page;
pub mod profile;
pub mod review;
mod service;
mod settings;
pub(crate) mod svg;
pub mod text;

#[cfg(test)]
mod tests;
