//! What a program does with connections: as with sockets, none of it blocks.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use ccnic::SharedMemory;
use ccnic::rss::Spreader;
use ccnic_client::Rss;

use crate::connections::{Conn, Entry, Holder, Tuple};
use crate::core::Core;
use crate::engine::{Engine, Micros, Phase};
use crate::error::Error;
use crate::kept::Kept;
use crate::secret::Secret;
use crate::stack::{Event, Stack};
use crate::udp::{TCP_BEHIND_PORTS, Template};

/// A port on which connections are accepted. Example: [`Stack::accept`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Listener(u16);

/// What the stack knows of a listener.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) port: u16,
    /// The most connections in the queue for a SYN to be answered.
    pub(crate) backlog: usize,
    /// Handshakes under way, half as many as the backlog.
    pub(crate) half_open: usize,
    /// Established connections that the program has not accepted.
    pub(crate) queue: VecDeque<Conn>,
    /// Until when a cookie may come back that was sent in the place of a handshake.
    pub(crate) cookies_until: Micros,
}

impl Listening {
    /// There is room for one more connection.
    pub(crate) fn has_room(&self) -> bool {
        self.queue.len() < self.backlog
    }

    /// There is room for one more handshake. Handshakes take nothing from connections, which may also be established by cookies.
    pub(crate) fn has_room_for_handshake(&self) -> bool {
        self.has_room() && self.half_open < self.backlog.div_ceil(2)
    }
}

/// Local ports for connections to others: those of which the answers come to this queue. They are chosen as RFC 6056 says (section 3.3.3, with
/// the steps of 3.3.5), so that nobody knows which port a connection to another remote end has.
#[derive(Debug)]
pub(crate) struct Ports {
    /// Ports that were used or passed over.
    counter: u64,
    /// The queue, where there are several.
    spreader: Option<(Spreader, u16)>,
}

/// Ports that are chosen for connections to others (RFC 6335, as Linux).
const FIRST: u16 = 32768;
const LAST: u16 = 60999;

impl Ports {
    pub(crate) fn new(rss: Option<(&Rss, u16)>) -> Ports {
        Ports { counter: 0, spreader: rss.map(|(rss, queue)| (Spreader::new(rss.clone()), queue)) }
    }

    /// A port for a connection from `local` to `remote`, unless it is `taken`.
    fn choose(
        &mut self,
        secret: &Secret,
        local: IpAddr,
        remote: SocketAddr,
        taken: impl Fn(u16) -> bool,
    ) -> Option<u16> {
        let all = u64::from(LAST - FIRST) + 1;
        let begin = (secret.port(local, remote) % all + self.counter) % all;
        let port = |passed: u64| FIRST + ((begin + passed) % all) as u16;
        let free = |port| !taken(port) && self.comes_here(remote, SocketAddr::new(local, port));
        let passed = (0..all).find(|passed| free(port(*passed)))?;
        self.counter += passed + secret.step(self.counter);
        Some(port(passed))
    }

    /// True when packets from `from` to `to` come to this queue.
    fn comes_here(&self, from: SocketAddr, to: SocketAddr) -> bool {
        let Some((spreader, queue)) = &self.spreader else { return true };
        let Some(frame) = Template::new([[0; 6]; 2], from, to) else { return true };
        let (frame, len) = frame.tcp_frame([0; TCP_BEHIND_PORTS]);
        spreader.queue(spreader.hash(&frame[..len])) == *queue
    }
}

fn not_connected() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

impl<E: Engine> Core<E> {
    pub(crate) fn listener_of(&self, port: u16) -> Option<u16> {
        let at = self.listeners.iter().position(|l| l.as_ref().is_some_and(|l| l.port == port))?;
        Some(at as u16)
    }

    /// A handshake with a listener is complete.
    pub(crate) fn established(&mut self, listener: u16, conn: Conn) {
        let Some(Some(listening)) = self.listeners.get_mut(usize::from(listener)) else { return };
        listening.half_open -= 1;
        listening.queue.push_back(conn);
        if listening.queue.len() == 1 {
            self.events.push_back(Event::Accept(Listener(listener)));
        }
    }

    /// A connection that the program holds.
    #[inline]
    fn held(&mut self, conn: Conn) -> io::Result<&mut Entry<E::Tcp>> {
        self.connections.get_mut(conn).filter(|e| e.holder == Holder::Program).ok_or_else(not_connected)
    }

