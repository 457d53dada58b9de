//! `confirm`: a plan on real redis-servers, in real time, to see whether they do the same.
//!
//! Clients, resource, probe, clocks and links are those of every run, on the live engine. A node is
//! a host whose process starts a redis-server and stands before it: so its death, its pauses and
//! whatever happens on its links come from the world, and every byte to it passes through.
//!
//! - [`possible`]: which plans real servers can show, and why others cannot
//! - [`processes`]: redis-servers, the only door to processes and signals
//! - [`told`]: what a server tells of commands and effects, read
//! - [`asked`]: which requests went to a server, so that what it tells finds its cause
//! - [`witness`]: what a server tells becomes evidence in the trace
//! - [`lookout`]: what nodes become, and what Sentinels and nodes of a cluster see of masters
//! - [`peer`]: who is at the other end of a connection
//! - [`relay`]: the process of a node
//! - [`ground`]: what a plan is run on
//! - [`windows`]: lengths that are measured on both sides
//! - [`compare`]: the simulated and the real verdicts, side by side
//! - [`table`]: all of that as Markdown

pub mod asked;
pub mod compare;
pub mod ground;
pub mod lookout;
pub mod peer;
pub mod possible;
pub mod processes;
pub mod relay;
pub mod table;
pub mod told;
pub mod windows;
pub mod witness;
