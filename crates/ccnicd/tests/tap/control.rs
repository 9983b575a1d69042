//! TAP ports that come, change and go while others exchange packets.

use std::collections::BTreeMap;

use ccnic_control::Connection;
use ccnic_control::messages::{Applied, PortAdd, PortDel, PortSet, Request};

use super::common::until;
use super::net::{Nic, in_namespace, ip};
use super::stack::{MAC, Stack};

#[test]
fn ports_come_change_and_go() {
    in_namespace("control::ports_come_change_and_go_inside");
}

/// Frames that the port could not send for their length, after one of so many bytes.
#[track_caller]
fn too_long(nic: &mut Nic, stack: &mut Stack, len: usize) -> u64 {
    let before = nic.counters("tap:tap0");
    let mut frame = [&[2, 0, 0, 0, 2, 0xfe], &MAC[..], &[0x88, 0xb5]].concat();
    frame.resize(len, 1);
    assert!(stack.port.send(&frame, 0));
    until("the frame to be dealt with", || {
        let now = nic.counters("tap:tap0");
        now.rx_packets + now.drop_over_mtu > before.rx_packets + before.drop_over_mtu
    });
    nic.counters("tap:tap0").drop_over_mtu - before.drop_over_mtu
}

#[test]
#[ignore = "for ports_come_change_and_go"]
fn ports_come_change_and_go_inside() {
    let port = "tap:tap0,mtu=1500,address=10.9.0.1/24,mac=02:00:00:00:02:fe";
    let mut nic = Nic::start_with(&[port], &["--later-ports", "tap"]);
    let socket = nic.socket.clone();
    let change = |request: Request| -> Result<Applied, String> {
        Connection::open(&socket).unwrap().change(&request).map_err(|e| e.to_string())
    };
    let mtu = |name: &str, mtu: u32| {
        let set = BTreeMap::from([("mtu".to_owned(), mtu.into())]);
        Request::PortSet(PortSet { name: name.to_owned(), set, check: false })
    };
    let mut stack = Stack::open(&nic.socket, &["10.9.0.2"], 1500, false);
    stack.ping("10.9.0.1");

    let applied = change(mtu("tap:tap0", 1000)).unwrap();
    assert_eq!((applied.set[0].name.as_str(), applied.governed.len()), ("tap:tap0", 0));
    assert!(ip("link show tap0").contains("mtu 1000"));
    assert_eq!((too_long(&mut nic, &mut stack, 1019), too_long(&mut nic, &mut stack, 1018)), (1, 0));
    change(mtu("tap:tap0", 1500)).unwrap();
    assert_eq!(too_long(&mut nic, &mut stack, 1514), 0);
    assert!(change(mtu("tap:tap0", 67)).unwrap_err().contains("68 to 65521"));
    let other = BTreeMap::from([("queues".to_owned(), 2.into())]);
    let other = change(Request::PortSet(PortSet { name: "tap:tap0".into(), set: other, check: false }));
    assert!(other.unwrap_err().contains("only its mtu can change"));
    stack.ping("10.9.0.1");

    let add = |port: &str| Request::PortAdd(PortAdd { port: port.to_owned(), ..PortAdd::default() });
    change(add("tap:tap1,mtu=2000,address=10.9.1.1/24")).unwrap();
    assert!(ip("link show tap1").contains("mtu 2000"));
    let why = change(add("tap:lo")).unwrap_err();
    assert!(why.contains("port tap:lo") && why.contains("no TAP interface"), "{why}");
    stack.ping("10.9.0.1");
    ip("link del tap1");
    let why = change(mtu("tap:tap1", 1500)).unwrap_err();
    assert!(why.contains("no interface tap1 here"), "{why}");
    change(Request::PortDel(PortDel { name: "tap:tap1".into(), check: false })).unwrap();
    assert_eq!(nic.daemon.status().programs.len(), 2);
    change(add("tap:tap1")).unwrap();
    change(Request::PortDel(PortDel { name: "tap:tap1".into(), check: false })).unwrap();
    assert!(!ip("link show").contains("tap1"), "an interface goes with its port");
    stack.ping("10.9.0.1");
    assert!(!nic.daemon.log().contains("panicked"), "{}", nic.daemon.log());
}
