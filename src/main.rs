//! The command `lockstorm`: passes its arguments to the library and exits with its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    lockstorm::cli::dispatch::main(std::env::args_os())
}
