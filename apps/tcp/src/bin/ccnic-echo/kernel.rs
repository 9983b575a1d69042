//! Over the kernel's sockets: epoll, edge-triggered.

use std::io::{self, Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};

use crate::net::Net;

const LISTENER: u64 = u64::MAX;
const EVENTS: usize = 256;
/// Connections that nothing has come for yet, at most: fewer than the backlog of a listener that this thread may have to serve, too.
const OPENING: usize = 256;
/// The longest backlog; the kernel has a limit of its own.
const BACKLOG: i32 = 4096;

/// Sockets in an epoll instance.
pub(crate) struct Kernel {
    epoll: OwnedFd,
    listener: Option<TcpListener>,
    conns: Vec<Option<Link>>,
    free: Vec<usize>,
    events: Vec<epoll::Event>,
    /// Connections that are still to be begun, and to whom.
    rest: Option<(SocketAddr, usize)>,
    /// How long each may take.
    limit: Option<Duration>,
    /// Those that nothing has come for yet.
    opening: usize,
}

/// A connection.
struct Link {
    stream: TcpStream,
    /// It was begun here, and nothing has come for it yet.
    opening: bool,
}

impl Kernel {
    fn new(listener: Option<TcpListener>) -> io::Result<Kernel> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        if let Some(listener) = &listener {
            listener.set_nonblocking(true)?;
            epoll::add(&epoll, listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
        }
        Ok(Kernel {
            epoll,
            listener,
            conns: Vec::new(),
            free: Vec::new(),
            events: Vec::with_capacity(EVENTS),
            rest: None,
            limit: None,
            opening: 0,
        })
    }

    pub(crate) fn listen(port: u16) -> io::Result<Kernel> {
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))?;
        rustix::net::listen(&listener, BACKLOG)?; // the standard library's is 128
        Kernel::new(Some(listener))
    }

    pub(crate) fn connect(to: SocketAddr, flows: usize, limit: Option<Duration>) -> io::Result<Kernel> {
        let mut this = Kernel::new(None)?;
        (this.rest, this.limit) = (Some((to, flows)), limit);
        this.begin()?;
        Ok(this)
    }

    /// Begins further connections.
    fn begin(&mut self) -> io::Result<()> {
        while let Some((to, left @ 1..)) = self.rest
            && self.opening < OPENING
        {
            let stream = match self.limit {
                Some(limit) => TcpStream::connect_timeout(&to, limit)?,
                None => TcpStream::connect(to)?,
            };
            self.keep(Link { stream, opening: true })?;
            self.opening += 1;
            self.rest = Some((to, left - 1));
        }
        Ok(())
    }

    fn keep(&mut self, link: Link) -> io::Result<()> {
        let stream = &link.stream;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let index = self.free.pop().unwrap_or_else(|| {
            self.conns.push(None);
            self.conns.len() - 1
        });
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&self.epoll, stream, epoll::EventData::new_u64(index as u64), flags)?;
        self.conns[index] = Some(link);
        Ok(())
    }

    fn accept(&mut self) {
        while let Some(Ok((stream, _))) = self.listener.as_ref().map(TcpListener::accept) {
            let _ = self.keep(Link { stream, opening: false }); // one that cannot be watched is closed
        }
    }

    fn conn(&mut self, index: usize) -> io::Result<&mut Link> {
        self.conns.get_mut(index).and_then(Option::as_mut).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Net for Kernel {
    fn poll(&mut self, sleep: Duration) -> io::Result<()> {
        self.begin()?;
        self.events.clear();
        let timeout = Timespec::try_from(sleep).map_err(io::Error::other)?;
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn ready(&mut self) -> Option<usize> {
        loop {
            let event = self.events.pop()?;
            match event.data.u64() {
                LISTENER => self.accept(),
                index => return Some(index as usize),
            }
        }
    }

    fn read(&mut self, conn: usize, to: &mut [u8]) -> io::Result<usize> {
        let link = self.conn(conn)?;
        let n = link.stream.read(to)?;
        if std::mem::take(&mut link.opening) {
            self.opening -= 1;
        }
        Ok(n)
    }

    fn write(&mut self, conn: usize, bytes: &[u8]) -> io::Result<usize> {
        self.conn(conn)?.stream.write(bytes)
    }

    fn close(&mut self, conn: usize) {
        if self.conns.get_mut(conn).and_then(Option::take).is_some() {
            self.free.push(conn);
        }
    }
}
