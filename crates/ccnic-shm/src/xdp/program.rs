//! The XDP program that passes an interface's packets to sockets, by `bpf(2)`.
//!
//! It is these instructions: what comes to a queue that has a socket in the map goes there, everything else to the kernel's stack.
//!
//! ```text
//! return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
//! ```
//!
//! It is attached by a BPF link, which goes with its descriptor: when the process ends, however it does, the interface has no program any
//! more.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::Socket;

/// Commands of `bpf(2)`, and what they are about.
const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;
const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
/// The program may see packets of several buffers (`BPF_F_XDP_HAS_FRAGS`, from Linux 5.18 on).
const HAS_FRAGS: u32 = 1 << 5;
/// `XDP_FLAGS_SKB_MODE`, `XDP_FLAGS_DRV_MODE`.
const SKB_MODE: u32 = 1 << 1;
const DRV_MODE: u32 = 1 << 2;

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Instruction {
    code: u8,
    /// Destination in the low half, source in the high one.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// `bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS)`.
fn instructions(map: RawFd) -> [Instruction; 6] {
    let of = |code, registers, offset, immediate| Instruction { code, registers, offset, immediate };
    [
        of(0x61, 0x12, 16, 0),  // r2 = *(u32 *)(r1 + 16): xdp_md.rx_queue_index
        of(0x18, 0x11, 0, map), // r1 = the map (two slots; source 1: BPF_PSEUDO_MAP_FD)
        of(0, 0, 0, 0),
        of(0xb7, 0x03, 0, 2), // r3 = XDP_PASS
        of(0x85, 0, 0, 51),   // call bpf_redirect_map
        of(0x95, 0, 0, 0),    // return r0
    ]
}

/// `union bpf_attr` of MAP_CREATE.
#[repr(C)]
struct NewMap {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
}

/// Of PROG_LOAD, as of Linux 4.18.
#[repr(C)]
struct NewProgram {
    kind: u32,
    instructions: u32,
    at: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    expected_attach: u32,
}

/// Of MAP_UPDATE_ELEM.
#[repr(C)]
struct Element {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// Of LINK_CREATE.
#[repr(C)]
struct NewLink {
    program: u32,
    interface: u32,
    attach: u32,
    flags: u32,
}

/// Calls `bpf(2)`.
///
/// # Safety
/// `T` is the command's part of `union bpf_attr`, and its addresses are of what the command reads there.
unsafe fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<libc::c_int> {
    // SAFETY: the kernel reads that many bytes, and does with the addresses in them what the caller has seen to.
    let outcome =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(outcome as libc::c_int) }
}

/// As [`bpf`], for commands that give a descriptor.
///
/// # Safety
/// As of [`bpf`], and the command gives a descriptor.
unsafe fn open<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: as required of the caller; the descriptor is new, and nobody else's.
    unsafe { bpf(command, attributes).map(|fd| OwnedFd::from_raw_fd(fd)) }
}

/// How a program is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachMode {
    /// By the driver, before the kernel makes a packet of its own.
    Native,
    /// By the network stack, with any driver.
    Generic,
}

/// The program with its map, loaded.
#[derive(Debug)]
pub struct Redirect {
    map: OwnedFd,
    program: OwnedFd,
}

/// A program that is attached to an interface, until this is dropped.
#[derive(Debug)]
pub struct Attached {
    _link: OwnedFd,
}

impl Redirect {
    /// Loads the program, for queues below `queues`. `segments`: packets may have several buffers, which a kernel before 5.18
    /// refuses (`EINVAL`).
    ///
    /// # Errors
    /// Of the system: `EPERM` without `CAP_BPF` and `CAP_NET_ADMIN` (or `CAP_SYS_ADMIN`), or, before 5.11, beyond the limit of
    /// locked memory.
    pub fn load(queues: u32, segments: bool) -> io::Result<Redirect> {
        let map = NewMap { kind: MAP_TYPE_XSKMAP, key_size: 4, value_size: 4, max_entries: queues, flags: 0 };
        // SAFETY: of this command, which gives a descriptor; there are no addresses.
        let map = unsafe { open(MAP_CREATE, &map)? };
        let code = instructions(map.as_raw_fd());
        let mut name = [0; 16];
        name[..10].copy_from_slice(b"ccnic_xdp\0");
        let program = NewProgram {
            kind: PROG_TYPE_XDP,
            instructions: code.len() as u32,
            at: code.as_ptr() as u64,
            license: c"Apache-2.0 OR MIT".as_ptr() as u64,
            log_level: 0,
            log_size: 0,
            log: 0,
            kernel_version: 0,
            flags: if segments { HAS_FRAGS } else { 0 },
            name,
            interface: 0,
            expected_attach: ATTACH_XDP,
        };
        // SAFETY: of this command, which gives a descriptor; it reads the instructions and the license, which both outlive the call.
        let program = unsafe { open(PROG_LOAD, &program)? };
        Ok(Redirect { map, program })
    }

    /// Has the interface run the program.
    ///
    /// # Errors
    /// Of the system: `EBUSY` or `EEXIST` when it has another one, `EOPNOTSUPP` when the driver has no native mode, `EINVAL` before
    /// Linux 5.9 or when the driver cannot do it as the interface is configured.
    pub fn attach(&self, interface: u32, mode: AttachMode) -> io::Result<Attached> {
        let flags = match mode {
            AttachMode::Native => DRV_MODE,
            AttachMode::Generic => SKB_MODE,
        };
        let link = NewLink { program: self.program.as_raw_fd() as u32, interface, attach: ATTACH_XDP, flags };
        // SAFETY: of this command, which gives a descriptor; there are no addresses.
        Ok(Attached { _link: unsafe { open(LINK_CREATE, &link)? } })
    }

    /// Has packets of a queue go to a socket from now on. When the socket is closed, they go to the kernel's stack again.
    ///
    /// # Errors
    /// Of the system: `E2BIG` beyond the map's queues, `EOPNOTSUPP` for a socket that is not bound.
    pub fn pass_to(&self, queue: u32, socket: &Socket) -> io::Result<()> {
        let value = socket.as_fd().as_raw_fd() as u32;
        let element = Element {
            map: self.map.as_raw_fd() as u32,
            padding: 0,
            key: std::ptr::from_ref(&queue) as u64,
            value: std::ptr::from_ref(&value) as u64,
            flags: 0,
        };
        // SAFETY: of this command, which reads a key and a value of four bytes each.
        unsafe { bpf(MAP_UPDATE_ELEM, &element) }.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_have_the_kernels_sizes() {
        assert_eq!(size_of::<Instruction>(), 8);
        assert_eq!((size_of::<NewMap>(), size_of::<NewProgram>()), (20, 72));
        assert_eq!((size_of::<Element>(), size_of::<NewLink>()), (32, 16));
    }

    /// The kernel's verifier takes the program, where this process may load any.
    #[test]
    fn the_kernel_takes_the_program() {
        match Redirect::load(4, true).or_else(|_| Redirect::load(4, false)) {
            Ok(redirect) => {
                let none = redirect.attach(u32::MAX >> 1, AttachMode::Generic).unwrap_err();
                assert!(matches!(none.raw_os_error(), Some(libc::EINVAL | libc::ENODEV)), "{none}");
            }
            Err(e) => println!("skipped: {e}"),
        }
    }
}
