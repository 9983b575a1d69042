//! The structures of `ccnic.h`. A test compiles the header and compares their layout.

use std::ffi::c_char;
use std::mem::{MaybeUninit, size_of};

use ccnic::desc::{FLAG_MORE, FLAG_SMALL};
use ccnic::rss::{FlowTypes, KEY, Rss, TABLE};
use ccnic::{Burst, Config, Demote, Desc, Design, Layout};
use ccnic_shm::{Adopt, Pages, Region};
use rustix::io::Errno;

use crate::errno::Failure;

#[cfg(target_endian = "big")]
compile_error!("struct ccnic_buf of ccnic.h has the byte order of little-endian machines");

/// `struct ccnic_buf`: a descriptor by value. To C, word 0 is `offset` (32 bits), `len` (16), `flags` (8), `reserved` (8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct CcnicBuf {
    word: u64,
    /// Metadata of the packet.
    pub meta: u64,
}

impl From<Desc> for CcnicBuf {
    #[inline(always)]
    fn from(desc: Desc) -> CcnicBuf {
        let word = u64::from(desc.offset()) | u64::from(desc.len()) << 32 | u64::from(desc.flags()) << 48;
        CcnicBuf { word, meta: desc.meta }
    }
}

impl From<CcnicBuf> for Desc {
    /// Not checked: the caller may have forged it.
    #[inline(always)]
    fn from(buf: CcnicBuf) -> Desc {
        let flags = (buf.word >> 48) as u8 & (FLAG_MORE | FLAG_SMALL);
        Desc::new(buf.word as u32, buf.len(), flags).with_meta(buf.meta)
    }
}

impl CcnicBuf {
    #[inline(always)]
    pub(crate) fn len(self) -> u16 {
        (self.word >> 32) as u16
    }

    #[inline(always)]
    pub(crate) fn more(self) -> bool {
        self.word >> 48 & u64::from(FLAG_MORE) != 0
    }
}

/// C holds what it hands over by value: the contract of the headers, which the debug mode looks after (`held.rs`).
// SAFETY: guaranteed by the caller of the function that takes the handles; each is checked to name a buffer of the pool.
pub(crate) const ADOPT: Adopt = unsafe { Adopt::promise() };

/// Moves the buffers of a burst to C; returns their number. `out` has entries for all of them.
#[inline(always)]
pub(crate) fn hand_out(burst: &mut Burst, out: &mut [MaybeUninit<CcnicBuf>]) -> usize {
    let descs = burst.disown();
    let n = descs.len().min(out.len());
    for (to, desc) in out.iter_mut().zip(descs) {
        to.write(desc.into());
    }
    n
}

/// `struct ccnic_view`: where the buffers lie. The inline functions of the header read it at the start of a queue.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CcnicView {
    pub(crate) base: *mut u8,
    pub(crate) first: u32,
    pub(crate) span: u32,
}

impl CcnicView {
    /// The view of a mapped region.
    pub(crate) fn new(region: &Region, layout: &Layout) -> CcnicView {
        let pool = layout.pool();
        CcnicView { base: region.base().as_ptr(), first: pool.buffers, span: pool.end - pool.buffers }
    }
}

// SAFETY: this library never dereferences the address; callers that do follow the contract of the headers.
unsafe impl Send for CcnicView {}

/// `struct ccnic_options`. Zero means "default" in every field.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CcnicOptions {
    /// `sizeof(struct ccnic_options)` of the header that the program was compiled with.
    pub size: usize,
    /// Name in the status display, or NULL.
    pub name: *const c_char,
    /// `enum ccnic_design`.
    pub design: u32,
    /// `CCNIC_NO_RECYCLE` and so on.
    pub flags: u32,
    /// Queue pairs.
    pub queues: u32,
    /// Descriptors in each ring.
    pub ring: u32,
    /// Large buffers.
    pub buffers: u32,
    /// Largest packet.
    pub mtu: u32,
    /// `enum ccnic_pages`.
    pub pages: u32,
    /// Address, or all zero.
    pub mac: [u8; 6],
    /// Zero.
    pub reserved: [u8; 2],
}