    fn let_go(&mut self, conn: Conn, abort: bool) {
        let expires = self.now.saturating_add(self.options.timeout.as_micros() as u64);
        let Some(entry) = self.connections.get_mut(conn) else { return };
        if let Holder::Handshake(listener) = entry.holder
            && let Some(Some(listening)) = self.listeners.get_mut(usize::from(listener))
        {
            listening.half_open -= 1;
        }
        entry.holder = Holder::Nobody;
        entry.expires = expires;
        match E::phase(&entry.tcp) {
            Phase::Closed | Phase::Listening => {}
            Phase::TimeWait if !abort => {}
            Phase::Open if !abort && E::readable(&entry.tcp) == 0 => E::shutdown(&mut entry.tcp),
            // What the peer has sent is not read by anybody: it is told so (RFC 2525 section 2.17).
            _ => E::abort(&mut entry.tcp),
        }
        self.arm(conn);
        self.mark_dirty(conn);
    }
}

impl<E: Engine> Stack<E> {
    /// Listens on a TCP port. `backlog`: connections that are not accepted yet; further SYNs are dropped, and come again. Beside them half as
    /// many handshakes may be under way. Further SYNs are answered by cookies then (RFC 4987): nothing is kept of them until the handshake is
    /// complete. Example: [the crate](crate).
    ///
    /// # Errors
    /// [`Error::PortInUse`]; [`Error::Range`] for port 0 or more than 65535 listeners.
    pub fn listen(&mut self, port: u16, backlog: usize) -> Result<Listener, Error> {
        let range = |field, value, least, most| Err(Error::Range { field, value, least, most });
        let core = &mut self.core;
        if port == 0 {
            return range("port", 0, 1, 65535);
        }
        if core.listener_of(port).is_some() {
            return Err(Error::PortInUse { port });
        }
        let at = core.listeners.iter().position(Option::is_none).unwrap_or(core.listeners.len());
        if at == core.listeners.len() {
            core.listeners.push(None);
        }
        core.listeners[at] = Some(Listening {
            port,
            backlog: backlog.max(1),
            half_open: 0,
            queue: VecDeque::new(),
            cookies_until: 0,
        });
        Ok(Listener(at as u16))
    }

    /// Listens no longer; connections that were not accepted are reset. Example: [`accept`](Stack::accept).
    pub fn close_listener(&mut self, listener: Listener) {
        let Some(slot) = self.core.listeners.get_mut(usize::from(listener.0)) else { return };
        let gone = [Holder::Handshake(listener.0), Holder::Queue(listener.0)];
        if slot.is_some() {
            for conn in self.core.connections.held_by(gone) {
                self.core.let_go(conn, true);
            }
            self.core.listeners[usize::from(listener.0)] = None;
        }
    }

    /// The next connection of a listener, if one waits. What has come for it already is told by the next poll.
    ///
    /// Two hosts, polled in turns by one thread:
    ///
    /// ```
    /// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/example_hosts.rs")); }
    /// # let (mut server, mut client, _nic) = example::hosts();
    /// let listener = server.listen(7, 16)?;
    /// let ours = client.connect("10.9.0.2:7".parse()?)?;
    /// let theirs = loop {
    ///     client.poll();
    ///     server.poll();
    ///     if let Some(conn) = server.accept(listener) {
    ///         break conn;
    ///     }
    /// };
    /// assert_eq!(server.local(theirs)?, client.remote(ours)?);
    /// assert_eq!(server.remote(theirs)?, client.local(ours)?);
    ///
    /// let room = server.room(theirs);
    /// assert_eq!(server.write(theirs, b"welcome")?, 7);
    /// assert_eq!((server.unacknowledged(theirs), server.room(theirs)), (7, room - 7));
    /// server.flush(); // the next poll would send it, too
    ///
    /// let mut bytes = [0; 64];
    /// let n = client.read_blocking(ours, &mut bytes)?;
    /// assert_eq!(&bytes[..n], b"welcome");
    /// server.close_listener(listener); // what was accepted stays
    /// server.close(theirs);
    /// assert_eq!(server.connections(), 1); // until the client has closed, too
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn accept(&mut self, listener: Listener) -> Option<Conn> {
        let listening = self.core.listeners.get_mut(usize::from(listener.0))?.as_mut()?;
        while let Some(conn) = listening.queue.pop_front() {
            if let Some(entry) = self.core.connections.get_mut(conn) {
                entry.holder = Holder::Program;
                self.core.mark_touched(conn);
                return Some(conn);
            }
        }
        None
    }

