//! TAP devices of Linux: what only an ioctl can ask for, for which rustix has no safe call.
//!
//! `linux/if_tun.h`; Documentation/networking/tuntap.rst.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The longest name of an interface, without its zero (`IFNAMSIZ` - 1).
pub const NAME_MAX: usize = 15;

/// Offload: checksums may be missing (`TUN_F_CSUM`).
pub const CHECKSUM: u32 = 0x01;
/// Offload: TCP super-packets over IPv4 and IPv6 (`TUN_F_TSO4`, `TUN_F_TSO6`), also with ECN (`TUN_F_TSO_ECN`).
pub const TSO: u32 = 0x02 | 0x04 | 0x08;
/// Offload: UDP super-packets over IPv4 and IPv6 (`TUN_F_USO4`, `TUN_F_USO6`), from Linux 6.2 on.
pub const USO: u32 = 0x20 | 0x40;

/// `_IO('T', 227)`.
const TUNGETDEVNETNS: libc::c_ulong = 0x54e3;

const IFF_TUN: i16 = 0x0001;
const IFF_TAP: i16 = 0x0002;
const IFF_MULTI_QUEUE: i16 = 0x0100;
const IFF_NO_PI: i16 = 0x1000;
const IFF_VNET_HDR: i16 = 0x4000;

/// `struct ifreq` with flags.
#[repr(C)]
struct Request {
    name: [u8; NAME_MAX + 1],
    flags: i16,
    rest: [u8; 22],
}

/// Makes `fd`, `/dev/net/tun` as it was opened, a queue of the TAP device `name`, which is made if there is none. Each packet has a
/// `virtio_net_hdr` before it, and nothing else.
///
/// # Errors
/// Of the system: `EPERM` without `CAP_NET_ADMIN`, `EBUSY` when another process has the device, `EINVAL` when an interface of that
/// name is something else, or is a TAP device with another kind of queues. `InvalidInput` for a name that is empty or too long.
pub fn attach(fd: BorrowedFd<'_>, name: &str, multi_queue: bool) -> io::Result<()> {
    let mut request = Request { name: [0; NAME_MAX + 1], flags: 0, rest: [0; 22] };
    let room = request.name.get_mut(..name.len()).filter(|room| (1..=NAME_MAX).contains(&room.len()));
    room.ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(name.as_bytes());
    request.flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | if multi_queue { IFF_MULTI_QUEUE } else { 0 };
    // SAFETY: TUNSETIFF reads and writes an ifreq, which `Request` is, of the same 40 bytes. A descriptor of another kind refuses it.
    done(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })
}

/// The name of the TAP interface that `fd` is a queue of, if [`attach`] has made it one and it has several queues or not, as asked for.
///
/// # Errors
/// Of the system: `EBADFD` for a queue of no interface. `InvalidInput` for one that was made otherwise.
pub fn name(fd: BorrowedFd<'_>, multi_queue: bool) -> io::Result<String> {
    let mut request = Request { name: [0; NAME_MAX + 1], flags: 0, rest: [0; 22] };
    // SAFETY: TUNGETIFF writes an ifreq, which `Request` is. A descriptor of another kind refuses it.
    done(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNGETIFF, &raw mut request) })?;
    let wanted = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | if multi_queue { IFF_MULTI_QUEUE } else { 0 };
    let kind = IFF_TUN | IFF_TAP | IFF_NO_PI | IFF_VNET_HDR | IFF_MULTI_QUEUE;
    let name = request.name.split(|byte| *byte == 0).next().filter(|_| request.flags & kind == wanted);
    let name = std::str::from_utf8(name.ok_or(io::ErrorKind::InvalidInput)?);
    Ok(name.map_err(|_| io::ErrorKind::InvalidInput)?.to_owned())
}

/// The network namespace that the interface is in which `fd` is a queue of. From Linux 5.6 on.
///
/// # Errors
/// Of the system: `EPERM` without `CAP_NET_ADMIN` there.
pub fn namespace(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    // SAFETY: TUNGETDEVNETNS takes nothing.
    let there = unsafe { libc::ioctl(fd.as_raw_fd(), TUNGETDEVNETNS) };
    done(there)?;
    // SAFETY: the kernel has just opened it for this call.
    Ok(unsafe { OwnedFd::from_raw_fd(there) })
}

/// Has packets begin with a `virtio_net_hdr` of so many bytes, with little-endian numbers. The device keeps it when its queues are
/// closed, so what a process before has set is not to be relied on.
///
/// # Errors
/// Of the system.
pub fn set_header(fd: BorrowedFd<'_>, bytes: i32) -> io::Result<()> {
    // SAFETY: TUNSETVNETHDRSZ reads an int.
    done(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const bytes) })?;
    let little: i32 = 1;
    // SAFETY: TUNSETVNETLE reads an int.
    done(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETVNETLE, &raw const little) })
}

/// Says what packets that are read may leave to their reader: a sum of [`CHECKSUM`], [`TSO`] and [`USO`]. Holds for all queues of the
/// device.
///
/// # Errors
/// Of the system: `EINVAL` when the kernel does not know all of it.
pub fn set_offload(fd: BorrowedFd<'_>, offload: u32) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes a number.
    done(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(offload)) })
}

fn done(outcome: libc::c_int) -> io::Result<()> {
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_request_is_an_ifreq() {
        assert_eq!(size_of::<Request>(), size_of::<libc::ifreq>());
        assert_eq!(std::mem::offset_of!(Request, flags), std::mem::offset_of!(libc::ifreq, ifr_ifru));
    }

    #[test]
    fn names_that_no_interface_can_have_and_descriptors_of_other_kinds_are_refused() {
        let file = std::fs::File::open("/dev/null").unwrap();
        for name in ["", "a-name-of-16-byt"] {
            let why = attach(file.as_fd(), name, false).unwrap_err();
            assert_eq!(why.kind(), io::ErrorKind::InvalidInput, "{name}");
        }
        for outcome in [
            name(file.as_fd(), false).map(drop),
            namespace(file.as_fd()).map(drop),
            attach(file.as_fd(), "tap0", true),
            set_header(file.as_fd(), 10),
            set_offload(file.as_fd(), CHECKSUM | TSO | USO),
        ] {
            assert_eq!(outcome.unwrap_err().raw_os_error(), Some(libc::ENOTTY));
        }
    }
}
