//! Programs without `unsafe` that the compiler must refuse: each function of `programs/*.rs`, at the line that is marked `//~ CODE` and at
//! no other, with the codes that stand there. `programs/right.rs` is accepted.
//!
//! Some errors about lifetimes have no code: `//~ lifetime`. Errors are compared by line and code, not by their words, which change with the
//! compiler's version. (trybuild compares the words, and checks all dependencies once more.)

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Lines and codes.
type Errors = BTreeSet<(usize, String)>;

/// The library of this crate: beside this test's executable, the newest of its name.
fn library() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let age = |path: &PathBuf| path.metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let found = std::fs::read_dir(&deps).unwrap().map(|entry| entry.unwrap().path()).filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("libccnic_misuse") && name.ends_with(".rlib")
    });
    found.max_by_key(age).unwrap_or_else(|| panic!("no libccnic_misuse.rlib in {}", deps.display()))
}

/// The errors that the compiler finds, `file:line:column: error[CODE]: words`, and all that it says.
fn errors(program: &Path) -> (Errors, String) {
    let library = library();
    let out = tempfile::tempdir().unwrap();
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args([
            "--edition=2024",
            "--crate-type=lib",
            "--emit=metadata",
            "--error-format=short",
            "--cap-lints=allow",
        ])
        .arg("--out-dir")
        .arg(out.path())
        .arg("-L")
        .arg(format!("dependency={}", library.parent().unwrap().display()))
        .arg("--extern")
        .arg(format!("ccnic_misuse={}", library.display()))
        .arg(program)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut found = Errors::new();
    for line in said.lines() {
        let Some((place, error)) = line.split_once(": error") else { continue };
        let number = place.rsplit(':').nth(1).and_then(|number| number.parse().ok());
        let code = error.strip_prefix('[').map_or("lifetime", |error| error.split(']').next().unwrap());
        found.insert((number.unwrap(), code.to_owned()));
    }
    assert_eq!(output.status.success(), found.is_empty(), "{}: {said}", program.display());
    (found, said)
}

/// Those that the program says it has.
fn marked(program: &Path) -> Errors {
    let text = std::fs::read_to_string(program).unwrap();
    let marks = (1..).zip(text.lines()).filter_map(|(i, line)| Some((i, line.split_once("//~ ")?.1)));
    marks.flat_map(|(i, codes)| codes.split_whitespace().map(move |code| (i, code.to_owned()))).collect()
}

#[test]
fn the_compiler_refuses_what_would_be_unsound() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let mut refused = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let program = entry.unwrap().path();
        let (wanted, (found, said)) = (marked(&program), errors(&program));
        assert_eq!(found, wanted, "{}: {said}", program.display());
        assert_eq!(wanted.is_empty(), program.ends_with("right.rs"), "{}", program.display());
        refused += wanted.len();
    }
    assert!(refused >= 40, "{refused} programs");
}
