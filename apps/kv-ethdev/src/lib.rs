//! The paper's key-value store and its load generator over a port of DPDK: the store of `ccnic-kv`, the workloads and checks of
//! `ccnic-kv-load`, and between them whichever driver DPDK has, net_ccnic, net_memif, net_virtio_user. `ccnic bench apps` compares them.
//!
//! A program in C (`dpdk/app/kv`) opens the port and hands over functions that receive and send ([`Port`]); `include/ccnic_kv.h` is what it
//! sees. Reading order: [`port`] (C's pointers become slices: the only unsafe code), [`frames`] (headers), [`serve`], [`load`].

pub mod frames;
pub mod load;
pub mod port;
pub mod serve;

use std::ffi::{OsString, c_char, c_int};

use clap::Parser;

pub use port::Port;
use port::{CPort, Ethdev};

/// Runs `f`; an exit status.
fn status(name: &str, f: impl FnOnce() -> anyhow::Result<bool>) -> c_int {
    match f() {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(error) => {
            eprintln!("{name}: {error:#}");
            2
        }
    }
}

/// The options, or the exit status after `--help` or a message.
fn options<T: Parser>(arguments: Vec<OsString>) -> Result<T, c_int> {
    T::try_parse_from(arguments).map_err(|error| {
        let _ = error.print(); // there is nobody to tell
        error.exit_code()
    })
}

/// Serves until the program is to end; see `ccnic_kv.h`.
///
/// # Safety
/// `argv` points to `argc` strings, `port` to a port whose functions do what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_kv_serve(
    argc: c_int,
    argv: *const *const c_char,
    port: *const CPort,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    let (arguments, mut port) = unsafe { (port::arguments(argc, argv), Ethdev::new(port)) };
    match options::<serve::Options>(arguments) {
        Ok(options) => status("ccnic-kv-ethdev", || serve::run(&mut port, &options).map(|()| true)),
        Err(status) => status,
    }
}

/// Loads the server at the other end; see `ccnic_kv.h`.
///
/// # Safety
/// As [`ccnic_kv_serve`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccnic_kv_load(argc: c_int, argv: *const *const c_char, port: *const CPort) -> c_int {
    // SAFETY: guaranteed by the caller.
    let (arguments, mut port) = unsafe { (port::arguments(argc, argv), Ethdev::new(port)) };
    match options::<ccnic_kv_load::command::Args>(arguments) {
        Ok(options) => status("ccnic-kv-ethdev", || load::run(&mut port, &options)),
        Err(status) => status,
    }
}
