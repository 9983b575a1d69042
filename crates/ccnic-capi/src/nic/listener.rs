//! `struct ccnic_nic`: the socket that programs attach to, and the programs that wait to be accepted.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use ccnic::rss::Rss;
use ccnic_control::messages::{Cursor, Hello, PROTOCOL, Status};
use ccnic_control::offloads::Offloads;
use ccnic_control::{AttachRequest, ClientId, Handler, Listener, Notifier};
use ccnic_frame::Takes;
use rustix::io::Errno;

use super::abi::CcnicNicOptions;
use super::program::CcnicProgram;
use super::shared::Registry;
use crate::errno::Failure;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const POLLED: Failure = Failure::new(Errno::BUSY, c"another thread is in ccnic_nic_poll");
const NONE_CAME: Failure = Failure::new(Errno::AGAIN, c"no program waits to be accepted");

/// `struct ccnic_nic`.
#[derive(Debug)]
pub struct CcnicNic {
    /// Goes first: programs that nobody has accepted go with it, and then their connections can end.
    control: Control,
    /// Locked by the thread that polls.
    listener: Mutex<Listener>,
}

/// Answers the requests of programs.
#[derive(Debug)]
struct Control {
    name: String,
    node: u32,
    /// What it takes of the requests in metadata: [`Takes::bits`].
    takes: AtomicU32,
    /// It sleeps, and programs wake it.
    sleeps: bool,
    /// It spreads packets as programs say.
    spreads: bool,
    started: Instant,
    /// Attached and not accepted, in their order.
    arrived: Mutex<VecDeque<Box<CcnicProgram>>>,
    registry: Registry,
}

impl CcnicNic {
    pub(crate) fn new(socket: &Path, name: String, options: &CcnicNicOptions) -> Result<CcnicNic, Failure> {
        let listener = Mutex::new(Listener::new(socket, options.limits())?);
        if !options.keeps_sigbus() {
            ccnic_shm::survive_holes().map_err(|e| {
                let errno = Errno::from_io_error(&e).unwrap_or(Errno::IO);
                Failure::with_text(errno, &format!("could not install the SIGBUS handler: {e}"))
            })?;
        }
        let control = Control {
            name,
            node: options.node,
            takes: AtomicU32::new(Takes::NONE.bits()),
            sleeps: options.sleeps(),
            spreads: options.spreads(),
            started: Instant::now(),
            arrived: Mutex::default(),
            registry: Registry::default(),
        };
        Ok(CcnicNic { control, listener })
    }

    /// Answers requests of programs; waits for them at most `timeout` (`None`: no limit). Returns how many programs wait to be
    /// accepted.
    pub(crate) fn poll(&self, timeout: Option<Duration>) -> Result<usize, Failure> {
        let mut listener = match self.listener.try_lock() {
            Ok(listener) => listener,
            Err(TryLockError::Poisoned(listener)) => listener.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(POLLED),
        };
        listener.poll(&mut &self.control, None, timeout);
        Ok(self.control.arrived().len())
    }

    /// Takes over the next program that has attached.
    pub(crate) fn accept(&self) -> Result<Box<CcnicProgram>, Failure> {
        let program = self.control.arrived().pop_front().ok_or(NONE_CAME)?;
        program.accept();
        Ok(program)
    }

    /// What programs are told that greet the NIC from now on.
    pub(crate) fn set_takes(&self, takes: Takes) {
        self.control.takes.store(takes.bits(), Ordering::Relaxed);
    }

    /// True while programs are accepted and not released.
    pub(crate) fn busy(&self) -> bool {
        self.control.registry.any_accepted()
    }
}

impl Control {
    fn arrived(&self) -> MutexGuard<'_, VecDeque<Box<CcnicProgram>>> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handler for &Control {
    fn hello(&self) -> Hello {
        Hello {
            version: VERSION.to_owned(),
            protocol: PROTOCOL,
            node: self.node,
            rss: self.spreads,
            sleeps: self.sleeps,
            kept: true,
            offloads: Some(Offloads::completed(Takes::from_bits(self.takes.load(Ordering::Relaxed)))),
            ..Hello::default()
        }
    }

    fn status(&self, from: Cursor) -> Status {
        let (programs, next) = self.registry.status(from);
        Status {
            version: VERSION.to_owned(),
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            wire: self.name.clone(),
            programs,
            next,
            ..Status::default()
        }
    }

    fn attach(&mut self, request: AttachRequest) -> Result<(), String> {
        self.arrived().push_back(Box::new(CcnicProgram::new(request, self.registry.clone())));
        Ok(())
    }

    /// The queues' threads follow it from their next bursts on.
    fn set_rss(&mut self, id: ClientId, rss: Option<Rss>) -> Result<(), String> {
        self.registry.set_rss(id, rss);
        Ok(())
    }

    fn set_takes(&mut self, id: ClientId, takes: Takes) {
        self.registry.set_takes(id, takes);
    }

    /// The queue's thread takes the notifier in its next burst.
    fn notify(&mut self, id: ClientId, queue: u16, notifier: Notifier) -> Result<(), String> {
        if self.registry.deliver(id, queue, notifier) {
            Ok(())
        } else {
            Err("the NIC has released it".into())
        }
    }

    fn detach(&mut self, id: ClientId) {
        self.registry.mark_gone(id);
    }
}
