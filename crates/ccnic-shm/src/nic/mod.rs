//! A NIC's control side: its socket, the programs that come to it, their regions. What `ccnicd` and libccnic's NICs share.
//!
//! [`Listener`] talks to programs and checks what they bring; who serves them, and how, is the [`Nic`]'s business.

mod listener;
mod notifier;
mod socket;

pub use listener::{AttachRequest, ClientId, Limits, Listener, Memory, Nic};
pub use notifier::Notifier;
