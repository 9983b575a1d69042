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

/// Sockets in an epoll instance.
pub(crate) struct Kernel {
    epoll: OwnedFd,
    listener: Option<TcpListener>,
    conns: Vec<Option<TcpStream>>,
    free: Vec<usize>,
    events: Vec<epoll::Event>,
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
        })
    }

    pub(crate) fn listen(port: u16) -> io::Result<Kernel> {
        Kernel::new(Some(TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))?))
    }

    pub(crate) fn connect(to: SocketAddr, flows: usize) -> io::Result<Kernel> {
        let mut this = Kernel::new(None)?;
        for _ in 0..flows {
            this.keep(TcpStream::connect(to)?)?;
        }
        Ok(this)
    }

    fn keep(&mut self, stream: TcpStream) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let index = self.free.pop().unwrap_or_else(|| {
            self.conns.push(None);
            self.conns.len() - 1
        });
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &stream, epoll::EventData::new_u64(index as u64), flags)?;
        self.conns[index] = Some(stream);
        Ok(())
    }

    fn accept(&mut self) {
        while let Some(Ok((stream, _))) = self.listener.as_ref().map(TcpListener::accept) {
            let _ = self.keep(stream); // one that cannot be watched is closed
        }
    }

    fn conn(&mut self, index: usize) -> io::Result<&mut TcpStream> {
        self.conns.get_mut(index).and_then(Option::as_mut).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Net for Kernel {
    fn poll(&mut self, sleep: Duration) -> io::Result<()> {
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
        self.conn(conn)?.read(to)
    }

    fn write(&mut self, conn: usize, bytes: &[u8]) -> io::Result<usize> {
        self.conn(conn)?.write(bytes)
    }

    fn close(&mut self, conn: usize) {
        if self.conns.get_mut(conn).and_then(Option::take).is_some() {
            self.free.push(conn);
        }
    }
}
