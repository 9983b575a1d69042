//! Bursts in the widest registers that a machine has.
//!
//! The project is built for any x86-64 processor, so a copy is made of moves of 16 bytes (SSE2). [`Vectors::run`]
//! calls a burst from a function that is compiled for AVX2 or AVX-512: what is inlined into it, the generic code of
//! crate `ccnic`, uses registers of 32 or 64 bytes. A processor is asked once what it has; a queue keeps the answer,
//! and a burst costs one branch on it.
//!
//! Only what is inlined into `run` is compiled anew. So the closure must be marked, and what it calls should be
//! `#[inline(always)]`:
//!
//! ```
//! # let vectors = ccnic_shm::Vectors::chosen();
//! # let packets = [1u64, 2, 3];
//! let sum: u64 = vectors.run(
//!     #[inline(always)]
//!     || packets.iter().sum(),
//! );
//! assert_eq!(sum, 6);
//! ```
//!
//! An unmarked closure works, too, but the compiler may leave it out of line, with registers of 16 bytes.

use std::fmt;
use std::sync::OnceLock;

/// The environment variable that limits the registers, for measurements: `baseline`, `avx2` or `avx512`.
const VARIABLE: &str = "CCNIC_VECTORS";

/// Vector registers that this machine has, of a certain width.
///
/// Values come from [`chosen`](Vectors::chosen) and [`available`](Vectors::available) only: there is none for
/// registers that the machine lacks, so that [`run`](Vectors::run) needs no check.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vectors(Width);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Width {
    /// What every processor of the target has: 16 bytes on x86-64 (SSE2).
    Baseline,
    /// 32 bytes.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 64 bytes: a line in one move.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// From narrow to wide.
const ALL: &[Width] = &[
    Width::Baseline,
    #[cfg(target_arch = "x86_64")]
    Width::Avx2,
    #[cfg(target_arch = "x86_64")]
    Width::Avx512,
];

impl Width {
    fn name(self) -> &'static str {
        match self {
            Width::Baseline => "baseline",
            #[cfg(target_arch = "x86_64")]
            Width::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Width::Avx512 => "avx512",
        }
    }

    /// True if this machine, its operating system included, can run what `run` compiles for this width.
    #[cfg(target_arch = "x86_64")]
    fn is_available(self) -> bool {
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        match self {
            Width::Baseline => true,
            Width::Avx2 => avx2,
            // Processors before Ice Lake, which lack VBMI, lower their clock when 64-byte registers are used.
            Width::Avx512 => {
                avx2 && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vbmi")
            }
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn is_available(self) -> bool {
        true
    }
}

impl Vectors {
    /// The widest registers of this machine, or those that the environment variable `CCNIC_VECTORS` names. The
    /// same in every call.
    pub fn chosen() -> Vectors {
        static CHOSEN: OnceLock<Vectors> = OnceLock::new();
        *CHOSEN.get_or_init(|| {
            let asked = std::env::var(VARIABLE).ok();
            let vectors = choose(asked.as_deref()).unwrap_or_else(|e| {
                tracing::warn!("{e}");
                widest()
            });
            tracing::debug!("vector registers: {vectors:?}");
            vectors
        })
    }

    /// All that this machine has, from narrow to wide.
    pub fn available() -> impl Iterator<Item = Vectors> {
        ALL.iter().filter(|width| width.is_available()).map(|width| Vectors(*width))
    }

    /// Calls `burst` from a function that is compiled for these registers; see the module. `burst` is to be a closure
    /// marked `#[inline(always)]`.
    #[inline(always)]
    pub fn run<T>(self, burst: impl FnOnce() -> T) -> T {
        match self.0 {
            Width::Baseline => burst(),
            // SAFETY: there is no such value on a machine without these features (`is_available`).
            #[cfg(target_arch = "x86_64")]
            Width::Avx2 => unsafe { avx2(burst) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Width::Avx512 => unsafe { avx512(burst) },
        }
    }
}

/// The name that `CCNIC_VECTORS` takes.
impl fmt::Debug for Vectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}

fn widest() -> Vectors {
    Vectors::available().last().unwrap_or(Vectors(Width::Baseline))
}

/// The registers asked for, by default the widest.
fn choose(asked: Option<&str>) -> Result<Vectors, String> {
    let Some(asked) = asked else { return Ok(widest()) };
    let names: Vec<_> = Vectors::available().map(|vectors| vectors.0.name()).collect();
    Vectors::available().find(|vectors| vectors.0.name() == asked).ok_or_else(|| {
        format!("{VARIABLE}={asked} is ignored: this machine has {}; choose one of these", names.join(", "))
    })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn avx2<T>(burst: impl FnOnce() -> T) -> T {
    burst()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512dq,avx512vl")]
fn avx512<T>(burst: impl FnOnce() -> T) -> T {
    burst()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_has_the_baseline_and_the_widest_is_chosen() {
        let available: Vec<_> = Vectors::available().collect();
        assert_eq!(available.first(), Some(&Vectors(Width::Baseline)));
        assert!(available.is_sorted());
        assert_eq!(choose(None).ok().as_ref(), available.last());
    }

    #[test]
    fn the_variable_names_the_registers() {
        for vectors in Vectors::available() {
            assert_eq!(choose(Some(&format!("{vectors:?}"))), Ok(vectors));
        }
        let error = choose(Some("avx1024")).unwrap_err();
        assert!(error.contains("CCNIC_VECTORS=avx1024") && error.contains("baseline"), "{error}");
    }

    #[test]
    fn a_burst_takes_and_returns_what_it_likes_and_may_panic() {
        for vectors in Vectors::available() {
            let mut text = String::from("burst");
            assert_eq!(vectors.run(|| std::mem::replace(&mut text, vectors.0.name().into())), "burst");
            assert_eq!(text, vectors.0.name());
            let panic = std::panic::catch_unwind(|| vectors.run(|| assert_eq!(vectors.0.name(), "none")));
            assert!(panic.is_err());
        }
    }
}
