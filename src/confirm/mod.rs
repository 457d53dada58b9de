//! `confirm`: runs a plan on real redis-servers, in real time, and compares their behaviour with
//! the simulation.
//!
//! Clients, resource, probe, clocks and links are those of every run, on the live engine. A node is
//! a host whose process starts a redis-server and relays to it: the world controls the node's
//! death, its pauses and its links, and every byte to the server passes through the relay.
//!
//! - [`possible`]: which plans can run on real servers, and why others cannot
//! - [`processes`]: redis-servers; the only place for processes and signals
//! - [`tap_event`]: parses what a server reports about commands and effects
//! - [`pending`]: the requests sent to a server, to join reports with their causes
//! - [`tap`]: turns a server's reports into evidence in the trace
//! - [`lookout`]: roles of nodes, and what Sentinels and cluster nodes see of masters
//! - [`relay`]: the process of a node
//! - [`environment`]: the environment of a real run
//! - [`windows`]: durations measured in both environments
//! - [`compare`]: the simulated and the real verdicts, side by side
//! - [`table`]: the results as Markdown

pub mod compare;
pub mod environment;
pub mod lookout;
pub mod peer;
pub mod pending;
pub mod possible;
pub mod processes;
pub mod relay;
pub mod table;
pub mod tap;
pub mod tap_event;
pub mod windows;
