//! The native `SharedMemory`: mapped shared memory, plain loads and stores, inlined away.
//!
//! x86-64 keeps loads and stores in order (total store order), so an acquire load and a release store are
//! single `mov`s; on other processors the compiler adds the fences that their memory model needs.

use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;
#[expect(
    clippy::disallowed_types,
    reason = "this is a memory: the atomics of all shared words live here"
)]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use ccnic::{LINE, SharedMemory};
use rustix::net::{SendFlags, send};

use crate::barrier;
use crate::copy::copy;
use crate::mapping::Mapping;
use crate::vectors::Vectors;

/// Words of a line: the most that are read or written at once.
const WORDS: usize = LINE as usize / 8;

/// One agent's access to a mapped region. Cheap to clone; keeps the mapping alive.
#[derive(Debug, Clone)]
pub struct NativeMemory {
    base: NonNull<u8>,
    vectors: Vectors,
    /// What a NIC that sleeps is woken by.
    waker: Option<Arc<OwnedFd>>,
    _mapping: Arc<Mapping>,
}

/// The promise that plain descriptors are handed over by whoever holds their buffers: see [`SharedMemory::Adopt`].
#[derive(Debug, Clone, Copy)]
pub struct Adopt(());

impl Adopt {
    /// The promise.
    ///
    /// # Safety
    /// Each descriptor that is handed over with it names a buffer that the caller holds, as its only holder: it has it from
    /// [`Burst::disown`](ccnic::Burst::disown), of the same region, and has not handed it over before.
    pub const unsafe fn promise() -> Adopt {
        Adopt(())
    }
}

// SAFETY: `base` points into the mapping that `_mapping` keeps alive, which is Send and Sync.
unsafe impl Send for NativeMemory {}

impl NativeMemory {
    pub(crate) fn new(mapping: Arc<Mapping>) -> NativeMemory {
        NativeMemory { base: mapping.base(), vectors: Vectors::chosen(), waker: None, _mapping: mapping }
    }

    /// The same memory, of a NIC that may sleep: it is woken by a byte that is sent to this socket, which is connected with one that the
    /// NIC waits for.
    #[must_use]
    pub fn with_waker(self, socket: Arc<OwnedFd>) -> NativeMemory {
        NativeMemory { waker: Some(socket), ..self }
    }

    /// Bytes of the region. Beyond them there is no memory.
    pub(crate) fn size(&self) -> u32 {
        self._mapping.size()
    }

    /// The registers that bursts on this memory are to be run with.
    #[inline(always)]
    pub fn vectors(&self) -> Vectors {
        self.vectors
    }

    /// The address of a payload byte or word. Never leaves the reservation of `Mapping`.
    #[inline(always)]
    pub(crate) fn at(&self, at: u32) -> *mut u8 {
        // SAFETY: the reservation spans every u32 offset (mapping.rs), so the result stays inside one
        // mapping.
        unsafe { self.base.as_ptr().add(at as usize) }
    }

    #[inline(always)]
    #[expect(clippy::disallowed_types, reason = "this is a memory")]
    fn word(&self, at: u32) -> &AtomicU64 {
        let word = self.at(at & !7).cast::<AtomicU64>();
        // SAFETY: 8-byte aligned (the base is page aligned, the mask clears the low bits), inside the
        // reservation, alive as long as self, and only ever accessed as an atomic while shared (words and
        // payload never mix without a hand-over, see ccnic::memory). Beyond the region's bytes the access
        // faults.
        unsafe { &*word }
    }
}

impl SharedMemory for NativeMemory {
    type Adopt = Adopt;

    #[inline(always)]
    fn load(&self, at: u32) -> u64 {
        self.word(at).load(Relaxed)
    }

    #[inline(always)]
    fn store(&self, at: u32, value: u64) {
        self.word(at).store(value, Relaxed);
    }

    #[inline(always)]
    fn load_many(&self, at: u32, to: &mut [u64]) {
        let first = std::ptr::from_ref(self.word(at));
        for (i, word) in to.iter_mut().take(WORDS).enumerate() {
            // SAFETY: as in `word`; a line more stays inside the reservation.
            *word = unsafe { &*first.add(i) }.load(Relaxed);
        }
    }

    #[inline(always)]
    fn store_many(&self, at: u32, from: &[u64]) {
        let first = std::ptr::from_ref(self.word(at));
        for (i, word) in from.iter().take(WORDS).enumerate() {
            // SAFETY: as in `load_many`.
            unsafe { &*first.add(i) }.store(*word, Relaxed);
        }
    }

