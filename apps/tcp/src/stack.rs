//! A host on one queue pair: what happens when it is polled.

use std::net::Ipv6Addr;
use std::sync::Arc;

use ccnic_client::{Nic, QueuePair};

use crate::attachment::Attachment;
use crate::connections::Conn;
use crate::core::Core;
use crate::engine::{Engine, Micros};
use crate::error::Error;
use crate::smoltcp::Smoltcp;
use crate::sockets::Listener;
use crate::udp::Datagrams;

/// Packets that are received at once.
pub(crate) const BURST: usize = 32;
/// Bursts in one poll: so that what the program sends is not kept back for long.
const BURSTS: usize = 4;
/// Silence after which it is looked whether the NIC is still there, and how often then: that takes a system call.
pub(crate) const LOOK: Micros = 10_000;

/// Something that the program may want to know. Example: [`Stack::connect`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Connections wait to be [accepted](Stack::accept).
    Accept(Listener),
    /// Something has changed about a connection that the program holds. Read and write until that would block: the same state is not told
    /// again before something has come for the connection.
    Ready(Conn, Ready),
}

/// What a connection is ready for. Example: [`Stack::connect`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// A read does not block: there are bytes, the end, or an error.
    pub readable: bool,
    /// The connection has been established, or there is room after a write that was cut short.
    pub writable: bool,
    /// It is closed on both sides, or has failed: the program may close it.
    pub closed: bool,
}

/// What a stack has counted since it was opened.
///
/// ```no_run
/// # let stack = ccnic_tcp::Stack::open("/tmp/nic.sock", &ccnic_tcp::Options::new("10.9.0.2/24".parse()?))?;
/// let counters = stack.counters();
/// if counters.syn_dropped > 0 {
///     println!("{} handshakes found the backlog full", counters.syn_dropped);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Frames that have come.
    pub received: u64,
    /// Frames that were handed to the NIC.
    pub sent: u64,
    /// Datagrams that the program was given.
    pub datagrams: u64,
    /// Frames for other hosts, or of a VLAN, and SYNs from hosts that there is no way to.
    pub foreign: u64,
    /// Frames whose headers make no sense.
    pub malformed: u64,
    /// Packets with a wrong checksum.
    pub bad_checksum: u64,
    /// SYNs, and handshakes by cookies, that found the listener's backlog, or the table of connections, full.
    pub syn_dropped: u64,
    /// SYNs that were answered by cookies, since the listener had half as many handshakes as its backlog.
    pub cookies_sent: u64,
    /// Connections whose handshakes came back with a cookie.
    pub cookies_accepted: u64,
    /// Handshakes that took too long.
    pub half_open_expired: u64,
    /// How often a router has said that the path to a host carries only shorter packets, and was believed.
    pub paths_lowered: u64,
    /// Errors of ICMP about closed ports and unknown protocols, and answers to long pings, that were not sent, since there were too many at once.
    pub errors_withheld: u64,
    /// Packets that came in fragments and were put together.
    pub reassembled: u64,
    /// Packets whose fragments did not all come in time.
    pub reassembly_expired: u64,
    /// Fragments that were dropped: they overlapped others, were at odds with them, or there was no room for them.
    pub fragments_dropped: u64,
    /// Packets that were sent in fragments.
    pub fragmented: u64,
    /// Frames that could not be sent since there was neither place nor buffer.
    pub refused: u64,
    /// How often it has gone on with another NIC after the end of its own.
    pub reconnects: u64,
}

/// One IP host on one queue pair. Belongs to one thread at a time, which polls it.
///
/// When the NIC ends, the stack goes on with the next one at the same socket ([`Options::reconnect`](crate::Options::reconnect)): its
/// connections, listeners and bound ports stay, what was lost of TCP is sent again, datagrams are lost. Stacks that were opened together go
/// on together, so all of them have to be polled.
#[derive(Debug)]
pub struct Stack<E: Engine = Smoltcp> {
    pub(crate) core: Core<E>,
    /// `None` while the NIC has gone, and its successor has not been attached to.
    pub(crate) pair: Option<QueuePair>,
    pub(crate) attachment: Arc<Attachment>,
    pub(crate) queue: u16,
    /// When it was looked last whether the NIC is there.
    pub(crate) looked: Micros,
}

