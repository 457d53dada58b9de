//! The fake Redis server: parses requests, keeps keys, writes files and propagates to replicas.
//!
//! A node reaches its machine through [`lockstorm_platform::host`] alone and knows no engine.
//! Lowest first; everything before `signal` consists of functions of values.
//!
//! - `digits`, `float`, `extended`: numbers as C writes and reads them
//! - `glob`, `digest`, `chance`: patterns, digests, a node's own random generators
//! - `frame`, `errors`: bytes to requests, replies to bytes; shared error texts
//! - `settings`: the parameters of CONFIG
//! - `keyspace`: keys, values, expiry times
//! - `compat`: which server a node emulates, and the differences between servers
//! - `specification`: what each command is, as data
//! - `rdb`: values to bytes and back, in Redis's RDB format
//! - `users`, `memory`: the state of ACL and `maxmemory`
//! - `history`, `peers`, `saving`: the replication history, replicas and master, save points
//! - `clock`, `effects`, `figures`, `script_state`: a node's time, what its commands leave for the
//!   server, its counters, its scripts
//! - `session`, `clients`: connections, and what is pushed to them
//! - `sentinel`, `cluster`: a Sentinel's view of its masters; slots, the cluster bus, elections
//! - `node`: the state of a node, and the effects of a command
//! - `call`: a running command
//! - `permission`, `eviction`: restrictions of requests and scripts; eviction of keys
//! - `script`: Lua
//! - `persistence`: the contents of files
//! - `command`: one file for each family of commands
//! - `admission`, `execution`: the checks before every command, and the executor
//! - `requests`, `replay`: requests of connections; the replay of a file at the start
//! - `signal`, `lines`: how tasks of one node wait for each other; connections that a node opens
//! - `append_only_file`, `feeds`: what of the file is written and synced; what a replica is sent
//! - `server`, `files`: what a running node's tasks share; its files
//! - `request_record`: what a node records about requests where clients record nothing
//! - `waits`, `cycle`, `turn`: blocked sessions, periodic tasks, the order of execution
//! - `replication`: master and replica
//! - `conversation`: requests and replies of one connection
//! - `process`: the life of a node, a Sentinel and the cluster bus
//! - `resp_client`: the client end of a connection to a node
//! - `operator`: the commands through which faults act

mod admission;
mod append_only_file;
mod call;
mod chance;
pub mod clients;
pub mod clock;
pub mod cluster;
mod command;
pub mod compat;
mod conversation;
mod cycle;
mod digest;
mod digits;
pub mod effects;
mod errors;
mod eviction;
pub mod execution;
mod extended;
mod feeds;
mod figures;
mod files;
mod float;
pub mod frame;
mod glob;
mod history;
pub mod keyspace;
mod lines;
mod memory;
pub mod node;
pub mod operator;
mod peers;
pub mod permission;
pub mod persistence;
pub mod process;
pub mod rdb;
mod replay;
mod replication;
mod request_record;
pub mod requests;
pub mod resp_client;
mod saving;
mod script;
mod script_state;
pub mod sentinel;
pub mod server;
pub mod session;
mod settings;
pub mod signal;
pub mod specification;
mod turn;
mod users;
mod waits;
