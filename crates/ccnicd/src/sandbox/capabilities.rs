//! Drops capabilities. docs/security.md says which are kept, and why.

use rustix::io::{Errno, Result};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities,
};

/// Each capability that there can be, by its number.
fn each() -> impl Iterator<Item = CapabilitySet> {
    (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit))
}

/// No program that this thread executes can have any, whatever is in its file. (no_new_privs says so, too.) A process that may not do that
/// (CAP_SETPCAP) has little to lose.
pub(super) fn empty_bounding_set() -> Result<()> {
    if !capabilities(None)?.effective.contains(CapabilitySet::SETPCAP) {
        return Ok(());
    }
    for capability in each() {
        match remove_capability_from_bounding_set(capability) {
            Err(Errno::INVAL) => break, // the kernel knows no further ones
            outcome => outcome?,
        }
    }
    Ok(())
}

/// What locking the memory of programs and AF_XDP ports takes: nothing, if the limit of locked memory can be raised for good.
pub(super) fn to_lock_memory() -> CapabilitySet {
    let unlimited = Rlimit { current: None, maximum: None };
    match setrlimit(Resource::Memlock, unlimited) {
        Ok(()) => CapabilitySet::empty(),
        Err(_) => CapabilitySet::IPC_LOCK,
    }
}

/// This thread, and those that it starts, have of these capabilities those that it may have, and no others. Returns them.
pub(super) fn keep(wanted: CapabilitySet) -> Result<CapabilitySet> {
    match clear_ambient_capability_set() {
        Ok(()) | Err(Errno::INVAL) => {} // before Linux 4.3 there is no such set
        Err(e) => return Err(e),
    }
    let kept = capabilities(None)?.permitted & wanted;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets)?;
    set_keep_capabilities(false)?;
    Ok(kept)
}

/// As capabilities(7) has them.
pub(super) fn names(of: CapabilitySet) -> Vec<String> {
    let name = |one: CapabilitySet| match one.iter_names().next() {
        Some((name, _)) => format!("cap_{}", name.to_lowercase()),
        None => format!("capability {}", one.bits().trailing_zeros()),
    };
    each().filter(|one| of.contains(*one)).map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_have_their_names() {
        let some = CapabilitySet::NET_ADMIN | CapabilitySet::BPF | CapabilitySet::from_bits_retain(1 << 60);
        assert_eq!(names(some), ["cap_net_admin", "cap_bpf", "capability 60"]);
        assert!(names(CapabilitySet::empty()).is_empty());
    }
}
