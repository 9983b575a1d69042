//! The examples of the man pages compile without warnings and run: `tests/c/man.c` includes and calls them.

use std::path::Path;

use crate::build::{ALL, here, program, run};
use crate::nic::{Nic, alone};

/// Pages of functions: each has an example.
const PAGES: [&str; 10] = [
    "ccnic_call",
    "ccnic_open",
    "ccnic_queue_open",
    "ccnic_tx_burst",
    "ccnic_pool_open",
    "ccnic_rss_set",
    "ccnic_offloads",
    "ccnic_flow_create",
    "ccnic_nic_listen",
    "ccnic_nic_rx_burst",
];

/// The text of a page's section.
fn section<'a>(page: &'a str, name: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!(".Sh {name}\n")).unwrap_or_else(|| panic!("no section {name}"));
    rest.split("\n.Sh ").next().unwrap()
}

fn page(name: &str) -> String {
    std::fs::read_to_string(here("man").join(format!("{name}.3"))).unwrap()
}

/// The C code of a page's EXAMPLES, without roff's escapes.
fn example(page: &str) -> String {
    let code = section(page, "EXAMPLES").lines().filter(|line| !line.starts_with('.'));
    code.map(|line| line.replace("\\e", "\\") + "\n").collect()
}

/// The functions that a page is about.
fn names(page: &str) -> Vec<&str> {
    let lines = section(page, "NAME").lines();
    lines.filter_map(|line| line.strip_prefix(".Nm ")?.split(' ').next()).collect()
}

/// The functions in a page's SYNOPSIS.
fn functions(page: &str) -> Vec<&str> {
    let lines = section(page, "SYNOPSIS").lines();
    lines.filter_map(|line| line.strip_prefix(".Fn ")?.split(' ').next()).collect()
}

fn write_examples(directory: &Path) {
    for name in PAGES {
        std::fs::write(directory.join(format!("{name}.example.h")), example(&page(name))).unwrap();
    }
}

#[test]
fn every_function_is_called_in_an_example() {
    let examples: String = PAGES.iter().map(|name| example(&page(name))).collect();
    for name in PAGES {
        let page = page(name);
        assert!(functions(&page).len() > 2, "{name}");
        for function in names(&page) {
            assert!(functions(&page).contains(&function), "{name}.3 has no synopsis of {function}");
        }
        for function in functions(&page) {
            assert!(examples.contains(&format!("{function}(")), "{name}.3 has no example of {function}");
        }
    }
}

#[test]
fn the_examples_of_the_man_pages_run() {
    let _alone = alone();
    for how in ALL {
        let directory = tempfile::tempdir().unwrap();
        write_examples(directory.path());
        let Some(mut command) = program("tests/c/man.c", how, directory.path()) else { continue };
        let mut nic = Nic::start(directory.path());
        let output = run(command.arg(&nic.socket).arg(directory.path().join("own.sock")));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.ends_with("all examples ran\n"), "{how:?}: {said}");
        assert!(nic.alive(), "{how:?}: the daemon has ended");
    }
}
