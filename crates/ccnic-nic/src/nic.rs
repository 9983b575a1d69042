//! The socket that programs attach to, and the programs that wait to be accepted.

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

use crate::error::Error;
use crate::options::NicOptions;
use crate::program::Program;
use crate::shared::Registry;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A NIC: a socket that programs attach to as to ccnicd. Any thread may call; one at a time [polls](Nic::poll).
///
/// Drop the programs first: dropping a NIC waits a second at most for what is left of them. Programs that nobody has accepted are
/// disconnected.
///
/// [The crate](crate) has an example.
#[derive(Debug)]
pub struct Nic {
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
    arrived: Mutex<VecDeque<Program>>,
    registry: Registry,
}

impl Nic {
    /// Options to make a NIC with. Example: [`NicOptions`].
    pub fn options() -> NicOptions {
        NicOptions::new()
    }

    pub(crate) fn new(socket: &Path, options: &NicOptions) -> Result<Nic, Error> {
        let listener = Mutex::new(Listener::new(socket, options.limits.clone())?);
        if !options.keeps_sigbus {
            ccnic_shm::survive_holes().map_err(Error::Sigbus)?;
        }
        let control = Control {
            name: options.name.clone(),
            node: options.node,
            takes: AtomicU32::new(options.takes.bits()),
            sleeps: options.sleeps,
            spreads: options.spreads,
            started: Instant::now(),
            arrived: Mutex::default(),
            registry: Registry::default(),
        };
        Ok(Nic { control, listener })
    }

    /// Answers requests of programs: attaches them, tells their status, notices that they have ended. Waits for requests at most
    /// `timeout` (`None`: without limit). Returns how many programs wait to be [accepted](Nic::accept). Programs wait for the answers: ten
    /// calls a second suffice. It makes system calls, so it does not belong into a polling loop.
    /// [The crate](crate) has an example.
    ///
    /// # Errors
    /// [`Error::Polled`].
    pub fn poll(&self, timeout: Option<Duration>) -> Result<usize, Error> {
        let mut listener = match self.listener.try_lock() {
            Ok(listener) => listener,
            Err(TryLockError::Poisoned(listener)) => listener.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(Error::Polled),
        };
        listener.poll(&mut &self.control, None, timeout);
        Ok(self.control.arrived().len())
    }

    /// Takes over the next program that has attached, if one has. What it has sent since then is in its rings.
    /// [The crate](crate) has an example.
    pub fn accept(&self) -> Option<Program> {
        let program = self.control.arrived().pop_front()?;
        program.accept();
        Some(program)
    }

    /// What the NIC takes of what programs request in the metadata of their packets, as programs are told that attach from now on: at first
    /// nothing. Whatever this says, a program is handed only what [it takes](Program::takes) itself. Example:
    /// [`Program`].
    pub fn set_takes(&self, takes: Takes) {
        self.control.takes.store(takes.bits(), Ordering::Relaxed);
    }

    /// True while programs are accepted and not dropped. Example: [`Program`].
    pub fn has_programs(&self) -> bool {
        self.control.registry.any_accepted()
    }
}

impl Control {
    fn arrived(&self) -> MutexGuard<'_, VecDeque<Program>> {
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
        self.arrived().push_back(Program::new(request, self.registry.clone()));
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
