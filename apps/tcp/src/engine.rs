//! What a TCP implementation does for a [`Stack`](crate::Stack), so that it can be exchanged.
//!
//! The stack knows connections by their addresses, accepts them, keeps their deadlines and tells the program what is ready. The engine
//! has the protocols: the state of one connection at a time, and everything that is not TCP or UDP (ARP, neighbour discovery, ICMP).

use std::io;
use std::net::{IpAddr, SocketAddr};

use ccnic_frame::Meta;

use crate::options::Options;

/// Microseconds since the stack was opened. The example of an engine, and of what it is told, is [`Smoltcp`](crate::smoltcp::Smoltcp).
pub type Micros = u64;

/// No deadline.
pub const NEVER: Micros = Micros::MAX;

/// Where frames go.
pub trait Output {
    /// False when no frame is taken now: what has to be sent waits.
    fn room(&self) -> bool;

    /// Sends a frame of `len` bytes, all of which `fill` writes; it returns the requests of the frame's metadata. What the NIC does not take
    /// is done here.
    fn frame<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> (Meta, R)) -> R;
}

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Nothing has come: not in use.
    Listening,
    /// The handshake is under way.
    Opening,
    /// Established, or being closed.
    Open,
    /// Both sides have closed; late segments are still answered.
    TimeWait,
    /// Closed by both sides, reset, or given up.
    Closed,
}

/// When a connection has to be looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// At this time if nothing comes before: now or earlier if there was no room, [`NEVER`] if there is nothing to wait for.
    pub at: Micros,
    /// The Ethernet address of its peer is being asked for: also when a neighbour has answered.
    pub unresolved: bool,
}

/// What an engine is told about the host.
#[derive(Debug, Clone)]
pub struct Host {
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Addresses and limits. There is a link-local address beside them: [`Options::link_local`].
    pub options: Options,
    /// Bytes of the largest frame that the NIC takes to cut it into segments; `None` where it does not.
    pub segmentation: Option<usize>,
    /// A random number.
    pub seed: u64,
}

/// A SYN, and the answer to it, of which nothing was kept.
#[derive(Debug, Clone, Copy)]
pub struct Answered {
    /// The peer's address and port.
    pub remote: SocketAddr,
    /// The own address and port.
    pub local: SocketAddr,
    /// The sequence number of the peer's SYN.
    pub remote_isn: u32,
    /// The sequence number of the answer, which had no option but the segment size, and the window of [`receive_buffer`](Options), at most
    /// 65535.
    pub isn: u32,
    /// The peer's largest segment.
    pub segment: u16,
}

/// A TCP implementation. All times are those of the stack.
///
/// ```no_run
/// use std::path::Path;
///
/// use ccnic_tcp::{Engine, Error, Options, Stack};
///
/// /// A server's stack, with whatever engine.
/// fn open<E: Engine>(options: &Options) -> Result<Stack<E>, Error> {
///     let mut stacks = Stack::<E>::open_with(Path::new("/tmp/nic.sock"), options, 1)?;
///     Ok(stacks.remove(0))
/// }
///
/// let stack = open::<ccnic_tcp::smoltcp::Smoltcp>(&Options::new("10.9.0.2/24".parse()?))?;
/// # Ok::<(), Error>(())
/// ```
pub trait Engine: std::fmt::Debug {
    /// The state of one connection.
    type Tcp: std::fmt::Debug;

    /// An engine for this host.
    fn new(host: &Host) -> Self;

    /// The host has moved to another NIC, which cuts frames of up to so many bytes: what is known of neighbours may be wrong. `seed` is a
    /// new random number.
    fn moved(&mut self, now: Micros, segmentation: Option<usize>, seed: u64);

    /// A connection that waits for a SYN to `port`; `isn` is the sequence number of its own SYN. `used` is one that is no longer needed, whose
    /// memory may be used again.
    fn listening(&mut self, port: u16, isn: u32, used: Option<Self::Tcp>) -> Self::Tcp;

    /// A connection from `local` to `remote`, whose SYN, with the sequence number `isn`, is sent by [`output`](Engine::output).
    ///
    /// # Errors
    /// `AddrNotAvailable` when no connection can be made between them.
    fn connecting(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        isn: u32,
        used: Option<Self::Tcp>,
    ) -> io::Result<Self::Tcp>;

    /// A handshake that the stack has answered by a cookie: the peer's acknowledgement of it is input next.
    fn answered(&mut self, answered: &Answered, used: Option<Self::Tcp>) -> Self::Tcp;

    /// A frame for this connection, whose checksums are right. With `None`, a frame for none: TCP is answered with a reset, ARP and ICMP as
    /// it should be.
    fn input(&mut self, now: Micros, frame: &[u8], tcp: Option<&mut Self::Tcp>, out: &mut impl Output);

    /// Sends what can be sent; returns when to call again.
    fn output(&mut self, now: Micros, tcp: &mut Self::Tcp, out: &mut impl Output) -> Next;

    /// The address of this host that the connection has.
    fn local(tcp: &Self::Tcp) -> Option<IpAddr>;

    /// The sequence numbers that are next to be sent and to be received.
    fn next_numbers(tcp: &Self::Tcp) -> [u32; 2];

    /// Where it stands.
    fn phase(tcp: &Self::Tcp) -> Phase;

    /// Bytes that can be read.
    fn readable(tcp: &Self::Tcp) -> usize;

    /// The peer has sent its FIN, and all before it has been read.
    fn finished(tcp: &mut Self::Tcp) -> bool;

    /// Bytes that can be written; `None` when nothing can be written any more.
    fn writable(tcp: &Self::Tcp) -> Option<usize>;

    /// Bytes that were written and are not acknowledged.
    fn unacknowledged(tcp: &Self::Tcp) -> usize;

    /// Lends received bytes, as many as lie together; `f` returns how many of them it is done with.
    fn read<R>(tcp: &mut Self::Tcp, f: impl FnOnce(&[u8]) -> (usize, R)) -> Option<R>;

    /// Lends room for bytes to send, as much as lies together; `f` returns how many it has written.
    fn write<R>(tcp: &mut Self::Tcp, f: impl FnOnce(&mut [u8]) -> (usize, R)) -> Option<R>;

    /// Sends FIN after what was written.
    fn shutdown(tcp: &mut Self::Tcp);

    /// A router has dropped the segment with the sequence number `seq`, since the path carries only `payload` bytes in a segment: what is
    /// in flight is sent again in shorter ones. False when no such segment is in flight, or they are not longer (RFC 5927 section 7).
    fn too_big(tcp: &mut Self::Tcp, now: Micros, seq: u32, payload: usize) -> bool;

    /// A new connection, of which it is known already that its path carries only `payload` bytes in a segment, until some time.
    fn limit(tcp: &mut Self::Tcp, payload: usize, until: Micros);

    /// Gives up the memory of a connection in TIME-WAIT that nobody will read from; it is not used for another one.
    fn release(tcp: &mut Self::Tcp);

    /// Sends RST, and is closed.
    fn abort(tcp: &mut Self::Tcp);
}
