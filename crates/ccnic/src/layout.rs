//! Every shared byte of a region: where it lies, which side writes it, and where it is homed.
//!
//! Offsets are never stored in the region: both sides derive them from the same few configuration words, so
//! no pointer in shared memory can be wrong.
//!
//! ```text
//! host segment (homed at the host)                                              written by
//!   0      header: magic, version, configuration                                host, before attaching
//!   4096   host lines, 5 per queue: tx.tail, rx.head, rx.taken, fill.tail, rx_event   host
//!          pool lines: head of the small, of the large free list, chunks split  both (compare-exchange)
//!          links: one word per 128 bytes of buffer                              the side that frees
//!          kinds: one word per chunk, 1 when subdivided                         the side that subdivides
//!          TX rings                                                             host (clear: NIC hands back)
//!          TX areas (inline payload only): 7 lines per unit                     host
//!          fill rings (host-managed pool only)                                  host (clear: NIC hands back)
//!          buffers: `buffers` chunks of 4 KiB                                   the holder of the buffer
//! NIC segment (homed at the NIC)
//!          NIC lines, 6 per queue: tx.head, tx.taken and rx_dropped, rx.tail, fill.head, fill.taken, tx_event   NIC
//!          RX rings                                                             NIC (clear: host hands back)
//!          RX areas (inline payload only): 7 lines per unit                     NIC
//! ```
//!
//! Each ring is homed at the side that writes it and all buffers at the host (CC-NIC sections 3.2 and 3.3).
//! With the doorbell design the fill ring *is* the RX ring: the NIC fills in place the descriptors that the
//! host posted.

use crate::config::{Config, ConfigError, Design};
pub use crate::config::{LARGE_BUF, SMALL_BUF};
use crate::memory::{LINE, SharedMemory};

/// "CCNIC" and a zero-terminated tag; the first word of every region.
pub const MAGIC: u64 = u64::from_le_bytes(*b"CCNIC\0\0\x01");
/// Version of this layout. A region with another one is refused.
pub const VERSION: u64 = 4;

/// Small buffers in one large one.
pub const SMALL_PER_LARGE: u32 = LARGE_BUF / SMALL_BUF;

/// Lines of the area beside a unit. With the unit's own line they are eight; an odd number, so that the areas of successive units
/// begin in all sets of a cache.
pub const AREA_LINES: u32 = 7;
/// Bytes of the area beside a unit: the largest packet that can be inline.
pub const AREA: u32 = AREA_LINES * LINE;

/// The header's words, in order. The magic is stored last, with release, and read first, with acquire
/// (ordering diagram, G).
const HEADER_WORDS: [u32; 8] = [0, 8, 16, 24, 32, 40, 48, 56];
/// Bytes of the header's words, from the start of the region on.
pub const HEADER_BYTES: usize = HEADER_WORDS.len() * 8;
const HEADER: u32 = 4096;

const HOST_LINES: u32 = 5;
const NIC_LINES: u32 = 6;
const POOL_LINES: u32 = 3;

/// The offsets of one ring. Example: [`Layout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingLayout {
    /// First byte of the units (groups, or single descriptors).
    pub units: u32,
    /// First byte of the areas, one of [`AREA`] bytes for each unit; 0 when there are none.
    pub areas: u32,
    /// Number of units; a power of two.
    pub count: u32,
    /// The producer's line: the position up to which it has published (doorbell: the tail register).
    pub tail: u32,
    /// The consumer's line: the position up to which it has handed back (doorbell: the head register).
    pub head: u32,
    /// A line of the consumer alone: the position up to which it has taken packets, for its successor and for
    /// recovery.
    pub taken: u32,
}

