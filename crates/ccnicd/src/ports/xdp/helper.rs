//! `ccnicd-xdp`: opens queues of interfaces, which takes capabilities, and hands them over to daemons that have none.
//!
//! The operator names the interfaces, and says what they are to be like; a daemon that may connect asks for one by its name, and nobody
//! else gets it as long as that daemon is connected. What is handed over are sockets that are bound to the interface's queues, and memory
//! of packets: with these a daemon can send and receive there, and no more. The XDP program, its map and what makes the interface
//! promiscuous stay here, and go with the connection.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::memory::RegionMemory;
use anyhow::{Context, bail, ensure};
use ccnic_control::{Bound as Listening, Connection};
use ccnic_shm::Region;
use rustix::event::{PollFd, PollFlags, poll};

use super::bound::{Bound, queues};
use super::handed::{Answer, Ask, VERSION, readable};
use super::keeper::Keeper;
use super::memory;
use super::options::XdpOptions;

/// How long a daemon may take to ask.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a daemon waits for an interface of another one, which may have died just now.
const RELEASE: Duration = Duration::from_secs(2);
/// Connections at a time. Each has a thread.
const CONNECTIONS: usize = 64;

/// The interfaces, and which of them are handed over.
struct Interfaces {
    all: Vec<XdpOptions>,
    taken: Mutex<BTreeSet<String>>,
    released: Condvar,
}

/// An interface that is handed over, until this is dropped.
struct Taken<'a>(&'a Interfaces, &'a str);

/// Hands over these interfaces to who connects, until something can be read from `stop`.
///
/// # Errors
/// Of the system.
pub fn serve(socket: &Listening, interfaces: Vec<XdpOptions>, stop: BorrowedFd<'_>) -> anyhow::Result<()> {
    let interfaces =
        Arc::new(Interfaces { all: interfaces, taken: Mutex::default(), released: Condvar::new() });
    loop {
        let mut of = [PollFd::new(socket, PollFlags::IN), PollFd::from_borrowed_fd(stop, PollFlags::IN)];
        let _ = poll(&mut of, None); // interrupted: as if there were something
        let [_, stopped] = &of;
        if !stopped.revents().is_empty() {
            return Ok(());
        }
        match socket.accept() {
            // Beside this one, each connection has one reference. One too many is closed.
            Ok(Some(connection)) if Arc::strong_count(&interfaces) <= CONNECTIONS => {
                let interfaces = Arc::clone(&interfaces);
                let thread = std::thread::Builder::new().name("ccnicd-xdp".to_owned());
                if let Err(e) = thread.spawn(move || interfaces.attend(&connection)) {
                    tracing::warn!("no thread for a daemon, which may try again: {e}");
                }
            }
            Ok(_) => {}
            Err(e) => {
                tracing::warn!("{e}");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

impl Interfaces {
    /// Serves a daemon as long as it is connected.
    fn attend(&self, to: &Connection) {
        let (pid, uid) = to.peer().map_or((0, u32::MAX), |peer| (peer.pid, peer.uid));
        match self.hand_over(to) {
            Ok(interface) => tracing::info!(interface, pid, uid, "taken back"),
            Err(e) => {
                tracing::warn!(pid, uid, "refused: {e:#}");
                let _ = to.send_now(&Answer::Refused(format!("{e:#}")), None); // it may have gone
            }
        }
    }

    /// Hands over what is asked for, and waits until the daemon has gone; returns what it was.
    fn hand_over(&self, to: &Connection) -> anyhow::Result<&str> {
        ensure!(readable(to, PATIENCE), "nothing was asked for {} s", PATIENCE.as_secs());
        let (Ask { version, interface }, _) = to.receive()?.context("it has gone")?;
        ensure!(version == VERSION, "ccnicd speaks version {version}, ccnicd-xdp {VERSION}: use one release");
        let Some(options) = self.all.iter().find(|options| options.name == interface) else {
            let all: Vec<_> = self.all.iter().map(|options| &*options.name).collect();
            bail!("this helper has {} and not {interface:?}: name it with --interface", all.join(", "))
        };
        let _taken = self.take(&options.name)?;
        let queues = queues(options)?;
        let region = memory(options, queues)?;
        let mem = region.memory();
        let mut bound = Bound::open(options, queues, &mem)?;
        bound.log(&options.name);
        let keeper = Keeper::start(options.clone(), queues, mem, &bound)?;
        let mut passing = Some(&region);
        loop {
            send(to, options, &bound, passing.take())?;
            // Whatever it says, or when it goes: that was it.
            let again = loop {
                let mut of = [PollFd::new(to, PollFlags::IN), keeper.calls()];
                let _ = poll(&mut of, None); // interrupted: as if there were something
                let [gone, _] = &of;
                if !gone.revents().is_empty() {
                    return Ok(&options.name);
                }
                if let Some(again) = keeper.take() {
                    break again;
                }
            };
            keeper.close(std::mem::replace(&mut bound, again));
        }
    }

    fn take<'a>(&'a self, interface: &'a str) -> anyhow::Result<Taken<'a>> {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.released.wait_timeout_while(taken, RELEASE, |taken| taken.contains(interface));
        let (mut taken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        ensure!(taken.insert(interface.to_owned()), "another daemon has {interface}: end that one");
        Ok(Taken(self, interface))
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let Taken(interfaces, interface) = self;
        interfaces.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(*interface);
        interfaces.released.notify_all();
    }
}

/// Sends what is bound, the first time with the memory.
fn send(to: &Connection, options: &XdpOptions, bound: &Bound, region: Option<&Region>) -> anyhow::Result<()> {
    let sockets = bound.lanes.iter().map(|lane| lane.socket.as_fd());
    let passing: Vec<_> = region.into_iter().map(AsFd::as_fd).chain(sockets).collect();
    to.send_many(&Answer::Handed { ring: options.ring, facts: bound.facts }, &passing)?;
    Ok(())
}
