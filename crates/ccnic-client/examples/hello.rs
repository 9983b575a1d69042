//! A first program: sends a packet through the NIC's loopback and prints what came back.
//!
//! Start a NIC with `ccnicd`, then run `cargo run --example hello`.

use ccnic_client::{Burst, Error, Nic, default_socket};

fn main() -> Result<(), Error> {
    let mut nic = Nic::open(default_socket())?;
    let (mut pair, mut burst) = (nic.queue_pair(0)?, Burst::new());

    pair.alloc(21, 1, &mut burst);
    for buf in &mut burst {
        pair.write(buf, 0, b"hello, coherent world");
    }
    pair.tx_burst(&mut burst);

    pair.wait(std::time::Duration::from_secs(1))?;
    let packets = pair.receive(32);
    for buf in packets.iter() {
        packets.with(buf, |bytes| println!("{}", bytes.escape_ascii()));
    }
    Ok(())
}
