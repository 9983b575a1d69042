//! See `ccnic_fuzz::switch`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ccnic_fuzz::switch(bytes));