const NO_RECYCLE: u32 = 1;
const NO_SMALL: u32 = 2;
const SEQUENTIAL: u32 = 4;
pub(crate) const HOST_MANAGED: u32 = 8;
const DEMOTE_ALWAYS: u32 = 16;
const DEMOTE_NEVER: u32 = 32;
const LATER: u32 = 64;
const ALL_FLAGS: u32 = 127;

impl CcnicOptions {
    pub(crate) const DEFAULT: CcnicOptions = CcnicOptions {
        size: size_of::<CcnicOptions>(),
        name: std::ptr::null(),
        design: 0,
        flags: 0,
        queues: 0,
        ring: 0,
        buffers: 0,
        mtu: 0,
        pages: 0,
        mac: [0; 6],
        reserved: [0; 2],
    };

    /// Reads the options of a program.
    ///
    /// # Safety
    /// As [`read_sized`].
    pub(crate) unsafe fn read(from: *const CcnicOptions) -> Result<CcnicOptions, Failure> {
        // SAFETY: guaranteed by the caller; any bytes are valid fields.
        let (this, newer) = unsafe { read_sized(from, CcnicOptions::DEFAULT)? };
        if newer || this.reserved != [0; 2] { Err(UNKNOWN_FIELD) } else { Ok(this) }
    }

    /// The NIC need not be there yet.
    pub(crate) fn later(&self) -> bool {
        self.flags & LATER != 0
    }

    /// The configuration of a region, and its pages. The ranges of its fields are checked where the region is made.
    pub(crate) fn config(&self) -> Result<(Config, Pages), Failure> {
        let invalid = |text: &str| Failure::with_text(Errno::INVAL, text);
        let default = Config::default();
        let or = |value: u32, default: u32| if value == 0 { default } else { value };
        let narrow = |field: &str, value: u32| {
            u16::try_from(value).map_err(|_| invalid(&format!("{field} is {value}; choose a smaller one")))
        };
        let design = Design::ALL.into_iter().find(|d| *d as u32 == self.design);
        let design = design.ok_or_else(|| invalid(&format!("design is {}; choose 0 to 4", self.design)))?;
        if self.flags & !ALL_FLAGS != 0 {
            return Err(invalid(&format!("flags has unknown bits: {:#x}", self.flags & !ALL_FLAGS)));
        }
        let demote = match self.flags & (DEMOTE_ALWAYS | DEMOTE_NEVER) {
            0 => Demote::Auto,
            DEMOTE_ALWAYS => Demote::On,
            DEMOTE_NEVER => Demote::Off,
            _ => {
                return Err(invalid("flags has CCNIC_DEMOTE_ALWAYS and CCNIC_DEMOTE_NEVER; choose one"));
            }
        };
        let pages = match self.pages {
            0 => Pages::Auto,
            1 => Pages::Small,
            2 => Pages::Huge,
            other => return Err(invalid(&format!("pages is {other}; choose 0 to 2"))),
        };
        let config = Config {
            queues: narrow("queues", or(self.queues, default.queues.into()))?,
            ring: or(self.ring, default.ring),
            buffers: or(self.buffers, default.buffers),
            mtu: narrow("mtu", or(self.mtu, default.mtu.into()))?,
            design,
            recycle: self.flags & NO_RECYCLE == 0,
            small: self.flags & NO_SMALL == 0,
            sequential: self.flags & SEQUENTIAL != 0,
            // The E810 design has no shared pool: its host posts every receive buffer.
            shared_pool: self.flags & HOST_MANAGED == 0 && design != Design::Doorbell,
            demote,
            ..default
        };
        Ok((config, pages))
    }
}

/// `struct ccnic_rss`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CcnicRss {
    /// `sizeof(struct ccnic_rss)` of the header that the program was compiled with.
    pub size: usize,
    /// `CCNIC_RSS_IPV4` and so on.
    pub types: u32,
    /// `CCNIC_RSS_META`, or 0.
    pub flags: u32,
    /// Of the hash.
    pub key: [u8; KEY],
    /// Queue numbers.
    pub table: [u16; TABLE],
}

const RSS_META: u32 = 1;

impl CcnicRss {
    const NONE: CcnicRss =
        CcnicRss { size: size_of::<CcnicRss>(), types: 0, flags: 0, key: [0; KEY], table: [0; TABLE] };

