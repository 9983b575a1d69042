//! What is bound to an interface: the program that passes packets, and a socket for each queue. All of it goes when this is dropped.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use anyhow::{Context, bail};
use ccnic_shm::NativeMemory;
use ccnic_shm::xdp::{AttachMode, Attached, FRAME, OpenError, Promiscuous, Redirect, Step, receive_queues};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::lane::{How, Lane, umem_bytes};
use super::options::{Choice, Mode, QUEUES_MAX, XdpOptions};
use crate::ports::link::Link;
use crate::ports::unsent::BEYOND_MTU;

/// Bytes of a frame that the kernel keeps free before a packet (`XDP_PACKET_HEADROOM`).
const HEADROOM: u32 = 256;

/// An interface's queues, while they are ours.
#[derive(Debug)]
pub(super) struct Bound {
    /// By queue. Fewer than the port has where the interface has fewer than it had.
    pub(super) lanes: Vec<Lane>,
    /// Bytes of the longest frame that can be sent.
    pub(super) longest: usize,
    /// Checksums that the sender has left out are computed.
    pub(super) fill: bool,
    pub(super) facts: Facts,
    /// Held while packets are to come. Sockets first: without them the program passes packets to the kernel. `None`: a helper holds it.
    holds: Option<Arc<Mutex<Option<Holds>>>>,
}

/// Looks whether an interface that something is bound to is still there. Keeps nothing of what is bound.
#[derive(Debug)]
pub(super) struct Tie(Weak<Mutex<Option<Holds>>>);

/// What is known of an interface and of how it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Facts {
    /// Its index.
    pub(super) interface: u32,
    pub(super) mtu: u32,
    /// The kernel makes it itself: a veth, say.
    is_virtual: bool,
    /// The driver runs the program.
    native: bool,
    pub(super) zero_copy: bool,
    segments: bool,
}

/// What has an interface's packets come to sockets.
#[derive(Debug)]
struct Holds {
    _attached: Attached,
    _redirect: Redirect,
    promiscuous: Promiscuous,
}

/// How many queues a port has: those that were asked for, or all that the interface has.
///
/// # Errors
/// There is no such interface, or it has fewer.
pub(super) fn queues(options: &XdpOptions) -> anyhow::Result<u16> {
    let name = &options.name;
    let has = queues_of(&find(name)?, name);
    match options.queues {
        Some(wanted) if u32::from(wanted) > has => bail!(
            "queues={wanted}: {name} has {has}: name at most as many, or have it use more (ethtool --set-channels {name} combined {wanted})"
        ),
        Some(wanted) => Ok(wanted),
        None if has > u32::from(QUEUES_MAX) => bail!(
            "{name} has {has} queues, and a port takes {QUEUES_MAX} at most; what comes to others would go to the kernel: have the interface \
             use fewer (ethtool --set-channels {name} combined {QUEUES_MAX}), or say queues={QUEUES_MAX}"
        ),
        None => Ok(has as u16),
    }
}

fn find(name: &str) -> anyhow::Result<Link> {
    Link::open(name)
        .with_context(|| format!("there is no interface {name} in this network namespace (ip link)"))
}

/// Receive queues that it has in use; where its driver does not say, those that it has room for.
fn queues_of(link: &Link, name: &str) -> u32 {
    receive_queues(link.socket(), name).unwrap_or_else(|_| link.receive_queues()).max(1)
}

