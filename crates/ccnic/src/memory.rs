//! `SharedMemory`: what one agent, a host core or a NIC core, can do to the shared region.
//!
//! Everything that crosses the interface goes through this trait, so that one source runs on mapped memory
//! (`ccnic-shm`), under the loom model checker (`ccnic-check`) and on a simulated interconnect.
//!
//! Two kinds of bytes live in a region:
//!
//! * **words**: 8-byte aligned, shared while both sides run (signals, positions, list heads). They are
//!   accessed by [`load`](SharedMemory::load), [`load_acquire`](SharedMemory::load_acquire),
//!   [`store`](SharedMemory::store), [`store_release`](SharedMemory::store_release) and
//!   [`compare_exchange`](SharedMemory::compare_exchange).
//! * **payload**: the bytes of packet buffers. They belong to the side that holds the buffer, and change
//!   hands only by a word (a signal, a list head). They are accessed by [`read`](SharedMemory::read),
//!   [`write`](SharedMemory::write), [`with`](SharedMemory::with) and [`with_mut`](SharedMemory::with_mut).

/// Bytes of a cache line, the unit in which coherent interconnects communicate (CC-NIC section 3.2).
pub const LINE: u32 = 64;

/// One agent's view of a shared region.
///
/// Addresses are byte offsets from the region's start. Words must be 8-byte aligned.
///
/// # Requirements for implementations
/// * No offset may reach memory outside the region, whatever its value: offsets may come from a hostile peer.
///   A caller that passes one has a defect; an implementation may end the process.
/// * `load_acquire` and a successful `compare_exchange` see everything written before the `store_release` or
///   `compare_exchange` whose value they return.
///
/// ```
/// use ccnic::{SharedMemory, heap::HeapMemory};
///
/// let (mem, mut bytes) = (HeapMemory::new(4096), [0; 5]);
/// mem.write(100, b"hello"); // payload, which this agent holds
/// mem.store_release(64, 1); // a word: hands it over
/// # let other_agent = mem.clone();
/// if other_agent.load_acquire(64) == 1 {
///     other_agent.read(100, &mut bytes);
/// }
/// assert_eq!((&bytes, mem.compare_exchange(64, 0, 2)), (b"hello", Err(1)));
/// ```
pub trait SharedMemory {
    /// Shown by a caller that hands over buffers as plain descriptors
    /// ([`QueuePair::tx_descs`](crate::host::QueuePair::tx_descs) and its like). A descriptor can be copied, so two of one buffer
    /// would have its bytes lent twice: mapped memory, which lends them by reference, asks for a value that only `unsafe` code
    /// makes. `()` for a memory that lends copies.
    type Adopt: Copy;

    /// Reads a word that this agent alone writes, or whose order does not matter.
    fn load(&self, at: u32) -> u64;
    /// Writes a word that no other agent reads before a later release.
    fn store(&self, at: u32, value: u64);
    /// Reads consecutive words, at most a line of them, as [`load`](SharedMemory::load) reads one.
    #[inline(always)]
    fn load_many(&self, at: u32, to: &mut [u64]) {
        for (i, word) in (0..).zip(to) {
            *word = self.load(at + 8 * i);
        }
    }
    /// Writes consecutive words, at most a line of them, as [`store`](SharedMemory::store) writes one.
    #[inline(always)]
    fn store_many(&self, at: u32, from: &[u64]) {
        for (i, word) in (0..).zip(from) {
            self.store(at + 8 * i, *word);
        }
    }
    /// Reads a word; later accesses of this agent are ordered after it.
    fn load_acquire(&self, at: u32) -> u64;
    /// Writes a word; earlier accesses of this agent are ordered before it.
    fn store_release(&self, at: u32, value: u64);
    /// Atomically replaces `current` by `new`, with acquire and release ordering; returns the old value.
    ///
    /// # Errors
    /// The value found, when it is not `current`.
    fn compare_exchange(&self, at: u32, current: u64, new: u64) -> Result<u64, u64>;

