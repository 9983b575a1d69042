//! Sends back what it receives, in the buffers in which it came, also when the NIC is restarted.
//!
//! Start a NIC with `ccnicd --wire switch`, then run `cargo run --example echo`. What arrives goes back to its sender, from this program's
//! address.

use std::path::Path;

use ccnic_client::{Buf, Burst, Error, Nic, QueuePair, default_socket};

fn main() -> Result<(), Error> {
    echo(&default_socket(), u64::MAX)
}

/// Echoes so many buffers.
pub fn echo(socket: &Path, count: u64) -> Result<(), Error> {
    let [a, b, c, d] = std::process::id().to_be_bytes();
    let mac = [2, 0, a, b, c, d]; // a local address
    let mut nic = Nic::options().name("echo").mac(mac).open(socket)?;
    let mut pair = nic.queue_pair(0)?;
    let (mut burst, mut echoed) = (Burst::new(), 0);
    while echoed < count {
        if pair.rx_burst(&mut burst, 32) == 0 {
            match pair.wait(None) {
                Err(Error::Gone) => {
                    // Programs attach to the next NIC with the same rings and buffers, from when it listens.
                    nic.reconnect_within([&mut pair], [], None)?;
                }
                other => other?,
            }
            continue;
        }
        echoed += burst.len() as u64;
        let mut first = true;
        for buf in &mut burst {
            if first {
                turn_round(&pair, buf, mac);
            }
            first = !buf.more();
        }
        while !burst.is_empty() && nic.alive() {
            pair.tx_burst(&mut burst); // takes none while the ring is full
        }
        pair.free(&mut burst);
    }
    Ok(())
}

/// The frame goes to whom it came from.
fn turn_round(pair: &QueuePair, buf: &mut Buf, mac: [u8; 6]) {
    let mut from = [0; 6];
    if pair.read(buf, 6, &mut from) == from.len() {
        pair.write(buf, 0, &from);
        pair.write(buf, 6, &mac);
    }
}
