//! See `ccnic_fuzz::host_region`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ccnic_fuzz::host_region(bytes));
