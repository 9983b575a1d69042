//! See `ccnic_fuzz::segments`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ccnic_fuzz::segments(bytes));