impl Bound {
    /// Takes the first `queues` queues of the interface, or as many as it has.
    ///
    /// # Errors
    /// Which step failed, and what to do.
    pub(super) fn open(options: &XdpOptions, queues: u16, mem: &NativeMemory) -> anyhow::Result<Bound> {
        let name = &options.name;
        let mut link = find(name)?;
        let interface = link.index();
        link.set_up().with_context(|| {
            format!("could not set {name} up: that takes CAP_NET_ADMIN, or set it up before: ip link set {name} up")
        })?;
        let queues = queues_of(&link, name).min(queues.into());
        let (redirect, fragments) = load(queues)?;
        let (attached, mode) = attach(&redirect, interface, options)?;
        let promiscuous = Promiscuous::open(interface)
            .with_context(|| format!("could not have {name} give all packets: that takes CAP_NET_RAW"))?;
        let hows = candidates(options, mode, fragments, link.mtu());
        let (lanes, how) = open_lanes(options, mem, interface, queues, &hows)?;
        for (queue, lane) in (0..).zip(&lanes) {
            redirect.pass_to(queue, &lane.socket).context("the kernel refuses a socket for its program")?;
        }
        let facts = Facts {
            interface,
            mtu: link.mtu(),
            is_virtual: link.is_virtual(),
            native: mode == AttachMode::Native,
            zero_copy: how.zero_copy,
            segments: how.segments,
        };
        let holds = Holds { _attached: attached, _redirect: redirect, promiscuous };
        Ok(Bound::new(lanes, facts, options, Some(Arc::new(Mutex::new(Some(holds))))))
    }

    /// An interface whose queues a helper has handed over, and which it keeps.
    pub(super) fn handed(lanes: Vec<Lane>, facts: Facts, options: &XdpOptions) -> Bound {
        Bound::new(lanes, facts, options, None)
    }

    /// What is left of one whose interface has gone: no queue.
    pub(super) fn nothing(facts: Facts, options: &XdpOptions) -> Bound {
        Bound::new(Vec::new(), facts, options, None)
    }

    /// What its interface is known by while it is there.
    pub(super) fn tie(&self) -> Tie {
        Tie(self.holds.as_ref().map(Arc::downgrade).unwrap_or_default())
    }

    fn new(
        lanes: Vec<Lane>,
        facts: Facts,
        options: &XdpOptions,
        holds: Option<Arc<Mutex<Option<Holds>>>>,
    ) -> Bound {
        let longest = (facts.mtu as usize).saturating_add(BEYOND_MTU);
        Bound {
            lanes,
            longest: if facts.segments { longest } else { longest.min(FRAME as usize) },
            fill: match options.fill {
                Choice::Auto => facts.is_virtual,
                choice => choice == Choice::On,
            },
            facts,
            holds,
        }
    }

    /// How it runs.
    pub(super) fn design(&self) -> &'static str {
        match (self.facts.native, self.facts.zero_copy) {
            (false, _) => "xdp-generic",
            (true, false) => "xdp-native",
            (true, true) => "xdp-zero-copy",
        }
    }

    /// Says how it runs, and what that means where it is less than could be.
    pub(super) fn log(&self, name: &str) {
        if self.lanes.is_empty() {
            return tracing::warn!(
                interface = name,
                "the interface has gone; its port waits for it to return"
            );
        }
        let Bound { lanes, facts: Facts { mtu, segments, .. }, .. } = self;
        tracing::info!(
            interface = name,
            queues = lanes.len(),
            design = self.design(),
            mtu,
            "took the interface's queues"
        );
        if !segments && mtu.saturating_add(BEYOND_MTU as u32) > FRAME - HEADROOM {
            let most = FRAME - HEADROOM;
            tracing::warn!(
                interface = name,
                "packets of more than {most} bytes are not received, and of more than {FRAME} not sent: the kernel, or the driver, has no \
                 AF_XDP packets of several buffers (Linux 6.6)"
            );
        }
    }
}

impl Tie {
    /// True when the interface has gone, to another namespace say, where its packets are others' again from now on: the program is taken off.
    /// Sockets know it by themselves.
    pub(super) fn is_cut(&self) -> bool {
        let Some(holds) = self.0.upgrade() else { return false }; // so has the port
        let mut holds = holds.lock().unwrap_or_else(PoisonError::into_inner);
        holds.take_if(|holds| holds.promiscuous.has_gone()).is_some()
    }
}

