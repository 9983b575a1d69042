//! Every shared byte of a channel: where it lies, and which side writes it.
//!
//! ```text
//!                                                             written by
//!   0      header: magic, version, capacity                   caller, before connecting
//!   128    the caller's event word                            caller
//!   256    the server's event word                            server
//!   512    slot A: control word, message                      caller and server in turn
//!          slot B                                             caller and server in turn
//! ```
//!
//! What is written at different times lies 128 bytes apart: processors fetch lines in such pairs.

use crate::config::ConfigError;
use crate::memory::{LINE, SharedMemory};

/// "CCCALL" and a zero-terminated tag; the first word of every channel.
const MAGIC: u64 = u64::from_le_bytes(*b"CCCALL\0\x01");
/// Version of this layout. A channel with another one is refused.
const VERSION: u64 = 1;
/// The words of the header.
const WORDS: [u32; 3] = [0, 8, 16];
/// Bytes of the header's words, from the start of the channel's region on.
pub const CALL_HEADER_BYTES: usize = WORDS.len() * 8;
/// The most bytes of a message of any channel.
pub const MAX_MESSAGE: u32 = (1 << 20) - 8;

/// Lines that are fetched together.
const PAIR: u32 = 2 * LINE;
const CALLER_EVENT: u32 = PAIR;
const SERVER_EVENT: u32 = 2 * PAIR;
const SLOTS: u32 = 4 * PAIR;

/// The geometry of a channel: all offsets follow from the longest message.
///
/// ```
/// use ccnic::call::CallLayout;
/// use ccnic::heap::HeapMemory;
///
/// let layout = CallLayout::new(4000)?;
/// let [a, b] = layout.slots();
/// assert!(b - a >= 4008 && layout.capacity() == 4000);
///
/// let mem = HeapMemory::new(layout.size());
/// layout.store(&mem); // the caller
/// # use ccnic::SharedMemory;
/// # let mut header = [0; ccnic::call::CALL_HEADER_BYTES];
/// # mem.read(0, &mut header);
/// assert_eq!(CallLayout::from_header(&header, layout.size()), Ok(layout)); // the server
/// assert_eq!(CallLayout::new(0).unwrap_err().to_string(), "capacity is 0; choose 1 to 1048568");
/// # Ok::<(), ccnic::ConfigError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLayout {
    capacity: u32,
}

impl CallLayout {
    /// For messages of up to `capacity` bytes. Those of up to [`INLINE_MESSAGE`](super::INLINE_MESSAGE) bytes take one line, whatever the
    /// capacity. Example: [`CallLayout`].
    ///
    /// # Errors
    /// When that is 0 or more than [`MAX_MESSAGE`].
    pub fn new(capacity: u32) -> Result<CallLayout, ConfigError> {
        if (1..=MAX_MESSAGE).contains(&capacity) {
            return Ok(CallLayout { capacity });
        }
        Err(ConfigError::Range { field: "capacity", value: capacity.into(), min: 1, max: MAX_MESSAGE.into() })
    }

    /// Writes the header. Example: [`CallLayout`].
    pub fn store<M: SharedMemory>(&self, mem: &M) {
        let [magic, version, capacity] = WORDS;
        mem.store(capacity, self.capacity.into());
        mem.store(version, VERSION);
        mem.store_release(magic, MAGIC); // G1
    }

    /// Checks a copy of the first bytes of a region of `size` bytes that another process made. Example: [`CallLayout`].
    ///
    /// # Errors
    /// What is wrong with it: no channel, another version, a capacity out of range, a size that does not fit.
    pub fn from_header(header: &[u8; CALL_HEADER_BYTES], size: u32) -> Result<CallLayout, ConfigError> {
        let mut words = [0; WORDS.len()];
        for (word, bytes) in words.iter_mut().zip(header.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        let [magic, version, capacity] = words;
        if magic != MAGIC {
            return Err(ConfigError::NotARegion);
        }
        if version != VERSION {
            return Err(ConfigError::Version { found: version, known: VERSION });
        }
        let layout = CallLayout::new(u32::try_from(capacity).unwrap_or(u32::MAX))?;
        if layout.size() > size {
            return Err(ConfigError::Truncated { needs: layout.size(), has: size });
        }
        Ok(layout)
    }

    /// The most bytes of a message. Example: [`CallLayout`].
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Bytes of the channel's region. Example: [`CallLayout`].
    pub fn size(&self) -> u32 {
        SLOTS + 2 * self.slot()
    }

    /// The first bytes of slots A and B. Example: [`CallLayout`].
    pub fn slots(&self) -> [u32; 2] {
        [SLOTS, SLOTS + self.slot()]
    }

    /// The words in which caller and server say that they sleep.
    pub fn events(&self) -> [u32; 2] {
        [CALLER_EVENT, SERVER_EVENT]
    }

    fn slot(&self) -> u32 {
        (self.capacity + 8).next_multiple_of(PAIR)
    }
}
