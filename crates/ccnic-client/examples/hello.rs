//! A first program: attaches to a running NIC, sends one packet through its loopback, prints what came back.
//!
//! Start a NIC with `ccnicd --socket /tmp/nic.sock`, then `cargo run --example hello /tmp/nic.sock`.

use std::path::PathBuf;

use ccnic::ring::GroupedEpoch;
use ccnic::{Burst, Config};
use ccnic_client::Program;
use ccnic_shm::Pages;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let socket = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("/tmp/nic.sock"), PathBuf::from);
    let mut program = Program::connect(&socket, "hello", &Config::default(), Pages::Auto)?;
    let mut pair = program.queue_pair::<GroupedEpoch>(0)?;

    let message = b"hello, coherent world";
    let mut burst = Burst::new();
    pair.alloc(message.len() as u16, 1, &mut burst);
    for buf in burst.iter_mut() {
        pair.write(buf, 0, message);
    }
    pair.tx_burst(&mut burst);

    while pair.rx_burst(&mut burst, 32) == 0 {
        if !program.alive() {
            return Err("the NIC has gone".into());
        }
        pair.relax();
    }
    for buf in burst.as_slice() {
        pair.with(buf, |bytes| println!("{}", String::from_utf8_lossy(bytes)));
    }
    pair.free(&mut burst);
    Ok(())
}
