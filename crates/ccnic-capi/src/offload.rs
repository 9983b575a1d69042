//! The functions of `ccnic_offload.h`; the header specifies them.

use std::ffi::{c_int, c_void};

use ccnic_frame::{Meta, NoPart, Takes, part};
use rustix::io::Errno;

use crate::client::Ccnic;
use crate::errno::{Failure, NULL, guard};
use crate::handle::shared;
use crate::nic::{CcnicNic, CcnicProgram};

const TOO_LONG: Failure =
    Failure::new(Errno::MSGSIZE, c"a part of the frame is longer than `longest`, or than the room for it");

/// `CCNIC_OFFLOADS_PASSED`.
const PASSED: u32 = 1 << 16;

/// Bits that are known; others are those of a newer library.
fn takes(bits: u32) -> Result<Takes, Failure> {
    if bits & !Takes::ALL.bits() != 0 {
        let text = format!("takes has unknown bits: {:#x}", bits & !Takes::ALL.bits());
        return Err(Failure::with_text(Errno::TOOBIG, &text));
    }
    Ok(Takes::from_bits(bits))
}

/// # Safety
/// As `ccnic_offload.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_offloads(nic: *const Ccnic) -> c_int {
    guard(|| {
        // SAFETY: null or an open NIC.
        let (takes, passed) = unsafe { shared(nic)? }.offloads();
        Ok((takes.bits() | if passed { PASSED } else { 0 }) as c_int)
    })
}

/// # Safety
/// As `ccnic_offload.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_takes_set(nic: *mut Ccnic, bits: u32) -> c_int {
    guard(|| {
        // SAFETY: null or an open NIC.
        unsafe { shared(nic)? }.set_takes(takes(bits)?)?;
        Ok(0)
    })
}

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_nic_takes_set(nic: *mut CcnicNic, bits: u32) -> c_int {
    guard(|| {
        // SAFETY: null or an open NIC.
        unsafe { shared(nic)? }.set_takes(takes(bits)?);
        Ok(0)
    })
}

/// # Safety
/// As `ccnic_nic.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_program_takes(program: *const CcnicProgram) -> c_int {
    // SAFETY: null or a program that has not been released.
    guard(|| Ok(unsafe { shared(program)? }.program.takes().bits() as c_int))
}

/// # Safety
/// As `ccnic_offload.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_frame_part(
    frame: *const c_void,
    len: u32,
    meta: *mut u64,
    bits: u32,
    longest: u32,
    index: u32,
    to: *mut c_void,
    room: u32,
) -> c_int {
    guard(|| {
        if frame.is_null() || meta.is_null() || to.is_null() {
            return Err(NULL);
        }
        // SAFETY: not null; the caller guarantees so many bytes, which nobody changes meanwhile.
        let frame = unsafe { std::slice::from_raw_parts(frame.cast(), len as usize) };
        // SAFETY: not null; the caller guarantees so many bytes, all its own and apart from the frame.
        let to = unsafe { std::slice::from_raw_parts_mut(to.cast(), room as usize) };
        // SAFETY: not null, the caller's memory.
        let meta = unsafe { &mut *meta };
        let sent = Meta::from_word(*meta);
        match part(frame, sent, takes(bits)?, longest as usize, index as usize, to) {
            Ok(None) => Ok(0),
            Ok(Some((len, rest))) => {
                *meta = rest.word();
                c_int::try_from(len).map_err(|_| TOO_LONG)
            }
            Err(NoPart::TooLong) => Err(TOO_LONG),
            Err(NoPart::Refused(refusal)) => Err(Failure::with_text(Errno::BADMSG, refusal.as_str())),
        }
    })
}
