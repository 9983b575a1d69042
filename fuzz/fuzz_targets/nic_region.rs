//! See `ccnic_fuzz::nic_region`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ccnic_fuzz::nic_region(bytes));
