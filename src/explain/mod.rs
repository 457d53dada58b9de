//! The evidence of a violation turned into a causal story.
//!
//! The input is a finding; the output is a sentence for the verdict, one for the breached
//! assumption, and a story. Every sentence is rendered from events of the history, and names them.
//! Explain runs nothing: the finding contains the reruns.

pub(crate) mod answers;
pub mod argument;
pub mod assumption;
pub mod cause;
mod deed;
mod endless;
pub mod evidence;
pub mod experiment;
pub mod explanation;
pub mod finding;
pub mod headline;
pub(crate) mod hold;
pub(crate) mod life;
pub mod mechanism;
pub mod naming;
mod probe;
pub mod promise;
mod purge;
mod selection;
mod share;
pub mod story;
pub mod threshold;
mod trial;
mod votes;
pub mod witness;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;
