//! AF_XDP sockets of Linux: packets between a queue of a network interface and memory of this process, without the kernel's network
//! stack in between. What rustix has no safe call for: rings that the kernel shares with us, and `bpf(2)`.
//!
//! ```text
//!                    memory of this process (UMEM), in frames of FRAME bytes
//!   fill      ──► frames to receive into ──┐                ┌── completion ◄── frames that were sent
//!   rx        ◄── packets received ────────┤ queue of the   ├── tx ──► packets to send
//!                                          │ interface      │
//!   interface ──► XDP program ─► XSKMAP ───┘                └──► interface
//! ```
//!
//! [`Socket`] is one queue; [`Redirect`] is the program that passes packets of the interface's queues to sockets.
//!
//! Documentation/networking/af_xdp.rst; `linux/if_xdp.h`; `linux/bpf.h`.

mod interface;
mod program;
mod ring;
mod socket;

pub use interface::{Promiscuous, receive_queues};
pub use program::{AttachMode, Attached, Redirect};
pub use ring::{Consumer, Descriptor, Producer};
pub use socket::{OpenError, Options, Socket, Step};

/// Bytes of a frame of the UMEM. A packet that is longer takes several (`XDP_USE_SG`).
pub const FRAME: u32 = 4096;
