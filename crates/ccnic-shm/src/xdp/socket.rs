//! A socket of AF_XDP: one queue of an interface.

use std::fmt;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING,
    XDP_UMEM_PGOFF_FILL_RING, XdpOptionsFlags, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, bind, send, socket_with, sockopt};

use super::FRAME;
use super::ring::{Consumer, Descriptor, Producer};
use crate::memory::NativeMemory;

/// What is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// The interface's index.
    pub interface: u32,
    /// Its queue.
    pub queue: u32,
    /// Entries of each ring, a power of two.
    pub ring: u32,
    /// The part of the memory that is the UMEM: whole [`FRAME`]s. Addresses in the rings count from its start.
    pub umem: Range<u32>,
    /// The driver is to use the UMEM itself (`XDP_ZEROCOPY`), or the kernel to copy (`XDP_COPY`).
    pub zero_copy: bool,
    /// A packet may have several descriptors (`XDP_USE_SG`, from Linux 6.6 on).
    pub segments: bool,
}

/// The step at which opening a socket has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The socket: `EPERM` without `CAP_NET_RAW`, `EAFNOSUPPORT` where the kernel has no AF_XDP.
    Socket,
    /// The UMEM: `ENOBUFS` beyond the limit of locked memory.
    Umem,
    /// The rings.
    Rings,
    /// `EBUSY`: the queue has a socket. `EINVAL`: there is no such queue, or the kernel is too old for a flag. `EOPNOTSUPP`: the
    /// driver has no zero-copy, or not with several descriptors.
    Bind,
}

/// Why a socket was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenError {
    /// Where it has failed.
    pub step: Step,
    /// What the kernel says.
    pub errno: Errno,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.step {
            Step::Socket => "no socket of AF_XDP",
            Step::Umem => "the memory was refused",
            Step::Rings => "no rings",
            Step::Bind => "the interface's queue was refused",
        };
        write!(f, "{what}: {}", self.errno)
    }
}

impl std::error::Error for OpenError {}

fn at(step: Step) -> impl Fn(Errno) -> OpenError {
    move |errno| OpenError { step, errno }
}

/// A queue of an interface: its rings, and calls that wake the kernel. Belongs to one thread at a time.
#[derive(Debug)]
pub struct Socket {
    /// Frames to receive into, by their address.
    pub fill: Producer<u64>,
    /// Packets that were received.
    pub rx: Consumer<Descriptor>,
    /// Packets to send.
    pub tx: Producer<Descriptor>,
    /// Frames that were sent, by their address.
    pub completion: Consumer<u64>,
    zero_copy: bool,
    fd: OwnedFd,
    /// The UMEM.
    _mem: NativeMemory,
}