impl<E: Engine> Stack<E> {
    /// Sends what connections have to send, receives what has come, and sees whose time is over. Returns the number of frames that have
    /// come. A program that need not poll all the time calls [`wait_when_idle`](Stack::wait_when_idle) between polls. What the program
    /// should know is in [`next_event`](Stack::next_event) after this.
    ///
    /// Of the time between two polls a second counts at most, so that connections outlive a program that is stopped for a while; what has
    /// come meanwhile is received before any time is over. The time of [`wait`](Stack::wait) counts.
    pub fn poll(&mut self) -> usize {
        self.poll_datagrams(&mut ())
    }

    /// As [`poll`](Stack::poll), with the program's side of UDP.
    #[inline]
    pub fn poll_datagrams<H: Datagrams>(&mut self, handler: &mut H) -> usize {
        self.core.tick();
        if self.is_quiet() { 0 } else { self.poll_fully(handler) }
    }

    /// A poll in which there is nothing to do, as most of them where a program waits for the next request: what comes is seen the sooner, the
    /// less is done then.
    #[inline]
    fn is_quiet(&mut self) -> bool {
        let Stack { core, pair: Some(pair), looked, .. } = self else { return false };
        core.is_quiet(*looked) && !pair.rx_poll()
    }

    #[inline(never)]
    fn poll_fully<H: Datagrams>(&mut self, handler: &mut H) -> usize {
        if self.core.behind == 0 {
            self.send();
        }
        let received = self.receive(handler);
        if self.core.behind == 0 {
            self.core.run_timers(); // what came in time has been seen
        }
        if received == 0 && self.core.is_silent(self.looked) {
            let _ = self.look(); // `wait` says what is wrong
        }
        if let Some(frames) = self.core.group.told() {
            frames.iter().for_each(|frame| self.core.told(frame, handler));
        }
        self.core.tell();
        if let Some(pair) = &mut self.pair {
            self.core.out.flush(pair);
        }
        received
    }

    /// Sends without receiving: for a program that does something else after it has written. Example: [`accept`](Stack::accept).
    pub fn flush(&mut self) {
        self.core.tick();
        self.send();
    }

    /// Hands datagrams to the NIC that have been put since the last poll. Connections send in the next one. Example:
    /// [`compose`](Stack::compose).
    pub fn flush_datagrams(&mut self) {
        if let Some(pair) = &mut self.pair {
            self.core.out.flush(pair);
            self.core.out.prepare(pair);
        }
    }

    fn send(&mut self) {
        if let Some(pair) = &mut self.pair {
            self.core.out.prepare(pair);
            self.core.send();
            self.core.out.flush(pair);
        }
    }

    /// Looks whether the NIC is still there, and whether another one has come in its place.
    ///
    /// # Errors
    /// Another one has come, and does not serve this program.
    #[cold]
    pub(crate) fn look(&mut self) -> Result<(), Error> {
        self.looked = self.core.now;
        self.core.reassembly.expire(self.core.now);
        if self.pair.is_some() && self.core.options.reconnect {
            self.attachment.hand_in_if_gone(self.queue, &mut self.pair);
        }
        if self.pair.is_none()
            && let Some((pair, takes)) = self.attachment.take_back(self.queue)?
        {
            self.pair = Some(pair);
            self.core.moved(takes);
        }
        Ok(())
    }

    /// The next event of the last polls. Example: [the crate](crate).
    #[inline]
    pub fn next_event(&mut self) -> Option<Event> {
        self.core.events.pop_front()
    }

