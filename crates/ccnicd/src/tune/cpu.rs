//! The model of a CPU: what a measurement is kept for.

use std::fmt;

/// The model of a CPU, as `/proc/cpuinfo` tells it. The kernel's release is no part of it: how lines move between cores is not the
/// kernel's doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CpuModel {
    /// Letters and digits.
    vendor: String,
    family: u32,
    model: u32,
    stepping: u32,
}

impl CpuModel {
    /// The model of CPU number `cpu`; `None` where the kernel does not tell all of it.
    pub(super) fn of(cpu: usize) -> Option<CpuModel> {
        CpuModel::parse(&std::fs::read_to_string("/proc/cpuinfo").ok()?, cpu)
    }

    fn parse(text: &str, cpu: usize) -> Option<CpuModel> {
        let number = cpu.to_string();
        let block = text.split("\n\n").find(|block| value(block, "processor") == Some(number.as_str()))?;
        let vendor = value(block, "vendor_id").filter(|name| !name.is_empty())?;
        let number = |key| value(block, key).and_then(|text| text.parse().ok());
        Some(CpuModel {
            vendor: vendor.chars().filter(char::is_ascii_alphanumeric).take(32).collect(),
            family: number("cpu family")?,
            model: number("model")?,
            stepping: number("stepping")?,
        })
    }
}

/// The value of a line `key : value`.
fn value<'a>(block: &'a str, key: &str) -> Option<&'a str> {
    let pairs = block.lines().filter_map(|line| line.split_once(':'));
    pairs
        .map(|(name, value)| (name.trim(), value.trim()))
        .find_map(|(name, value)| (name == key).then_some(value))
}

impl fmt::Display for CpuModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CpuModel { vendor, family, model, stepping } = self;
        write!(f, "{vendor}-{family}-{model}-{stepping}")
    }
}

#[cfg(test)]
pub(super) fn model(text: &str) -> CpuModel {
    let block = format!("processor : 0\nvendor_id : {text}\ncpu family : 1\nmodel : 2\nstepping : 3\n");
    CpuModel::parse(&block, 0).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\nstepping\t: 1\n\n\
                       processor\t: 11\nvendor_id\t: Genuine/Intel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: X: Y\nstepping\t: 8\n";

    #[test]
    fn each_cpu_has_its_own_model() {
        assert_eq!(CpuModel::parse(TWO, 0).unwrap().to_string(), "AuthenticAMD-26-2-1");
        assert_eq!(
            CpuModel::parse(TWO, 11).unwrap().to_string(),
            "GenuineIntel-6-143-8",
            "no part of a path"
        );
    }

    #[test]
    fn a_model_that_is_not_told_is_none() {
        assert_eq!(CpuModel::parse(TWO, 1), None);
        assert_eq!(CpuModel::parse("", 0), None);
        assert_eq!(CpuModel::parse(&TWO.replace("stepping\t: 1", "stepping\t: unknown"), 0), None);
        assert_eq!(CpuModel::parse("processor : 0\nBogoMIPS : 48.00\nCPU part : 0xd40\n", 0), None);
    }
}
