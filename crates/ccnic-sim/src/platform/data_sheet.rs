//! A device on a link in the words of its data sheet: how long a core's load of the device's memory takes, and the data that go through
//! the link. A file has either these values or those of the simulator.
//!
//! | data sheet | simulator |
//! |---|---|
//! | `link.remote_memory` in ns | `link.one_way`: half of what the load takes longer than one of the socket's own memory, without the lookup there |
//! | `link.data_rate` in GB/s, in each direction | `link.rate`: `link.data_flits` flits carry 64 bytes |

use toml::{Table, Value};

use super::description::{Platform, local_memory};
use super::read::{Fault, Read, field};
use super::tables::{Memory, Path};
use super::units::{Count, GbytesPerS, Ns, Unit, unit};

/// The values of a data sheet, and the simulator's.
const PAIRS: [(&str, &str); 2] = [("remote_memory", "one_way"), ("data_rate", "rate")];

/// A key of `--set` or of a plan in the file's words: `link.remote_memory_ns` and `link.gbytes_per_s` say the unit, too.
pub(super) fn key(key: &str) -> &str {
    match key {
        "link.remote_memory_ns" => "link.remote_memory",
        "link.gbytes_per_s" => "link.data_rate",
        key => key,
    }
}

/// The file with the simulator's values in place of the data sheet's.
pub(super) fn resolved(file: &Table) -> Result<Table, Fault> {
    let mut resolved = file.clone();
    let Some(link) = file.get("link").and_then(Value::as_table) else { return Ok(resolved) };
    for (sheet, own) in PAIRS {
        let Some(given) = link.get(sheet) else { continue };
        let at = format!("link.{sheet}");
        if link.contains_key(own) {
            let reason = format!("is there beside link.{own}");
            return Err(Fault::new(&at, reason, "they say the same: remove one of the two"));
        }
        let (value, unit) = match sheet {
            "remote_memory" => (one_way(file, Ns::read(given, &at)?.get())?, unit::Nanoseconds::KEY),
            _ => {
                let flits: Count = field(link, "link", "data_flits")?;
                let rate = GbytesPerS::read(given, &at)?.get();
                (rate / 64.0 * f64::from(flits.get()), unit::GigaflitsPerSecond::KEY)
            }
        };
        let Some(link) = resolved.get_mut("link").and_then(Value::as_table_mut) else { continue };
        let Some(mut entry) = link.remove(sheet) else { continue };
        if let Some(entry) = entry.as_table_mut() {
            entry.retain(|key, _| ["source", "assumed", "fitted"].contains(&key));
            entry.insert(unit.into(), Value::Float(value));
        }
        link.insert(own.into(), entry);
    }
    Ok(resolved)
}

/// What a link's way takes, of a load of the memory behind it.
fn one_way(file: &Table, remote: f64) -> Result<f64, Fault> {
    let (path, memory): (Path, Memory) = (field(file, "", "path")?, field(file, "", "memory")?);
    let local = local_memory(&path, &memory) + path.lookup.get();
    let one_way = (remote - local) / 2.0;
    if one_way > 0.0 {
        return Ok(one_way);
    }
    let reason = format!("is {remote} ns, not above the {local} ns that the way takes without a link");
    Err(Fault::new("link.remote_memory", reason, "give what a core's load of the device's memory takes"))
}

/// The file as it must be to change the value of `key` and nothing else: a value of a data sheet in place of the simulator's, or the other
/// way round. What is no value of a link leaves the link as it is, whatever its data sheet says of paths and memory together.
pub(super) fn told_by(file: Table, platform: &Platform, key: &str) -> Table {
    let is = |name: &str| key.strip_prefix("link.") == Some(name);
    let of_sheet = PAIRS.iter().any(|(sheet, _)| is(sheet));
    PAIRS.iter().fold(file, |file, (sheet, own)| match of_sheet {
        true if is(sheet) => exchanged(file, platform, sheet, own),
        true => file,
        false => exchanged(file, platform, own, sheet),
    })
}

