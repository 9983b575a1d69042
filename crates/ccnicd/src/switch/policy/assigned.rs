//! Which policy a port or a program gets.

use super::Policy;

/// Which port or program may do what.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policies {
    /// Of the ports that are no programs, in their order.
    pub ports: Vec<Policy>,
    /// A program gets what the first entry says that fits.
    pub programs: Vec<ProgramPolicy>,
    /// Of everybody else.
    pub others: Policy,
}

/// Programs that are alike, and what they may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramPolicy {
    /// Programs of this name; `None`: of any.
    pub name: Option<String>,
    /// Programs of this user; `None`: of any.
    pub uid: Option<u32>,
    /// `None`: they may not attach.
    pub policy: Option<Policy>,
}

impl Policies {
    /// True when they say anything but which programs may not attach: a loopback has no use for it.
    pub fn need_a_switch(&self) -> bool {
        let programs = self.programs.iter().filter_map(|entry| entry.policy.as_ref());
        let all = self.ports.iter().chain(programs).chain([&self.others]);
        all.into_iter().any(|policy| *policy != Policy::default())
    }

    /// What the port with this place among those that are no programs may do.
    pub fn of_port(&self, at: usize) -> &Policy {
        self.ports.get(at).unwrap_or(&self.others)
    }

    /// What a program of this name and user may do. `None`: it may not attach.
    pub fn of_program(&self, name: &str, uid: u32) -> Option<&Policy> {
        let fits = |entry: &&ProgramPolicy| {
            entry.name.as_deref().is_none_or(|own| own == name) && entry.uid.is_none_or(|own| own == uid)
        };
        self.programs.iter().find(fits).map_or(Some(&self.others), |entry| entry.policy.as_ref())
    }
}
