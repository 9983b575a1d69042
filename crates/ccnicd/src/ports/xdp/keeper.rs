//! The thread that binds a port again when its interface, which has gone, returns: opening sockets takes long, so the polling thread does not.
//!
//! It sleeps until the kernel tells of a change of some interface. An interface is the same one for as long as it has its index, whatever
//! its name is meanwhile; when there is none with that index any more, the next one with the port's name takes its place.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::Context;
use ccnic_shm::NativeMemory;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::netdevice::{index_to_name, name_to_index};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

use super::bound::Bound;
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
    bell: UnixStream,
}

impl Keeper {
    /// Watches an interface, which the port with these options and so many queues is bound to. `mem` is the port's memory.
    ///
    /// # Errors
    /// Of the system.
    pub(super) fn start(
        options: XdpOptions,
        queues: u16,
        mem: NativeMemory,
        interface: u32,
    ) -> anyhow::Result<Keeper> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let changes =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None).context("no netlink socket")?;
        bind(&changes, &SocketAddrNetlink::new(0, LINKS)).context("could not watch interfaces")?;
        let (bell, hears) = UnixStream::pair().context("no pair of sockets")?;
        bell.set_nonblocking(true)
            .and_then(|()| hears.set_nonblocking(true))
            .context("no pair of sockets")?;
        let ((give, bound), (closing, close)) = (channel(), channel());
        let mut watch = Watch { options, queues, mem, interface, gone: false, changes, hears, give, close };
        std::thread::Builder::new()
            .name("ccnicd-xdp".to_owned())
            .spawn(move || watch.run())
            .context("could not start a thread")?;
        Ok(Keeper { bound, closing, bell })
    }

    /// What has been bound to an interface that has returned.
    pub(super) fn take(&self) -> Option<Bound> {
        let bound = self.bound.try_recv().ok()?;
        let _ = recv(&self.bell, &mut [0; 16][..], RecvFlags::DONTWAIT);
        Some(bound)
    }

    /// Readable while there is something to take.
    pub(super) fn calls(&self) -> PollFd<'_> {
        PollFd::new(&self.bell, PollFlags::IN)
    }

    /// Closes what was bound before, elsewhere.
    pub(super) fn close(&self, old: Bound) {
        let _ = self.closing.send(old); // if the thread has ended, here
        let _ = send(&self.bell, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
}

/// The thread's side.
struct Watch {
    options: XdpOptions,
    queues: u16,
    mem: NativeMemory,
    interface: u32,
    gone: bool,
    changes: OwnedFd,
    hears: UnixStream,
    give: Sender<Bound>,
    close: Receiver<Bound>,
}

impl Watch {
    fn run(&mut self) {
        while self.wait() {
            self.close.try_iter().for_each(drop);
            if index_to_name(&self.changes, self.interface).is_ok() {
                continue;
            }
            if !self.gone {
                tracing::warn!(
                    interface = self.options.name,
                    "the interface has gone; its port waits for it to return"
                );
                self.gone = true;
            }
            if name_to_index(&self.changes, &self.options.name).is_ok() && !self.bind_again() {
                return;
            }
        }
    }

    /// Waits until something may have changed; false when the port has been closed.
    fn wait(&mut self) -> bool {
        let mut of = [PollFd::new(&self.changes, PollFlags::IN), PollFd::new(&self.hears, PollFlags::IN)];
        let _ = poll(&mut of, self.gone.then_some(&RETRY)); // interrupted: as if something had changed
        let mut message = [0; 4096];
        while recv(&self.changes, &mut message[..], RecvFlags::DONTWAIT).is_ok() {}
        let mut bells = [0; 16];
        !matches!(self.hears.read(&mut bells), Ok(0))
    }

    /// False when there is no port any more.
    fn bind_again(&mut self) -> bool {
        match Bound::open(&self.options, self.queues, &self.mem) {
            Ok(bound) => {
                self.interface = bound.interface();
                self.gone = false;
                bound.log(&self.options.name);
                let given = self.give.send(bound).is_ok();
                let _ = send(&self.hears, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL); // the polling thread may sleep
                given
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