    /// Opens a connection. It is established when [`Event::Ready`] says that it is writable, and has failed when that says that it is closed.
    /// The scope id of a link-local address is ignored: a stack has one link.
    ///
    /// ```no_run
    /// use ccnic_tcp::{Event, Options, Stack};
    ///
    /// let mut stack = Stack::open("/tmp/nic.sock", &Options::new("10.9.0.3/24".parse()?))?;
    /// let conn = stack.connect("10.9.0.2:80".parse()?)?;
    /// let (mut asked, mut page, mut bytes) = (false, Vec::new(), [0; 4096]);
    /// 'all: loop {
    ///     stack.poll();
    ///     while let Some(event) = stack.next_event() {
    ///         let Event::Ready(conn, ready) = event else { continue };
    ///         if ready.writable && !asked {
    ///             asked = stack.write(conn, b"GET / HTTP/1.0\r\n\r\n")? > 0;
    ///             stack.shutdown(conn)?; // this was all
    ///         }
    ///         while let Ok(n) = stack.read(conn, &mut bytes) {
    ///             if n == 0 {
    ///                 break 'all; // the server, too, has closed
    ///             }
    ///             page.extend_from_slice(&bytes[..n]);
    ///         }
    ///         if ready.closed {
    ///             break 'all; // refused, reset or timed out
    ///         }
    ///     }
    ///     stack.wait(None)?;
    /// }
    /// stack.close(conn);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoRoute`], [`Error::NoPort`], [`Error::TooMany`].
    pub fn connect(&mut self, to: SocketAddr) -> Result<Conn, Error> {
        let core = &mut self.core;
        core.tick(); // the handshake's time begins now, not with the last poll
        let (most, remote) = (core.options.connections, to.ip());
        if core.connections.len() >= most {
            return Err(Error::TooMany { most });
        }
        let no_route = || Error::NoRoute { address: remote };
        let local = core.addresses.source(remote).filter(|_| core.options.next_hop(remote).is_some());
        let local = local.ok_or_else(no_route)?;
        let table = &core.connections;
        let taken = |port| table.has(&Tuple::between(SocketAddr::new(local, port), to));
        let port = core.ports.choose(&core.secret, local, to, taken).ok_or(Error::NoPort)?;
        let from = SocketAddr::new(local, port);
        let tuple = Tuple::between(from, to);
        let isn = core.secret.isn(core.now, &tuple, None);
        let mut tcp = core.engine.connecting(from, to, isn, core.used.pop()).map_err(|_| no_route())?;
        core.limit(&mut tcp, remote);
        let expires = core.now.saturating_add(core.options.handshake.as_micros() as u64);
        let conn = core.connections.add(Entry::new(tcp, tuple, Holder::Program, expires));
        core.arm(conn);
        core.mark_dirty(conn);
        Ok(conn)
    }

    /// Reads bytes; 0 of them when the peer has closed and all have been read. Example: [`connect`](Stack::connect).
    ///
    /// # Errors
    /// `WouldBlock`; `ConnectionReset`, `ConnectionRefused`, `TimedOut` when the connection has failed; `NotConnected` for a handle that the
    /// program has closed.
    pub fn read(&mut self, conn: Conn, to: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        // Twice: received bytes lie in a ring.
        for _ in 0..2 {
            let rest = &mut to[done..];
            let n = self.read_with(conn, |bytes| {
                let n = bytes.len().min(rest.len());
                rest[..n].copy_from_slice(&bytes[..n]);
                (n, n)
            });
            match n {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if done == 0 => return Err(e),
                Err(_) => break,
            }
            if done == to.len() {
                break;
            }
        }
        Ok(done)
    }

    /// Lends the received bytes that lie together, none when the peer has closed and all have been read; `f` returns how many of them it is
    /// done with, and anything else.
    ///
    /// # Errors
    /// As [`read`](Stack::read).
    pub fn read_with<R>(&mut self, conn: Conn, f: impl FnOnce(&[u8]) -> (usize, R)) -> io::Result<R> {
        let entry = self.core.held(conn)?;
        if E::readable(&entry.tcp) == 0 {
            if let Some(kind) = entry.error {
                return Err(kind.into());
            }
            if E::finished(&mut entry.tcp) {
                return Ok(f(&[]).1);
            }
            return match E::phase(&entry.tcp) {
                Phase::Closed => Err(io::ErrorKind::ConnectionReset.into()),
                _ => Err(io::ErrorKind::WouldBlock.into()),
            };
        }
        let result = E::read(&mut entry.tcp, f).ok_or_else(not_connected);
        self.core.mark_dirty(conn); // the peer may have to be told of room
        result
    }

