//! A NIC's control side: its socket, the programs that come to it, their regions. What `ccnicd` and libccnic's NICs share.
//!
//! [`Reception`] talks to programs and checks what they bring; who serves them, and how, is the [`Nic`]'s business.

mod bell;
mod listener;
mod reception;

pub use bell::Bell;
pub use reception::{Arrival, Limits, Memory, Nic, ProgramId, Reception};
