//! See `ccnic_fuzz::configuration`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ccnic_fuzz::configuration(bytes));