    /// Reads the setting of a program. Queue numbers are checked where the queues are known.
    ///
    /// # Safety
    /// As [`read_sized`].
    pub(crate) unsafe fn read(from: *const CcnicRss) -> Result<Rss, Failure> {
        // SAFETY: guaranteed by the caller; any bytes are valid fields.
        let (this, newer) = unsafe { read_sized(from, CcnicRss::NONE)? };
        let bits = u8::try_from(this.types).ok().filter(|_| this.flags & !RSS_META == 0);
        let (Some(types), false) = (bits.map(FlowTypes::from_bits), newer) else { return Err(UNKNOWN_FIELD) };
        Ok(Rss { key: this.key, types, table: this.table, hash: this.flags & RSS_META != 0 })
    }
}

pub(crate) const UNKNOWN_FIELD: Failure =
    Failure::new(Errno::TOOBIG, c"an option is set that this libccnic does not know; use a newer libccnic");

/// Reads options, which begin with their size, of a program that may have been compiled with an older or a newer header. Fields
/// that it does not have keep their defaults (`this`); fields that this library does not know must be zero, as with Linux'
/// `openat2` and `clone3`. The second value is true if they are not.
///
/// # Safety
/// The first word of `from` is the number of its readable bytes. `T` is `repr(C)`, begins with a `usize`, and any bytes are a `T`.
pub(crate) unsafe fn read_sized<T>(from: *const T, mut this: T) -> Result<(T, bool), Failure> {
    // SAFETY: the caller guarantees at least the first word.
    let size = unsafe { from.cast::<usize>().read() };
    if !(size_of::<usize>()..=4096).contains(&size) {
        let text = c"the options' size is wrong: call the structure's init function first";
        return Err(Failure::new(Errno::INVAL, text));
    }
    let known = size.min(size_of::<T>());
    // SAFETY: the caller guarantees `size` readable bytes; `known` of them fit in `this`.
    let beyond = unsafe {
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut this).cast::<u8>(), known);
        std::slice::from_raw_parts(from.cast::<u8>().add(known), size - known)
    };
    Ok((this, beyond.iter().any(|&byte| byte != 0)))
}

/// Copies a structure to a program that may have been compiled with an older or a newer header: it gets the `size` bytes that
/// it knows; fields that this library does not know become zero.
///
/// # Safety
/// `out` points to `size` writable bytes.
pub(crate) unsafe fn write_sized<T>(from: &T, out: *mut T, size: usize) {
    let known = size.min(size_of::<T>());
    // SAFETY: guaranteed by the caller.
    unsafe {
        std::ptr::write_bytes(out.cast::<u8>(), 0, size);
        std::ptr::copy_nonoverlapping(std::ptr::from_ref(from).cast::<u8>(), out.cast::<u8>(), known);
    }
}

