//! Host and NIC on two threads over mapped memory, checked by the oracle. What ThreadSanitizer runs.
//!
//! No test here depends on timing: every loop ends when it has made enough progress, and yields its core after a
//! poll without progress.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ccnic::call::{CallLayout, Caller, Malformed, Server};
use ccnic::host;
use ccnic::ring::Ring;
use ccnic::{Config, Layout, SharedMemory, Tuning};

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

/// Makes `number` calls of up to `capacity` bytes to a server on another thread, and checks every byte of requests and answers. `wrap`
/// wraps the native memory.
///
/// # Panics
/// When one is not what was sent.
pub fn calls<S: SharedMemory + Send + 'static>(
    capacity: u32,
    number: u64,
    tuning: Tuning,
    wrap: impl Fn(ccnic_shm::NativeMemory) -> S,
) {
    let layout = CallLayout::new(capacity).unwrap_or_else(|e| panic!("{e}"));
    let memory = MappedMemory::new(layout.size());
    let most = capacity as usize;
    let bytes = move |call: u64, answer: u8| -> Vec<u8> {
        let len = (call as usize * 37) % (most + 1);
        (0..len).map(|i| i as u8 ^ call as u8 ^ answer).collect()
    };
    thread::scope(|scope| {
        let mem = wrap(memory.nic());
        let server = scope.spawn(move || {
            let mut server = Server::new(&layout);
            server.set_tuning(tuning);
            let mut request = vec![0; most];
            for call in 0..number {
                let n = wait_for(|| server.take(&mem, &mut request));
                assert_eq!(request[..n], bytes(call, 0), "request {call}");
                server.answer(&mem, &bytes(call, 0x80)).unwrap_or_else(|e| panic!("{e}"));
            }
        });
        let (mem, mut caller, mut answer) = (wrap(memory.host()), Caller::new(&layout), vec![0; most]);
        caller.set_tuning(tuning);
        for call in 0..number {
            caller.send(&mem, &bytes(call, 0)).unwrap_or_else(|e| panic!("{e}"));
            let n = wait_for(|| {
                assert!(call + 1 == number || !server.is_finished(), "the server's thread has ended");
                caller.take(&mem, &mut answer)
            });
            assert_eq!(answer[..n], bytes(call, 0x80), "answer {call}");
        }
        if let Err(cause) = server.join() {
            resume_unwind(cause);
        }
    });
}

/// Polls until a message has come.
fn wait_for(mut take: impl FnMut() -> Result<Option<usize>, Malformed>) -> usize {
    for _ in 0..PATIENCE {
        if let Some(n) = take().unwrap_or_else(|e| panic!("{e}")) {
            return n;
        }
        thread::yield_now();
    }
    panic!("no message comes");
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}
