//! The structures of `ccnic_nic.h`. A test compiles the header and compares their layout.

use std::ffi::{c_char, c_void};
use std::mem::size_of;

use ccnic_nic::{Limits, NicOptions};
use rustix::io::Errno;

use crate::abi::{UNKNOWN_FIELD, read_sized};
use crate::errno::Failure;

/// `struct ccnic_nic_options`. Zero means "default" in every field.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CcnicNicOptions {
    /// `sizeof(struct ccnic_nic_options)` of the header that the NIC was compiled with.
    pub size: usize,
    /// What the status display calls it, or NULL.
    pub name: *const c_char,
    /// `CCNIC_NIC_KEEP_SIGBUS`, `CCNIC_NIC_RSS`, `CCNIC_NIC_SLEEPS`.
    pub flags: u32,
    /// NUMA node of the cores that poll.
    pub node: u32,
    /// Largest region, in MiB.
    pub region_max: u32,
    /// All regions together, in MiB.
    pub memory_max: u32,
}

const KEEP_SIGBUS: u32 = 1;
const RSS: u32 = 2;
const SLEEPS: u32 = 4;

impl CcnicNicOptions {
    pub(crate) const DEFAULT: CcnicNicOptions = CcnicNicOptions {
        size: size_of::<CcnicNicOptions>(),
        name: std::ptr::null(),
        flags: 0,
        node: 0,
        region_max: 0,
        memory_max: 0,
    };

    /// Reads the options of a NIC.
    ///
    /// # Safety
    /// As [`read_sized`].
    pub(crate) unsafe fn read(from: *const CcnicNicOptions) -> Result<CcnicNicOptions, Failure> {
        // SAFETY: guaranteed by the caller; any bytes are valid fields.
        let (this, newer) = unsafe { read_sized(from, CcnicNicOptions::DEFAULT)? };
        if newer {
            return Err(UNKNOWN_FIELD);
        }
        let unknown = this.flags & !(KEEP_SIGBUS | RSS | SLEEPS);
        if unknown != 0 {
            let text = format!("flags has unknown bits: {unknown:#x}");
            return Err(Failure::with_text(Errno::INVAL, &text));
        }
        if this.region_max >= 4096 {
            let text = format!("region_max is {} MiB; choose up to 4095", this.region_max);
            return Err(Failure::with_text(Errno::INVAL, &text));
        }
        Ok(this)
    }

    fn limits(&self) -> Limits {
        let region_max = if self.region_max == 0 { 1280 } else { self.region_max } << 20;
        let memory_max = match self.memory_max {
            0 => Limits::half_the_memory(),
            mib => u64::from(mib) << 20,
        };
        Limits::new(region_max, memory_max)
    }

    /// Everything but the name.
    pub(crate) fn nic_options(&self) -> NicOptions {
        let has = |flag| self.flags & flag != 0;
        NicOptions::new()
            .node(self.node)
            .limits(self.limits())
            .keep_sigbus(has(KEEP_SIGBUS))
            .spreads(has(RSS))
            .sleeps(has(SLEEPS))
    }
}

/// `struct ccnic_program_info`: what a program announced when it attached, checked.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CcnicProgramInfo {
    /// Its name, a string.
    pub name: [u8; 256],
    /// Its process.
    pub pid: i32,
    /// `enum ccnic_design`.
    pub design: u32,
    /// Queue pairs.
    pub queues: u32,
    /// Descriptors per ring.
    pub ring: u32,
    /// Large buffers.
    pub buffers: u32,
    /// Largest packet, in bytes.
    pub mtu: u32,
    /// `CCNIC_HOST_MANAGED`, or 0.
    pub flags: u32,
    /// Its address, or all zero.
    pub mac: [u8; 6],
    /// Zero.
    pub reserved: [u8; 2],
}

/// `struct ccnic_segment`: bytes of a packet in the NIC's own memory.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CcnicSegment {
    /// The first byte.
    pub data: *const c_void,
    /// Metadata of the packet.
    pub meta: u64,
    /// Bytes.
    pub len: u32,
    /// `CCNIC_SEGMENT_MORE`, or 0.
    pub flags: u32,
}

/// The packet continues in the next segment.
pub(crate) const SEGMENT_MORE: u32 = 1;

/// `struct ccnic_nic_stats`: counters of the NIC's side of a queue.
pub type CcnicNicStats = ccnic_nic::QueueStats;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(options: CcnicNicOptions) -> Result<CcnicNicOptions, Failure> {
        // SAFETY: `size` is at most that of the structure.
        unsafe { CcnicNicOptions::read(&raw const options) }
    }

    #[test]
    fn options_out_of_range_are_refused() {
        let default = CcnicNicOptions::DEFAULT;
        assert!(read(default).is_ok());
        for wrong in [
            CcnicNicOptions { flags: 8, ..default },
            CcnicNicOptions { region_max: 4096, ..default },
            CcnicNicOptions { size: 0, ..default },
        ] {
            assert_eq!(read(wrong).unwrap_err().code(), -Errno::INVAL.raw_os_error(), "{wrong:?}");
        }
    }

    #[test]
    fn limits_are_mebibytes_and_zero_is_the_default() {
        let limits = CcnicNicOptions { region_max: 4095, memory_max: 3, ..CcnicNicOptions::DEFAULT }.limits();
        assert_eq!((limits.region_max, limits.memory_max), (4095 << 20, 3 << 20));
        assert_eq!(CcnicNicOptions::DEFAULT.limits().region_max, 1280 << 20);
    }
}
