//! Wires: what the NIC is connected to. One for now: `loopback`, which sends every packet back to its program.

use ccnic::ring::Ring;
use ccnic::{Busy, Fetched, NicQueue, Port};

/// What a queue pair's packets meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Back to the program, in a receive buffer that the NIC allocates and copies into.
    Loopback,
    /// Back to the program in the same buffer, without a copy.
    Reflect,
}

impl Wire {
    /// The name in the status and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Wire::Loopback => "loopback",
            Wire::Reflect => "loopback --reflect",
        }
    }
}

/// One turn of the loopback: fetches a burst, delivers it, publishes. Returns the packets delivered.
///
/// Nothing is lost when the program is slow to receive: what cannot be delivered stays in `fetched`, and nothing more
/// is fetched before it has gone.
#[inline(always)]
pub fn loopback<P: Port + Clone, R: Ring>(
    queue: &mut NicQueue<P, R>,
    fetched: &mut Fetched,
    port: &P,
    reflect: bool,
) -> usize {
    if fetched.is_empty() && queue.fetch(fetched) == 0 {
        return 0;
    }
    let mut delivered = 0;
    loop {
        let packet = fetched.front();
        if packet.is_empty() {
            break;
        }
        let done: Result<(), Busy> =
            if reflect { queue.reflect(packet) } else { queue.deliver(port, packet) };
        if done.is_err() {
            break;
        }
        if !reflect {
            queue.complete(packet);
        }
        let segments = packet.len();
        fetched.advance(segments);
        delivered += 1;
    }
    queue.flush();
    delivered
}
