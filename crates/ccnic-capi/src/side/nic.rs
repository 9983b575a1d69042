//! A NIC as C holds it: its socket, and the programs that have come and wait to be taken over.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use ccnic_control::messages::{Hello, Status};
use ccnic_control::{AttachRequest, ClientId, Handler, Listener, Notifier};
use rustix::io::Errno;

use super::CcnicNicOptions;
use super::program::{Program, Shared};
use crate::errno::Failure;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const POLLED: Failure = Failure::new(Errno::BUSY, c"another thread is in ccnic_nic_poll");
const NONE_CAME: Failure = Failure::new(Errno::AGAIN, c"no program has come that was not accepted");

/// `struct ccnic_nic`.
#[derive(Debug)]
pub struct ListeningNic {
    /// Of the thread that polls.
    listener: Mutex<Listener>,
    desk: Desk,
}

/// What programs ask of the NIC ends here.
#[derive(Debug)]
struct Desk {
    name: String,
    node: u32,
    started: Instant,
    programs: Arc<Mutex<Programs>>,
}

/// The programs that are attached.
#[derive(Debug, Default)]
pub(super) struct Programs {
    /// Not accepted yet.
    arrived: VecDeque<Box<Program>>,
    /// Accepted and not released.
    accepted: Vec<Arc<Shared>>,
}

impl Programs {
    /// Forgets a program that the NIC has let go.
    pub(super) fn release(&mut self, id: ClientId) {
        self.accepted.retain(|shared| shared.id != id);
    }
}

impl ListeningNic {
    pub(super) fn new(
        socket: &Path,
        name: String,
        options: &CcnicNicOptions,
    ) -> Result<ListeningNic, Failure> {
        let listener = Mutex::new(Listener::new(socket, options.limits())?);
        if !options.keeps_sigbus() {
            ccnic_shm::survive_holes().map_err(|e| {
                Failure::said(
                    Errno::from_io_error(&e).unwrap_or(Errno::IO),
                    &format!("could not watch for SIGBUS: {e}"),
                )
            })?;
        }
        let desk = Desk { name, node: options.node, started: Instant::now(), programs: Arc::default() };
        Ok(ListeningNic { listener, desk })
    }

    /// Deals with what programs ask, for at most `timeout` (`None`: until one asks something); returns how many wait to be accepted.
    pub(super) fn poll(&self, timeout: Option<Duration>) -> Result<usize, Failure> {
        let mut listener = match self.listener.try_lock() {
            Ok(listener) => listener,
            Err(TryLockError::Poisoned(listener)) => listener.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(POLLED),
        };
        listener.poll(&mut &self.desk, None, timeout)?;
        Ok(self.desk.programs().arrived.len())
    }

    /// The next program that has come.
    pub(super) fn accept(&self) -> Result<Box<Program>, Failure> {
        let mut programs = self.desk.programs();
        let program = programs.arrived.pop_front().ok_or(NONE_CAME)?;
        programs.accepted.push(Arc::clone(&program.shared));
        Ok(program)
    }

    /// True while programs are accepted and not released.
    pub(super) fn busy(&self) -> bool {
        !self.desk.programs().accepted.is_empty()
    }
}

impl Desk {
    fn programs(&self) -> MutexGuard<'_, Programs> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Handler for &Desk {
    fn hello(&self) -> Hello {
        Hello { version: VERSION.to_owned(), node: self.node, rss: false }
    }

    fn status(&self) -> Status {
        let programs = self.programs();
        let arrived = programs.arrived.iter().map(|program| &program.shared);
        Status {
            version: VERSION.to_owned(),
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            wire: self.name.clone(),
            cores: Vec::new(),
            programs: programs.accepted.iter().chain(arrived).map(|shared| shared.status()).collect(),
        }
    }

    fn attach(&mut self, arrival: AttachRequest) -> Result<(), String> {
        self.programs().arrived.push_back(Box::new(Program::new(arrival, Arc::downgrade(&self.programs))));
        Ok(())
    }

    /// The notifier waits for the queue's thread.
    fn notify(&mut self, id: ClientId, queue: u16, notifier: Notifier) -> Result<(), String> {
        let programs = self.programs();
        let arrived = programs.arrived.iter().map(|program| &program.shared);
        let shared = programs.accepted.iter().chain(arrived).find(|shared| shared.id == id);
        let mailbox = shared.and_then(|shared| shared.notifiers.get(usize::from(queue)));
        mailbox.ok_or("the NIC has let it go")?.put(notifier);
        Ok(())
    }

    fn detach(&mut self, id: ClientId) {
        let programs = self.programs();
        let arrived = programs.arrived.iter().map(|program| &program.shared);
        for shared in programs.accepted.iter().chain(arrived).filter(|shared| shared.id == id) {
            shared.gone.store(true, Ordering::Release);
        }
    }
}