    #[inline(always)]
    fn load_acquire(&self, at: u32) -> u64 {
        self.word(at).load(Acquire)
    }

    #[inline(always)]
    fn store_release(&self, at: u32, value: u64) {
        self.word(at).store(value, Release);
    }

    #[inline(always)]
    fn compare_exchange(&self, at: u32, current: u64, new: u64) -> Result<u64, u64> {
        self.word(at).compare_exchange(current, new, AcqRel, Acquire)
    }

    #[inline(always)]
    fn read(&self, at: u32, to: &mut [u8]) {
        debug_assert!(u32::try_from(to.len()).is_ok());
        // SAFETY: source inside the reservation for any length below 4 GiB, destination exclusively borrowed.
        // A hostile peer may write the source meanwhile: the copy may then be torn, which is a possible value
        // of bytes, and the NIC reads no descriptors this way (they are words). The two may overlap: see
        // `write`.
        unsafe { std::ptr::copy(self.at(at), to.as_mut_ptr(), to.len()) }
    }

    #[inline(always)]
    fn write(&self, at: u32, from: &[u8]) {
        debug_assert!(u32::try_from(from.len()).is_ok());
        // SAFETY: as in `read`, with the roles exchanged. A NIC in C may send what lies in the buffer of a
        // program, which may have made the NIC allocate that very buffer: then the two overlap.
        unsafe { std::ptr::copy(from.as_ptr(), self.at(at), from.len()) }
    }

    #[inline(always)]
    fn copy_to<Q: SharedMemory>(&self, at: u32, dst: &Q, to: u32, len: u32) {
        copy(self, at, dst, to, len);
    }

    #[inline(always)]
    fn in_wide_registers<T>(&self, f: impl FnOnce() -> T) -> T {
        self.vectors().run(f)
    }

    #[inline(always)]
    fn with<R>(&self, at: u32, len: u32, f: impl FnOnce(&[u8]) -> R) -> R {
        // SAFETY: inside the reservation; the caller holds the buffer by the protocol, and trusts the other
        // side not to write into it (the contract of `SharedMemory::with`).
        f(unsafe { std::slice::from_raw_parts(self.at(at), len as usize) })
    }

    #[inline(always)]
    fn with_mut<R>(&self, at: u32, len: u32, f: impl FnOnce(&mut [u8]) -> R) -> R {
        // SAFETY: as in `with`; buffer handles are not Clone, so there is one holder and the borrow is
        // exclusive.
        f(unsafe { std::slice::from_raw_parts_mut(self.at(at), len as usize) })
    }

    #[inline(always)]
    fn prefetch_read(&self, at: u32) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch never faults and changes no architectural state.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(self.at(at).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }

    #[inline(always)]
    #[cfg_attr(
        target_arch = "x86_64",
        expect(clippy::pointers_in_nomem_asm_block, reason = "a hint reads nothing")
    )]
    fn prefetch_own(&self, at: u32) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: PREFETCHW never faults and changes no architectural state; processors without it run a
        // no-op. `nomem` keeps the compiler free to hold ring state in registers across the hint. In assembly
        // because the intrinsic turns into a read prefetch when the target lacks `prfchw`.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) self.at(at), options(nostack, preserves_flags, nomem));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }

    #[inline(always)]
    fn demote(&self, at: u32) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: CLDEMOTE is a hint in no-op encoding space: it never faults and changes no architectural
        // state.
        unsafe {
            std::arch::asm!("cldemote [{}]", in(reg) self.at(at), options(nostack, preserves_flags));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = at;
    }

    #[inline(always)]
    fn nic_may_sleep(&self) -> bool {
        self.waker.is_some()
    }

    fn wake_nic(&self) {
        // An error says that the NIC has gone, or that the socket is full of bytes: then it has been woken.
        let _ =
            self.waker.as_ref().map(|socket| send(socket, &[0], SendFlags::DONTWAIT | SendFlags::NOSIGNAL));
    }

    #[inline(always)]
    fn light_barrier(&self) {
        barrier::light();
    }

    fn heavy_barrier(&self) {
        barrier::heavy_barrier();
    }

    fn region(&self) -> usize {
        self.base.addr().get()
    }

    #[inline(always)]
    fn relax(&self) {
        std::hint::spin_loop();
    }
}
