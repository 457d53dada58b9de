//! What is outside: files, the terminal, exit codes, real time. The command line and users' tests
//! stand on it, and nothing else does.

pub mod ending;
pub mod input;
pub mod output;
pub mod page;
pub mod terminal;
pub mod watchdog;
