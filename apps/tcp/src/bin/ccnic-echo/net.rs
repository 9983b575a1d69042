//! What server and client need of a network.

use std::io;
use std::time::Duration;

/// Connections, by small numbers. Readiness is told once, as by `EPOLLET`: read and write until that would block, or until a read was short.
pub(crate) trait Net {
    /// Sends and receives; sleeps for at most this long if nothing is there.
    fn poll(&mut self, sleep: Duration) -> io::Result<()>;

    /// The next connection of which something is told: new ones are accepted by themselves.
    fn ready(&mut self) -> Option<usize>;

    /// Reads; 0 bytes at the end.
    fn read(&mut self, conn: usize, to: &mut [u8]) -> io::Result<usize>;

    /// Writes what there is room for.
    fn write(&mut self, conn: usize, bytes: &[u8]) -> io::Result<usize>;

    /// Closes a connection.
    fn close(&mut self, conn: usize);
}
