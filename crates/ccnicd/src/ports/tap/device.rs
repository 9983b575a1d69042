//! Opens a TAP device and configures its interface. On the control thread, before packets move.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, ensure};
use ccnic_frame::vnet::SHORT_BYTES;
use ccnic_shm::tun::{self, CHECKSUM, TSO, USO};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::thread::CapabilitySet;

use super::missed::Missed;
use super::{Mtu, TapOptions};
use crate::ports::kept;
use crate::ports::link::Link;
use crate::ports::namespace::{inside, of_unused_tap, within};

const DEVICE: &str = "/dev/net/tun";

/// An open TAP device.
pub(super) struct Device {
    /// A descriptor for each queue. They do not block.
    pub(super) queues: Vec<OwnedFd>,
    /// The interface's MTU.
    pub(super) mtu: Mtu,
    pub(super) missed: Missed,
}

impl Device {
    /// Makes the interface, or takes over one that there is, and sets it up as the options say.
    ///
    /// # Errors
    /// Which step failed, and what to do.
    pub(super) fn open(options: &TapOptions) -> anyhow::Result<Device> {
        if let Some(kept) = Device::kept(options)? {
            return Ok(kept);
        }
        let device = match &options.netns {
            Some(namespace) => within(namespace, || Device::open_here(options)),
            None => Device::open_here(options),
        }?;
        kept::keep(&options.name, &device.queues);
        Ok(device)
    }

    /// One whose queues were kept while the daemon was started again. Its interface may have another name by now, and be elsewhere; it keeps its
    /// addresses. `None` where there is none, or it is not what the options say.
    ///
    /// # Errors
    /// It cannot be set up, and why. It stays kept: whoever uses it does not lose it by that.
    fn kept(options: &TapOptions) -> anyhow::Result<Option<Device>> {
        let queues = kept::take(&options.name);
        if queues.is_empty() {
            return Ok(None);
        }
        let (kept, wanted) = (queues.len(), usize::from(options.queues));
        ensure!(
            kept == wanted,
            "the service manager has kept it with queues={kept}: say that, or stop the service, which ends the interface, before it is \
             started with queues={wanted}"
        );
        let (name, there) = match Device::interface_of(&queues) {
            Ok(found) => found,
            Err(e) => {
                tracing::warn!(interface = options.name, "not taken over from the service manager: {e:#}");
                kept::forget(&options.name, queues.len() as u16);
                return Ok(None);
            }
        };
        tracing::info!(interface = name, "took over the interface that the service manager has kept");
        let options = TapOptions { name, addresses: Vec::new(), ..options.clone() };
        let device = inside(there.as_fd(), "its network namespace", || Device::of(queues, &options));
        device.map(Some).context("the interface that the service manager has kept")
    }

    /// The interface that all these queues are of, and its network namespace.
    fn interface_of(queues: &[OwnedFd]) -> anyhow::Result<(String, OwnedFd)> {
        let names: Result<Vec<_>, _> =
            queues.iter().map(|queue| tun::name(queue.as_fd(), queues.len() > 1)).collect();
        let names = names.context("a queue is none of such an interface")?;
        let (name, first) = names.first().zip(queues.first()).context("it has no queue")?;
        ensure!(names.iter().all(|other| other == name), "its queues are those of several interfaces");
        let there = tun::namespace(first.as_fd()).context("could not ask for its network namespace")?;
        Ok((name.clone(), there))
    }

    fn open_here(options: &TapOptions) -> anyhow::Result<Device> {
        let is_new = Link::open(&options.name).is_err();
        let multi = options.queues > 1;
        let queues = (0..options.queues)
            .map(|_| open_queue(&options.name, multi))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let device = Device::of(queues, options)?;
        if is_new {
            say_of_others(&options.name);
        }
        Ok(device)
    }

    /// Of these queues, with an interface of this thread's namespace.
    fn of(queues: Vec<OwnedFd>, options: &TapOptions) -> anyhow::Result<Device> {
        for queue in &queues {
            tun::set_header(queue.as_fd(), SHORT_BYTES as i32)
                .context("the kernel refuses virtio_net_hdr on it")?;
        }
        if let Some(first) = queues.first() {
            set_offload(first, options.offload)?;
        }
        let mut link = Link::open(&options.name).context("could not look at the interface")?;
        let missed = Missed::open(&options.name, link.index());
        configure(&mut link, options)?;
        Ok(Device { queues, mtu: Mtu::new(&options.name, &link), missed })
    }
}

