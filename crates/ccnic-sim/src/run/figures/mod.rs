//! The paper's figures: plans, the simulations that they need, and the comparison of published with simulated values.
//!
//! Reading order: [`plan`] (the content of a plan file), [`point`] (single simulations), [`run`] (all simulations that a set of figures needs), [`expr`] and
//! [`statement`] (the comparison). Pictures are drawn by the command-line tool.

pub mod expr;
pub mod interface;
pub mod plan;
pub mod point;
pub mod run;
pub mod statement;
#[cfg(test)]
mod tests;

use plan::{Figure, PlanError};

macro_rules! built_in {
    ($files:ident: $($name:literal),+ $(,)?) => {
        const $files: &[(&str, &str)] = &[$((
            concat!("figures/", $name, ".toml"),
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../figures/", $name, ".toml")),
        )),+];
    };
}
built_in!(
    FILES:
    "02-writes",
    "03-stores",
    "07-access",
    "08-pingpong",
    "09-stream",
    "11-overview",
    "12-icx",
    "13-spr",
    "14a-signals",
    "14b-layouts",
    "15-buffers",
    "16-batches",
    "17-counters",
    "18-same-socket",
    "20-prefetching",
    "21-interconnect",
    "cores",
    "bursts",
    "19-overlay",
    "table2",
);

built_in!(CNI_FILES: "cni/06-latency", "cni/07-bandwidth", "cni/08-programs", "cni/across");

built_in!(
    PIO_FILES:
    "pio/01-pcie",
    "pio/05-calls",
    "pio/06-sizes",
    "pio/08-receive",
    "pio/09-transmit",
    "pio/10-dataflow",
);

/// A plan file is a page or two.
const LARGEST: u64 = 1 << 20;

/// The built-in figures, in the paper's order.
///
/// # Errors
/// When one is wrong: a defect of ccnic.
pub fn all() -> Result<Vec<Figure>, PlanError> {
    FILES.iter().map(|(file, text)| Figure::parse(text, file)).collect()
}

/// The built-in figures of the CNI paper (ISCA '96).
///
/// # Errors
/// When one is wrong: a defect of ccnic.
pub fn cni() -> Result<Vec<Figure>, PlanError> {
    CNI_FILES.iter().map(|(file, text)| Figure::parse(text, file)).collect()
}

/// The built-in figures of the PIO paper (Ruzhanskaia et al. 2024).
///
/// # Errors
/// When one is wrong: a defect of ccnic.
pub fn pio() -> Result<Vec<Figure>, PlanError> {
    PIO_FILES.iter().map(|(file, text)| Figure::parse(text, file)).collect()
}

/// A figure by its number, or read from a file whose name ends in `.toml`.
///
/// # Errors
/// When there is none, or it is wrong.
pub fn named(name: &str) -> Result<Figure, PlanError> {
    if name.ends_with(".toml") {
        return load(name);
    }
    let figures = [all()?, cni()?, pio()?].concat();
    let known = figures.iter().map(|f| f.id.as_str()).collect::<Vec<_>>().join(", ");
    figures.into_iter().find(|f| f.id == name).ok_or_else(|| PlanError::Unknown { name: name.into(), known })
}

fn load(file: &str) -> Result<Figure, PlanError> {
    use std::io::Read;
    let unreadable = |reason: String| PlanError::Unreadable { file: file.into(), reason };
    let mut text = String::new();
    let read = std::fs::File::open(file).and_then(|f| f.take(LARGEST + 1).read_to_string(&mut text));
    match read {
        Err(error) => Err(unreadable(error.to_string())),
        Ok(n) if n as u64 > LARGEST => Err(unreadable("it is larger than a MiB, no plan is".into())),
        Ok(_) => Figure::parse(&text, file),
    }
}