/// `struct ccnic_stats`: what a queue has done.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct CcnicStats {
    /// Packets handed to the NIC.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Buffers that transmit bursts left because the ring was full.
    pub tx_ring_full: u64,
    /// Buffers that allocations did not get because the pool was empty.
    pub alloc_failed: u64,
    /// Transmit bursts that ended at a handle that names no buffer.
    pub tx_bad_buffer: u64,
    /// Transmit bursts that ended at a packet that is too long or a chain that is too long or has no end.
    pub tx_bad_packet: u64,
    /// Handles given to free that name no buffer.
    pub free_bad_buffer: u64,
    /// Received packets of which a descriptor names no buffer.
    pub rx_bad_descriptor: u64,
    /// Received descriptors of packets with too many segments.
    pub rx_bad_chain: u64,
    /// Packets that the NIC dropped (with RSS only) because the ring was full or the pool was empty.
    pub rx_dropped: u64,
    /// Received packets longer than the MTU.
    pub rx_too_long: u64,
    /// Packets dropped because a receive burst had fewer entries than they have buffers.
    pub rx_too_few_entries: u64,
    /// Packets dropped because there was no buffer for them while buffers stood in the ring behind them.
    pub rx_no_buffer: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const INVALID: i32 = -Errno::INVAL.raw_os_error();

    #[test]
    fn a_descriptor_survives_the_way_to_c_and_back() {
        let desc = Desc::new(0x1234_5678, 0x9abc, FLAG_MORE | FLAG_SMALL).with_meta(u64::MAX - 1);
        let buf = CcnicBuf::from(desc);
        assert_eq!((buf.len(), buf.more(), buf.meta), (0x9abc, true, u64::MAX - 1));
        assert_eq!(Desc::from(buf), desc);
        let forged = CcnicBuf { word: u64::MAX, meta: 0 };
        assert_eq!(Desc::from(forged).flags(), FLAG_MORE | FLAG_SMALL, "other bits are dropped");
    }

    #[test]
    fn zero_means_the_default() {
        let (config, pages) = CcnicOptions::DEFAULT.config().unwrap();
        assert_eq!((config, pages), (Config::default(), Pages::Auto));
        let chosen =
            CcnicOptions { design: 4, flags: NO_SMALL | DEMOTE_NEVER, queues: 3, ..CcnicOptions::DEFAULT };
        let (config, _) = chosen.config().unwrap();
        assert_eq!((config.design, config.queues, config.small), (Design::Doorbell, 3, false));
        assert_eq!((config.demote, config.shared_pool), (Demote::Off, false));
    }

    #[test]
    fn options_out_of_range_are_refused() {
        let default = CcnicOptions::DEFAULT;
        for wrong in [
            CcnicOptions { design: 5, ..default },
            CcnicOptions { flags: ALL_FLAGS + 1, ..default },
            CcnicOptions { flags: DEMOTE_ALWAYS | DEMOTE_NEVER, ..default },
            CcnicOptions { pages: 3, ..default },
            CcnicOptions { queues: 65536, ..default },
            CcnicOptions { mtu: 65536, ..default },
        ] {
            assert_eq!(wrong.config().unwrap_err().code(), INVALID, "{wrong:?}");
        }
    }

    #[repr(C)]
    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Newer {
        size: usize,
        known: u64,
        later: u64,
    }

    #[repr(C)]
    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Known {
        size: usize,
        known: u64,
    }

    #[test]
    fn structures_of_older_and_newer_headers_are_read() {
        let default = Known { size: 0, known: 7 };
        let read = |newer: Newer| {
            // SAFETY: `size` is at most that of `Newer`, or refused before it is used.
            unsafe { read_sized((&raw const newer).cast::<Known>(), default) }
        };
        let older = Newer { size: 8, known: 1, later: 1 };
        assert_eq!(read(older).unwrap(), (Known { size: 8, known: 7 }, false));
        let same = Newer { size: 16, known: 1, later: 1 };
        assert_eq!(read(same).unwrap(), (Known { size: 16, known: 1 }, false));
        let newer = Newer { size: 24, known: 1, later: 1 };
        assert!(read(newer).unwrap().1, "a field that is unknown here is set");
        assert!(!read(Newer { later: 0, ..newer }).unwrap().1);
        for size in [0, 7, 4097] {
            assert_eq!(read(Newer { size, ..newer }).unwrap_err().code(), INVALID);
        }
    }

    #[test]
    fn structures_are_written_for_older_and_newer_headers() {
        let from = Known { size: 1, known: 2 };
        let mut out = [0xeeu8; 32];
        // SAFETY: `out` has 24 bytes.
        unsafe { write_sized(&from, out.as_mut_ptr().cast(), 24) };
        assert_eq!((out[0], out[8], out[16..24].to_vec(), out[24]), (1, 2, vec![0; 8], 0xee));
        let mut out = [0xeeu8; 32];
        // SAFETY: `out` has 8 bytes.
        unsafe { write_sized(&from, out.as_mut_ptr().cast(), 8) };
        assert_eq!((out[0], out[8]), (1, 0xee));
    }

    #[test]
    fn unknown_rss_types_and_flags_are_refused() {
        // SAFETY: `size` is that of the structure.
        let read = |rss: CcnicRss| unsafe { CcnicRss::read(&raw const rss) };
        let rss = read(CcnicRss { types: 255, flags: RSS_META, ..CcnicRss::NONE }).unwrap();
        assert!(rss.hash);
        for wrong in [CcnicRss { types: 256, ..CcnicRss::NONE }, CcnicRss { flags: 2, ..CcnicRss::NONE }] {
            assert_eq!(read(wrong).unwrap_err().code(), -Errno::TOOBIG.raw_os_error());
        }
    }
}
