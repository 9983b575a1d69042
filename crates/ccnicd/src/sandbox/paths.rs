//! Landlock: which files the process may open, and that it makes no TCP connections.
//!
//! What is open stays so: sockets that listen, files that are replayed and recorded, regions that programs send.

use std::path::PathBuf;

use anyhow::Context;
use landlock::{
    ABI, AccessFs, AccessNet, BitFlags, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
    path_beneath_rules,
};

use super::InForce;

/// What may be done below a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Files are read, directories listed.
    Read,
    /// Files are made, written, cut and read.
    Record,
    /// A device is opened and controlled.
    Device,
}

/// A path, and what may be done there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) path: PathBuf,
    pub(super) access: Access,
}

/// What is restricted: all that Linux 6.12 can.
const KNOWN: ABI = ABI::V6;

impl Access {
    pub(super) fn rights(self) -> BitFlags<AccessFs> {
        match self {
            Access::Read => AccessFs::ReadFile | AccessFs::ReadDir,
            Access::Record => {
                AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::MakeReg | AccessFs::Truncate
            }
            Access::Device => AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev,
        }
    }
}

/// Lets this thread, and those that it starts, reach nothing but that. Paths that there are not stay unreachable.
///
/// # Errors
/// Of a kernel that has Landlock, but refuses this.
pub(super) fn restrict(paths: &[Grant]) -> anyhow::Result<InForce> {
    let apply = || {
        let ruleset = Ruleset::default()
            .handle_access(<AccessFs as landlock::Access>::from_all(KNOWN))?
            .handle_access(<AccessNet as landlock::Access>::from_all(KNOWN))?
            .scope(<Scope as landlock::Access>::from_all(KNOWN))?
            .create()?;
        paths
            .iter()
            .try_fold(ruleset, |ruleset, grant| {
                ruleset.add_rules(path_beneath_rules([&grant.path], grant.access.rights()))
            })?
            .restrict_self()
    };
    let status = apply()
        .context("the kernel refuses to restrict paths (Landlock); --sandbox on,landlock=off does without")?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => InForce::Fully,
        RulesetStatus::PartiallyEnforced => InForce::Partly,
        RulesetStatus::NotEnforced => InForce::Nothing,
    })
}
