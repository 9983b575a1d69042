//! Host and NIC on two threads over mapped memory, checked by the oracle. What ThreadSanitizer runs.
//!
//! No test here depends on timing: every loop ends when it has made enough progress, and yields its core after a
//! poll without progress.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ccnic::host;
use ccnic::ring::Ring;
use ccnic::{Config, Layout, SharedMemory};

use crate::memory::{MappedMemory, Memory};
use crate::rig::Wire;
use crate::sides::{Program, serve};

/// Consecutive polls without progress after which a side gives up: minutes, so that only a defect of the
/// interface causes it.
const PATIENCE: u64 = 1 << 26;

/// Sends `packets` packets to a NIC on another thread, which works on them by `wire`, and checks what comes
/// back. `wrap` wraps the native memory.
///
/// # Panics
/// When the oracle finds an error.
pub fn run<S: SharedMemory + Send + 'static, R: Ring>(
    config: &Config,
    wire: Wire,
    packets: u64,
    wrap: impl Fn(ccnic_shm::NativeMemory) -> S,
) {
    let config = Config { design: R::DESIGN, ..*config };
    let layout = Layout::new(&config).unwrap_or_else(|e| panic!("{config:?}: {e}"));
    let memory = MappedMemory::new(layout.size());
    host::format(&memory.host(), &layout);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (nic, copies) = (wrap(memory.nic()), wrap(memory.nic()));
        let stop = &stop;
        let nic = scope.spawn(move || {
            let stop = || stop.load(Ordering::Acquire);
            serve::<S, R>(nic, &copies, &layout, wire, stop, thread::yield_now);
        });
        // The NIC ends when the program ends, also by a panic.
        let _stop = StopOnDrop(stop);
        let mut program = Program::<S, R>::new(wrap(memory.host()), &layout);
        program.exchange(packets, wire, |turns, outstanding| {
            assert!(!nic.is_finished(), "the NIC's thread has ended");
            assert!(turns < PATIENCE, "nothing moves: {outstanding} packets are outstanding");
            thread::yield_now();
        });
        stop.store(true, Ordering::Release);
        if let Err(cause) = nic.join() {
            resume_unwind(cause);
        }
    });
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
