//! The thread that binds a port again when its interface, which has gone, returns: opening sockets takes long, so the polling thread does not.
//!
//! It sleeps until the kernel tells of a change of some interface. An interface is the same one for as long as it is in this network
//! namespace, whatever its name is meanwhile. When it leaves, the program and the sockets go; the next interface with the port's name takes its
//! place, be it the same one that has returned, with the same index or another.
//!
//! Where a [helper](super::helper) has bound the port, such a thread is there, and the one here waits for what it hands over.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::Context;
use ccnic_shm::NativeMemory;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::netdevice::name_to_index;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

use super::bound::{Bound, Facts, Tie};
use super::handed::Hands;
use super::options::XdpOptions;

/// `RTMGRP_LINK`: messages on changes of interfaces.
const LINKS: u32 = 1;
/// While there is no interface the thread looks so often whether it has missed a message.
const RETRY: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The port's side. The thread ends when it is dropped.
#[derive(Debug)]
pub(super) struct Keeper {
    bound: Receiver<Bound>,
    closing: Sender<Bound>,
    notifier: UnixStream,
}

impl Keeper {
    /// Watches the interface that the port with these options and so many queues is bound to. `mem` is the port's memory.
    ///
    /// # Errors
    /// Of the system.
    pub(super) fn start(
        options: XdpOptions,
        queues: u16,
        mem: NativeMemory,
        bound: &Bound,
    ) -> anyhow::Result<Keeper> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let changes =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None).context("no netlink socket")?;
        bind(&changes, &SocketAddrNetlink::new(0, LINKS)).context("could not watch interfaces")?;
        Keeper::spawn(|ways| {
            let (tie, facts) = (bound.tie(), bound.facts);
            let mut watch = Watch { options, queues, mem, tie, facts, gone: false, changes, ways };
            move || watch.run()
        })
    }

    /// Waits for what a helper hands over later. `mem` is the port's memory.
    ///
    /// # Errors
    /// Of the system.
    pub(super) fn start_helped(
        options: XdpOptions,
        hands: Hands,
        mem: NativeMemory,
    ) -> anyhow::Result<Keeper> {
        Keeper::spawn(|ways| move || helped(&options, hands, &mem, &ways))
    }

    fn spawn<F: FnOnce() + Send + 'static>(of: impl FnOnce(Ways) -> F) -> anyhow::Result<Keeper> {
        let (notifier, notified) = UnixStream::pair().context("no pair of sockets")?;
        notifier
            .set_nonblocking(true)
            .and_then(|()| notified.set_nonblocking(true))
            .context("no pair of sockets")?;
        let ((give, bound), (closing, close)) = (channel(), channel());
        std::thread::Builder::new()
            .name("ccnicd-xdp".to_owned())
            .spawn(of(Ways { notified, give, close }))
            .context("could not start a thread")?;
        Ok(Keeper { bound, closing, notifier })
    }

    /// What has been bound to an interface that has returned; or nothing but that it has gone.
    pub(super) fn take(&self) -> Option<Bound> {
        let bound = self.bound.try_recv().ok()?;
        let _ = recv(&self.notifier, &mut [0; 16][..], RecvFlags::DONTWAIT);
        Some(bound)
    }

    /// Readable while there is something to take.
    pub(super) fn calls(&self) -> PollFd<'_> {
        PollFd::new(&self.notifier, PollFlags::IN)
    }

    /// Closes what was bound before, elsewhere.
    pub(super) fn close(&self, old: Bound) {
        let _ = self.closing.send(old); // if the thread has ended, here
        let _ = send(&self.notifier, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}

/// The thread's ways to the port.
struct Ways {
    notified: UnixStream,
    give: Sender<Bound>,
    close: Receiver<Bound>,
}

impl Ways {
    /// False when there is no port any more.
    fn give(&self, bound: Bound) -> bool {
        let given = self.give.send(bound).is_ok();
        let _ = send(&self.notified, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL); // the polling thread may sleep
        given
    }

    /// Closes what was bound before; false when there is no port any more.
    fn tidy(&self) -> bool {
        self.close.try_iter().for_each(drop);
        !matches!((&self.notified).read(&mut [0; 16]), Ok(0))
    }
}

/// Gives the port what a helper hands over, until that one or the port goes.
fn helped(options: &XdpOptions, hands: Hands, mem: &NativeMemory, ways: &Ways) {
    let mut hands = Some(hands);
    loop {
        let mut of = vec![PollFd::new(&ways.notified, PollFlags::IN)];
        of.extend(hands.as_ref().map(|hands| PollFd::new(hands, PollFlags::IN)));
        let _ = poll(&mut of, None); // interrupted: as if there were something
        let (interface, says) = (&options.name, of.get(1).is_some_and(|of| !of.revents().is_empty()));
        if !ways.tidy() {
            return;
        }
        let Some(from) = hands.as_ref().filter(|_| says) else { continue };
        match from.next(options, mem) {
            Ok(bound) => {
                bound.log(interface);
                if !ways.give(bound) {
                    return;
                }
            }
            Err(e) => {
                tracing::warn!(
                    interface,
                    "its helper hands over nothing more, and its port gets nothing until ccnicd is restarted: {e:#}"
                );
                hands = None;
            }
        }
    }
}

/// The thread's side where the port is bound here.
struct Watch {
    options: XdpOptions,
    queues: u16,
    mem: NativeMemory,
    tie: Tie,
    facts: Facts,
    gone: bool,
    changes: OwnedFd,
    ways: Ways,
}

impl Watch {
    fn run(&mut self) {
        loop {
            if !self.gone && self.tie.is_cut() {
                self.gone = true;
                let nothing = Bound::nothing(self.facts, &self.options);
                nothing.log(&self.options.name);
                if !self.ways.give(nothing) {
                    return;
                }
            }
            let returned = self.gone && name_to_index(&self.changes, &self.options.name).is_ok();
            if returned && !self.bind_again() || !self.wait() {
                return;
            }
        }
    }

    /// Waits until something may have changed; false when the port has been closed.
    fn wait(&mut self) -> bool {
        let mut of =
            [PollFd::new(&self.changes, PollFlags::IN), PollFd::new(&self.ways.notified, PollFlags::IN)];
        let _ = poll(&mut of, self.gone.then_some(&RETRY)); // interrupted: as if something had changed
        let mut message = [0; 4096];
        while recv(&self.changes, &mut message[..], RecvFlags::DONTWAIT).is_ok() {}
        self.ways.tidy()
    }

    /// False when there is no port any more.
    fn bind_again(&mut self) -> bool {
        match Bound::open(&self.options, self.queues, &self.mem) {
            Ok(bound) => {
                (self.tie, self.facts) = (bound.tie(), bound.facts);
                self.gone = false;
                bound.log(&self.options.name);
                self.ways.give(bound)
            }
            Err(e) => {
                tracing::warn!(
                    interface = self.options.name,
                    "the interface has returned and cannot be used yet: {e:#}"
                );
                true
            }
        }
    }
}
