//! The witness turned into a causal story.
//!
//! A finding goes in; a sentence for the verdict, one for the assumption that broke, and a story
//! come out. Every sentence is rendered from events of the history, and names them. Explain
//! runs nothing: what had to be run again is in the finding.

pub mod argument;
pub mod cause;
pub(crate) mod chapter;
pub mod experiment;
pub mod explanation;
pub mod finding;
pub(crate) mod hold;
pub(crate) mod incarnation;
pub mod mechanism;
mod selection;
pub mod sentence;
pub mod story;
pub mod witness;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
