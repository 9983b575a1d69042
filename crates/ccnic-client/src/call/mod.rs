//! Calls between two programs: a request and an answer of a line each through shared memory, blocking.
//!
//! No ring, no buffer, no copy by a third: a call is one cache line to the server's core and one back (`ccnic::call` has the protocol and
//! where it comes from; docs/architecture/calls.md what it costs and where it beats a ring). Messages of up to 56 bytes are one line.
//!
//! ```
//! use std::time::Duration;
//!
//! use ccnic_client::call::{CallServer, Caller};
//!
//! # let directory = tempfile::tempdir().unwrap();
//! # let socket = directory.path().join("upper.sock");
//! let mut server = CallServer::listen(&socket)?; // for example "/tmp/upper.sock"
//! let waker = server.waker();
//! let thread = std::thread::spawn(move || {
//!     let upper = |request: &[u8], answer: &mut [u8]| {
//!         answer[..request.len()].copy_from_slice(&request.to_ascii_uppercase());
//!         request.len()
//!     };
//!     server.serve(upper)
//! });
//!
//! let mut caller = Caller::open(&socket)?;
//! let mut answer = [0; 64];
//! let n = caller.call(b"hello", &mut answer, Duration::from_secs(10))?;
//! assert_eq!(&answer[..n], b"HELLO");
//!
//! waker.stop();
//! thread.join().unwrap()?;
//! assert!(caller.call(b"hello", &mut answer, Duration::from_secs(10)).is_err()); // the server has gone
//! # Ok::<(), ccnic_client::Error>(())
//! ```

mod caller;
mod server;
#[cfg(test)]
mod tests;

pub use caller::Caller;
pub use ccnic::call::{INLINE_MESSAGE, MAX_MESSAGE};
pub use server::{CallServer, CallWaker};

use std::time::Duration;

use ccnic::IdleMode;
use ccnic::{SharedMemory, Tuning};
use ccnic_shm::{NativeMemory, Region};

/// The most bytes of a message unless the caller chooses others: a page, in its slot.
const CAPACITY: u32 = 4096 - 8;

/// Polls before a side goes to sleep: some tens of microseconds, many times a call.
const POLLS: u32 = 2000;

/// The longest sleep. Where the kernel has no membarrier a side may go to sleep while its message comes: it looks again after this.
const NAP: Duration = Duration::from_millis(10);

/// An end's access to the region of a channel.
#[expect(unsafe_code, reason = "the types of this module keep the contract")]
fn memory(region: &Region) -> NativeMemory {
    // SAFETY: used with the `CallLayout` of this region only, which its maker has sized it for and the server has checked against its
    // size. Messages are copied, never lent, and each end belongs to one thread.
    unsafe { region.agent() }
}

/// Between two polls that find nothing.
#[inline(always)]
fn relax<M: SharedMemory>(mem: &M, tuning: &Tuning) {
    if tuning.idle == IdleMode::Pause {
        mem.relax();
    }
}
