//! What a program uses to exchange packets with a NIC.
//!
//! Open a [`Nic`], take a [`QueuePair`] for each thread, allocate buffers into a [`Burst`], send and receive:
//!
//! ```
//! # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
//! # let directory = tempfile::tempdir().unwrap();
//! # let socket = directory.path().join("nic.sock");
//! # let _nic = test_nic::TestNic::start(&socket, false);
//! use std::time::Duration;
//!
//! use ccnic_client::{Burst, Nic};
//!
//! let mut nic = Nic::open(&socket)?; // for example "/tmp/nic.sock"
//! let mut pair = nic.queue_pair(0)?;
//! let mut burst = Burst::new();
//!
//! pair.alloc(64, 8, &mut burst);
//! for buf in burst.iter_mut() {
//!     pair.write(buf, 0, b"hello");
//! }
//! pair.tx_burst(&mut burst);
//! pair.free(&mut burst); // what the ring did not take
//!
//! pair.wait(Duration::from_secs(10))?;
//! pair.rx_burst(&mut burst, 32);
//! for buf in burst.as_slice() {
//!     pair.with(buf, |bytes| assert!(bytes.starts_with(b"hello")));
//! }
//! pair.free(&mut burst);
//! # Ok::<(), ccnic_client::Error>(())
//! ```
//!
//! `ccnicd --socket /tmp/nic.sock` is a NIC to try it with.
//!
//! No call needs `unsafe`, and what can be written without it is defined, with two conditions. Bytes that are lent where they lie
//! ([`QueuePair::with`], [`QueuePair::rx_lend`]) are memory that the NIC has mapped, too: that trusts the NIC not to change them
//! meanwhile; [`QueuePair::read`] copies them for a program that does not. And a buffer goes back to the [`Nic`] that it came from: with
//! another one of the process debug builds panic, release builds confuse the two NICs' buffers.
//!
//! [`call`] is another way to use the same memory: a blocking request to another program, and its answer.

pub mod call;
mod error;
mod flow;
mod nic;
mod options;
mod queue_pair;
mod received;
#[cfg(test)]
mod test_nic;
mod tuning;
mod waiter;

pub use ccnic::host::{HostDrops, KeptBuf, KeptPart, NotSmall, Outgoing, Reserved, Segmented};
pub use ccnic::rss;
pub use ccnic::rss::Rss;
pub use ccnic::{
    Buf, Burst, Config, ConfigError, Demote, Desc, Design, FetchMode, IdleMode, TooLong, Tuning,
};
pub use ccnic::{SharedMemory, host, ring};
pub use ccnic_control::default_socket;
pub use ccnic_control::flow::{FlowEntry, FlowMatch, FlowRule, FlowTarget};
pub use ccnic_control::messages::Status;
pub use ccnic_control::offloads::Offloads;
pub use ccnic_frame::{Meta, Takes};
pub use ccnic_shm::{Adopt, NativeMemory, Pages};

pub use error::Error;
pub use nic::{Nic, Pool};
pub use options::NicOptions;
pub use queue_pair::{PairVisitor, QueuePair};
pub use received::Received;
pub use tuning::tuning_of_environment;
pub use waiter::{Notifications, Waiter};
