//! See `ccnic_fuzz::control_messages`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ccnic_fuzz::control_messages(bytes));