/// The rings of one queue pair. Example: [`Layout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLayout {
    /// Packets from host to NIC.
    pub tx: RingLayout,
    /// Packets from NIC to host.
    pub rx: RingLayout,
    /// Posted receive buffers from host to NIC, with the host-managed pool only.
    pub fill: RingLayout,
    /// A word beside `tx.taken`, in the NIC's line: packets that the NIC dropped because there was no room or
    /// no buffer (RSS).
    pub rx_dropped: u32,
    /// The host's line: the position in `rx` from which on the host wants a notification, or 0 (`notify.rs`).
    pub rx_event: u32,
    /// The NIC's line: one more than the position in `tx` beyond which a NIC that sleeps wants to be woken, or 0 (`notify.rs`).
    pub tx_event: u32,
}

/// The offsets of the pool. Example: [`Layout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLayout {
    /// Word: head of the free list of small buffers.
    pub small: u32,
    /// Word: head of the free list of large buffers.
    pub large: u32,
    /// Word: how many chunks have been subdivided.
    pub split: u32,
    /// First link word; one per small buffer.
    pub links: u32,
    /// First kind word; one per large buffer, 1 when it has been subdivided.
    pub kinds: u32,
    /// First byte of the buffers; a multiple of [`LARGE_BUF`].
    pub buffers: u32,
    /// One past the last byte of the buffers.
    pub end: u32,
}

/// The geometry of a region: its configuration and every offset that follows from it.
///
/// ```
/// use ccnic::{Config, Layout, heap::HeapMemory, host};
///
/// let layout = Layout::new(&Config { queues: 2, ..Config::default() })?;
/// assert!(layout.queue(1).is_some() && layout.queue(2).is_none());
/// assert_eq!(layout.pool().buffers % 4096, 0);
/// assert_eq!(layout.host_segment().end, layout.nic_segment().start); // where the two halves are homed
///
/// let mem = HeapMemory::new(layout.size());
/// host::format(&mem, &layout); // stores the configuration in the region's header
/// assert_eq!(Layout::load(&mem, layout.size())?.config().queues, 2); // what a NIC does
/// # Ok::<(), ccnic::ConfigError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    config: Config,
    host_lines: u32,
    tx: u32,
    tx_areas: u32,
    fill: u32,
    nic_lines: u32,
    rx: u32,
    rx_areas: u32,
    pool: PoolLayout,
    ring_bytes: u32,
    area_bytes: u32,
    size: u32,
}

/// Assigns consecutive, aligned ranges. Counts in 64 bits, so that an overflow of 32 bits is found at the
/// end.
struct Cursor(u64);

impl Cursor {
    fn take(&mut self, bytes: u64, align: u32) -> u32 {
        let at = self.0.next_multiple_of(u64::from(align));
        self.0 = at + bytes;
        u32::try_from(at).unwrap_or(u32::MAX)
    }
}

impl Layout {
    /// Derives the layout from a configuration. `page` is the region's page size: the segments start on one.
    /// Example: [`Layout`].
    ///
    /// # Errors
    /// The first field that is out of range.
    pub fn new(config: &Config) -> Result<Layout, ConfigError> {
        config.check()?;
        let queues = u64::from(config.queues);
        let ring_bytes = config.units() * config.design.unit();
        let rings = queues * u64::from(ring_bytes);
        let area_bytes = if config.has_areas() { config.units() * AREA } else { 0 };
        let areas = queues * u64::from(area_bytes);
        let fills = if config.shared_pool || (config.design == Design::Doorbell) { 0 } else { rings };
        let slots = u64::from(config.buffers) * u64::from(SMALL_PER_LARGE);

        let mut at = Cursor(u64::from(HEADER));
        let host_lines = at.take(queues * u64::from(HOST_LINES * LINE), LINE);
        let heads = at.take(u64::from(POOL_LINES * LINE), LINE);
        let links = at.take(slots * 8, LINE);
        let kinds = at.take(u64::from(config.buffers) * 8, LINE);
        let tx = at.take(rings, 4096);
        let tx_areas = at.take(areas, 4096);
        let fill = at.take(fills, 4096);
        let buffers = at.take(u64::from(config.buffers) * u64::from(LARGE_BUF), LARGE_BUF);
        let end = u32::try_from(at.0).map_err(|_| config.too_large())?;
        let nic_lines = at.take(queues * u64::from(NIC_LINES * LINE), config.page);
        let rx = at.take(rings, 4096);
        let rx_areas = at.take(areas, 4096);
        let end_of_all = at.take(0, config.page);
        let size = u32::try_from(at.0).map_err(|_| config.too_large())?.max(end_of_all);
        let pool = PoolLayout {
            small: heads,
            large: heads + LINE,
            split: heads + 2 * LINE,
            links,
            kinds,
            buffers,
            end,
        };
        Ok(Layout {
            config: *config,
            host_lines,
            tx,
            tx_areas,
            fill,
            nic_lines,
            rx,
            rx_areas,
            pool,
            ring_bytes,
            area_bytes,
            size,
        })
    }