/// Loads the program; true when it may see packets of several buffers.
fn load(queues: u32) -> anyhow::Result<(Redirect, bool)> {
    match Redirect::load(queues, true) {
        Err(e) if e.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => Redirect::load(queues, false).map(|loaded| (loaded, false)),
        outcome => outcome.map(|loaded| (loaded, true)),
    }
    .context(
        "the kernel refuses the XDP program: that takes CAP_BPF and CAP_NET_ADMIN (before Linux 5.8 CAP_SYS_ADMIN), and a kernel with \
         CONFIG_XDP_SOCKETS",
    )
}

/// Attaches the program: by the driver where that can do it and the options have it so.
fn attach(
    redirect: &Redirect,
    interface: u32,
    options: &XdpOptions,
) -> anyhow::Result<(Attached, AttachMode)> {
    let name = &options.name;
    let by = |mode| redirect.attach(interface, mode).map(|attached| (attached, mode));
    let taken =
        |e: &io::Error| matches!(Errno::from_io_error(e), Some(Errno::BUSY | Errno::EXIST | Errno::PERM));
    let outcome = match options.mode {
        Mode::Native => by(AttachMode::Native),
        Mode::Generic => by(AttachMode::Generic),
        Mode::Auto => by(AttachMode::Native).or_else(|e| {
            if taken(&e) {
                return Err(e);
            }
            tracing::info!(
                interface = name,
                "its driver runs no XDP program ({e}): the network stack does, which is slower"
            );
            by(AttachMode::Generic)
        }),
    };
    outcome.map_err(|e| {
        let remedy = attach_remedy(&e, name);
        anyhow::Error::from(e).context(format!("could not attach an XDP program to {name}: {remedy}"))
    })
}

/// What to do when the kernel does not attach the program.
fn attach_remedy(e: &io::Error, name: &str) -> String {
    match Errno::from_io_error(e) {
        Some(Errno::PERM) => "that takes CAP_NET_ADMIN".to_owned(),
        Some(Errno::BUSY | Errno::EXIST) => format!(
            "it has another one; end the program that has attached it, which may be another port of this daemon, or take it off: ip link \
             set dev {name} xdp off"
        ),
        Some(Errno::OPNOTSUPP) => "its driver has no native mode: say mode=auto or mode=generic".to_owned(),
        _ => format!(
            "its driver cannot as it is configured (often the MTU, or offloads: see ip -d link show {name}); mode=generic always works"
        ),
    }
}

/// The ways to bind a socket, the best one first. One without segments is no way where packets of the interface need them, unless there is no
/// other one.
fn candidates(options: &XdpOptions, mode: AttachMode, fragments: bool, mtu: u32) -> Vec<How> {
    let long = mtu + BEYOND_MTU as u32 > FRAME - HEADROOM;
    let zero_copy = match (mode, options.zero_copy) {
        (AttachMode::Generic, _) | (_, Choice::Off) => &[false][..],
        (_, Choice::On) => &[true],
        (_, Choice::Auto) => &[true, false],
    };
    let mut ways = Vec::new();
    for segments in [true, false] {
        if segments && !fragments {
            continue;
        }
        ways.extend(zero_copy.iter().map(|&zero_copy| How { zero_copy, segments }));
    }
    if !long {
        // Then zero-copy is worth more than segments.
        ways.sort_by_key(|how| !how.zero_copy);
    }
    ways
}

/// Opens a socket for each queue, all in the first of these ways that the kernel takes.
fn open_lanes(
    options: &XdpOptions,
    mem: &NativeMemory,
    interface: u32,
    queues: u32,
    hows: &[How],
) -> anyhow::Result<(Vec<Lane>, How)> {
    let (name, ring) = (&options.name, options.ring);
    let mut ways = hows.iter().peekable();
    while let Some(&how) = ways.next() {
        let lanes: Result<Vec<_>, _> = (0..queues)
            .map(|queue| Lane::open(mem, interface, queue, ring, how).map_err(|e| (queue, e)))
            .collect();
        match lanes {
            Ok(lanes) => return Ok((lanes, how)),
            Err((_, OpenError { step: Step::Bind, errno }))
                if errno != Errno::BUSY && ways.peek().is_some() =>
            {
                tracing::debug!(interface = name, ?how, "refused: {errno}");
            }
            Err((queue, e)) => {
                let remedy = socket_remedy(&e, options, queues);
                return Err(e).with_context(|| format!("could not open queue {queue} of {name}: {remedy}"));
            }
        }
    }
    bail!("there is no way to bind a socket to {name}")
}

