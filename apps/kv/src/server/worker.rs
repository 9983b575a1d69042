//! A server thread: its clients, its datagrams, its shard of the store.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use super::chores::{Chores, DISCONNECTED};
use super::client::{Client, Stay, Stream};
use super::datagrams::Datagrams;
use super::poller::Poller;
use super::unix_time;
use crate::protocol::{Endpoint, Output, Server};
use crate::store::Store;

/// New clients that are taken at once.
const NEW: usize = 64;
/// How much is read at once.
const READ: usize = 64 << 10;
/// Pieces and bytes that are written at once.
const PIECES: usize = 64;
const WRITE: usize = 256 << 10;
const DOORBELL: u64 = u64::MAX;
/// Tokens from here on are sockets for datagrams, those below are clients.
const DATAGRAMS: u64 = 1 << 32;

/// A client that has just been accepted: its socket, its end and ours.
#[derive(Debug)]
pub(crate) struct NewClient {
    pub(crate) fd: OwnedFd,
    pub(crate) address: Endpoint,
    pub(crate) server: Endpoint,
}

/// How others reach a worker.
#[derive(Debug)]
pub(crate) struct Mailbox {
    clients: Mutex<Vec<NewClient>>,
    stop: AtomicBool,
    bell: OwnedFd,
}

impl Mailbox {
    pub(crate) fn new() -> io::Result<Mailbox> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Mailbox { clients: Mutex::new(Vec::new()), stop: AtomicBool::new(false), bell })
    }

    /// A new client for it.
    pub(crate) fn give(&self, client: NewClient) {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner).push(client);
        self.ring();
    }

    /// It ends when it has sent what there is room for.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.ring();
    }

    /// True once it is to end.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// The only failure is a bell that has rung often enough.
    fn ring(&self) {
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

/// A client's socket, and where it is read to.
struct Socket<'a> {
    fd: &'a OwnedFd,
    buffer: &'a mut [u8],
}

impl Stream for Socket<'_> {
    const TURNS: usize = 4;

    fn read(&mut self, take: impl FnOnce(&[u8])) -> io::Result<(usize, bool)> {
        let count = rustix::io::read(self.fd, &mut *self.buffer)?;
        take(&self.buffer[..count]);
        // Less than there was room for was all there was.
        Ok((count, count == self.buffer.len()))
    }

    fn write(&mut self, output: &Output) -> io::Result<usize> {
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let (mut count, mut room) = (0, WRITE);
        for (piece, segment) in pieces.iter_mut().zip(output.segments()) {
            let segment = &segment[..segment.len().min(room)];
            *piece = IoSlice::new(segment);
            (count, room) = (count + 1, room - segment.len());
            if room == 0 {
                break;
            }
        }
        Ok(rustix::io::writev(self.fd, &pieces[..count])?)
    }
}

/// What a worker works with.
pub(crate) struct Worker {
    pub(crate) number: usize,
    pub(crate) store: Arc<Store>,
    pub(crate) server: Arc<Server>,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) datagrams: Vec<Datagrams>,
}

/// A thread while it runs.
struct Running {
    worker: Worker,
    poller: Poller,
    clients: HashMap<u64, (OwnedFd, Client)>,
    /// Clients that have more to do than one turn permits.
    again: Vec<u64>,
    next: u64,
    buffer: Box<[u8]>,
}

impl Worker {
    /// Serves until it is told to stop.
    pub(crate) fn run(self) -> io::Result<()> {
        let poller = Poller::new()?;
        poller.add(&self.mailbox.bell, DOORBELL, false)?;
        for (number, datagrams) in self.datagrams.iter().enumerate() {
            poller.add(&datagrams.socket, DATAGRAMS + number as u64, true)?;
        }
        let buffer = vec![0; READ].into();
        let mut running =
            Running { worker: self, poller, clients: HashMap::new(), again: Vec::new(), next: 0, buffer };
        running.serve()
    }
}

impl Running {
    fn serve(&mut self) -> io::Result<()> {
        let mut ready = Vec::new();
        let mut chores = Chores::new(self.worker.number, unix_time());
        while !self.worker.mailbox.stopped() && !self.worker.server.ended.load(Ordering::Relaxed) {
            ready.clear();
            ready.extend(self.poller.wait(if self.again.is_empty() && !chores.waits() {
                1000
            } else {
                0
            })?);
            let now = unix_time();
            for token in &self.again {
                if let Some((_, client)) = self.clients.get_mut(token) {
                    client.waits = false;
                }
            }
            ready.append(&mut self.again);
            for token in &ready {
                self.turn(*token, now)?;
            }
            if chores.sweep(&self.worker.store, now) {
                let all = self.disconnect_idle(now);
                chores.disconnected(all);
            }
        }
        let all: Vec<u64> = self.clients.keys().copied().collect();
        all.into_iter().for_each(|token| self.remove(token));
        Ok(())
    }

    fn turn(&mut self, token: u64, now: u32) -> io::Result<()> {
        let worker = &mut self.worker;
        match token {
            DOORBELL => self.take_clients(now),
            DATAGRAMS.. => {
                let number = (token - DATAGRAMS) as usize;
                worker.datagrams[number].turn(&mut self.buffer, &worker.store, &worker.server, now);
                Ok(())
            }
            token => {
                let Some((fd, client)) = self.clients.get_mut(&token) else { return Ok(()) };
                let blocked = client.blocked;
                let mut socket = Socket { fd, buffer: &mut self.buffer };
                let stays = client.turn(&mut socket, &worker.store, &worker.server, now);
                if stays == Stay::No {
                    self.remove(token);
                    return Ok(());
                }
                if stays == Stay::Again && !std::mem::replace(&mut client.waits, true) {
                    self.again.push(token);
                }
                if client.blocked != blocked {
                    self.poller.wait_for_room(fd, token, client.blocked)?;
                }
                Ok(())
            }
        }
    }

    fn take_clients(&mut self, now: u32) -> io::Result<()> {
        let mailbox = &self.worker.mailbox;
        let _ = rustix::io::read(&mailbox.bell, &mut [0u8; 8][..]);
        let mut clients = mailbox.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let some = clients.len().min(NEW);
        let new: Vec<NewClient> = clients.drain(..some).collect();
        if !clients.is_empty() {
            mailbox.ring();
        }
        drop(clients);
        for NewClient { fd, address, server } in new {
            let token = self.next % DATAGRAMS;
            self.next += 1;
            self.poller.add(&fd, token, false)?;
            let listed = self.worker.server.connections.add(address, Some(server), now);
            self.clients.insert(token, (fd, Client::new(listed, now)));
        }
        Ok(())
    }

    fn remove(&mut self, token: u64) {
        if let Some((_, mut client)) = self.clients.remove(&token) {
            client.end(&self.worker.store);
            self.worker.server.counters.current_connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// False: there are more.
    fn disconnect_idle(&mut self, now: u32) -> bool {
        let limit = self.worker.server.settings.idle_timeout;
        if limit == 0 {
            return true;
        }
        let idle = |client: &Client| now.saturating_sub(client.heard) > limit;
        let over = self.clients.iter().filter(|(_, (_, client))| idle(client)).map(|(token, _)| *token);
        let over: Vec<u64> = over.take(DISCONNECTED).collect();
        let all = over.len() < DISCONNECTED;
        for token in over {
            self.remove(token);
            self.worker.server.counters.idle_kicks.fetch_add(1, Ordering::Relaxed);
        }
        all
    }
}
