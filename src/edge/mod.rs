//! The outside: files, the terminal, exit codes, real time. Only the command line and users' tests
//! use it.

pub mod campaign;
pub mod campaign_file;
pub mod clock;
pub mod ending;
pub mod environment;
pub mod hunt_result;
pub mod input;
pub mod merged;
pub mod output;
pub mod progress;
pub mod review_result;
pub mod stop;
pub mod terminal;
pub mod watchdog;
