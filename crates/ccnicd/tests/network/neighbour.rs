//! A kernel and a program with an IP stack, neighbours on the switch: ping, TCP.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use super::net::{Nic, Pinger, connect, exchange, ip};
use super::stack::Stack;
use crate::common::{PATIENCE, until};

/// The kernel pings the program.
#[track_caller]
pub fn ping(stack: &mut Stack, to: &str, len: usize) {
    let mut pinger = Pinger::new(to.parse::<IpAddr>().unwrap());
    until("an answer of the program", || {
        pinger.send(len);
        let mut answered = false;
        for _ in 0..10_000 {
            stack.poll();
            answered = pinger.answered();
            if answered {
                break;
            }
        }
        answered
    });
}

/// TCP both ways at once between the kernel, which has the interface, and the program. Nothing is dropped at the port.
#[track_caller]
pub fn transfer(nic: &mut Nic, stack: &mut Stack, [port, interface]: [&str; 2], to: &str, len: usize) {
    // While its address is tentative the kernel may send the SYN from its link-local one, to which the program has no route.
    until("the end of duplicate address detection", || {
        !ip(&format!("-6 addr show dev {interface}")).contains("tentative")
    });
    let mut connection = stack.listen(7);
    let to = SocketAddr::new(to.parse().unwrap(), 7);
    let kernel = std::thread::spawn(move || exchange(connect(to), [1, 2], len));
    let (mut moved, mut last) = (0, Instant::now());
    while !kernel.is_finished() {
        stack.exchange(&mut connection, [2, 1], len);
        if connection.moved() > moved {
            (moved, last) = (connection.moved(), Instant::now());
            continue;
        }
        assert!(last.elapsed() < PATIENCE, "nothing moves after {moved} of {} bytes", 2 * len);
        std::thread::yield_now();
    }
    kernel.join().unwrap();
    let port = nic.counters(port);
    let bad = [port.drop_bad_offload, port.drop_port_refused, port.drop_over_mtu, port.drop_too_long];
    assert_eq!(bad, [0; 4], "{port:?}");
    nic.accounts_for_all();
}