    /// Copies payload out of the region.
    fn read(&self, at: u32, to: &mut [u8]);
    /// Copies bytes into payload.
    fn write(&self, at: u32, from: &[u8]);
    /// Copies payload to another region, or within this one, through registers. By default a line at a time.
    ///
    /// A memory whose copies are faster in another way says so: mapped memory does.
    #[inline(always)]
    fn copy_to<Q: SharedMemory>(&self, at: u32, dst: &Q, to: u32, len: u32) {
        let mut line = [0; LINE as usize];
        let mut done = 0;
        while done < len {
            let n = (len - done).min(LINE);
            let Some(part) = line.get_mut(..n as usize) else { return };
            self.read(at.wrapping_add(done), part);
            dst.write(to.wrapping_add(done), part);
            done += n;
        }
    }
    /// Calls `f`, a closure marked `#[inline(always)]`, compiled for the widest registers of this machine. For long
    /// copies outside of the functions that are compiled so as a whole.
    #[inline(always)]
    fn in_wide_registers<T>(&self, f: impl FnOnce() -> T) -> T {
        f()
    }
    /// Lends payload to `f`. Only for the holder of the buffer, and only where the other side is trusted not
    /// to write it meanwhile: the NIC never uses it. Who cannot trust it [reads](SharedMemory::read) a copy and decides by that.
    fn with<R>(&self, at: u32, len: u32, f: impl FnOnce(&[u8]) -> R) -> R;
    /// Lends payload to `f` for writing; see [`with`](SharedMemory::with).
    fn with_mut<R>(&self, at: u32, len: u32, f: impl FnOnce(&mut [u8]) -> R) -> R;

    /// Hint: this agent will read the line that contains `at`.
    fn prefetch_read(&self, at: u32);
    /// Hint: this agent will write the line: fetch it with ownership (PREFETCHW).
    fn prefetch_own(&self, at: u32);
    /// Hint: this agent will write all of the line. On an interconnect that can hand over ownership without
    /// data, the old content is not transferred (the packet rates of CC-NIC section 5.3 fit its link only
    /// then).
    #[inline(always)]
    fn prefetch_overwrite(&self, at: u32) {
        self.prefetch_own(at);
    }
    /// Hint: the other side reads the line next: move it towards a shared cache (CLDEMOTE).
    fn demote(&self, at: u32);
    /// A number that differs between the regions that this process uses at the same time. Debug builds
    /// compare it to refuse a buffer of another region; 0, the default, is a memory that does not tell.
    fn region(&self) -> usize {
        0
    }
    /// True when the NIC may sleep: a host that has published packets looks whether it has to be woken (`notify.rs`). By default it never
    /// sleeps.
    #[inline(always)]
    fn nic_may_sleep(&self) -> bool {
        false
    }
    /// Wakes the NIC. Never blocks.
    fn wake_nic(&self) {}
    /// This agent's earlier stores come before its later loads, for a side that executes a
    /// [`heavy_barrier`](SharedMemory::heavy_barrier): one half of an asymmetric fence, which costs nothing but the compiler's freedom.
    #[inline(always)]
    fn light_barrier(&self) {}
    /// The other half: a full fence of this agent, and of every agent that uses a [`light_barrier`](SharedMemory::light_barrier).
    fn heavy_barrier(&self) {}
    /// One poll that found nothing: this agent waits for one of the lines that it has loaded
    /// since the last `relax`.
    fn relax(&self);
}

/// The lines that `len` bytes from `at` touch, as offsets.
///
/// ```
/// assert!(ccnic::memory::lines(60, 100).eq([0, 64, 128]));
/// ```
#[inline(always)]
pub fn lines(at: u32, len: u32) -> impl Iterator<Item = u32> {
    let first = at & !(LINE - 1);
    let end = at.saturating_add(len);
    (0..end.saturating_sub(first).div_ceil(LINE)).map(move |i| first + i * LINE)
}

/// Lines of a buffer that are prefetched before it is written or read: a core has 16 fill buffers (12 on Ice
/// Lake), and the hardware prefetcher fetches the rest.
const PREFETCH_LINES: u32 = 4;

/// What payload is prefetched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fetch {
    /// To be read.
    Read,
    /// To be read and then written, since its buffer will be recycled. One transfer with ownership is cheaper
    /// than a read and an upgrade.
    Own,
    /// To be written: the content of lines that are written as a whole need not be transferred.
    Write,
}

