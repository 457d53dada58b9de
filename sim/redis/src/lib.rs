//! The fake Redis server: what it understands, keeps, writes to disk and tells its replicas.
//!
//! A node reaches its machine through [`lockstorm_platform::host`] alone and knows no engine.
//! Lowest first; what stands before `server` is functions of values.
//!
//! - `digits`: numbers as C writes them
//! - `float`: numbers as C reads them
//! - `frame`: bytes to requests, replies to bytes
//! - `extended`: C's `long double`
//! - `keyspace`: keys, values, ends
//! - `history`: what replication counts
//! - `peers`: replicas, a master, a failover as a node sees them
//! - `rdb`: values to bytes and back, as Redis writes them down
//! - `compat`: which server a node answers like, and what differs there
//! - `node`: the state of a node, and what a command did to it
//! - `settings`, `users`, `memory`: what CONFIG, ACL and `maxmemory` keep
//! - `session`, `clients`: connections, and what they are told without asking
//! - `command`: the executor
//! - `script`: Lua
//! - `saving`: when keys are saved
//! - `persistence`: what stands in files
//! - `signal`: how tasks of one node wait for each other
//! - `server`: the order of execution, the trace
//! - `files`: the files of a running node
//! - `conversation`: what is said on one connection
//! - `cycle`: what a node does by itself
//! - `replication`: master and replica
//! - `sentinel`: a node in another mode, which watches masters
//! - `ask`: one request and its reply, for who asks a node from outside
//! - `operator`: who types what faults do by command
//! - `lines`: connections that a node opens by itself
//! - `cluster`: slots over masters, the bus between nodes, elections

pub mod admission;
pub mod ask;
pub mod call;
pub mod clients;
pub mod cluster;
pub mod command;
pub mod compat;
pub mod conversation;
pub mod cycle;
pub mod digest;
pub mod digits;
pub mod errors;
pub mod eviction;
pub mod execution;
pub mod extended;
pub mod files;
pub mod float;
pub mod frame;
pub mod glob;
pub mod history;
pub mod keyspace;
pub mod lines;
pub mod memory;
pub mod node;
pub mod operator;
pub mod peers;
pub mod permission;
pub mod persistence;
pub mod process;
pub mod rdb;
pub mod replay;
pub mod replication;
pub mod requests;
pub mod saving;
pub mod script;
pub mod sentinel;
pub mod server;
pub mod session;
pub mod settings;
pub mod signal;
pub mod specification;
pub mod turn;
pub mod users;
pub mod waits;
pub mod witness;
