//! See `ccnic_fuzz::recovery`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ccnic_fuzz::recovery(bytes));
