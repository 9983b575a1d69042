//! See `ccnic_fuzz::kv_snapshot`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ccnic_fuzz::kv_snapshot(bytes));
