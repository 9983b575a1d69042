//! The functions of `ccnic_call.h`; the header specifies them.

use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

use ccnic_client::call::{CallServer, CallWaker, Caller};
use rustix::io::Errno;

use crate::errno::{Failure, NULL, burst, guard};
use crate::handle::{Owned, check, exclusive, handles, shared};
use crate::pointers::path;

/// `struct ccnic_caller`.
#[derive(Debug)]
pub struct CcnicCaller {
    caller: Caller,
    /// Where answers are taken to: the caller's memory may be uninitialised, or that of the request.
    answer: Vec<u8>,
}

/// `struct ccnic_call_server`.
#[derive(Debug)]
pub struct CcnicCallServer {
    server: CallServer,
    waker: CallWaker,
}

handles!(CcnicCaller, CcnicCallServer);

/// `ccnic_call_handler`.
pub type CcnicCallHandler = unsafe extern "C" fn(*mut c_void, *const c_void, u32, *mut c_void, u32) -> u32;

const TOO_LONG: Failure = Failure::new(
    Errno::MSGSIZE,
    c"the request is longer than the caller's capacity: open it with a larger one",
);

/// Negative: no limit.
fn timeout(nanoseconds: i64) -> Option<Duration> {
    u64::try_from(nanoseconds).ok().map(Duration::from_nanos)
}

fn length(n: usize) -> c_int {
    c_int::try_from(n).unwrap_or(c_int::MAX)
}

/// # Safety
/// As `ccnic_call.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_caller_open(
    socket: *const c_char,
    capacity: u32,
    out: *mut *mut CcnicCaller,
) -> c_int {
    guard(|| {
        if socket.is_null() || out.is_null() {
            return Err(NULL);
        }
        // SAFETY: the caller's string, not null.
        let socket = unsafe { path(socket) };
        let caller = if capacity == 0 { Caller::open(socket)? } else { Caller::open_with(socket, capacity)? };
        // SAFETY: not null, the caller's memory for a pointer.
        unsafe {
            let answer = vec![0; caller.capacity() as usize];
            out.write(Owned::new(CcnicCaller { caller, answer }).into_handle());
        }
        Ok(0)
    })
}

/// # Safety
/// As `ccnic_call.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_caller_close(caller: *mut CcnicCaller) -> c_int {
    guard(|| {
        // SAFETY: null or a caller, open or closed; nobody uses it any more.
        drop(unsafe { Owned::take(caller)? });
        Ok(0)
    })
}

/// # Safety
/// As `ccnic_call.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_call(
    caller: *mut CcnicCaller,
    request: *const c_void,
    len: u32,
    answer: *mut c_void,
    size: u32,
    timeout_ns: i64,
) -> c_int {
    burst(|| {
        // SAFETY: null or a caller, open or closed, that no other thread uses.
        let CcnicCaller { caller, answer: taken } = unsafe { exclusive(caller)? };
        if (request.is_null() && len > 0) || (answer.is_null() && size > 0) {
            return Err(NULL);
        }
        if len > caller.capacity() {
            return Err(TOO_LONG);
        }
        let request: &[u8] = if len == 0 {
            &[]
        } else {
            // SAFETY: not null; `len` bytes of the caller's, which nobody changes meanwhile.
            unsafe { std::slice::from_raw_parts(request.cast(), len as usize) }
        };
        let n = caller.call(request, taken, timeout(timeout_ns))?;
        let fits = n.min(taken.len()).min(size as usize);
        // SAFETY: `fits` bytes of the vector, and of the caller's memory, which is not null if there are any.
        unsafe { std::ptr::copy_nonoverlapping(taken.as_ptr(), answer.cast::<u8>(), fits) };
        Ok(n)
    })
}

/// # Safety
/// As `ccnic_call.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_call_listen(socket: *const c_char, out: *mut *mut CcnicCallServer) -> c_int {
    guard(|| {
        if socket.is_null() || out.is_null() {
            return Err(NULL);
        }
        // SAFETY: the caller's string, not null.
        let server = CallServer::listen(unsafe { path(socket) })?;
        let waker = server.waker();
        // SAFETY: not null, the caller's memory for a pointer.
        unsafe { out.write(Owned::new(CcnicCallServer { server, waker }).into_handle()) };
        Ok(0)
    })
}

/// # Safety
/// As `ccnic_call.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_call_server_close(server: *mut CcnicCallServer) -> c_int {
    guard(|| {
        // SAFETY: null or a server, open or closed; nobody uses it any more.
        drop(unsafe { Owned::take(server)? });
        Ok(0)
    })
}

/// # Safety
/// As `ccnic_call.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_call_serve(
    server: *mut CcnicCallServer,
    handler: Option<CcnicCallHandler>,
    context: *mut c_void,
    timeout_ns: i64,
) -> c_int {
    guard(|| {
        // SAFETY: null or a server, open or closed.
        unsafe { check(server)? };
        let handler = handler.ok_or(NULL)?;
        // SAFETY: an open server. Only this field: another thread may use the waker.
        let server = unsafe { &mut (*server).server };
        let handle = |request: &[u8], answer: &mut [u8]| {
            let (len, size) = (request.len() as u32, answer.len() as u32);
            // SAFETY: the contract of the header: it reads `len` bytes and writes `size` at most.
            unsafe {
                handler(context, request.as_ptr().cast(), len, answer.as_mut_ptr().cast(), size) as usize
            }
        };
        let answered = server.poll(handle);
        if answered > 0 || timeout_ns == 0 {
            return Ok(length(answered));
        }
        server.wait(timeout(timeout_ns))?;
        Ok(length(server.poll(handle)))
    })
}

/// # Safety
/// As `ccnic_call.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_call_wake(server: *const CcnicCallServer) -> c_int {
    guard(|| {
        // SAFETY: null or a server, open or closed.
        unsafe { check(server)? };
        // SAFETY: an open server. Only this field: another thread may be serving.
        unsafe { &(*server).waker }.wake();
        Ok(0)
    })
}

/// # Safety
/// As `ccnic_call.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_call_callers(server: *const CcnicCallServer) -> c_int {
    // SAFETY: null or a server, open or closed, that no other thread uses.
    guard(|| Ok(length(unsafe { shared(server)? }.server.callers())))
}