    /// Writes the header. The magic goes last: a region without it is not ready (ordering diagram, G).
    /// Example: [`Layout`].
    pub fn store<M: SharedMemory>(&self, mem: &M) {
        let [magic, version, words @ ..] = HEADER_WORDS;
        for (at, word) in words.into_iter().zip(self.config.to_words()) {
            mem.store(at, word);
        }
        mem.store(version, VERSION);
        mem.store_release(magic, MAGIC);
    }

    /// Reads and checks the header of a region of `size` bytes that another process made. Each word is read
    /// once. Example: [`Layout`].
    ///
    /// # Errors
    /// What is wrong with it: no region, another version, a field out of range, a size that does not fit.
    pub fn load<M: SharedMemory>(mem: &M, size: u32) -> Result<Layout, ConfigError> {
        if size < HEADER {
            return Err(ConfigError::NotARegion);
        }
        let [magic, rest @ ..] = HEADER_WORDS;
        let magic = mem.load_acquire(magic);
        let [version, words @ ..] = rest.map(|at| mem.load(at));
        Layout::from_words(magic, version, words, size)
    }

    /// As [`load`](Layout::load), from a copy of the first bytes of a region of `size` bytes: for a NIC that checks the header
    /// before it maps the region.
    ///
    /// # Errors
    /// As [`load`](Layout::load).
    ///
    /// ```
    /// # use ccnic::{ConfigError, HEADER_BYTES, Layout};
    /// let nothing = [0; HEADER_BYTES];
    /// assert_eq!(Layout::from_header(&nothing, 1 << 20), Err(ConfigError::NotARegion));
    /// ```
    pub fn from_header(header: &[u8; HEADER_BYTES], size: u32) -> Result<Layout, ConfigError> {
        let mut words = [0; HEADER_WORDS.len()];
        for (word, bytes) in words.iter_mut().zip(header.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        let [magic, version, words @ ..] = words;
        Layout::from_words(magic, version, words, size)
    }

    /// Checks the words of a header.
    fn from_words(magic: u64, version: u64, words: [u64; 6], size: u32) -> Result<Layout, ConfigError> {
        if size < HEADER || magic != MAGIC {
            return Err(ConfigError::NotARegion);
        }
        if version != VERSION {
            return Err(ConfigError::Version { found: version, known: VERSION });
        }
        let layout = Layout::new(&Config::from_words(words)?)?;
        if layout.size > size {
            return Err(ConfigError::Truncated { needs: layout.size, has: size });
        }
        Ok(layout)
    }

    /// The configuration that the region was made with. Example: [`Layout`].
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Bytes of the region. Example: [`Layout`].
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The bytes homed at the host, as a range of offsets. Example: [`Layout`].
    pub fn host_segment(&self) -> core::ops::Range<u32> {
        0..self.nic_lines
    }

    /// The bytes homed at the NIC. Example: [`Layout`].
    pub fn nic_segment(&self) -> core::ops::Range<u32> {
        self.nic_lines..self.size
    }

    /// The pool. Example: [`Layout`].
    pub fn pool(&self) -> &PoolLayout {
        &self.pool
    }

    /// The rings of queue pair `queue`, or `None` past the last. Example: [`Layout`].
    pub fn queue(&self, queue: u16) -> Option<QueueLayout> {
        let q = u32::from(queue);
        if queue >= self.config.queues {
            return None;
        }
        let host = |i| self.host_lines + (q * HOST_LINES + i) * LINE;
        let nic = |i| self.nic_lines + (q * NIC_LINES + i) * LINE;
        let count = self.config.units();
        let units = |base| base + q * self.ring_bytes;
        let areas = |base| if self.area_bytes == 0 { 0 } else { base + q * self.area_bytes };
        let in_place = self.config.design == Design::Doorbell;
        Some(QueueLayout {
            tx: RingLayout {
                units: units(self.tx),
                areas: areas(self.tx_areas),
                count,
                tail: host(0),
                head: nic(0),
                taken: nic(1),
            },
            rx: RingLayout {
                units: units(self.rx),
                areas: areas(self.rx_areas),
                count,
                tail: nic(2),
                head: host(1),
                taken: host(2),
            },
            fill: RingLayout {
                units: if in_place { units(self.rx) } else { units(self.fill) },
                areas: 0,
                count,
                tail: host(3),
                head: nic(3),
                taken: nic(4),
            },
            rx_dropped: nic(1) + 8,
            rx_event: host(4),
            tx_event: nic(5),
        })
    }
}

const _: () = {
    assert!(HEADER_WORDS.len() as u32 * 8 == LINE, "the header's words fill one line");
    assert!(SMALL_BUF.is_multiple_of(LINE) && LARGE_BUF.is_multiple_of(SMALL_BUF), "buffers start on lines");
    assert!(core::mem::size_of::<crate::desc::Desc>() as u32 == crate::desc::DESC);
    assert!(LINE / crate::desc::DESC == 4, "a group holds four descriptors");
};

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::config::Demote;
    use std::vec::Vec;

