//! How a NIC is opened.

use std::path::Path;

use ccnic::Config;
use ccnic::rss::Rss;
use ccnic_shm::Pages;

use crate::error::Error;
use crate::nic::Nic;

/// What to open a NIC with. Everything has a default; [`open`](NicOptions::open) is last.
#[derive(Debug, Clone)]
pub struct NicOptions {
    pub(crate) name: String,
    pub(crate) mac: Option<[u8; 6]>,
    pub(crate) rss: Option<Rss>,
    pub(crate) config: Config,
    pub(crate) pages: Pages,
}

impl Default for NicOptions {
    fn default() -> NicOptions {
        NicOptions::new()
    }
}

impl NicOptions {
    /// One queue pair of the default design, in huge pages if the system has some, under the name of the running executable.
    pub fn new() -> NicOptions {
        let path = std::env::current_exe().ok();
        let name = path.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        NicOptions {
            name: name.unwrap_or_else(|| "program".to_owned()),
            mac: None,
            rss: None,
            config: Config::default(),
            pages: Pages::Auto,
        }
    }

    /// The name that the NIC's status shows.
    pub fn name(mut self, name: impl Into<String>) -> NicOptions {
        self.name = name.into();
        self
    }

    /// The MAC address that the program goes by.
    pub fn mac(mut self, mac: [u8; 6]) -> NicOptions {
        self.mac = Some(mac);
        self
    }

    /// Receive-side scaling from the start, as by [`Nic::set_rss`]: a NIC that cannot do it refuses.
    pub fn rss(mut self, rss: Rss) -> NicOptions {
        self.rss = Some(rss);
        self
    }

    /// Queues, rings, buffers and design of the region. Its `page` field is chosen by [`pages`](NicOptions::pages).
    pub fn config(mut self, config: &Config) -> NicOptions {
        self.config = *config;
        self
    }

    /// The pages of the region's memory.
    pub fn pages(mut self, pages: Pages) -> NicOptions {
        self.pages = pages;
        self
    }

    /// Makes a region and attaches it to the NIC at `socket`.
    ///
    /// # Errors
    /// [`Error::Config`] for a field of the configuration that is out of range, [`Error::Region`] when there is no memory,
    /// [`Error::Unreachable`] when no NIC answers, [`Error::Refused`] when it refuses, [`Error::Rss`] and [`Error::NoRss`] as
    /// [`Nic::set_rss`].
    pub fn open(&self, socket: impl AsRef<Path>) -> Result<Nic, Error> {
        Nic::open_with(socket.as_ref(), self)
    }
}
