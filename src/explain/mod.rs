//! The witness turned into a causal story.
//!
//! A finding goes in; a sentence for the verdict, one for the assumption that broke, and a story
//! come out. Every sentence is rendered from events of the history, and names them. Explain
//! runs nothing: what had to be run again is in the finding.

pub mod argument;
pub mod cause;
pub mod chapter;
pub mod experiment;
pub mod explanation;
pub mod finding;
pub mod hold;
pub mod incarnation;
pub mod mechanism;
pub mod selection;
pub mod sentence;
pub mod story;
pub mod witness;

#[cfg(test)]
pub mod fixture;
#[cfg(test)]
mod tests;