    fn config(design: Design) -> Config {
        let shared_pool = design != Design::Doorbell;
        Config { design, shared_pool, queues: 3, ring: 256, buffers: 64, ..Config::default() }
    }

    /// Every range of bytes that has one purpose.
    fn ranges(layout: &Layout) -> Vec<(u32, u32)> {
        let (pool, config) = (*layout.pool(), *layout.config());
        let slots = config.buffers * SMALL_PER_LARGE;
        let mut all = std::vec![
            (0, HEADER),
            (pool.small, LINE),
            (pool.large, LINE),
            (pool.split, LINE),
            (pool.links, slots * 8),
            (pool.kinds, config.buffers * 8),
            (pool.buffers, pool.end - pool.buffers),
        ];
        for q in 0..config.queues {
            let queue = layout.queue(q).unwrap();
            let in_place = config.design == Design::Doorbell;
            for (i, ring) in [queue.tx, queue.rx, queue.fill].into_iter().enumerate() {
                if !(i == 2 && (config.shared_pool || in_place)) {
                    all.push((ring.units, ring.count * config.design.unit()));
                }
                if ring.areas != 0 {
                    all.push((ring.areas, ring.count * AREA));
                }
                all.extend([(ring.tail, LINE), (ring.head, LINE), (ring.taken, 8)]);
            }
            all.push((queue.rx_dropped, LINE - 8));
            all.push((queue.rx_event, LINE));
        }
        all
    }

    #[test]
    fn no_two_purposes_share_a_byte() {
        for design in Design::ALL {
            for shared_pool in [false, design != Design::Doorbell] {
                let layout = Layout::new(&Config { shared_pool, ..config(design) }).unwrap();
                let mut all = ranges(&layout);
                all.sort_unstable();
                for pair in all.windows(2) {
                    assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{design:?}: {pair:?}");
                }
                let (at, len) = *all.last().unwrap();
                assert!(at + len <= layout.size() && layout.size().is_multiple_of(4096));
                assert!(layout.queue(3).is_none());
            }
        }
    }

