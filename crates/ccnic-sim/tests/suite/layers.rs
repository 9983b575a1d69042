//! The crate's files import each other in one direction: no circle, and no layer imports one above it. See the picture in `lib.rs`.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The layers, lowest first. A file belongs to the last one whose prefix its path has.
const LAYERS: &[&str] = &[
    "kernel/",
    "protocols/",
    "platform/",
    "observe/",
    "machine/",
    "bus/",
    "eci/",
    "observe/audit",
    "devices/",
    "systems/",
    "observe/summary",
    "run/",
    "lib",
];

/// A module's path, and the file that it is in.
type Modules = BTreeMap<Vec<String>, String>;

fn modules(dir: &Path, path: &[String], found: &mut Modules) {
    for entry in fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()) {
        let stem = entry.file_stem().unwrap().to_str().unwrap().to_owned();
        if stem == "tests" {
            continue;
        }
        let child: Vec<String> = path.iter().cloned().chain([stem.clone()]).collect();
        if entry.is_dir() {
            modules(&entry, &child, found);
        } else {
            let module = if stem == "mod" || stem == "lib" { path.to_vec() } else { child };
            let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
            let file = entry.strip_prefix(src).unwrap().to_str().unwrap();
            found.insert(module, file.to_owned());
        }
    }
}

/// A file's code, without tests, comments and string literals.
fn code(file: &str) -> String {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file)).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let mut code = String::new();
    for line in text.lines() {
        let line = line.split("//").next().unwrap();
        for (i, part) in line.split('"').enumerate() {
            code += if i % 2 == 0 { part } else { " " };
        }
        code.push(' ');
    }
    code
}

/// The paths in a piece of code: `a::b`, and those of `a::{b, c::{d, e}}`.
fn paths(code: &str) -> Vec<Vec<String>> {
    let (mut all, mut prefixes, mut path) = (Vec::new(), Vec::<Vec<String>>::new(), Vec::<String>::new());
    let mut rest = code;
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    while let Some(c) = rest.chars().next() {
        if is_word(c) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            path.push(rest[..end].to_owned());
            rest = &rest[end..];
            if let Some(after) = rest.strip_prefix("::") {
                rest = after;
                if let Some(group) = rest.strip_prefix('{') {
                    let prefix = prefixes.last().cloned().unwrap_or_default();
                    prefixes.push(prefix.into_iter().chain(path.drain(..)).collect());
                    rest = group;
                }
                continue;
            }
            let prefix = prefixes.last().cloned().unwrap_or_default();
            all.push(prefix.into_iter().chain(path.drain(..)).collect());
            continue;
        }
        path.clear();
        if c == '}' {
            prefixes.pop();
        } else if c == '{' && !prefixes.is_empty() {
            prefixes.push(prefixes.last().cloned().unwrap_or_default());
        }
        rest = &rest[c.len_utf8()..];
    }
    all
}

/// The module that a path in a module's code leads into.
fn target(module: &[String], path: &[String], modules: &Modules) -> Option<Vec<String>> {
    if path.len() < 2 {
        return None; // a name of the file itself, or `pub(crate)`
    }
    let mut at = module.to_vec();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => (at, rest) = (Vec::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|s| s == "super") {
                at.pop();
                rest = &rest[1..];
            }
        }
        first => {
            let child: Vec<String> = module.iter().cloned().chain([first.to_owned()]).collect();
            if !modules.contains_key(&child) {
                return None;
            }
        }
    }
    for segment in rest {
        let child: Vec<String> = at.iter().cloned().chain([segment.clone()]).collect();
        if !modules.contains_key(&child) {
            break;
        }
        at = child;
    }
    Some(at)
}

/// Which file imports which.
fn imports() -> BTreeMap<String, BTreeSet<String>> {
    let mut modules_found = Modules::new();
    modules(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &[], &mut modules_found);
    let mut edges = BTreeMap::new();
    for (module, file) in &modules_found {
        let code = code(file);
        let found = paths(&code).into_iter().filter_map(|p| target(module, &p, &modules_found));
        let others = found.map(|m| modules_found[&m].clone()).filter(|other| other != file);
        edges.insert(file.clone(), others.collect());
    }
    edges
}

#[test]
fn paths_are_found() {
    let found = paths("use a::b::{c, d::{self, E}, f as g}; fn h() { a::i(x); self.y.z() }");
    let has = |path: &str| found.iter().any(|p| p.join("::") == path);
    assert!(["a::b::c", "a::b::d::E", "a::b::d::self", "a::b::f", "a::i"].into_iter().all(has), "{found:?}");
    let edges = imports();
    assert!(edges.len() > 60, "{} files", edges.len());
    assert!(edges["machine/mod.rs"].contains("machine/uncore.rs"), "{:?}", edges["machine/mod.rs"]);
    assert!(edges["devices/pcie/mod.rs"].contains("devices/pcie/root.rs"));
}

#[test]
fn no_file_imports_in_a_circle() {
    // Repeatedly removes the files that import only removed files; what remains is in a circle or imports one.
    let mut left = imports();
    loop {
        let (before, done): (usize, BTreeSet<String>) = (
            left.len(),
            left.iter()
                .filter(|(_, to)| !to.iter().any(|f| left.contains_key(f)))
                .map(|(f, _)| f.clone())
                .collect(),
        );
        left.retain(|file, _| !done.contains(file));
        if left.is_empty() {
            return;
        }
        assert!(left.len() < before, "in a circle, or above one: {left:#?}");
    }
}

#[test]
fn no_layer_imports_one_above_it() {
    let layer = |file: &str| LAYERS.iter().rposition(|prefix| file.starts_with(prefix));
    for (file, others) in imports() {
        let own = layer(&file).unwrap_or_else(|| panic!("{file} is in no layer"));
        for other in others {
            assert!(layer(&other).is_some_and(|l| l <= own), "{file} imports {other}, which is above it");
        }
    }
}
