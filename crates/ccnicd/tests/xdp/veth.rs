//! Veths: what is sent at one end arrives at the other.

use ccnic_shm::xdp::Redirect;

use super::net::{Namespace, in_namespace, ip};

/// As [`in_namespace`]. Skipped, with the reason, where no XDP program can be loaded.
#[track_caller]
pub fn with_xdp(inner: &str) {
    match Redirect::load(1, true) {
        Ok(_) => in_namespace(inner),
        Err(e) => println!("skipped: no XDP program can be loaded: {e}"),
    }
}

/// Makes a veth from `near`, which a port is to have, to `far`, with more to say of each end. The kernel itself sends nothing at `near`.
pub fn veth(more: &str) {
    let each = format!("numtxqueues 4 numrxqueues 4 {more}");
    let each = each.trim();
    ip(&format!("link add near {each} type veth peer name far {each}"));
    ip("link set near addrgenmode none");
}

/// Gives the kernel addresses at `far`, and sets it up.
pub fn addresses(addresses: &[&str]) {
    for address in addresses {
        ip(&format!("addr add {address} dev far nodad"));
    }
    ip("link set far up");
}

/// The same in another namespace.
pub fn elsewhere(there: &Namespace, interface: &str, addresses: &[&str]) {
    there.take(interface);
    for address in addresses {
        there.ip(&format!("addr add {address} dev {interface} nodad"));
    }
    there.ip(&format!("link set {interface} up"));
}

/// True when an XDP program is attached to the interface.
pub fn has_program(interface: &str) -> bool {
    ip(&format!("link show dev {interface}")).contains("prog/xdp")
}
