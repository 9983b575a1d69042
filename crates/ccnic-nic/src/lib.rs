//! The NIC's side of a region, for NICs of one's own: programs attach to them as to ccnicd.
//!
//! Listen ([`Nic`]), take over programs ([`Program`]), and serve each of their queue pairs with a thread ([`Queue`]):
//!
//! ```
//! use std::time::Duration;
//!
//! use ccnic_nic::Nic;
//!
//! # let directory = tempfile::tempdir()?;
//! # let socket = directory.path().join("nic.sock");
//! let nic = Nic::options().name("echo").listen(&socket)?; // for example "/tmp/nic.sock"
//! # let thread = std::thread::spawn(move || {
//! #     let mut nic = ccnic_client::Nic::open(&socket).unwrap();
//! #     let (mut pair, mut burst) = (nic.queue_pair(0).unwrap(), ccnic_client::Burst::new());
//! #     pair.alloc(64, 8, &mut burst);
//! #     burst.iter_mut().for_each(|buf| { pair.write(buf, 0, b"hello"); });
//! #     assert_eq!(pair.tx_burst(&mut burst), 8);
//! #     let mut came = 0;
//! #     while came < 8 {
//! #         pair.wait(Duration::from_secs(60)).unwrap();
//! #         came += pair.rx_burst(&mut burst, 32);
//! #         burst.as_slice().iter().for_each(|buf| pair.with(buf, |bytes| assert!(bytes.starts_with(b"hello"))));
//! #         pair.free(&mut burst);
//! #     }
//! # });
//! while nic.poll(Some(Duration::from_millis(10)))? == 0 {}
//! let program = nic.accept().ok_or("it has just been counted")?;
//! let mut queue = program.queue(0)?;
//!
//! // Sends back copies of what the program sends, until 8 packets have come: the program may change its own at any time.
//! let (mut rooms, mut lens) = ([[0; 1500]; 32], [0; 32]);
//! let mut echoed = 0;
//! while echoed < 8 {
//!     let mut rooms_left = rooms.iter_mut();
//!     let n = queue.rx_copy(32, 1500, |i, desc| {
//!         lens[i] = usize::from(desc.len());
//!         rooms_left.next().map_or(&mut [], |room| &mut room[..lens[i]])
//!     })?;
//!     let packets: Vec<&[u8]> = rooms.iter().zip(&lens).take(n).map(|(room, len)| &room[..*len]).collect();
//!     echoed += queue.tx_copy(&packets)?; // what there is no room for is lost here
//!     # nic.poll(Some(Duration::ZERO))?;
//! }
//! assert_eq!((program.name().is_empty(), queue.stats().rx_packets), (false, 8));
//! # while program.alive() { nic.poll(Some(Duration::from_millis(1)))?; }
//! # thread.join().unwrap();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Without copies
//! Packets may stay in the program's buffers:
//!
//! ```
//! # use std::time::Duration;
//! use ccnic_nic::{Desc, Nic, Part};
//! use rustix::event::{PollFd, PollFlags, Timespec, poll};
//!
//! # let directory = tempfile::tempdir()?;
//! # let socket = directory.path().join("nic.sock");
//! # let nic = Nic::options().sleeps(true).listen(&socket)?;
//! # let thread = std::thread::spawn(move || {
//! #     let mut nic = ccnic_client::Nic::open(&socket).unwrap();
//! #     let (mut pair, mut burst) = (nic.queue_pair(0).unwrap(), ccnic_client::Burst::new());
//! #     pair.alloc(64, 1, &mut burst);
//! #     burst.iter_mut().for_each(|buf| { pair.write(buf, 0, b"request"); });
//! #     assert_eq!(pair.tx_burst(&mut burst), 1);
//! #     let mut came = Vec::new();
//! #     while came.len() < 3 {
//! #         pair.rx_burst(&mut burst, 32);
//! #         came.extend(burst.as_slice().iter().map(|buf| pair.with(buf, |bytes| bytes[..4].to_vec())));
//! #         pair.free(&mut burst);
//! #         std::thread::yield_now();
//! #     }
//! #     assert_eq!(came, [b"answ", b"more", b"head"]);
//! # });
//! # while nic.poll(Some(Duration::from_millis(10)))? == 0 {}
//! # let program = nic.accept().ok_or("it has just been counted")?;
//! let mut queue = program.queue(0)?;
//! let mut bufs = [Desc::default(); 32];
//! let n = loop {
//!     match queue.rx_burst(&mut bufs) {
//!         0 if matches!(queue.arm(), Ok(true)) => {
//!             // The program wakes the NIC. One that does not yet is looked at every ten milliseconds.
//!             let most = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
//!             poll(&mut [PollFd::new(&queue.fd()?, PollFlags::IN)], Some(&most))?;
//!             queue.disarm();
//!         }
//!         0 => {}
//!         n => break n,
//!     }
//! };
//! let mut copy = [0; 7];
//! queue.read(bufs[0], 0, &mut copy)?; // the program may change its own: decide by the copy
//! assert_eq!(&copy, b"request");
//! queue.write(bufs[0], 0, b"answer!")?;
//! let sent = queue.tx_burst(&bufs[..n])?;
//! queue.free(&bufs[sent..n])?; // what there is no room for
//!
//! // A packet of the NIC's own, in a buffer of the program; then one of two parts, which are copied.
//! let n = queue.alloc(64, &mut bufs[..1])?;
//! queue.write(bufs[0], 0, b"more")?;
//! assert_eq!((n, queue.tx_burst(&bufs[..n])?), (1, 1));
//! let head = Part { bytes: b"head", more: true, ..Part::default() };
//! assert_eq!(queue.tx_copy(&[head, Part { bytes: b"tail", ..Part::default() }])?, 2);
//!
//! assert!(queue.spreader().is_none()); // the program has not asked for RSS
//! queue.missed(1); // a packet for which there was no room: the program reads it among its drops
//! queue.retire();
//! # while program.alive() { nic.poll(Some(Duration::from_millis(1)))?; }
//! # thread.join().unwrap();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Trust
//! A program may be defective or hostile. What [`Queue::rx_burst`] returns is checked: every buffer lies inside the program's pool,
//! every chain has an end, no packet is empty or longer than the program's MTU; everything else is dropped and counted. A program can
//! still change a packet while the NIC reads it: copy the bytes that a decision depends on, and read only the copy.
//!
//! # Reading order
//! `error.rs`; `shared.rs` (what the control thread and the queues' threads share), `pair.rs` (a queue pair of any design), `sleep.rs`,
//! `attached.rs`, `segment.rs`, `stats.rs`, `queue.rs`, `program.rs`, `options.rs`, `nic.rs`. libccnic's `ccnic_nic.h` is the same for C.

mod attached;
mod error;
mod nic;
mod options;
mod pair;
mod program;
mod queue;
mod segment;
mod shared;
mod sleep;
mod stats;

pub use ccnic::desc::CHAIN_MAX;
pub use ccnic::rss::{START, Spreader};
pub use ccnic::{Config, Desc, Design};
pub use ccnic_control::Limits;
pub use ccnic_frame::{Meta, Takes};

pub use error::{BurstError, Error};
pub use nic::Nic;
pub use options::NicOptions;
pub use program::Program;
pub use queue::Queue;
pub use segment::{Part, SEGMENTS, Segment};
pub use stats::QueueStats;
