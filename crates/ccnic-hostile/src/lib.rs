//! Hostile programs: attacks on a NIC by way of its control socket and of their regions.
//!
//! Each [`Attack`] runs in a process of its own, which its parent kills: `ccnic bench hostile` measures what a good program feels of
//! it, the daemon's tests assert that it feels nothing but the loss of time that is due. [`run`] is what the process calls. The process
//! says on standard output how far it has got ([`Report`]); a refusal is no failure of an attack but what the NIC should answer.
//!
//! Reading order: [`Attack`] and the table [`ATTACKS`], `stage.rs` (what an attack is given), `program.rs` (a program that does what
//! it likes), then the attacks.

mod attacks;
mod filler;
mod memory;
mod process;
mod program;
mod random;
mod scribbler;
mod stage;

use std::path::Path;
use std::time::Duration;

use anyhow::Context;

pub use attacks::ATTACKS;
pub use process::figure;
pub use program::region;
pub use random::Random;
pub use scribbler::Scribbler;
pub use stage::{Report, Stage};

/// A way to harm a NIC, or the programs beside one on the same NIC.
#[derive(Debug, Clone, Copy)]
pub struct Attack {
    /// Its name on command lines and in tables.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Programs of it that always have packets for the NIC to move: each is due the same share of the polling core's time as a good one.
    /// 0 when its programs are idle, or never attach: then a good program should feel nothing.
    pub busy: u32,
    /// The same beside a switch, which moves the packets of a program that takes none: a loopback does not.
    pub busy_switched: u32,
    run: fn(&Stage<'_>) -> anyhow::Result<()>,
}

/// The attack of that name.
pub fn find(name: &str) -> Option<&'static Attack> {
    ATTACKS.iter().find(|attack| attack.name == name)
}

/// Attacks the NIC at `socket` for `duration`, or until the parent process ends. The same `seed` makes the same choices.
///
/// A process of root's becomes one of nobody's first, so that what the NIC grants to each user is not taken from the good programs.
///
/// # Errors
/// When no such attack exists, or this machine lacks what it needs. What the NIC refuses is reported, and no error.
pub fn run(name: &str, socket: &Path, seed: u64, duration: Duration) -> anyhow::Result<()> {
    let attack = find(name).with_context(|| format!("there is no attack {name}"))?;
    process::prepare()?;
    Stage::new(socket, seed, duration).play(|stage| (attack.run)(stage))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attack_has_a_name_of_its_own_that_is_short() {
        for (i, attack) in ATTACKS.iter().enumerate() {
            assert!(attack.name.len() <= 16 && !attack.about.is_empty(), "{attack:?}");
            assert!(attack.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
            assert!(ATTACKS.iter().skip(i + 1).all(|other| other.name != attack.name), "{attack:?}");
            assert!(find(attack.name).is_some());
        }
        assert!(find("nonsense").is_none());
    }
}