    /// Writes bytes, as many as there is room for. They are sent by the next poll. Example: [`connect`](Stack::connect).
    ///
    /// # Errors
    /// `WouldBlock` when there is no room; `BrokenPipe` after [`shutdown`](Stack::shutdown), or when the connection has failed; `NotConnected`
    /// for a handle that the program has closed.
    pub fn write(&mut self, conn: Conn, bytes: &[u8]) -> io::Result<usize> {
        let mut done = 0;
        for _ in 0..2 {
            let rest = &bytes[done..];
            if rest.is_empty() {
                break;
            }
            let n = self.write_with(conn, |room| {
                let n = room.len().min(rest.len());
                room[..n].copy_from_slice(&rest[..n]);
                (n, n)
            });
            match n {
                Ok(n) => done += n,
                Err(e) if done == 0 => return Err(e),
                Err(_) => break,
            }
        }
        if done < bytes.len() {
            self.core.held(conn)?.wants_room = true;
        }
        Ok(done)
    }

    /// Lends room for bytes to send that lies together; `f` returns how many it has written, and anything else.
    ///
    /// # Errors
    /// As [`write`](Stack::write).
    pub fn write_with<R>(&mut self, conn: Conn, f: impl FnOnce(&mut [u8]) -> (usize, R)) -> io::Result<R> {
        let entry = self.core.held(conn)?;
        match E::writable(&entry.tcp) {
            Some(0) => {
                entry.wants_room = true;
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Some(_) => {}
            None if !entry.opened => {
                entry.wants_room = true;
                return Err(io::ErrorKind::WouldBlock.into());
            }
            None => return Err(entry.error.unwrap_or(io::ErrorKind::BrokenPipe).into()),
        }
        let result = E::write(&mut entry.tcp, f).ok_or_else(not_connected);
        self.core.mark_dirty(conn);
        result
    }

    /// Bytes that can be written now; 0 when the connection takes none. Example: [`accept`](Stack::accept).
    pub fn room(&mut self, conn: Conn) -> usize {
        self.core.held(conn).ok().and_then(|entry| E::writable(&entry.tcp)).unwrap_or(0)
    }

    /// Bytes that were written and that the peer has not acknowledged. Example: [`accept`](Stack::accept).
    pub fn unacknowledged(&mut self, conn: Conn) -> usize {
        self.core.held(conn).map_or(0, |entry| E::unacknowledged(&entry.tcp))
    }

    /// Sends FIN after what was written: the peer reads to the end. What it sends can still be read. Example:
    /// [`connect`](Stack::connect).
    ///
    /// # Errors
    /// `NotConnected`.
    pub fn shutdown(&mut self, conn: Conn) -> io::Result<()> {
        let entry = self.core.held(conn)?;
        E::shutdown(&mut entry.tcp);
        self.core.mark_dirty(conn);
        Ok(())
    }

    /// Gives the connection back: what was written is still sent, then FIN. Where received bytes were not read the connection is reset. The
    /// handle is worth nothing from now on. Example: [`connect`](Stack::connect).
    pub fn close(&mut self, conn: Conn) {
        if self.core.held(conn).is_ok() {
            self.core.let_go(conn, false);
        }
    }

    /// As [`close`](Stack::close), with a reset: what was written may be lost.
    pub fn abort(&mut self, conn: Conn) {
        if self.core.held(conn).is_ok() {
            self.core.let_go(conn, true);
        }
    }

    /// The peer's address and port. Example: [`accept`](Stack::accept).
    ///
    /// # Errors
    /// `NotConnected`.
    pub fn remote(&mut self, conn: Conn) -> io::Result<SocketAddr> {
        Ok(self.core.held(conn)?.tuple.remote().into())
    }

    /// The own address and port. Example: [`accept`](Stack::accept).
    ///
    /// # Errors
    /// `NotConnected`.
    pub fn local(&mut self, conn: Conn) -> io::Result<SocketAddr> {
        let entry = self.core.held(conn)?;
        let address = E::local(&entry.tcp).ok_or_else(not_connected)?;
        Ok(SocketAddr::new(address, entry.tuple.local_port()))
    }

    /// As [`write`](Stack::write), with bytes of a kept value. TCP copies them: what was sent stays in the connection's buffer until it is
    /// acknowledged.
    ///
    /// # Errors
    /// As [`write`](Stack::write); `InvalidInput` when the value has not so many bytes.
    pub fn write_kept(&mut self, conn: Conn, kept: &Kept, range: Range<usize>) -> io::Result<usize> {
        let (mut done, all) = (0, range.len());
        let mem = self.core.out.mem.clone();
        while done < all {
            let memory = &self.core.out.kept;
            let part = memory
                .parts(kept, range.start + done..range.end)
                .next()
                .map(|part| (memory.offset(&part), part.len()));
            let (at, len) = part.ok_or(io::ErrorKind::InvalidInput)?;
            match mem.with(at, len as u32, |bytes| self.write(conn, bytes)) {
                Ok(n) if n == len => done += n,
                Ok(n) => return Ok(done + n),
                Err(e) if done == 0 => return Err(e),
                Err(_) => break,
            }
        }
        Ok(done)
    }
}
