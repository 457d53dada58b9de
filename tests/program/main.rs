//! The `lockstorm` program as a user runs it: its arguments, its output, its exit codes, real
//! sockets and real servers. These tests wait in real time, so nothing that computes for long runs
//! beside them.

mod campaign;
mod cli;
mod confirm;
mod documents;
mod production;
mod review;
mod serve;
