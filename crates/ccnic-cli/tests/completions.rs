//! What shells complete: bash is asked, where it is installed; the scripts of others have every command.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::Command;

fn script(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ccnic")).arg("completions").args(words).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// What bash completes a line to, its last word included.
fn completed(script: &str, program: &str, line: &str) -> Option<Vec<String>> {
    let text = format!(
        "{script}\nCOMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
         _{program} {program} \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let Ok(output) = Command::new("bash").args(["--norc", "-c", &text]).output() else {
        println!("SKIPPED: no bash");
        return None;
    };
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect())
}

#[test]
fn bash_completes_commands_and_options() {
    let (ccnic, ccnicd) = (script(&["bash"]), script(&["bash", "ccnicd"]));
    for (line, expected) in [
        ("ccnic sta", &["status", "stats"][..]),
        ("ccnic bench pe", &["peers"]),
        ("ccnic bench apps --work", &["--workloads"]),
        ("ccnic completions z", &["zsh"]),
    ] {
        let Some(mut all) = completed(&ccnic, "ccnic", line) else { return };
        all.sort_unstable();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(all, expected, "{line}");
    }
    assert_eq!(completed(&ccnicd, "ccnicd", "ccnicd --check").unwrap(), ["--check-config"]);
    assert_eq!(completed(&ccnicd, "ccnicd", "ccnicd --wire s").unwrap(), ["switch"]);
}

#[test]
fn every_shell_has_every_command() {
    let help = Command::new(env!("CARGO_BIN_EXE_ccnic")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let commands =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() > 10 && commands.contains(&"completions"), "{help}");
    for shell in ["bash", "zsh", "fish"] {
        let script = script(&[shell]);
        for command in &commands {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
}
