//! The kernel of the simulation: time, events in order, servers with a rate. It knows nothing of caches.

pub mod events;
pub mod server;
pub mod time;