/// The file with one value of the link under another name.
fn exchanged(mut file: Table, platform: &Platform, name: &str, other: &str) -> Table {
    let Some(link) = &platform.link else { return file };
    let (value, unit) = match name {
        "one_way" => (Some(link.one_way.get()), unit::Nanoseconds::KEY),
        "remote_memory" => (platform.remote_memory_ns(), unit::Nanoseconds::KEY),
        "rate" => (Some(link.rate.get()), unit::GigaflitsPerSecond::KEY),
        _ => (Some(link.data_rate()), unit::GigabytesPerSecond::KEY),
    };
    let Some(table) = file.get_mut("link").and_then(Value::as_table_mut) else { return file };
    if let (Some(mut entry), Some(value)) = (table.remove(other), value) {
        if let Some(entry) = entry.as_table_mut() {
            entry.retain(|key, _| ["source", "assumed", "fitted"].contains(&key));
            entry.insert(unit.into(), Value::Float(value));
        }
        table.insert(name.into(), entry);
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(platform: &Platform) -> (f64, f64) {
        let link = platform.link.as_ref().unwrap();
        (link.one_way.get(), link.rate.get())
    }

    /// The built-in one is told so, and any other can be.
    #[test]
    fn a_device_is_told_by_its_data_sheet() {
        let cxl = Platform::named("cxl").unwrap();
        assert!(cxl.entries().iter().any(|entry| entry.key == "link.remote_memory"));
        for (name, near) in [("cxl", cxl), ("icx", Platform::named("icx").unwrap())] {
            let far = near.overridden("link.remote_memory", 250.0).unwrap();
            assert!((far.remote_memory_ns().unwrap() - 250.0).abs() < 1e-9, "{name}");
            assert_eq!(far, near.overridden("link.remote_memory_ns", 250.0).unwrap(), "{name}");
            let slow = far.overridden("link.data_rate", 40.0).unwrap();
            assert!((slow.link.as_ref().unwrap().data_rate() - 40.0).abs() < 1e-9, "{name}");
            assert_eq!(slow, far.overridden("link.gbytes_per_s", 40.0).unwrap(), "{name}");
            assert_eq!(link(&slow).0, link(&far).0, "{name}");
            // And back, in the simulator's words.
            let own = slow.overridden("link.one_way", 30.0).unwrap().overridden("link.rate", 8.0).unwrap();
            assert_eq!(link(&own), (30.0, 8.0), "{name}");
            assert!(own.entries().iter().all(|entry| entry.key != "link.remote_memory"), "{name}");
        }
    }

    /// Only one value changes: the link stays as it is when a path does, though the file tells it by a sum.
    #[test]
    fn another_value_leaves_the_link_as_it_is() {
        let cxl = Platform::named("cxl").unwrap();
        assert_eq!(link(&cxl), (46.5, 3.7));
        for (key, value) in [("memory.latency", 300.0), ("path.mesh", 20.0), ("link.data_flits", 6.0)] {
            let changed = cxl.overridden(key, value).unwrap();
            assert_eq!(link(&changed), (46.5, 3.7), "{key}");
        }
        let slow = cxl.overridden("memory.latency", 73.0).unwrap();
        assert_eq!(slow.remote_memory_ns(), cxl.remote_memory_ns().map(|ns| ns + 10.0));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let cxl = Platform::named("cxl").unwrap();
        let refused = |key: &str, value: f64| cxl.overridden(key, value).unwrap_err().to_string();
        assert!(refused("link.remote_memory", 110.0).contains("not above the 118 ns"));
        assert!(refused("link.data_rate", 0.0).contains("is zero"));
        let one = Platform::named("spr-one-socket").unwrap();
        assert!(one.overridden("link.gbytes_per_s", 40.0).is_err());
        let text = crate::platform::AnyPlatform::text("cxl").unwrap();
        let both =
            text.replace("remote_memory  =", "one_way = { ns = 46.5, source = \"x\" }\nremote_memory  =");
        assert_ne!(both, text);
        let error = Platform::parse(&both, "mine.toml").unwrap_err();
        assert_eq!(error.key(), Some("link.remote_memory"), "{error}");
    }
}
