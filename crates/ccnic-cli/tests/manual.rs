//! The manual page of the command names its subcommands, and those of them.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::Command;

/// The subcommands that a help lists.
fn commands(of: &[&str]) -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_ccnic")).args(of).arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let list = help.split("Commands:\n").nth(1).unwrap_or_default().split("\n\n").next().unwrap_or_default();
    let name = |line: &str| {
        line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()).map(str::to_owned)
    };
    list.lines().filter_map(name).filter(|name| name != "help").collect()
}

#[test]
fn the_page_has_every_command() {
    let page = include_str!("../../ccnic-capi/man/ccnic.1");
    let (synopsis, described) = page.split_once(".Sh DESCRIPTION").unwrap();
    let forms: Vec<&str> = synopsis.split("\n.Nm\n").skip(1).collect();
    let all = commands(&[]);
    assert!(all.len() > 10, "{all:?}");
    for command in all {
        let own: Vec<_> = forms
            .iter()
            .filter(|form| {
                form.lines().next().is_some_and(|line| line.split(' ').any(|word| *word == command))
            })
            .collect();
        assert!(!own.is_empty(), "{command} is not in the synopsis");
        assert!(described.contains(&command), "{command} is not described");
        for part in commands(&[&command]) {
            let named =
                own.iter().any(|form| form.split(|c: char| c.is_whitespace()).any(|word| word == part));
            assert!(named, "{command} {part} is not in the synopsis");
        }
    }
}
