//! Compiles C programs against the library that cargo has just built.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::SystemTime;

/// The libraries that a static libccnic needs, from rustc (`--print native-static-libs`), as in ccnic.pc.
pub(crate) const PRIVATE: [&str; 7] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl", "-lc"];

/// How a program is linked and run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Shared,
    Static,
    /// Static, with the program's own code under AddressSanitizer and UndefinedBehaviorSanitizer.
    Sanitized,
    /// Shared, under valgrind's memcheck.
    Valgrind,
}

pub(crate) const ALL: [How; 4] = [How::Shared, How::Static, How::Sanitized, How::Valgrind];

pub(crate) fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The archive of this build: beside this test's executable, the newest of its name.
fn archive() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let age = |path: &PathBuf| path.metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    let found = std::fs::read_dir(&deps).unwrap().map(|e| e.unwrap().path()).filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("libccnic_capi") && name.ends_with(".a")
    });
    found.max_by_key(age).unwrap_or_else(|| panic!("no libccnic_capi.a in {}", deps.display()))
}

/// A folder with libccnic.so and libccnic.a, linked once, without tables of lines, as they are installed: each program below is linked
/// with the archive, or valgrind reads the library.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<tempfile::TempDir> = OnceLock::new();
    let directory = LIBRARY.get_or_init(|| {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let stripped = directory.path().join("libccnic.a");
        run(Command::new("strip").arg("--strip-debug").arg("-o").arg(&stripped).arg(archive()));
        run(Command::new(here("link.sh")).arg(&stripped).arg(directory.path()));
        directory
    });
    directory.path()
}

/// Runs a command to its end; panics with its output if it fails.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        said(&output.stdout),
        said(&output.stderr)
    );
    output
}

/// The C compiler, with all warnings as errors.
pub(crate) fn cc() -> Command {
    let mut command = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-O2", "-I"]);
    command.arg(here("include"));
    command
}

/// Compiles a program into `directory`, which may hold headers of its own; returns the command that runs it, or prints why that is impossible here and returns `None`.
#[track_caller]
pub(crate) fn program(source: &str, how: How, directory: &Path) -> Option<Command> {
    let skip = |why: &str| println!("skipped: {source} {how:?}: {why}");
    if how == How::Valgrind && Command::new("valgrind").arg("--version").output().is_err() {
        skip("valgrind is not installed");
        return None;
    }
    let executable = directory.join("program");
    let mut cc = cc();
    cc.arg("-I").arg(directory).arg(here(source)).arg("-o").arg(&executable);
    if how == How::Sanitized {
        let sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
        let empty = directory.join("empty.c");
        std::fs::write(&empty, "int main(void) { return 0; }\n").unwrap();
        let probe = self::cc().args(sanitizers).arg(&empty).arg("-o").arg(&executable).output().unwrap();
        if !probe.status.success() {
            skip("the compiler has no AddressSanitizer");
            return None;
        }
        cc.args(sanitizers);
    }
    match how {
        How::Shared | How::Valgrind => cc.arg("-L").arg(library()).arg("-lccnic"),
        How::Static | How::Sanitized => cc.arg(library().join("libccnic.a")).args(PRIVATE),
    };
    run(&mut cc);
    let mut command = if how == How::Valgrind {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--quiet", "--error-exitcode=99", "--leak-check=full", "--fair-sched=yes"]);
        valgrind.arg(&executable);
        valgrind
    } else {
        Command::new(&executable)
    };
    command.env("LD_LIBRARY_PATH", library());
    Some(command)
}