/// An interface that was made before, with `ip tuntap`, and moved away since is not found here: the one that was made now is another one.
fn say_of_others(name: &str) {
    if let Some(there) = of_unused_tap(name) {
        let there = there.display();
        tracing::warn!(
            interface = name,
            "made a new interface; there is one of that name, which no process uses, in the network namespace {there}: if that one is the \
             port's, say netns={there}; if not, delete it (nsenter --net={there} ip link del {name})"
        );
    }
}

/// Refuses an interface that could not be made, and one that is none of TUN or TAP.
pub(super) fn check(options: &TapOptions) -> anyhow::Result<()> {
    match &options.netns {
        Some(namespace) => within(namespace, || check_here(&options.name)),
        None => check_here(&options.name),
    }
}

fn check_here(name: &str) -> anyhow::Result<()> {
    open_device()?;
    match Link::open(name) {
        Ok(link) => anyhow::ensure!(
            link.is_tun(),
            "{name} exists and is no TAP interface; delete it (ip link del {name}), or choose another name"
        ),
        Err(_) => {
            let may = rustix::thread::capabilities(None)?.effective.contains(CapabilitySet::NET_ADMIN);
            anyhow::ensure!(may, "{}", remedy(&Errno::PERM.into(), name, false));
        }
    }
    Ok(())
}

fn open_device() -> anyhow::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    open(DEVICE, flags, Mode::empty()).with_context(|| {
        format!("could not open {DEVICE}: load the kernel's module (modprobe tun), or give the container that device")
    })
}

fn open_queue(name: &str, multi_queue: bool) -> anyhow::Result<OwnedFd> {
    let queue = open_device()?;
    match tun::attach(queue.as_fd(), name, multi_queue) {
        Ok(()) => Ok(queue),
        Err(e) => {
            let remedy = remedy(&e, name, multi_queue);
            Err(e).with_context(|| format!("could not make the TAP interface {name}: {remedy}"))
        }
    }
}

/// What to do when the kernel refuses a queue.
fn remedy(e: &io::Error, name: &str, multi_queue: bool) -> String {
    let multi = if multi_queue { " multi_queue" } else { "" };
    match Errno::from_io_error(e) {
        Some(Errno::PERM | Errno::ACCESS) => format!(
            "that takes CAP_NET_ADMIN; give it to ccnicd, or make the interface before: ip tuntap add dev {name} mode tap{multi} user USER"
        ),
        Some(Errno::BUSY) => "another process uses it; stop that one, or choose another name".to_owned(),
        Some(Errno::INVAL) => format!(
            "an interface of that name exists and is no TAP interface{}; delete it (ip link del {name}), or choose another name",
            if multi_queue { " with several queues" } else { " of one queue" }
        ),
        _ => "see the kernel's log".to_owned(),
    }
}

/// Takes as many offloads as the kernel has; fewer only mean that it computes more itself.
fn set_offload(queue: &OwnedFd, wanted: bool) -> anyhow::Result<()> {
    let steps: &[u32] = if wanted { &[CHECKSUM | TSO | USO, CHECKSUM | TSO, CHECKSUM, 0] } else { &[0] };
    let mut outcome = Ok(());
    for offload in steps {
        outcome = tun::set_offload(queue.as_fd(), *offload);
        if outcome.is_ok() {
            break;
        }
    }
    outcome.context("the kernel refuses to set its offloads")
}

fn configure(link: &mut Link, options: &TapOptions) -> anyhow::Result<()> {
    let name = &options.name;
    link.set(options.mtu, options.mac).with_context(|| {
        format!(
            "could not set MTU and MAC address of {name}: that takes CAP_NET_ADMIN, or leave mtu and mac out"
        )
    })?;
    for (address, prefix) in &options.addresses {
        link.add_address(*address, *prefix).with_context(|| {
            format!("could not give {name} the address {address}/{prefix}: that takes CAP_NET_ADMIN, or leave address out")
        })?;
    }
    link.set_up().with_context(|| {
        format!(
            "could not set {name} up: that takes CAP_NET_ADMIN, or set it up before: ip link set {name} up"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_the_kernel_have_remedies() {
        for (errno, multi_queue, expected) in [
            (Errno::PERM, false, "ip tuntap add dev t0 mode tap user USER"),
            (Errno::PERM, true, "mode tap multi_queue user USER"),
            (Errno::BUSY, false, "another process uses it"),
            (Errno::INVAL, false, "no TAP interface of one queue; delete it (ip link del t0)"),
            (Errno::INVAL, true, "with several queues"),
            (Errno::NOMEM, true, "kernel's log"),
        ] {
            let why = remedy(&errno.into(), "t0", multi_queue);
            assert!(why.contains(expected), "{errno}: {why}");
        }
    }
}
