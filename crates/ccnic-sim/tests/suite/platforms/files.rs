//! The built-in files, and where platforms come from.

use ccnic_sim::platform::{AnyPlatform, Platform};
use toml::Table;

use super::{full, parse, text};

#[test]
fn built_in_platforms_load() {
    for name in Platform::names() {
        let platform = Platform::named(name).unwrap();
        assert_eq!(platform.name, *name);
        assert_eq!(platform, Platform::parse(&text(name), &format!("platforms/{name}.toml")).unwrap());
    }
    assert!(parse(&full()).is_ok());
}

/// Every file in `platforms/` is built in.
#[test]
fn every_file_is_built_in() {
    let files = std::fs::read_dir(format!("{}/../../platforms", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mut files: Vec<String> =
        files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().into()).collect();
    let mut names: Vec<String> = AnyPlatform::names().into_iter().map(String::from).collect();
    files.retain(|file| file != "instructions"); // the code's, not a platform's
    files.sort();
    names.sort();
    assert_eq!(files, names);
}

/// The file of a PCIe NIC describes the same machine as the machine's own file.
#[test]
fn variants_share_their_machine() {
    let alike = |name: &str, other: &str, keys: &[&str]| {
        let [one, other]: [Table; 2] = [name, other].map(|name| text(name).parse().unwrap());
        for key in keys {
            assert_eq!(one[*key], other[*key], "{name}: {key}");
        }
    };
    let machine =
        ["core", "l1", "l2", "llc", "path", "memory", "protocol", "prefetch", "software", "targets", "link"];
    alike("icx-e810", "icx", &machine);
    alike("icx-cx6", "icx", &machine);
    alike("icx-cx6", "icx-e810", &["pcie"]);
    alike("spr-cx6", "spr", &machine);
    alike("spr-cx6", "icx-cx6", &["device"]);
    alike("cxl", "spr", &["core", "l1", "l2", "llc", "path", "memory", "prefetch", "software"]);
    let but_the_llc: Vec<&str> = machine.iter().copied().filter(|key| *key != "llc").collect();
    alike("spr-filter", "spr", &but_the_llc);
    let [filter, spr] = ["spr-filter", "spr"].map(|name| Platform::named(name).unwrap());
    assert_eq!(
        (filter.topology, filter.llc.size, filter.llc.ways),
        (spr.topology, spr.llc.size, spr.llc.ways)
    );
}

#[test]
fn values_keep_their_source_and_marks() {
    let icx = Platform::named("icx").unwrap();
    assert_eq!(icx.core.frequency.get(), 3.1);
    assert_eq!(icx.core.rob.get(), 352);
    assert!(icx.core.rob.assumed() && !icx.core.rob.fitted());
    assert!(icx.path.mesh.fitted() && !icx.path.mesh.assumed());
    assert!(icx.prefetch.host.ip.get() && !icx.prefetch.nic.ip.get());
    assert!(icx.targets.local_memory.unwrap().source().contains("icelake_mlc.txt"));
    let curve = icx.memory.curve.unwrap();
    assert_eq!(curve.points()[0], [1.4, 91.2]);
    assert!(curve.source().contains("mlc 3.10"));
}

#[test]
fn names_and_files() {
    let error = Platform::named("skylake").unwrap_err().to_string();
    assert!(Platform::names().iter().all(|name| error.contains(name)), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, text("spr")).unwrap();
    assert_eq!(Platform::named(path.to_str().unwrap()).unwrap().name, "spr");
    let error = Platform::named("nowhere.toml").unwrap_err().to_string();
    assert!(error.contains("nowhere.toml") && error.contains("icx"), "{error}");
    std::fs::write(&path, " ".repeat(2 << 20)).unwrap();
    assert!(Platform::load(&path).unwrap_err().to_string().contains("larger"));
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(Platform::load(&path).unwrap_err().to_string().contains("mine.toml"));
    let error = Platform::parse("[core]\nrob = {", "mine.toml").unwrap_err();
    assert!(
        error.to_string().contains("mine.toml: not TOML") && error.to_string().contains("line 2"),
        "{error}"
    );
    assert_eq!(error.key(), None);
}
