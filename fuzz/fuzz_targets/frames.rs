//! See `ccnic_fuzz::frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ccnic_fuzz::frames(bytes));
