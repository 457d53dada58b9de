//! The command `lockstorm`: hands its arguments to the library and leaves with its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    lockstorm::cli::dispatch::main(std::env::args_os())
}
