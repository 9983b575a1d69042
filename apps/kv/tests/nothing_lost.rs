//! No reply is lost for want of room: the test is the server's NIC, which takes none until it has sent all requests.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod wire;

use ccnic_kv::rpc::Status;
use wire::{Answer, Server, until};

/// More than the server's rings have room for: 1024 descriptors each, of which it keeps 256 more itself.
const REQUESTS: u64 = 1500;
const VALUE: [u8; 500] = [7; 500];

#[test]
fn replies_wait_for_room() {
    for (design, mtu) in [("ccnic", "9586"), ("paper", "9586"), ("e810", "9586"), ("ccnic", "1500")] {
        let (_server, mut wire) = Server::start(&["--design", design, "--mtu", mtu]);
        assert!(wire.set(b"key", &VALUE, REQUESTS));
        for number in 0..REQUESTS {
            until("room for a request", || wire.get(b"key", number));
        }
        let mut answered = vec![0; REQUESTS as usize + 1];
        until("every answer", || {
            for answer in wire.receive() {
                let Answer::Rpc { number, status, value } = answer else { panic!("{answer:?}") };
                if number == u64::MAX {
                    continue; // of the beginning
                }
                let stored = number == REQUESTS;
                let expected = if stored { &[][..] } else { &VALUE };
                assert_eq!((status, &value[..]), (Status::Done as u8, expected));
                answered[number as usize] += 1;
            }
            answered.iter().all(|count| *count == 1)
        });
    }
}
