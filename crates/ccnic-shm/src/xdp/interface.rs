//! What is asked of an interface besides its queues, by calls for which rustix has no safe form.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::tun::NAME_MAX;

/// An interface that gives all packets, whatever address they are for, until this is dropped.
#[derive(Debug)]
pub struct Promiscuous {
    socket: OwnedFd,
}

impl Promiscuous {
    /// Has the interface give all packets. The kernel counts such requests: others' stay.
    ///
    /// # Errors
    /// Of the system: `EPERM` without `CAP_NET_RAW`, `ENODEV` when there is no such interface.
    pub fn open(interface: u32) -> io::Result<Promiscuous> {
        // (Without a protocol it receives nothing.)
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        let request = libc::packet_mreq {
            mr_ifindex: interface as libc::c_int,
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        // SAFETY: the option is a packet_mreq of that size, which the kernel reads.
        let outcome = unsafe {
            let size = size_of_val(&request) as libc::socklen_t;
            let at = std::ptr::from_ref(&request).cast();
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, at, size)
        };
        done(outcome)?;
        // SAFETY: a sockaddr_ll is plain data, for which zeros are a value.
        let mut address: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
        address.sll_family = libc::AF_PACKET as libc::c_ushort;
        address.sll_ifindex = interface as libc::c_int;
        // SAFETY: the address is a sockaddr_ll of that size, which the kernel reads.
        let outcome = unsafe {
            let size = size_of_val(&address) as libc::socklen_t;
            libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size)
        };
        done(outcome)?;
        Ok(Promiscuous { socket })
    }

    /// True when the interface has been deleted, or moved to another network namespace, also if it has returned since: the kernel has taken its
    /// packets from all sockets then, also from those of AF_XDP.
    pub fn has_gone(&self) -> bool {
        // SAFETY: a sockaddr_ll is plain data, for which zeros are a value.
        let mut address: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
        let mut size = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the kernel writes at most `size` bytes, a sockaddr_ll.
        let outcome =
            unsafe { libc::getsockname(self.socket.as_raw_fd(), (&raw mut address).cast(), &raw mut size) };
        outcome == 0 && address.sll_ifindex < 0 // no interface has such an index: the one that it was bound to is none of this namespace's
    }
}

fn done(outcome: libc::c_int) -> io::Result<()> {
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// `struct ethtool_channels`.
#[repr(C)]
struct Channels {
    command: u32,
    max: [u32; 4],
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// `linux/sockios.h`, `linux/ethtool.h`.
const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// Receive queues that the interface of that name has in use (`ethtool --show-channels`). `socket`: any of the namespace.
///
/// # Errors
/// Of the system: `EOPNOTSUPP` when the driver does not say, `ENODEV` when there is no such interface. `InvalidInput` for a name that is
/// empty or too long.
pub fn receive_queues(socket: BorrowedFd<'_>, name: &str) -> io::Result<u32> {
    let mut channels =
        Channels { command: ETHTOOL_GCHANNELS, max: [0; 4], rx: 0, tx: 0, other: 0, combined: 0 };
    // SAFETY: an ifreq is plain data, for which zeros are a value.
    let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    let room = request.ifr_name.get_mut(..name.len()).filter(|room| (1..=NAME_MAX).contains(&room.len()));
    let room = room.ok_or(io::ErrorKind::InvalidInput)?;
    room.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from as libc::c_char);
    request.ifr_ifru.ifru_data = (&raw mut channels).cast();
    // SAFETY: SIOCETHTOOL reads the ifreq and, for this command, writes an ethtool_channels where its data point to.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if outcome < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(channels.rx.saturating_add(channels.combined))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn interfaces_that_do_not_say_and_names_that_none_has() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for (name, expected) in [("lo", libc::EOPNOTSUPP), ("no-such-device", libc::ENODEV)] {
            let why = receive_queues(socket.as_fd(), name).unwrap_err();
            assert_eq!(why.raw_os_error(), Some(expected), "{name}: {why}");
        }
        for name in ["", "a-name-of-16-byt"] {
            assert_eq!(receive_queues(socket.as_fd(), name).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }
}
