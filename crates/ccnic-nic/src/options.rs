//! How a NIC is made.

use std::path::Path;

use ccnic_control::Limits;
use ccnic_frame::Takes;

use crate::error::Error;
use crate::nic::Nic;

/// Bytes of the largest region, unless the limits say otherwise.
const REGION_MAX: u32 = 1280 << 20;

/// Options for a NIC. Everything has a default; [`listen`](NicOptions::listen) is last.
///
/// ```
/// use ccnic_nic::{Limits, Nic, Takes};
///
/// let directory = tempfile::tempdir()?;
/// let nic = Nic::options()
///     .name("generator")
///     .node(0)
///     .limits(Limits::new(64 << 20, 1 << 30))
///     .keep_sigbus(true)
///     .spreads(true)
///     .sleeps(true)
///     .takes(Takes::NONE.with_ip_checksum())
///     .listen(&directory.path().join("nic.sock"))?;
/// assert!(!nic.has_programs());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct NicOptions {
    pub(crate) name: String,
    pub(crate) node: u32,
    pub(crate) limits: Limits,
    pub(crate) takes: Takes,
    pub(crate) sleeps: bool,
    pub(crate) spreads: bool,
    pub(crate) keeps_sigbus: bool,
}

impl NicOptions {
    /// Limits for regions of 1280 MiB and half of the machine's memory in all; nothing taken, no sleep, no RSS. Example: [`NicOptions`].
    pub fn new() -> NicOptions {
        NicOptions {
            name: "NIC".to_owned(),
            node: 0,
            limits: Limits::new(REGION_MAX, Limits::half_the_memory()),
            takes: Takes::NONE,
            sleeps: false,
            spreads: false,
            keeps_sigbus: false,
        }
    }

    /// What `ccnic status` shows. Example: [`NicOptions`].
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> NicOptions {
        self.name = name.into();
        self
    }

    /// NUMA node of the cores that will poll: programs place the NIC's lines there. Example: [`NicOptions`].
    #[must_use]
    pub fn node(mut self, node: u32) -> NicOptions {
        self.node = node;
        self
    }

    /// How much memory programs may bring, and how many of them may be. Example: [`NicOptions`].
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> NicOptions {
        self.limits = limits;
        self
    }

    /// What it takes of what programs request in the metadata of their packets, as [`Nic::set_takes`]. Example: [`NicOptions`].
    #[must_use]
    pub fn takes(mut self, takes: Takes) -> NicOptions {
        self.takes = takes;
        self
    }

    /// Programs wake it ([`Queue::arm`](crate::Queue::arm)), which costs them the load of a word that stays in their caches.
    /// Example: [`NicOptions`].
    #[must_use]
    pub fn sleeps(mut self, sleeps: bool) -> NicOptions {
        self.sleeps = sleeps;
        self
    }

    /// Programs may ask for RSS: it sends each packet on the queue that [`Queue::spreader`](crate::Queue::spreader) says.
    /// Example: [`NicOptions`].
    #[must_use]
    pub fn spreads(mut self, spreads: bool) -> NicOptions {
        self.spreads = spreads;
        self
    }

    /// Leaves SIGBUS as it is. Otherwise a handler for the whole process maps a zeroed page where a program has removed one from its
    /// region; any other SIGBUS ends the process as before. Example: [`NicOptions`].
    #[must_use]
    pub fn keep_sigbus(mut self, keeps: bool) -> NicOptions {
        self.keeps_sigbus = keeps;
        self
    }

    /// Listens for programs at `socket`; a stale socket file is replaced. Starts threads, one that accepts and one for each connection,
    /// which may run on the CPUs that the caller may run on: pin the thread that polls afterwards, or another one.
    /// Example: [`NicOptions`].
    ///
    /// # Errors
    /// When no socket can be made there, or another NIC listens.
    pub fn listen(&self, socket: impl AsRef<Path>) -> Result<Nic, Error> {
        Nic::new(socket.as_ref(), self)
    }
}

impl Default for NicOptions {
    fn default() -> NicOptions {
        NicOptions::new()
    }
}
