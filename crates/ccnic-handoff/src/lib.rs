//! From one polling thread of a NIC to another: a bounded queue of packets, and the call that wakes a thread that sleeps.
//!
//! A crate of its own so that loom and ThreadSanitizer run it without the daemon, which is what they would take longest to compile.
//!
//! 1. [`handoff`](mod@handoff): the queue, its contract, and the words that it is made of.
//! 2. [`wake`]: who sleeps, who notifies, and why no call is lost.

pub mod handoff;
pub mod wake;

pub use handoff::{HandoffConsumer, HandoffProducer, Item, NativeWord, Word, handoff};
pub use wake::{Notifier, Wake};
