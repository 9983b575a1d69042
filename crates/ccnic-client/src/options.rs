//! How a NIC is opened.

use std::path::Path;

use ccnic::rss::Rss;
use ccnic::{Config, Tuning};
use ccnic_shm::Pages;

/// Options for opening a NIC. Everything has a default; [`open`](NicOptions::open) is last.
///
/// ```
/// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
/// # let directory = tempfile::tempdir().unwrap();
/// # let socket = directory.path().join("nic.sock");
/// # let _nic = test_nic::TestNic::start(&socket, true);
/// use ccnic_client::{Config, Nic, Pages, Rss};
///
/// let nic = Nic::options()
///     .name("kv")
///     .mac([2, 0, 0, 0, 0, 7])
///     .config(&Config { queues: 4, buffers: 8192, ..Config::default() })
///     .rss(Rss::new(4))
///     .pages(Pages::Auto)
///     .tuning("idle=spin".parse()?)
///     .open(&socket)?;
/// assert_eq!((nic.config().queues, nic.config().buffers), (4, 8192));
/// # Ok::<(), ccnic_client::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct NicOptions {
    pub(crate) name: String,
    pub(crate) mac: Option<[u8; 6]>,
    pub(crate) rss: Option<Rss>,
    pub(crate) config: Config,
    pub(crate) pages: Pages,
    pub(crate) tuning: Option<Tuning>,
    pub(crate) later: bool,
}

impl Default for NicOptions {
    fn default() -> NicOptions {
        NicOptions::new()
    }
}

impl NicOptions {
    /// One queue pair of the default design, in huge pages if the system has some, under the name of the
    /// running executable. [`NicOptions`] has an example.
    pub fn new() -> NicOptions {
        let path = std::env::current_exe().ok();
        let name = path.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        NicOptions {
            name: name.unwrap_or_else(|| "program".to_owned()),
            mac: None,
            rss: None,
            config: Config::default(),
            pages: Pages::Auto,
            tuning: None,
            later: false,
        }
    }

    /// The name that the NIC's status shows. [`NicOptions`] has an example.
    pub fn name(mut self, name: impl Into<String>) -> NicOptions {
        self.name = name.into();
        self
    }

    /// The MAC address that the program goes by. [`NicOptions`] has an example.
    pub fn mac(mut self, mac: [u8; 6]) -> NicOptions {
        self.mac = Some(mac);
        self
    }

    /// Receive-side scaling from the start, as by [`Nic::set_rss`](crate::Nic::set_rss); [`open`](NicOptions::open) fails if the
    /// NIC cannot do it. [`NicOptions`] has an example.
    pub fn rss(mut self, rss: Rss) -> NicOptions {
        self.rss = Some(rss);
        self
    }

    /// Queues, rings, buffers and design of the region. Its `page` field is chosen by
    /// [`pages`](NicOptions::pages). [`NicOptions`] has an example.
    pub fn config(mut self, config: &Config) -> NicOptions {
        self.config = *config;
        self
    }

    /// The pages of the region's memory. [`NicOptions`] has an example.
    pub fn pages(mut self, pages: Pages) -> NicOptions {
        self.pages = pages;
        self
    }

    /// How the machine is used, in place of what the NIC has measured and of the environment variable `CCNIC_TUNING`.
    /// [`NicOptions`] has an example.
    pub fn tuning(mut self, tuning: Tuning) -> NicOptions {
        self.tuning = Some(tuning);
        self
    }

    /// Opens the NIC even if none listens yet, as one that has ended: [`reconnect`](crate::Nic::reconnect) attaches to it when it is there.
    ///
    /// ```
    /// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let socket = directory.path().join("nic.sock");
    /// let mut nic = ccnic_client::Nic::options().later(true).open(&socket)?;
    /// let mut pair = nic.queue_pair(0)?;
    /// assert!(!nic.alive() && nic.reconnect([&mut pair], []).is_err());
    /// # let _nic = test_nic::TestNic::start(&socket, false);
    /// assert_eq!(nic.reconnect([&mut pair], [])?, 0);
    /// assert!(nic.alive());
    /// # Ok::<(), ccnic_client::Error>(())
    /// ```
    pub fn later(mut self, later: bool) -> NicOptions {
        self.later = later;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::test_nic::TestNic;

    #[test]
    fn the_default_name_is_that_of_the_executable() {
        assert!(NicOptions::new().name.starts_with("ccnic_client"), "{}", NicOptions::new().name);
    }

    #[test]
    fn a_nic_is_opened_with_what_is_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nic.sock");
        let _nic = TestNic::start(&socket, true);
        let config = Config { queues: 3, buffers: 96, ..Config::default() };
        let options = NicOptions::new().name("x").mac([2; 6]).config(&config).pages(Pages::Small);
        let nic = options.clone().rss(Rss::new(3)).open(&socket).unwrap();
        assert_eq!((nic.config().queues, nic.config().buffers, nic.config().page), (3, 96, 4096));
        assert_eq!(nic.rss(), Some(&Rss::new(3)));
        let far = options.rss(Rss::new(4)).open(&socket);
        assert!(matches!(far, Err(Error::Rss { .. })), "{far:?}");
    }

    #[test]
    fn what_is_wrong_is_said_before_a_region_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nic.sock");
        assert!(matches!(NicOptions::new().open(&socket), Err(Error::Unreachable { .. })));
        let _nic = TestNic::start(&socket, false);
        let ring = NicOptions::new().config(&Config { ring: 65, ..Config::default() }).open(&socket);
        assert!(matches!(ring, Err(Error::Config(_))), "{ring:?}");
        assert!(matches!(NicOptions::new().rss(Rss::new(1)).open(&socket), Err(Error::NoRss)));
    }
}
