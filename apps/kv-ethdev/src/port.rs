//! A port: what sends and receives frames. [`Ethdev`] is one of DPDK, by the functions that a program in C hands over.

use std::ffi::{CStr, OsStr, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;

/// The most frames that are received, or sent, at once.
pub const BURST: usize = 32;

/// What frames come from and go to. Belongs to one thread.
pub trait Port {
    /// Bytes that a frame may have.
    fn room(&self) -> usize;

    /// Lends each of at most [`BURST`] frames that have come; returns their number.
    fn receive(&mut self, take: impl FnMut(&[u8])) -> usize;

    /// Sends at most `n` frames, [`BURST`] at most: `write` gets the number of each and the place for it, and returns its length; 0: it is not sent.
    /// Returns how many are through with, the first ones; with `all`, those are all unless the program ends, or there are no buffers
    /// (then none was written).
    fn send(&mut self, n: usize, all: bool, write: impl FnMut(usize, &mut [u8]) -> usize) -> usize;

    /// True once the program is to end.
    fn stopped(&self) -> bool;
}

/// `struct ccnic_kv_frame`
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Frame {
    bytes: *mut u8,
    len: u32,
}

impl Frame {
    const NONE: Frame = Frame { bytes: std::ptr::null_mut(), len: 0 };
}

/// `struct ccnic_kv_port`
#[derive(Debug)]
#[repr(C)]
pub struct CPort {
    this: *mut c_void,
    room: u32,
    receive: unsafe extern "C" fn(*mut c_void, *mut Frame, u32) -> u32,
    release: unsafe extern "C" fn(*mut c_void),
    take: unsafe extern "C" fn(*mut c_void, *mut Frame, u32) -> bool,
    send: unsafe extern "C" fn(*mut c_void, *const Frame, u32, bool) -> u32,
    stopped: unsafe extern "C" fn(*mut c_void) -> bool,
}

/// A port that a program in C has opened.
#[derive(Debug)]
pub struct Ethdev<'a>(&'a CPort);

impl Ethdev<'_> {
    /// # Safety
    /// `port` points to a port, which nobody else uses and whose functions do what `ccnic_kv.h` says, as long as this lives.
    pub(crate) unsafe fn new<'a>(port: *const CPort) -> Ethdev<'a> {
        // SAFETY: guaranteed by the caller.
        Ethdev(unsafe { &*port })
    }
}

impl Port for Ethdev<'_> {
    fn room(&self) -> usize {
        self.0.room as usize
    }

    fn receive(&mut self, mut take: impl FnMut(&[u8])) -> usize {
        let mut frames = [Frame::NONE; BURST];
        // SAFETY: the array has so many elements; the function is what the header says.
        let n = unsafe { (self.0.receive)(self.0.this, frames.as_mut_ptr(), BURST as u32) } as usize;
        for frame in frames.iter().take(n) {
            // SAFETY: a received frame has so many bytes, and is lent until it is released below.
            take(unsafe { std::slice::from_raw_parts(frame.bytes, frame.len as usize) });
        }
        if n > 0 {
            // SAFETY: no frame is used from here on.
            unsafe { (self.0.release)(self.0.this) };
        }
        n
    }

    fn send(&mut self, n: usize, all: bool, mut write: impl FnMut(usize, &mut [u8]) -> usize) -> usize {
        let mut frames = [Frame::NONE; BURST];
        let n = n.min(BURST);
        // SAFETY: the array has at least so many elements.
        if n == 0 || !unsafe { (self.0.take)(self.0.this, frames.as_mut_ptr(), n as u32) } {
            return 0;
        }
        let room = self.room();
        for (i, frame) in frames.iter_mut().enumerate().take(n) {
            // SAFETY: a buffer that was taken is this program's alone until it is sent, and has so much room; its bytes may be any.
            let place = unsafe { std::slice::from_raw_parts_mut(frame.bytes, room) };
            frame.len = write(i, place).min(room) as u32;
        }
        // SAFETY: these are the buffers that were taken; none is used from here on.
        unsafe { (self.0.send)(self.0.this, frames.as_ptr(), n as u32, all) as usize }
    }

    fn stopped(&self) -> bool {
        // SAFETY: the function is what the header says.
        unsafe { (self.0.stopped)(self.0.this) }
    }
}

/// A command line.
///
/// # Safety
/// `argv` points to `argc` strings.
pub(crate) unsafe fn arguments(argc: c_int, argv: *const *const c_char) -> Vec<OsString> {
    let n = usize::try_from(argc).unwrap_or(0);
    // SAFETY: guaranteed by the caller.
    let pointers = unsafe { std::slice::from_raw_parts(argv, n) };
    let text = |pointer: &*const c_char| {
        // SAFETY: each is a string.
        OsStr::from_bytes(unsafe { CStr::from_ptr(*pointer) }.to_bytes()).to_owned()
    };
    pointers.iter().map(text).collect()
}
