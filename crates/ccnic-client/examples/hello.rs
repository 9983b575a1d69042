//! A first program: sends a packet through the NIC's loopback and prints what came back.
//!
//! Start a NIC with `ccnicd --socket /tmp/nic.sock`, then run `cargo run --example hello`.

use ccnic_client::{Burst, Error, Nic};

fn main() -> Result<(), Error> {
    let mut nic = Nic::open("/tmp/nic.sock")?;
    let (mut pair, mut burst) = (nic.queue_pair(0)?, Burst::new());

    pair.alloc(21, 1, &mut burst);
    for buf in burst.iter_mut() {
        pair.write(buf, 0, b"hello, coherent world");
    }
    pair.tx_burst(&mut burst);

    pair.wait(std::time::Duration::from_secs(1))?;
    pair.rx_burst(&mut burst, 32);
    for buf in burst.as_slice() {
        pair.with(buf, |bytes| println!("{}", bytes.escape_ascii()));
    }
    pair.free(&mut burst);
    Ok(())
}
