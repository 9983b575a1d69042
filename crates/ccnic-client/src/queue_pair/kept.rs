//! Zero-copy transmission of buffers that stay the program's.

use ccnic::Buf;
use ccnic::host::{KeptBuf, KeptPart};

use super::{Burst, ByDesign, QueuePair};

impl QueuePair {
    /// Makes a buffer one that is sent and stays the program's. See [`host::QueuePair::keep`](ccnic::host::QueuePair::keep). Example:
    /// [`tx_kept`](QueuePair::tx_kept).
    pub fn keep(&self, buf: Buf) -> KeptBuf {
        each!(&self.pair, pair => pair.keep(buf))
    }

    /// Sends packets that begin with a buffer of `headers` and go on with parts of kept buffers, which are not copied on the way to the NIC,
    /// and which it does not free. See [`host::QueuePair::tx_kept`](ccnic::host::QueuePair::tx_kept).
    ///
    /// What a store does that answers requests with values that it keeps:
    ///
    /// ```
    /// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let socket = directory.path().join("nic.sock");
    /// # let _nic = test_nic::TestNic::start(&socket, false);
    /// # let mut nic = ccnic_client::Nic::open(&socket)?;
    /// # let mut pair = nic.queue_pair(0)?;
    /// use std::time::Duration;
    ///
    /// use ccnic_client::Burst;
    ///
    /// // A value lies in a buffer of the region, or in a part of one: `KeptBuf::split_at`.
    /// let mut burst = Burst::new();
    /// pair.alloc(1000, 1, &mut burst);
    /// let mut value = pair.keep(burst.pop().unwrap());
    /// pair.with_kept_mut(&mut value, |bytes| bytes.fill(42));
    ///
    /// // Answers: a header each, and the same value in all of them.
    /// let mut headers = Burst::new();
    /// pair.alloc(16, 8, &mut headers);
    /// headers.iter_mut().for_each(|buf| pair.with_mut(buf, |bytes| bytes.fill(1)));
    /// while !headers.is_empty() {
    ///     let parts = vec![[value.whole()]; headers.len()];
    ///     pair.tx_kept(&mut headers, parts); // removes the headers of what is sent
    /// }
    ///
    /// // It is replaced: the new value goes elsewhere, and the old one's buffer to the pool when no packet needs it any more.
    /// assert!(pair.free_kept(value).is_ok());
    ///
    /// let mut received = 0;
    /// while received < 8 {
    ///     pair.wait(Duration::from_secs(10))?; // a loopback returns them
    ///     received += pair.rx_burst(&mut burst, 32);
    ///     assert!(burst.as_slice().iter().all(|buf| pair.with(buf, |b| b[..16] == [1; 16] && b[16..] == [42; 1000])));
    ///     pair.free(&mut burst);
    /// }
    /// # Ok::<(), ccnic_client::Error>(())
    /// ```
    #[inline]
    pub fn tx_kept<'k, P>(&mut self, headers: &mut Burst, parts: impl IntoIterator<Item = P>) -> usize
    where
        P: IntoIterator<Item = KeptPart<'k>>,
    {
        each_in_vectors!(self, pair => pair.tx_kept(headers, parts))
    }

    /// The position in the transmit ring after all that has been sent. See [`host::QueuePair::tx_mark`](ccnic::host::QueuePair::tx_mark),
    /// with an example.
    #[inline]
    pub fn tx_mark(&self) -> u64 {
        each!(&self.pair, pair => pair.tx_mark())
    }

    /// True when the NIC has handed back all that was sent before a mark. See
    /// [`host::QueuePair::tx_released`](ccnic::host::QueuePair::tx_released), with an example.
    #[inline]
    pub fn tx_released(&mut self, mark: u64) -> bool {
        each!(&mut self.pair, pair => pair.tx_released(mark))
    }

    /// True when the NIC has released all packets with this buffer. See
    /// [`host::QueuePair::is_released`](ccnic::host::QueuePair::is_released). Example: [`take_back`](QueuePair::take_back).
    #[inline]
    pub fn is_released(&mut self, kept: &KeptBuf) -> bool {
        each!(&mut self.pair, pair => pair.is_released(kept))
    }

    /// Lends the bytes of a kept buffer to `f`. See [`KeptBuf`], with an example.
    #[inline]
    pub fn with_kept<T>(&self, kept: &KeptBuf, f: impl FnOnce(&[u8]) -> T) -> T {
        each!(&self.pair, pair => pair.with_kept(kept, f))
    }

    /// Lends the bytes of a kept buffer to `f` for writing; `None` while the NIC has not released them. Example:
    /// [`tx_kept`](QueuePair::tx_kept).
    #[inline]
    pub fn with_kept_mut<T>(&mut self, kept: &mut KeptBuf, f: impl FnOnce(&mut [u8]) -> T) -> Option<T> {
        each!(&mut self.pair, pair => pair.with_kept_mut(kept, f))
    }

    /// Makes a kept buffer an ordinary one again. See [`host::QueuePair::take_back`](ccnic::host::QueuePair::take_back).
    ///
    /// ```
    /// # mod test_nic { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/test_nic.rs")); }
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let socket = directory.path().join("nic.sock");
    /// # let _nic = test_nic::TestNic::start(&socket, false);
    /// # let mut nic = ccnic_client::Nic::open(&socket)?;
    /// # let mut pair = nic.queue_pair(0)?;
    /// use ccnic_client::Burst;
    ///
    /// assert!(pair.knows_kept()); // else packets with kept segments are sent as copies
    /// let (mut burst, mut headers) = (Burst::new(), Burst::new());
    /// pair.alloc(1000, 1, &mut burst);
    /// let kept = pair.keep(burst.pop().unwrap());
    /// pair.alloc(16, 1, &mut headers);
    /// assert_eq!(pair.tx_kept(&mut headers, [[kept.whole()]]), 1);
    ///
    /// while !pair.is_released(&kept) {
    ///     pair.rx_burst(&mut burst, 32); // a loopback returns the packet
    ///     pair.free(&mut burst);
    /// }
    /// let buf = pair.take_back(kept).unwrap();
    /// pair.free_one(buf);
    /// # Ok::<(), ccnic_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// The buffer, while the NIC has not released it, or when it is a part of one.
    #[inline]
    pub fn take_back(&mut self, kept: KeptBuf) -> Result<Buf, KeptBuf> {
        each!(&mut self.pair, pair => pair.take_back(kept))
    }

    /// Frees a kept buffer, now or when the NIC has released it. See [`host::QueuePair::free_kept`](ccnic::host::QueuePair::free_kept).
    /// Example: [`tx_kept`](QueuePair::tx_kept).
    ///
    /// # Errors
    /// The buffer, when it is a part of one, or another queue pair has made it.
    #[inline]
    pub fn free_kept(&mut self, kept: KeptBuf) -> Result<(), KeptBuf> {
        each!(&mut self.pair, pair => pair.free_kept(kept))
    }

    /// Whether the NIC knows kept segments. [`tx_kept`](QueuePair::tx_kept) sends copies to one that does not.
    /// Example: [`take_back`](QueuePair::take_back).
    pub fn knows_kept(&self) -> bool {
        each!(&self.pair, pair => pair.knows_kept())
    }
}
