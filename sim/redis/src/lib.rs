//! The fake Redis server: parses requests, keeps keys, writes files and propagates to replicas.
//!
//! A node reaches its machine through [`lockstorm_platform::host`] alone and knows no engine.
//! Lowest first; everything before `server` consists of functions of values.
//!
//! - `digits`: numbers as C writes them
//! - `float`: numbers as C reads them
//! - `frame`: bytes to requests, replies to bytes
//! - `extended`: C's `long double`
//! - `keyspace`: keys, values, expiry times
//! - `history`: the replication history: ids, offset, backlog
//! - `peers`: replicas, a master, a failover as a node sees them
//! - `rdb`: values to bytes and back, in Redis's RDB format
//! - `compat`: which server a node emulates, and the differences between servers
//! - `node`: the state of a node, and the effects of a command
//! - `settings`, `users`, `memory`: the state of CONFIG, ACL and `maxmemory`
//! - `session`, `clients`: connections, and what is pushed to them
//! - `command`: the executor
//! - `script`: Lua
//! - `saving`: when keys are saved
//! - `persistence`: the contents of files
//! - `signal`: how tasks of one node wait for each other
//! - `server`: the order of execution, the trace
//! - `files`: the files of a running node
//! - `conversation`: requests and replies of one connection
//! - `cycle`: what a node does on its own
//! - `replication`: master and replica
//! - `sentinel`: a node in another mode, which monitors masters
//! - `ask`: one request and its reply, for callers outside a node
//! - `operator`: sends the commands through which faults act
//! - `lines`: connections that a node opens on its own
//! - `cluster`: slots over masters, the cluster bus, elections

pub mod admission;
pub mod ask;
pub mod call;
pub mod chance;
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
