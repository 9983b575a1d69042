//! The manual pages of the daemons and --help name the same options; blocks of the operators' documents can be pasted.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

fn text(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// The long options behind `mark` in a text.
fn options<'a>(text: &'a str, mark: &str) -> BTreeSet<&'a str> {
    let name = |rest: &'a str| rest.split(|c: char| !c.is_ascii_lowercase() && c != '-').next();
    text.split(mark).skip(1).filter_map(name).filter(|name| !name.is_empty()).collect()
}

#[test]
fn pages_and_help_name_the_same_options() {
    for (program, page) in
        [(env!("CARGO_BIN_EXE_ccnicd"), "ccnicd"), (env!("CARGO_BIN_EXE_ccnicd-xdp"), "ccnicd-xdp")]
    {
        let help = String::from_utf8(Command::new(program).arg("--help").output().unwrap().stdout).unwrap();
        let heads: String = help.lines().filter(|line| line.trim_start().starts_with('-')).collect();
        let mut helped = options(&heads, " --");
        ["help", "version"].iter().for_each(|usual| assert!(helped.remove(usual), "{help}"));
        let page = text(&format!("crates/ccnic-capi/man/{page}.8"));
        let (synopsis, described) = page.split_once(".Sh DESCRIPTION").unwrap();
        assert_eq!(options(synopsis, r"Fl \-"), helped, "the synopsis");
        assert_eq!(options(described, r".It Fl \-"), helped, "the list");
    }
}

/// Programs that a line of a shell may begin with, and words of the shell.
const COMMANDS: &str = "ccnic ccnicd ccnicd-xdp ccnic-kv ccnic-kv-load ccnic-hello ccnic-echo target/debug/ccnic target/debug/ccnicd cargo make \
    cc ip ping ethtool systemctl systemd-sysusers install echo mkdir kill export curl dpdk-testpmd memcached tc sysctl setcap tshark tcpdump \
    for do done sudo sh cd apt sleep wireshark printf nc taskset chrt python3 unshare";

/// The indented and fenced blocks of a document, without their indentation.
fn blocks(document: &str) -> Vec<Vec<String>> {
    let (mut blocks, mut block) = (Vec::new(), Vec::new());
    for line in document.lines().chain([""; 2]) {
        let depth = line.len() - line.trim_start().len();
        if depth >= 4 && !line.trim_start().starts_with(['-', '|'])
            || line.is_empty() && !block.is_empty() && !blocks.is_empty()
        {
            block.push(line.trim().to_owned());
        } else if !block.is_empty() {
            blocks.push(std::mem::take(&mut block));
        }
    }
    blocks
}

/// A paragraph that was wrapped over a block joins its lines: then a line begins with what is no command, and ends in the middle.
#[test]
fn blocks_for_a_shell_are_lines_of_commands() {
    let known: BTreeSet<&str> = COMMANDS.split_whitespace().collect();
    let mut shells = 0;
    for path in [
        "README.md",
        "docs/placement.md",
        "docs/operations.md",
        "docs/configuration.md",
        "docs/ports.md",
        "docs/switch.md",
        "docs/steering.md",
        "docs/tuning.md",
        "docs/security.md",
        "docs/performance.md",
        "docs/laboratory.md",
        "apps/kv/README.md",
        "apps/kv-load/README.md",
        "apps/tcp/README.md",
    ] {
        for block in blocks(&text(path)) {
            let lines: Vec<&str> =
                block.iter().map(|line| line.as_str()).filter(|line| !line.is_empty()).collect();
            let first = lines.iter().find(|line| !line.starts_with('#'));
            if !first.is_some_and(|line| line.split(' ').next().is_some_and(|word| known.contains(word))) {
                continue;
            }
            shells += 1;
            let mut goes_on = false;
            for line in &lines {
                let word = line.split([' ', ';']).next().unwrap();
                let assigns = word.contains('=') && !word.starts_with('-');
                let begins = line.starts_with('#') || known.contains(word) || assigns;
                assert!(goes_on || begins, "{path}: {line:?} begins with no command");
                goes_on = line.ends_with('\\');
            }
            let script = lines.join("\n");
            let checked = Command::new("bash").args(["-n", "-c", &script]).output().unwrap();
            assert!(
                checked.status.success(),
                "{path}: {script}\n{}",
                String::from_utf8_lossy(&checked.stderr)
            );
        }
    }
    assert!(shells > 10, "{shells}");
}

#[test]
fn expressions_for_prometheus_stand_one_on_a_line() {
    let document = text("docs/operations.md");
    let of_metrics = |line: &&str| line.starts_with("    ") && line.contains("ccnic_") && line.contains("[");
    let lines: Vec<&str> = document.lines().filter(of_metrics).map(str::trim).collect();
    assert!(lines.len() >= 4, "{lines:?}");
    for line in lines {
        let begins = ["sum by (", "rate(", "histogram_quantile("].iter().any(|begin| line.starts_with(begin));
        let count = |c: char| line.matches(c).count();
        assert!(
            begins && count('(') == count(')') && count('[') == count(']') && !line.contains('#'),
            "{line}"
        );
    }
}

/// The first program of the README is the example that is compiled.
#[test]
fn the_readme_shows_the_first_example() {
    let readme = text("README.md");
    let shown = readme.split("```rust\n").nth(1).unwrap().split("```").next().unwrap();
    let example = text("crates/ccnic-client/examples/hello.rs");
    let code: String =
        example.lines().filter(|line| !line.starts_with("//!")).map(|line| format!("{line}\n")).collect();
    assert_eq!(shown, code.trim_start());
}
