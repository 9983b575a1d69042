//! Home agents: how a request travels. From its requester to the home agent of the requester's socket, where it is settled if the
//! socket can do so alone; else to the line's home agent; from there to the caches that the protocol's table says; and back.
//!
//! The transactions of a line come one after the other. One that finds its line busy waits at the home agent that it has reached, in
//! order of arrival. Each step is an event at the time at which a message arrives, so that a request meets the state of that
//! moment.
//!
//! This engine knows no protocol: which caches are snooped, where the data comes from and what is granted is a row of the machine's
//! [table](crate::protocols::table).
//!
//! | file | has |
//! |---|---|
//! | `order.rs` | arrival, waiting, which home agent is responsible, which caches it snoops |
//! | `snoop.rs` | snoops and their answers |
//! | `supply.rs` | data from the nearest copy, memory or a device; what the requester is granted |

mod order;
mod snoop;
mod supply;

use super::core::Core;
use super::uncore::Uncore;

/// The home agents of a machine, with the cores that they snoop.
#[derive(Debug)]
pub struct Home<'a> {
    pub cores: &'a mut [Core],
    pub u: &'a mut Uncore,
}

/// The members of a set of agents, highest first.
fn members(mut set: u128) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let bit = set.checked_ilog2()? as u8;
        set &= !(1 << bit);
        Some(bit)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn members_of_a_set() {
        assert_eq!(super::members(1 << 127 | 0b101).collect::<Vec<_>>(), [127, 2, 0]);
        assert_eq!(super::members(0).count(), 0);
    }
}
