//! The kernel of the simulation: time, events in order, how far an agent may run ahead, programs as coroutines, and servers with
//! a rate. It knows nothing of cores or caches.

pub mod coroutines;
pub mod events;
pub mod lookahead;
pub mod server;
pub mod slab;
pub mod time;
