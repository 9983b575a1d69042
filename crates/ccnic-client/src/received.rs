//! Received packets that give their buffers back.

use ccnic::{Buf, Burst};

use crate::queue_pair::QueuePair;

/// What [`QueuePair::receive`] has received. Its buffers go back to the pool when it is dropped, on whatever way: a `?`, a `return`, a panic.
///
/// ```
/// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
/// # let directory = tempfile::tempdir().unwrap();
/// # let socket = directory.path().join("nic.sock");
/// # let _nic = test_nic::TestNic::start(&socket, false);
/// # let mut nic = ccnic_client::Nic::open(&socket)?;
/// # let mut pair = nic.queue_pair(0)?;
/// # let mut burst = ccnic_client::Burst::new();
/// # pair.alloc(64, 2, &mut burst);
/// # pair.tx_burst(&mut burst);
/// use std::time::Duration;
///
/// pair.wait(Duration::from_secs(10))?;
/// let packets = pair.receive(32);
/// let bytes: usize = packets.iter().map(|buf| packets.with(buf, <[u8]>::len)).sum();
/// assert!(bytes >= 64 && !packets.is_empty());
/// let mut kept = packets.into_burst(); // or they are kept, to be sent on
/// pair.tx_burst(&mut kept);
/// pair.free(&mut kept);
/// # Ok::<(), ccnic_client::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping it frees the packets"]
pub struct Received<'a> {
    pair: &'a mut QueuePair,
    burst: Burst,
}

impl QueuePair {
    /// Receives up to `max` buffers, whole packets, and frees them when the result is dropped: [`rx_burst`](QueuePair::rx_burst) for a program
    /// that looks at packets and goes on. [`Received`] has an example.
    pub fn receive(&mut self, max: usize) -> Received<'_> {
        let mut burst = Burst::new();
        self.rx_burst(&mut burst, max);
        Received { pair: self, burst }
    }
}

impl Received<'_> {
    /// Number of buffers. [`Received`] has an example.
    pub fn len(&self) -> usize {
        self.burst.len()
    }

    /// True when nothing was there. [`Received`] has an example.
    pub fn is_empty(&self) -> bool {
        self.burst.is_empty()
    }

    /// The buffers, in order. [`Received`] has an example.
    pub fn iter(&self) -> std::slice::Iter<'_, Buf> {
        self.burst.as_slice().iter()
    }

    /// The bytes of a buffer where they lie: see [`QueuePair::with`]. [`Received`] has an example.
    pub fn with<T>(&self, buf: &Buf, f: impl FnOnce(&[u8]) -> T) -> T {
        self.pair.with(buf, f)
    }

    /// The buffers, for the program to free or to send. [`Received`] has an example.
    pub fn into_burst(mut self) -> Burst {
        std::mem::take(&mut self.burst)
    }
}

impl<'a> IntoIterator for &'a Received<'_> {
    type Item = &'a Buf;
    type IntoIter = std::slice::Iter<'a, Buf>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Drop for Received<'_> {
    fn drop(&mut self) {
        self.pair.free(&mut self.burst);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::test_nic::TestNic;
    use crate::{Burst, Config, Error, Nic};

    #[test]
    fn an_early_return_loses_no_buffers() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nic.sock");
        let _nic = TestNic::start(&socket, false);
        let mut nic = Nic::options()
            .config(&Config { ring: 64, buffers: 64, ..Config::default() })
            .open(&socket)
            .unwrap();
        let mut pair = nic.queue_pair(0).unwrap();
        for _ in 0..500 {
            let mut burst = Burst::new();
            assert_eq!(pair.alloc(2000, 1, &mut burst), 1, "the pool is empty");
            assert_eq!(pair.tx_burst(&mut burst), 1);
            pair.wait(Duration::from_secs(60)).unwrap();
            let fails = || -> Result<(), Error> {
                let packets = pair.receive(32);
                assert_eq!((packets.len(), packets.into_iter().count()), (1, 1));
                Err(Error::TimedOut)
            };
            assert!({ fails }().is_err());
        }
    }
}
