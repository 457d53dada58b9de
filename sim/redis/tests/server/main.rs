//! Nodes, Sentinels and clusters in a world: whole flows that cost no real time.

mod cluster;
mod compat;
mod node;
mod replicates;
mod sentinel;
mod sessions;
mod waiting;
