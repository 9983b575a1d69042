//! What varies.

use anyhow::Context;
use ccnic_sim::platform::Entry;

use super::MOST;
use crate::print::units;

/// A parameter that varies, and its values.
#[derive(Debug)]
pub(super) struct Sweep {
    pub key: String,
    pub values: Vec<f64>,
}

impl Sweep {
    /// From the option.
    ///
    /// # Errors
    /// How it is written.
    pub fn parse(text: &str) -> anyhow::Result<Sweep> {
        let wrong = || format!("--sweep {text}: write KEY=FROM:TO:HOW-MANY, or KEY=A,B,C");
        let (key, values) = text.split_once('=').with_context(wrong)?;
        let number =
            |text: &str| text.trim().parse::<f64>().ok().filter(|x| x.is_finite()).with_context(wrong);
        let values = if let [from, to, n] = values.split(':').collect::<Vec<_>>()[..] {
            let (from, to) = (number(from)?, number(to)?);
            let n: usize = n.trim().parse().ok().filter(|n| (2..=MOST).contains(n)).with_context(wrong)?;
            (0..n).map(|i| from + (to - from) * i as f64 / (n - 1) as f64).collect()
        } else {
            values.split(',').map(number).collect::<anyhow::Result<Vec<_>>>()?
        };
        Ok(Sweep { key: key.trim().to_owned(), values })
    }

    /// The label of its axis: the parameter with its unit, which `entries` have for a platform's own values.
    pub fn label(&self, entries: &[Entry]) -> String {
        let words = match self.key.as_str() {
            "cores" => "cores on each side",
            "size" => "packet size [bytes]",
            "burst" => "transmit burst [packets]",
            "rx-burst" => "receive burst [buffers]",
            "inflight" => "in flight per core [packets]",
            key => {
                let entry = entries.iter().find(|entry| entry.key == key);
                let unit = entry.map_or("", |entry| units::of_platform(&entry.unit));
                return if unit.is_empty() { key.to_owned() } else { format!("{key} [{unit}]") };
            }
        };
        words.to_owned()
    }

    /// The label as a heading of several lines.
    pub fn heading(&self, entries: &[Entry]) -> String {
        self.label(entries).replace(" [", "\n[").replace(" on each side", "\nper side").replace('.', ".\n")
    }
}

#[cfg(test)]
mod tests {
    use ccnic_sim::platform::Platform;

    use super::Sweep;

    #[test]
    fn sweeps() {
        let values = |text| Sweep::parse(text).map(|s| s.values).ok();
        assert_eq!(values("link.one_way=20:60:5"), Some(vec![20.0, 30.0, 40.0, 50.0, 60.0]));
        assert_eq!(values("cores=1,2,8"), Some(vec![1.0, 2.0, 8.0]));
        assert_eq!(values("size=64"), Some(vec![64.0]));
        for wrong in ["size", "size=", "size=a", "size=1:2", "size=1:2:1", "size=1:2:3:4", "size=1:inf:3"] {
            assert!(values(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn axes_have_units() {
        let entries = Platform::named("icx").unwrap().entries();
        let label = |text| Sweep::parse(text).unwrap().label(&entries);
        assert_eq!(label("link.one_way=1"), "link.one_way [ns]");
        assert_eq!(label("size=64"), "packet size [bytes]");
        assert_eq!(label("l1.size=48"), "l1.size [KiB]");
        assert_eq!(label("core.rob=1"), "core.rob", "a count has no unit");
        assert_eq!(Sweep::parse("link.one_way=1").unwrap().heading(&entries), "link.\none_way\n[ns]");
    }
}
