//! What C sees: the structures of `ccnic.h`, word for word. A test compiles the header and compares.

use std::ffi::c_char;
use std::mem::size_of;

use ccnic::desc::{FLAG_MORE, FLAG_SMALL};
use ccnic::rss::{FlowTypes, KEY, Rss, TABLE};
use ccnic::{Config, Demote, Desc, Design};
use ccnic_shm::Pages;
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
    /// Nothing in it is trusted yet.
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

/// `struct ccnic_view`: where the buffers lie. The inline functions of the header read it at the start of a queue.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct View {
    pub(crate) base: *mut u8,
    pub(crate) first: u32,
    pub(crate) span: u32,
}

// SAFETY: an address that nobody here dereferences; who does is bound by the contract of the headers.
unsafe impl Send for View {}

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
const HOST_MANAGED: u32 = 8;
const DEMOTE_ALWAYS: u32 = 16;
const DEMOTE_NEVER: u32 = 32;
const ALL_FLAGS: u32 = 63;

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
        // SAFETY: the caller vouches for it; the fields take any bytes.
        let (this, newer) = unsafe { read_sized(from, CcnicOptions::DEFAULT)? };
        if newer || this.reserved != [0; 2] { Err(UNKNOWN_FIELD) } else { Ok(this) }
    }

    /// The configuration of a region and its pages. Ranges are checked where the region is made.
    pub(crate) fn config(&self) -> Result<(Config, Pages), Failure> {
        let invalid = |text: &str| Failure::said(Errno::INVAL, text);
        let default = Config::default();
        let or = |value: u32, default: u32| if value == 0 { default } else { value };
        let narrow = |field: &str, value: u32| {
            u16::try_from(value).map_err(|_| invalid(&format!("{field} is {value}; choose a smaller one")))
        };
        let design = Design::ALL.into_iter().find(|d| *d as u32 == self.design);
        let design = design.ok_or_else(|| invalid(&format!("design is {}; choose 0 to 4", self.design)))?;
        if self.flags & !ALL_FLAGS != 0 {
            return Err(invalid(&format!(
                "flags has bits that mean nothing: {:#x}",
                self.flags & !ALL_FLAGS
            )));
        }
        let demote = match self.flags & (DEMOTE_ALWAYS | DEMOTE_NEVER) {
            0 => Demote::Auto,
            DEMOTE_ALWAYS => Demote::On,
            DEMOTE_NEVER => Demote::Off,
            _ => {
                return Err(invalid("flags say both CCNIC_DEMOTE_ALWAYS and CCNIC_DEMOTE_NEVER; choose one"));
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
            // The E810's host posts every receive buffer: it has no shared pool.
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

    /// Reads what a program wants. Queue numbers are checked where the queues are known.
    ///
    /// # Safety
    /// As [`read_sized`].
    pub(crate) unsafe fn read(from: *const CcnicRss) -> Result<Rss, Failure> {
        // SAFETY: the caller vouches for it; the fields take any bytes.
        let (this, newer) = unsafe { read_sized(from, CcnicRss::NONE)? };
        let bits = u8::try_from(this.types).ok().filter(|_| this.flags & !RSS_META == 0);
        let (Some(types), false) = (bits.map(FlowTypes::from_bits), newer) else { return Err(UNKNOWN_FIELD) };
        Ok(Rss { key: this.key, types, table: this.table, hash: this.flags & RSS_META != 0 })
    }
}

pub(crate) const UNKNOWN_FIELD: Failure =
    Failure::new(Errno::TOOBIG, c"an option is set that this libccnic does not know; use a newer one");

/// Reads options, which begin with their size, of a program that may have been compiled with an older or a newer header: what it
/// does not have is the default, what this library does not know must be zero (as `openat2` and `clone3` of Linux have it). The
/// second value says that it is not.
///
/// # Safety
/// `from` points to as many readable bytes as its first word says, and `T` is `repr(C)`, begins with a `usize` and takes any bytes.
pub(crate) unsafe fn read_sized<T>(from: *const T, mut this: T) -> Result<(T, bool), Failure> {
    // SAFETY: the caller vouches for at least the first word.
    let size = unsafe { from.cast::<usize>().read() };
    if !(size_of::<usize>()..=4096).contains(&size) {
        let text = c"the options' size is wrong: call the structure's init function first";
        return Err(Failure::new(Errno::INVAL, text));
    }
    let known = size.min(size_of::<T>());
    // SAFETY: `known` bytes are readable by the caller's word and fit in `this`; what lies beyond them is readable too.
    let beyond = unsafe {
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut this).cast::<u8>(), known);
        std::slice::from_raw_parts(from.cast::<u8>().add(known), size - known)
    };
    Ok((this, beyond.iter().any(|&byte| byte != 0)))
}

/// Copies a structure to a program that may have been compiled with an older or a newer header: it gets as many bytes as it knows,
/// and zeroes for what this library does not.
///
/// # Safety
/// `out` has `size` bytes to write to.
pub(crate) unsafe fn write_sized<T>(from: &T, out: *mut T, size: usize) {
    let known = size.min(size_of::<T>());
    // SAFETY: as the caller vouches.
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
    /// Buffers that a transmit burst left, since the ring was full.
    pub tx_ring_full: u64,
    /// Buffers that an allocation did not get, since the pool was dry.
    pub alloc_failed: u64,
    /// Transmit bursts that ended at a handle that names no buffer.
    pub tx_bad_buffer: u64,
    /// Transmit bursts that ended at a packet that is too long, or a chain that is too long or has no end.
    pub tx_bad_packet: u64,
    /// Handles given to free that name no buffer.
    pub free_bad_buffer: u64,
    /// Received descriptors that name no buffer.
    pub rx_bad_descriptor: u64,
    /// Received descriptors of chains with too many segments.
    pub rx_bad_chain: u64,
    /// Packets that the NIC dropped, with RSS, since the ring was full or the pool dry.
    pub rx_missed: u64,
}
