//! The functions of `ccnic_nic.h`; the header specifies them. Here pointers become references and slices, results become errno
//! values, and a panic becomes -ENOTRECOVERABLE.

use std::ffi::{c_char, c_int};
use std::time::Duration;

use rustix::io::Errno;

use super::CcnicNic;
use super::abi::{CcnicNicOptions, CcnicNicStats, CcnicProgramInfo, CcnicSegment};
use super::program::CcnicProgram;
use super::queue::{CcnicNicQueue, Readable};
use crate::abi::{CcnicBuf, write_sized};
use crate::errno::{Failure, NULL, burst, guard};
use crate::handle::{Owned, exclusive, shared, shut};
use crate::pointers::{input, output, path, status_name};

const NONE_CAME: Failure = Failure::new(Errno::AGAIN, c"no program waits to be accepted");

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_nic_listen(
    socket: *const c_char,
    options: *const CcnicNicOptions,
    out: *mut *mut CcnicNic,
) -> c_int {
    guard(|| {
        if socket.is_null() || out.is_null() {
            return Err(NULL);
        }
        let mut given = CcnicNicOptions::DEFAULT;
        if !options.is_null() {
            // SAFETY: not null, and as large as its first word says (the contract of the header).
            given = unsafe { CcnicNicOptions::read(options)? };
        }
        // SAFETY: null or the caller's string.
        let name = unsafe { status_name(given.name)? };
        // SAFETY: the caller's string, not null.
        let nic = given.nic_options().name(name).listen(unsafe { path(socket) })?;
        // SAFETY: not null, the caller's memory for a pointer.
        unsafe { out.write(Owned::new(nic).into_handle()) };
        Ok(0)
    })
}

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_nic_close(nic: *mut CcnicNic) -> c_int {
    guard(|| {
        // SAFETY: null or a NIC, open or closed.
        if unsafe { shared(nic)? }.has_programs() {
            return Err(Failure::new(Errno::BUSY, c"programs are attached; release them first"));
        }
        // SAFETY: as above; the caller no longer uses it.
        drop(unsafe { Owned::take(nic)? });
        Ok(0)
    })
}

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_nic_poll(nic: *mut CcnicNic, timeout_ns: i64) -> c_int {
    guard(|| {
        // SAFETY: null or a NIC, open or closed.
        let nic = unsafe { shared(nic)? };
        let waiting = nic.poll(u64::try_from(timeout_ns).ok().map(Duration::from_nanos))?;
        Ok(c_int::try_from(waiting).unwrap_or(c_int::MAX))
    })
}

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_nic_accept(nic: *mut CcnicNic, out: *mut *mut CcnicProgram) -> c_int {
    guard(|| {
        // SAFETY: null or a NIC, open or closed.
        let nic = unsafe { shared(nic)? };
        if out.is_null() {
            return Err(NULL);
        }
        let program = Owned::new(CcnicProgram::new(nic.accept().ok_or(NONE_CAME)?));
        // SAFETY: not null, the caller's memory for a pointer.
        unsafe { out.write(program.into_handle()) };
        Ok(0)
    })
}

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_program_info(
    program: *const CcnicProgram,
    out: *mut CcnicProgramInfo,
    size: usize,
) -> c_int {
    guard(|| {
        // SAFETY: null or a program, released or not.
        let info = unsafe { shared(program)? }.info();
        if out.is_null() {
            return Err(NULL);
        }
        // SAFETY: the caller guarantees `size` bytes.
        unsafe { write_sized(&info, out, size) };
        Ok(0)
    })
}

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_program_link_state(program: *const CcnicProgram) -> c_int {
    // SAFETY: null or a program, released or not.
    guard(|| Ok(c_int::from(unsafe { shared(program)? }.program.alive())))
}

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_program_release(program: *mut CcnicProgram) -> c_int {
    guard(|| {
        // SAFETY: null or a program, released or not.
        if unsafe { shared(program)? }.busy() {
            return Err(Failure::new(Errno::BUSY, c"the program has open queues; close them first"));
        }
        // SAFETY: as above; the caller no longer uses it, and no thread uses its queues.
        drop(unsafe { Owned::take(program)? });
        Ok(0)
    })
}

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_nic_queue_open(
    program: *mut CcnicProgram,
    index: u16,
    out: *mut *mut CcnicNicQueue,
) -> c_int {
    guard(|| {
        // SAFETY: null or a program, released or not.
        let program = unsafe { shared(program)? };
        if out.is_null() {
            return Err(NULL);
        }
        let queue = program.queue(index)?;
        // SAFETY: not null, the caller's memory for a pointer.
        unsafe { out.write(queue.as_ptr()) };
        Ok(0)
    })
}

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_nic_queue_close(queue: *mut CcnicNicQueue) -> c_int {
    guard(|| {
        // SAFETY: null or a queue, open or closed, that no other thread uses.
        unsafe { shut(queue, CcnicNicQueue::close)? };
        Ok(0)
    })
}

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_nic_queue_stats(
    queue: *const CcnicNicQueue,
    out: *mut CcnicNicStats,
    size: usize,
) -> c_int {
    guard(|| {
        // SAFETY: null or a queue, open or closed, that no other thread uses.
        let stats = unsafe { shared(queue)? }.stats();
        if out.is_null() {
            return Err(NULL);
        }
        // SAFETY: the caller guarantees `size` bytes.
        unsafe { write_sized(&stats, out, size) };
        Ok(0)
    })
}

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_nic_rx_fd(queue: *mut CcnicNicQueue) -> c_int {
    // SAFETY: null or a queue, open or closed, that no other thread uses.
    guard(|| unsafe { exclusive(queue)? }.fd())
}

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_nic_rx_arm(queue: *mut CcnicNicQueue) -> c_int {
    // SAFETY: null or a queue, open or closed, that no other thread uses.
    guard(|| Ok(unsafe { exclusive(queue)? }.arm()?.into()))
}

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_nic_rx_disarm(queue: *mut CcnicNicQueue) -> c_int {
    guard(|| {
        // SAFETY: null or a queue, open or closed, that no other thread uses.
        unsafe { exclusive(queue)? }.disarm();
        Ok(0)
    })
}

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_nic_rx_burst(queue: *mut CcnicNicQueue, bufs: *mut CcnicBuf, n: u16) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (queue, out) = unsafe { output(queue, bufs, n)? };
        queue.receive(out)
    })
}

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_nic_rx_copy(
    queue: *mut CcnicNicQueue,
    room: *const *mut u8,
    size: u16,
    len: *mut u16,
    meta: *mut u64,
    n: u16,
) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (queue, rooms) = unsafe { input(queue, room, n)? };
        if len.is_null() && n > 0 {
            return Err(NULL);
        }
        queue.receive_copies(
            rooms.len(),
            size,
            #[inline(always)]
            move |i, desc| {
                let Some(&to) = rooms.get(i) else { return &mut [] };
                // SAFETY: `i` is below `n`, so `len` and, unless it is null, `meta` have an entry for it; the room has `size` bytes,
                // which the packet does not exceed, and no other one is lent at the same time (the contract of the header).
                unsafe {
                    len.add(i).write(desc.len());
                    if !meta.is_null() {
                        meta.add(i).write(desc.meta);
                    }
                    std::slice::from_raw_parts_mut(to, usize::from(desc.len()))
                }
            },
        )
    })
}

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_nic_tx_burst(
    queue: *mut CcnicNicQueue,
    bufs: *const CcnicBuf,
    n: u16,
) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (queue, bufs) = unsafe { input(queue, bufs, n)? };
        queue.transmit(bufs)
    })
}

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_nic_tx_copy(
    queue: *mut CcnicNicQueue,
    segments: *const CcnicSegment,
    n: u16,
) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (queue, segments) = unsafe { input(queue, segments, n)? };
        // SAFETY: the caller's segments are readable, by the header's contract.
        queue.copy(unsafe { Readable::all(segments) })
    })
}

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_nic_steer(
    queue: *mut CcnicNicQueue,
    packets: *mut CcnicSegment,
    to: *mut u16,
    n: u16,
) -> c_int {
    burst(|| {
        if n > 0 && (packets.is_null() || to.is_null()) {
            return Err(NULL);
        }
        // SAFETY: null or a queue, open or closed, that no other thread uses.
        let queue = unsafe { exclusive(queue)? };
        let (mut packets_of, mut to_of): (&mut [_], &mut [_]) = (&mut [], &mut []);
        if n > 0 {
            // SAFETY: not null, `n` entries each (the contract of the header), of which any bytes are valid.
            (packets_of, to_of) = unsafe {
                let n = usize::from(n);
                (std::slice::from_raw_parts_mut(packets, n), std::slice::from_raw_parts_mut(to, n))
            };
        }
        // SAFETY: the caller's segments are readable, by the header's contract.
        unsafe { queue.steer(packets_of, to_of) }.map(usize::from)
    })
}

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_nic_missed(queue: *mut CcnicNicQueue, packets: u32) -> c_int {
    burst(|| {
        // SAFETY: null or a queue, open or closed, that no other thread uses.
        unsafe { exclusive(queue)? }.missed(packets.into());
        Ok(0)
    })
}

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_nic_buf_alloc(
    queue: *mut CcnicNicQueue,
    len: u16,
    bufs: *mut CcnicBuf,
    n: u16,
) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (queue, out) = unsafe { output(queue, bufs, n)? };
        queue.alloc(len, out)
    })
}

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_nic_buf_free(
    queue: *mut CcnicNicQueue,
    bufs: *const CcnicBuf,
    n: u16,
) -> c_int {
    burst(|| {
        // SAFETY: the contract of the header.
        let (queue, bufs) = unsafe { input(queue, bufs, n)? };
        queue.free(bufs)
    })
}
