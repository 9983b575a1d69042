//! A platform's PCIe numbers as the model uses them.
//!
//! A platform has what can be measured at the ends: how long a core's read, a posted write, a device's read and its write take. Here
//! they are taken apart into the segments that they share:
//!
//! | operation | segments |
//! |---|---|
//! | posted write | to_root, link, down |
//! | device's write | link, up, the host's caches |
//! | device's read | link, up, the host's caches, link, down |
//! | core's read | to_root, link, down, device, link, up, to_root |

use crate::kernel::time::{Ps, ps};
use crate::platform::Platform;

/// Bytes of a register.
pub const WORD: u32 = 8;

/// Times, sizes and limits.
#[derive(Debug, Clone)]
pub struct Costs {
    /// Time of a byte on the link.
    per_byte: f64,
    /// From a core to the root complex, and back.
    pub to_root: Ps,
    /// Between root complex and device, and between device and root complex.
    pub down: Ps,
    pub up: Ps,
    /// Between a core's store and its next one to the device.
    pub accept: Ps,
    /// What the device takes to read a register, and 64 bytes.
    read: Ps,
    read_line: Ps,
    pub payload: u32,
    pub read_request: u32,
    pub write_header: u32,
    pub read_header: u32,
    pub completion_header: u32,
    pub tags: u32,
    pub write_lines: usize,
    pub ddio_ways: u32,
}

impl Costs {
    /// The numbers of a platform with a PCIe link.
    pub fn of(platform: &Platform) -> Option<Costs> {
        let pcie = platform.pcie.as_ref()?;
        let mut costs = Costs {
            per_byte: 8000.0 / (pcie.raw.get() * pcie.tlp_share.get()),
            to_root: 0,
            down: 0,
            up: 0,
            accept: ps(pcie.posted_accept.get()),
            read: 0,
            read_line: 0,
            payload: pcie.payload.get(),
            read_request: pcie.read_request.get(),
            write_header: pcie.write_header.get(),
            read_header: pcie.read_header.get(),
            completion_header: pcie.completion_header.get(),
            tags: pcie.tags.get(),
            write_lines: pcie.write_lines.get() as usize,
            ddio_ways: pcie.ddio_ways.get(),
        };
        let link = |bytes| costs.on_link(bytes);
        let write = link(costs.write_header + 64) + ps(platform.dma_write_in_host_ns());
        let up = ps(pcie.dma_write.get()).saturating_sub(write);
        let read = link(costs.read_header) + link(costs.completion_header + 64) + ps(platform.llc_hit_ns());
        let down = ps(pcie.dma_read.get()).saturating_sub(read + up);
        let to_root = ps(pcie.posted_write.get()).saturating_sub(link(costs.write_header + WORD) + down);
        let device = |total: f64, bytes| {
            let way = link(costs.read_header) + link(costs.completion_header + bytes);
            ps(total).saturating_sub(way + down + up + 2 * to_root)
        };
        let (word, line) = (device(pcie.mmio_read.get(), WORD), device(pcie.mmio_read_line.get(), 64));
        (costs.up, costs.down, costs.to_root) = (up, down, to_root);
        (costs.read, costs.read_line) = (word, line);
        Some(costs)
    }

    /// Time of so many bytes on the link, headers included.
    pub fn on_link(&self, bytes: u32) -> Ps {
        (f64::from(bytes) * self.per_byte).round() as Ps
    }

    /// Between a read's arrival at the device and its completion's departure.
    pub fn read_time(&self, bytes: u32) -> Ps {
        if bytes <= WORD { self.read } else { self.read_line }
    }
}
