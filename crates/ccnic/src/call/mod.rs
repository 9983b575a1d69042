//! Calls: a request of a line to the other side and an answer of a line back, without a ring and without buffers.
//!
//! The protocol is coherent programmed I/O (Ruzhanskaia et al., "Rethinking Programmed I/O for Fast Devices, Cheap Cores, and Coherent
//! Interconnects", 2024, section 4.3, figure 4a) between two cores. Two *slots*, A and B, change their roles with every call: the
//! caller writes request n into one and waits at the other, where the server writes the answer. So the caller's next request goes
//! where it has just read an answer, and the server's next answer where it has just read a request: each side requests the ownership of
//! these lines while the other one works, and what remains of a call is one line there and one back.
//!
//! | call | request | answer |
//! |---|---|---|
//! | 0, 2, 4, ... | slot A | slot B |
//! | 1, 3, 5, ... | slot B | slot A |
//!
//! A device that is home of the lines holds the caller's load back until it has an answer. A core cannot: the caller polls, as in
//! FastForward (section 4.1), and needs no barrier between its store and its load, since no load of it is taken for a signal. Without a
//! load that is held there is no bus timeout either, so nothing like the paper's NOT_READY is needed here. (`ccnic-sim` has both: see
//! docs/architecture/calls.md.)
//!
//! # A message
//!
//! ```text
//! slot + 0      control word:  length (32 bits) | kind (8) | number of the call (24)
//! slot + 8      the first 56 bytes: the line that says that there is a message is the message
//! slot + 64     the others, in whole lines, which the receiver requests all at once
//! ```
//!
//! # The contract
//!
//! | | caller | server |
//! |---|---|---|
//! | may write | the request's slot, from the last answer on until it has published | the answer's slot, from the request on until it has published |
//! | may read | the answer's slot, once its word is the answer's | the request's slot, once its word is the request's |
//! | waits at | the answer's slot | the request's slot |
//!
//! Each side knows what the word that it waits at holds until the other one writes it (its own message of the call before), and what it
//! may then hold: the kind and number that are due, and a length that fits. Anything else is a defect of the other side
//! ([`Malformed`]): the word is checked as it is loaded, once, and the payload is copied out before it is looked at.
//!
//! # Waiting asleep
//!
//! As a NIC that sleeps (`notify.rs`): who waits announces it in a word of its own, executes a heavy barrier, looks once more, and sleeps.
//! Who publishes looks at that word afterwards, behind a light barrier.
//!
//! ```
//! use ccnic::call::{CallLayout, Caller, Server};
//! use ccnic::heap::HeapMemory;
//!
//! let layout = CallLayout::new(56)?;
//! let mem = HeapMemory::new(layout.size());
//! let (mut caller, mut server) = (Caller::new(&layout), Server::new(&layout));
//!
//! caller.send(&mem, b"two and two")?;
//! let mut request = [0; 56];
//! let n = server.take(&mem, &mut request)?.expect("there is a request");
//! assert_eq!(&request[..n], b"two and two");
//! server.answer(&mem, b"four")?;
//!
//! let mut answer = [0; 56];
//! assert_eq!(caller.take(&mem, &mut answer)?, Some(4));
//! assert_eq!(&answer[..4], b"four");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod caller;
mod end;
mod error;
mod layout;
mod message;
mod server;
#[cfg(test)]
mod tests;
mod wait;

pub use caller::Caller;
pub use error::{CallError, Malformed};
pub use layout::{CALL_HEADER_BYTES, CallLayout, MAX_MESSAGE};
pub use message::INLINE_MESSAGE;
pub use server::Server;