    fn receive<H: Datagrams>(&mut self, handler: &mut H) -> usize {
        let Stack { core, pair: Some(pair), .. } = self else {
            self.core.behind = 0;
            return 0;
        };
        let (mut all, mut bursts) = (0, 0);
        while (bursts < BURSTS || core.behind > 0) && handler.ready() {
            // No more than can be answered while they are lent, but never none: what comes may acknowledge what holds buffers.
            let most = core.out.answers_ready(core.options.mtu).clamp(1, BURST);
            let got = pair.rx_lend(
                most,
                #[inline(always)]
                |_, frame, meta| core.frame(frame, meta, handler),
            );
            let n = match got {
                Ok(n) => n,
                Err(_) => core.receive_segmented(pair, handler),
            };
            (all, bursts) = (all + n, bursts + 1);
            core.behind = if n == 0 { 0 } else { core.behind.saturating_sub(n) };
            if n > 0 {
                core.out.flush(pair);
                core.out.prepare(pair);
            }
            if n < most / 2 && core.behind == 0 {
                break;
            }
        }
        core.counters.received += all as u64;
        if all > 0 {
            core.heard = core.now;
        }
        all
    }

    /// What the stack has counted. Example: [`Counters`].
    pub fn counters(&self) -> Counters {
        let (out, reassembly) = (&self.core.out, self.core.reassembly.counts);
        Counters {
            sent: out.sent,
            refused: out.refused,
            fragmented: out.fragmented,
            reassembled: reassembly.whole,
            reassembly_expired: reassembly.expired,
            fragments_dropped: reassembly.dropped,
            ..self.core.counters
        }
    }

    /// Connections in all states, also those that the program has closed and whose last segments are under way. Example:
    /// [`accept`](Stack::accept).
    pub fn connections(&self) -> usize {
        self.core.connections.len()
    }

    /// Times for which timers are set: a measure of what a stack remembers.
    pub fn timers(&self) -> usize {
        self.core.timers.len()
    }

    /// The processor's counter ([`ccnic_shm::timestamp`]) when the stack was polled, or flushed, last: for programs that add up what they
    /// spend, and would read it once more.
    pub fn polled_at(&self) -> u64 {
        self.core.time.ticks()
    }

    /// The link-local IPv6 address, which answers and listens as the other one does. Example:
    /// [`Options::link_local`](crate::Options::link_local).
    pub fn link_local(&self) -> Option<Ipv6Addr> {
        self.core.addresses.link_local
    }

    /// The Ethernet address. Example: [`with_nic`](Stack::with_nic).
    pub fn mac(&self) -> [u8; 6] {
        self.core.mac
    }

    /// Lends the attachment, which all stacks that were opened together share, each of them waiting meanwhile if it needs it.
    ///
    /// ```
    /// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/example_hosts.rs")); }
    /// # let (stack, _client, _nic) = example::hosts();
    /// let status = stack.with_nic(|nic| nic.status())?;
    /// assert_eq!(status.programs.len(), 2); // this one, and another
    /// assert_eq!(stack.mac()[0] & 3, 2); // locally administered: the stack has made it up
    ///
    /// let pair = stack.queue_pair().ok_or("the NIC has gone")?;
    /// assert_eq!(pair.drops().bad_descriptor, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_nic<R>(&self, f: impl FnOnce(&mut Nic) -> R) -> R {
        self.attachment.with(f)
    }

    /// The queue pair: for its notifier and its statistics. `None` while the NIC has gone and no other one has come.
    /// Example: [`with_nic`](Stack::with_nic).
    pub fn queue_pair(&self) -> Option<&QueuePair> {
        self.pair.as_ref()
    }
}

impl<E: Engine> Drop for Stack<E> {
    fn drop(&mut self) {
        self.attachment.leave(self.queue, self.pair.take(), |pair| self.core.out.retire(pair));
    }
}