impl Socket {
    /// Opens a socket on a queue. The kernel writes received packets into frames that are in the [fill](Self::fill) ring from then on,
    /// when a [`Redirect`](super::Redirect) passes them to the socket.
    ///
    /// # Errors
    /// Which step has failed, and how.
    pub fn open(mem: &NativeMemory, options: &Options) -> Result<Socket, OpenError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::XDP, SocketType::RAW, flags, None).map_err(at(Step::Socket))?;
        register(&fd, mem, options).map_err(at(Step::Umem))?;
        let ring = options.ring;
        sockopt::set_xdp_umem_fill_ring_size(&fd, ring).map_err(at(Step::Rings))?;
        sockopt::set_xdp_umem_completion_ring_size(&fd, ring).map_err(at(Step::Rings))?;
        sockopt::set_xdp_rx_ring_size(&fd, ring).map_err(at(Step::Rings))?;
        sockopt::set_xdp_tx_ring_size(&fd, ring).map_err(at(Step::Rings))?;
        // Before Linux 6.4 the rings of a bound socket are not mapped any more.
        let mut socket = Socket::map(fd, mem, ring)?;
        let mut flags = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        flags |=
            if options.zero_copy { SocketAddrXdpFlags::XDP_ZEROCOPY } else { SocketAddrXdpFlags::XDP_COPY };
        flags.set(SocketAddrXdpFlags::XDP_USE_SG, options.segments);
        bind(&socket, &SocketAddrXdp::new(flags, options.interface, options.queue))
            .map_err(at(Step::Bind))?;
        socket.see_how();
        Ok(socket)
    }

    /// A socket that another process has opened, bound, and made its rings of so many entries: it takes no capability to use one. `mem` has
    /// the UMEM in it, which the kernel knows by its pages. No other process is to use the rings. From Linux 6.4 on.
    ///
    /// # Errors
    /// [`Step::Rings`]: it is no socket of AF_XDP, its rings are shorter, or the kernel is older.
    pub fn adopt(fd: OwnedFd, mem: &NativeMemory, ring: u32) -> Result<Socket, OpenError> {
        let mut socket = Socket::map(fd, mem, ring)?;
        socket.see_how();
        Ok(socket)
    }

    fn map(fd: OwnedFd, mem: &NativeMemory, ring: u32) -> Result<Socket, OpenError> {
        let places = sockopt::xdp_mmap_offsets(&fd).map_err(at(Step::Rings))?;
        let of = fd.as_fd();
        let rings = || {
            Ok((
                Producer::map(of, XDP_UMEM_PGOFF_FILL_RING, &places.fr, ring)?,
                Consumer::map(of, XDP_PGOFF_RX_RING, &places.rx, ring)?,
                Producer::map(of, XDP_PGOFF_TX_RING, &places.tx, ring)?,
                Consumer::map(of, XDP_UMEM_PGOFF_COMPLETION_RING, &places.cr, ring)?,
            ))
        };
        let (fill, rx, tx, completion) = rings().map_err(at(Step::Rings))?;
        Ok(Socket { fill, rx, tx, completion, zero_copy: false, fd, _mem: mem.clone() })
    }

    /// What the kernel has made of a bound socket.
    fn see_how(&mut self) {
        let got = sockopt::xdp_options(&self.fd);
        self.zero_copy = got.is_ok_and(|got| got.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY));
    }

    /// True when the driver uses the UMEM itself.
    pub fn zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Has the kernel send what is in the [tx](Self::tx) ring. A socket that copies sends here, at most 32 packets a call.
    ///
    /// # Errors
    /// Of the system: `EAGAIN`, `EBUSY`, `ENOBUFS` when some is left or was dropped; `ENETDOWN` when the interface is down; `ENXIO`
    /// when it is gone.
    pub fn wake_for_sending(&self) -> rustix::io::Result<()> {
        send(&self.fd, &[], SendFlags::DONTWAIT).map(drop)
    }

    /// Has the driver look at the [fill](Self::fill) ring.
    pub fn wake_for_receiving(&self) {
        // A failure is that of an interface that is down or gone, of which packets to send tell.
        let _ = poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&Timespec::default()));
    }

    /// Packets that came to the queue and were dropped by the kernel: no frame in the [fill](Self::fill) ring, no room in the
    /// [rx](Self::rx) ring, or too long.
    pub fn missed(&self) -> u64 {
        let statistics = sockopt::xdp_statistics(&self.fd);
        statistics.map_or(0, |seen| seen.rx_dropped.saturating_add(seen.rx_ring_full.unwrap_or(0)))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Makes a part of the memory the socket's UMEM. The kernel holds its pages as long as there is the socket.
fn register(fd: &OwnedFd, mem: &NativeMemory, options: &Options) -> rustix::io::Result<()> {
    let Range { start, end } = options.umem;
    if start >= end || end > mem.size() || !start.is_multiple_of(FRAME) || !end.is_multiple_of(FRAME) {
        return Err(Errno::INVAL);
    }
    let addr = mem.at(start) as u64;
    let len = u64::from(end - start);
    let flags = XdpUmemRegFlags::empty();
    sockopt::set_xdp_umem_reg(
        fd,
        XdpUmemReg { addr, len, chunk_size: FRAME, headroom: 0, flags, tx_metadata_len: 0 },
    )
}
