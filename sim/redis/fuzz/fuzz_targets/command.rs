//! See `body::command`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lockstorm_fuzz::body::command(data));
