//! TCP and UDP for programs that are attached to a NIC: what sockets are, without the kernel.
//!
//! A [`Stack`] is one IP host on one queue pair and belongs to one thread. [`Stack::poll`] receives and sends; it copies no
//! frame that it need not, allocates nothing while packets move that fit into frames, and takes time for what is ready, not for every
//! connection there is.
//! TCP itself is smoltcp's, behind the trait [`Engine`]; UDP datagrams go straight from the queue pair to the program and back.
//!
//! | module | what it does |
//! |---|---|
//! | [`options`] | addresses and limits |
//! | `local` | the host's addresses, and which one a packet is sent from |
//! | `attach` | opens one stack, or one per core on the queues of one attachment |
//! | `attachment` | what these share, and how they go on when the NIC ends and another one comes |
//! | `stack` | polling: frames in, timers, frames out |
//! | `core` | what becomes of connections between frames |
//! | `input` | which connection or port a frame is for |
//! | `fragments` | packets that are longer than a link: put together, and cut |
//! | `secret`, `cookies` | numbers that nobody can guess, and handshakes of which nothing is kept |
//! | `sockets` | listen, accept, connect, read, write, shutdown, close |
//! | `datagrams` | bind, send, answer |
//! | `blocking` | the same for a thread that may sleep |
//! | `connections` | the table of connections, by handle and by addresses |
//! | [`clock`] | what time it is, and how much of it counts |
//! | `timers` | when a connection wants to be looked at again |
//! | [`engine`], [`smoltcp`] | TCP, ARP, ICMP: the trait, and smoltcp behind it |
//! | [`udp`] | datagrams: received, answered in place, sent to known peers |
//! | `neighbours` | Ethernet addresses of those peers |
//! | `draft` | datagrams that are put together piece by piece |
//! | [`kept`] | memory of the program whose bytes are sent without a copy |
//! | `transmit` | frames on their way to the ring, written where the NIC reads them |
//!
//! A server that returns what it gets:
//!
//! ```no_run
//! use ccnic_tcp::{Event, Options, Stack};
//!
//! let options = Options::new("10.9.0.2/24".parse()?);
//! let mut stack = Stack::open("/tmp/nic.sock", &options)?;
//! let listener = stack.listen(7, 128)?;
//! let mut bytes = [0; 4096];
//! loop {
//!     stack.poll();
//!     while let Some(event) = stack.next_event() {
//!         match event {
//!             Event::Accept(_) => while stack.accept(listener).is_some() {},
//!             Event::Ready(conn, _) => loop {
//!                 match stack.read(conn, &mut bytes) {
//!                     Ok(0) => break stack.close(conn), // the client has closed
//!                     Ok(n) => drop(stack.write(conn, &bytes[..n])), // a server of use would keep what is not taken
//!                     Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => break,
//!                     Err(_) => break stack.close(conn),
//!                 }
//!             },
//!         }
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attach;
mod attachment;
mod blocking;
pub mod clock;
mod connections;
mod cookies;
mod core;
mod datagrams;
mod draft;
pub mod engine;
mod error;
mod fragments;
mod icmp;
mod input;
pub mod kept;
mod local;
mod neighbours;
pub mod options;
mod paths;
mod secret;
pub mod smoltcp;
mod sockets;
mod stack;
mod timers;
mod transmit;
pub mod udp;

pub use connections::Conn;
pub use engine::Engine;
pub use error::Error;
pub use kept::{Kept, KeptMemory};
pub use options::{Network, Options};
pub use sockets::Listener;
pub use stack::{Counters, Event, Ready, Stack};
pub use udp::{Datagrams, Later, Peer, Reply};