/// Prefetches the first lines of `len` bytes of payload, all at once, so that the transfers overlap.
#[inline(always)]
pub(crate) fn prefetch_payload<M: SharedMemory>(mem: &M, at: u32, len: u32, what: Fetch) {
    let fetch = |line: u32| match what {
        Fetch::Read => mem.prefetch_read(at + line * LINE),
        Fetch::Own => mem.prefetch_own(at + line * LINE),
        Fetch::Write => mem.prefetch_overwrite(at + line * LINE),
    };
    let part = |line: u32| match what {
        Fetch::Read => mem.prefetch_read(at + line * LINE),
        Fetch::Own | Fetch::Write => mem.prefetch_own(at + line * LINE),
    };
    if len <= LINE {
        return if len < LINE { part(0) } else { fetch(0) };
    }
    fetch(0);
    // Unrolled, with one comparison a line.
    for line in 1..PREFETCH_LINES {
        if len < (line + 1) * LINE {
            return if len > line * LINE {
                part(line)
            };
        }
        fetch(line);
    }
}

/// Copies a packet of up to two lines into payload, in registers, with stores that may overlap. Copies
/// nothing of a longer one, which does not fit into a small buffer.
#[inline(always)]
pub(crate) fn write_small<M: SharedMemory>(mem: &M, at: u32, from: &[u8]) {
    #[inline(always)]
    fn ends<const N: usize, M: SharedMemory>(mem: &M, at: u32, from: &[u8]) {
        // (`last_chunk` would leave a panic that the compiler does not see to be impossible.)
        let end = from.get(from.len().saturating_sub(N)..).unwrap_or_default();
        if let (Some(first), Some(last)) = (from.first_chunk::<N>(), end.first_chunk::<N>()) {
            mem.write(at, first);
            if from.len() > N {
                mem.write(at + (from.len() - N) as u32, last);
            }
        }
    }
    match from.len() {
        64..=128 => ends::<64, M>(mem, at, from),
        32..64 => ends::<32, M>(mem, at, from),
        16..32 => ends::<16, M>(mem, at, from),
        0..16 => mem.write(at, from),
        _ => {}
    }
}

/// Copies a packet into payload, in registers: whole lines, and the last bytes together with some of those before them.
#[inline(always)]
pub(crate) fn write_packet<M: SharedMemory>(mem: &M, at: u32, from: &[u8]) {
    let (whole, rest) = from.as_chunks::<{ LINE as usize }>();
    if whole.is_empty() {
        return write_small(mem, at, from);
    }
    for (i, line) in (0..).zip(whole) {
        mem.write(at + i * LINE, line);
    }
    if let (false, Some(end)) = (rest.is_empty(), from.last_chunk::<{ LINE as usize }>()) {
        mem.write(at + from.len() as u32 - LINE, end);
    }
}

/// Copies a packet out of payload; see [`write_packet`].
#[inline(always)]
pub(crate) fn read_packet<M: SharedMemory>(mem: &M, at: u32, to: &mut [u8]) {
    let len = to.len() as u32;
    let (whole, rest) = to.as_chunks_mut::<{ LINE as usize }>();
    if whole.is_empty() {
        return read_short(mem, at, rest);
    }
    for (i, line) in (0..).zip(whole) {
        mem.read(at + i * LINE, line);
    }
    if !len.is_multiple_of(LINE)
        && let Some(end) = to.last_chunk_mut::<{ LINE as usize }>()
    {
        mem.read(at + len - LINE, end);
    }
}

/// Copies fewer bytes than a line out of payload.
#[inline(always)]
fn read_short<M: SharedMemory>(mem: &M, at: u32, to: &mut [u8]) {
    #[inline(always)]
    fn ends<const N: usize, M: SharedMemory>(mem: &M, at: u32, to: &mut [u8]) {
        let last = at + (to.len().saturating_sub(N)) as u32;
        if let Some(first) = to.first_chunk_mut::<N>() {
            mem.read(at, first);
        }
        if let Some(end) = to.last_chunk_mut::<N>() {
            mem.read(last, end);
        }
    }
    match to.len() {
        32.. => ends::<32, M>(mem, at, to),
        16.. => ends::<16, M>(mem, at, to),
        _ => mem.read(at, to),
    }
}

/// Copies `len` bytes of payload from one region to another, or within one.
///
/// The NIC copies packets with this function only: it never holds a reference into a program's memory.
#[inline(always)]
pub(crate) fn copy<M: SharedMemory, Q: SharedMemory>(src: &M, from: u32, dst: &Q, to: u32, len: u32) {
    src.copy_to(from, dst, to, len);
}
