//! Every file of the corpora in `fuzz/corpus`, findings among them, without a fuzzer; and some random inputs, the same in every
//! run.

use std::fs;
use std::panic::catch_unwind;
use std::path::Path;

use ccnic_fuzz::TARGETS;

#[test]
fn every_file_of_the_corpora_passes() {
    for (name, target) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
        let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(!files.is_empty(), "no corpus in {}", folder.display());
        for file in files {
            let bytes = fs::read(&file).unwrap();
            assert!(catch_unwind(|| target(&bytes)).is_ok(), "{} fails", file.display());
        }
    }
}

#[test]
fn random_inputs_pass() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for (name, target) in TARGETS {
        for round in 0..300 {
            let bytes: Vec<u8> = (0..random() % 600).map(|_| random() as u8).collect();
            assert!(catch_unwind(|| target(&bytes)).is_ok(), "{name}, round {round}: {bytes:?}");
        }
    }
}
