//! The MTU of a TAP port, which an operator may change while packets move.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, ensure};

use crate::ports::link::Link;

/// The MTU of a port's interface. The control thread sets it, the polling thread reads it for each packet: a packet that is sent meanwhile is held
/// to one or the other.
#[derive(Debug, Clone)]
pub struct Mtu {
    name: String,
    /// Of the interface's namespace.
    socket: Arc<OwnedFd>,
    /// Of the interface: another one may get its name.
    index: u32,
    bytes: Arc<AtomicU32>,
}

impl Mtu {
    /// That of an interface, as it is.
    pub(super) fn new(name: &str, link: &Link) -> Mtu {
        let bytes = Arc::new(AtomicU32::new(link.mtu()));
        Mtu { name: name.to_owned(), socket: link.shared_socket(), index: link.index(), bytes }
    }

    /// Bytes of the longest packet, without Ethernet header.
    #[inline]
    pub fn get(&self) -> u32 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Sets it, at the interface too.
    ///
    /// # Errors
    /// What the kernel says, and what to do.
    pub fn set(&self, mtu: u32) -> anyhow::Result<()> {
        let name = &self.name;
        let mut link = Link::find(Arc::clone(&self.socket), name).with_context(|| {
            format!("there is no interface {name} here: it was deleted, renamed, or moved to another network namespace; set it there")
        })?;
        ensure!(
            link.index() == self.index,
            "the interface {name} is another one now: take the port out, then add it"
        );
        link.set(Some(mtu), None).context("that takes CAP_NET_ADMIN")?;
        self.bytes.store(mtu, Ordering::Relaxed);
        Ok(())
    }
}
