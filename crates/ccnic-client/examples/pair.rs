//! Two programs, one switch: each greets everybody until it hears from the other, answers, and ends.
//!
//! Start a NIC with `ccnicd --wire switch`, then run `cargo run --example pair` twice, in two terminals.

use std::path::Path;
use std::time::Duration;

use ccnic_client::{Burst, Error, Nic, QueuePair, default_socket};

/// An Ethernet header: to, from, and a type for experiments.
const HEADER: usize = 14;
const TYPE: [u8; 2] = [0x88, 0xb5];
const EVERYBODY: [u8; 6] = [0xff; 6];

fn main() -> Result<(), Error> {
    let id = std::process::id();
    println!("{}", meet(&default_socket(), id)?);
    Ok(())
}

/// Greets everybody as `id` until somebody has greeted; returns what that one has said.
pub fn meet(socket: &Path, id: u32) -> Result<String, Error> {
    let [a, b, c, d] = id.to_be_bytes();
    let mac = [2, 0, a, b, c, d]; // a local address
    let mut nic = Nic::options().mac(mac).open(socket)?;
    let mut pair = nic.queue_pair(0)?;
    let text = format!("hello, I am {id}");
    loop {
        send(&mut pair, EVERYBODY, mac, &text);
        match pair.wait(Duration::from_millis(200)) {
            Ok(()) => {}
            Err(Error::TimedOut) => continue, // nobody is there yet
            Err(Error::Gone) => {
                // The NIC has ended. Rings and buffers stay as they are for the next one.
                nic.reconnect_within([&mut pair], [], Duration::from_secs(60))?;
                continue;
            }
            Err(e) => return Err(e),
        }
        let packets = pair.receive(32);
        let greeting = packets.iter().find_map(|buf| packets.with(buf, read));
        drop(packets); // gives the buffers back
        if let Some((from, greeting)) = greeting {
            send(&mut pair, from, mac, &text);
            return Ok(greeting);
        }
    }
}

/// Sends a frame, if the ring has room for it.
fn send(pair: &mut QueuePair, to: [u8; 6], from: [u8; 6], text: &str) {
    let frame = [&to[..], &from, &TYPE, text.as_bytes()].concat();
    let mut burst = Burst::new();
    pair.alloc(frame.len() as u16, 1, &mut burst);
    for buf in &mut burst {
        pair.write(buf, 0, &frame);
    }
    pair.tx_burst(&mut burst);
    pair.free(&mut burst); // what the ring did not take
}

/// Who has sent a frame of ours, and its text. Frames shorter than 60 bytes may have zeros behind them.
fn read(frame: &[u8]) -> Option<([u8; 6], String)> {
    let (header, text) = frame.split_at_checked(HEADER)?;
    let from = header.get(6..12)?.try_into().ok()?;
    let text = String::from_utf8_lossy(text).trim_end_matches('\0').to_owned();
    header.ends_with(&TYPE).then_some((from, text))
}
