//! See `body::frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lockstorm_fuzz::body::frame(data));
