//! A key-value store in memory that memcached's clients speak to.
//!
//! The store and the protocols know no sockets: bytes go in, replies come out. The server reads and writes them, over kernel sockets.
//!
//! | module | contents |
//! |---|---|
//! | [`store`] | items, sharded by key: memory bound, eviction, expiry, snapshots |
//! | [`protocol`] | memcached's text and meta commands, its UDP frames; a refusal of its binary protocol |
//! | `server` | threads, sockets, signals |
//! | [`rpc`] | the get and set of the paper's key-value service: one datagram each, no text |

#[cfg(feature = "server")]
pub(crate) mod file;
mod number;
pub mod protocol;
pub mod rpc;
#[cfg(feature = "server")]
pub mod server;
pub mod store;