    #[test]
    fn segments_start_on_pages_and_hold_what_their_side_writes() {
        let layout = Layout::new(&Config { page: 2 << 20, ..config(Design::GroupedEpoch) }).unwrap();
        let (host, nic) = (layout.host_segment(), layout.nic_segment());
        assert_eq!((host.start, host.end % (2 << 20), host.end), (0, 0, nic.start));
        let q = layout.queue(2).unwrap();
        assert!(
            [q.tx.units, q.tx.tail, q.rx.head, q.rx.taken, q.rx_event, layout.pool().end - 1]
                .iter()
                .all(|at| host.contains(at))
        );
        assert!(
            [q.rx.units, q.rx.tail, q.tx.head, q.tx.taken, q.rx_dropped].iter().all(|at| nic.contains(at))
        );
    }

    #[test]
    fn configurations_survive_the_header() {
        let odd = Config {
            recycle: false,
            sequential: true,
            mempool: true,
            small: false,
            demote: Demote::Off,
            ..config(Design::Packed)
        };
        for config in [Config::default(), odd, config(Design::Doorbell)] {
            assert_eq!(Config::from_words(config.to_words()), Ok(config));
        }
    }

    #[test]
    fn a_copied_header_is_read_as_the_region_is() {
        let layout = Layout::new(&config(Design::Packed)).unwrap();
        let mut header = [0; HEADER_BYTES];
        let words = [MAGIC, VERSION].into_iter().chain(layout.config().to_words());
        for (bytes, word) in header.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *bytes = word.to_ne_bytes();
        }
        assert_eq!(Layout::from_header(&header, layout.size()), Ok(layout));
        let (needs, has) = (layout.size(), layout.size() - 1);
        assert_eq!(Layout::from_header(&header, has), Err(ConfigError::Truncated { needs, has }));
        assert_eq!(Layout::from_header(&header, 64), Err(ConfigError::NotARegion));
        let mut other = header;
        other[8] ^= 1;
        let found = VERSION ^ 1;
        assert_eq!(Layout::from_header(&other, needs), Err(ConfigError::Version { found, known: VERSION }));
        let mut odd = header;
        odd[48] ^= 0x80; // flags
        assert!(matches!(Layout::from_header(&odd, needs), Err(ConfigError::Range { field: "flags", .. })));
    }

    #[test]
    fn impossible_configurations_name_the_field() {
        let message = |c: Config| std::format!("{}", Layout::new(&c).unwrap_err());
        let base = Config::default();
        assert!(message(Config { ring: 1000, ..base }).starts_with("ring is 1000; choose a power of two"));
        assert!(message(Config { ring: 32, ..base }).starts_with("ring is 32; choose 64 to"));
        assert!(message(Config { queues: 0, ..base }).starts_with("queues is 0"));
        assert!(message(Config { queues: 257, ..base }).starts_with("queues is 257"));
        assert!(message(Config { buffers: 3, ..base }).starts_with("buffers is 3"));
        assert!(message(Config { mtu: 9601, ..base }).starts_with("mtu is 9601"));
        assert!(message(Config { page: 8192, ..base }).starts_with("page is 8192"));
        assert!(message(Config { design: Design::Doorbell, ..base }).starts_with("shared-pool is 1"));
    }

    #[test]
    fn the_largest_configuration_fits_in_32_bits() {
        let most = Config {
            queues: Config::MAX_QUEUES,
            ring: 32768,
            buffers: 1 << 18,
            design: Design::Padded,
            shared_pool: false,
            page: 2 << 20,
            ..Config::default()
        };
        assert!(Layout::new(&most).is_ok_and(|l| l.size() > 1 << 31));
    }
}
