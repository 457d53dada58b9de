//! The fake Redis server: what it understands, keeps, writes to disk and tells its replicas.
//!
//! A node reaches its machine through [`lockstorm_platform::host`] alone and knows no engine.
//! Lowest first; what stands before `files` is functions of values. No file uses one that uses it.
//!
//! - `digits`, `float`, `extended`: numbers as C writes and reads them, and its `long double`
//! - `glob`, `digest`, `chance`: patterns, digests, generators
//! - `frame`, `errors`: bytes to requests, replies to bytes; errors of several commands
//! - `keyspace`: keys, values, ends
//! - `compat`: which server a node answers like, and what differs there
//! - `specification`: what each command is
//! - `rdb`: values to bytes and back, as Redis writes them down
//! - `settings`, `users`, `memory`: what CONFIG, ACL and `maxmemory` keep
//! - `history`, `peers`, `saving`: what replication counts, whom it knows; when keys are saved
//! - `session`, `clients`: connections, and what they are told without asking
//! - `sentinel`, `cluster`: what watches masters; slots over masters, elections
//! - `node`: the state of a node, and what a command did to it
//! - `call`: a command while it runs
//! - `permission`, `eviction`: what is refused, and what is given up for memory
//! - `script`: Lua
//! - `persistence`: what stands in files
//! - `command`: what each command does
//! - `admission`, `execution`: what stands before every command, and what executes it
//! - `requests`, `replay`: requests of connections, a file at the start
//! - `signal`: how tasks of one node wait for each other
//! - `lines`: connections that a node opens by itself
//! - `files`, `server`: the files of a running node, and what its tasks share
//! - `waits`, `cycle`, `turn`: who waits, what a node does by itself, the order of execution
//! - `replication`: master and replica
//! - `conversation`: what is said on one connection
//! - `process`: from the start of a node to its end
//! - `ask`: one request and its reply, for who asks a node from outside
//! - `operator`: who types what faults do by command
//! - `witness`: what requests said, where no client tells

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