/// What to do when a socket is not opened.
fn socket_remedy(e: &OpenError, options: &XdpOptions, queues: u32) -> String {
    let name = &options.name;
    let megabytes = (queues * umem_bytes(options.ring)).div_ceil(1 << 20);
    match (e.step, e.errno) {
        (Step::Socket, Errno::PERM) => "that takes CAP_NET_RAW".to_owned(),
        (Step::Socket, Errno::AFNOSUPPORT) => "the kernel has no AF_XDP (CONFIG_XDP_SOCKETS)".to_owned(),
        (Step::Umem, Errno::NOBUFS | Errno::NOMEM) => format!(
            "the port locks {megabytes} MiB, which the limit does not permit: raise it (RLIMIT_MEMLOCK, LimitMEMLOCK= of systemd), give \
             CAP_IPC_LOCK, or lower ring or queues"
        ),
        (Step::Bind, Errno::BUSY) => {
            format!("another program has a socket there; end that one, or use another queue of {name}")
        }
        (Step::Bind, Errno::OPNOTSUPP) if options.zero_copy == Choice::On => {
            "its driver offers no zero-copy, or not for packets of this MTU: say zero-copy=auto".to_owned()
        }
        (Step::Bind, Errno::INVAL) => {
            format!("{name} may have fewer queues now (ethtool --show-channels {name})")
        }
        _ => "see the kernel's log".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_copy_comes_first_unless_packets_need_several_frames() {
        let way = |zero_copy, segments| How { zero_copy, segments };
        let auto = XdpOptions::new("v0");
        let [on, off] = [Choice::On, Choice::Off].map(|zero_copy| XdpOptions { zero_copy, ..auto.clone() });
        let native = |options, fragments, mtu| candidates(options, AttachMode::Native, fragments, mtu);
        let all = [way(true, true), way(true, false), way(false, true), way(false, false)];
        assert_eq!(native(&auto, true, 1500), all);
        assert_eq!(native(&auto, true, 9000), [all[0], all[2], all[1], all[3]]);
        assert_eq!(native(&auto, false, 9000), [all[1], all[3]]);
        assert_eq!(native(&on, true, 9000), [all[0], all[1]]);
        assert_eq!(native(&off, true, 1500), [all[2], all[3]]);
        assert_eq!(candidates(&auto, AttachMode::Generic, true, 1500), [all[2], all[3]]);
    }

    #[test]
    fn refusals_of_the_kernel_have_remedies() {
        for (errno, expected) in [
            (Errno::PERM, "CAP_NET_ADMIN"),
            (Errno::BUSY, "ip link set dev v0 xdp off"),
            (Errno::EXIST, "ip link set dev v0 xdp off"),
            (Errno::OPNOTSUPP, "mode=generic"),
            (Errno::INVAL, "mode=generic"),
        ] {
            let why = attach_remedy(&errno.into(), "v0");
            assert!(why.contains(expected), "{errno}: {why}");
        }
        let options = XdpOptions { zero_copy: Choice::On, ..XdpOptions::new("v0") };
        for (step, errno, expected) in [
            (Step::Socket, Errno::PERM, "CAP_NET_RAW"),
            (Step::Socket, Errno::AFNOSUPPORT, "CONFIG_XDP_SOCKETS"),
            (Step::Umem, Errno::NOBUFS, "the port locks 16 MiB"),
            (Step::Bind, Errno::BUSY, "another program"),
            (Step::Bind, Errno::OPNOTSUPP, "zero-copy=auto"),
            (Step::Bind, Errno::INVAL, "--show-channels v0"),
            (Step::Rings, Errno::NOMEM, "kernel's log"),
        ] {
            let why = socket_remedy(&OpenError { step, errno }, &options, 2);
            assert!(why.contains(expected), "{step:?} {errno}: {why}");
        }
    }
}
