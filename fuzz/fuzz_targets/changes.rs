//! See `ccnic_fuzz::changes`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ccnic_fuzz::changes(bytes));
