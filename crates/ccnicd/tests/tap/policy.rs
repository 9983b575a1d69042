//! Policies of TAP ports: VLANs, a mirror, and a configuration that is read again.

use std::collections::BTreeMap;

use ccnic_control::Connection;
use ccnic_control::messages::{PortAdd, PortSet, Request};
use ccnic_frame::Tci;
use rustix::process::{Signal, kill_process};

use super::common::{until, without_lock};
use super::net::{Nic, connect, drops, exchange, in_namespace, ip};
use super::stack::{MAC, Stack};

#[test]
fn a_program_on_a_trunk_talks_with_the_kernel_in_one_of_its_vlans() {
    in_namespace("policy::a_program_on_a_trunk_talks_with_the_kernel_in_one_of_its_vlans_inside");
}

/// The kernel has an interface in each of two VLANs, and the program a trunk. What goes to the program has been cut and given tags, what
/// comes from it loses them, and asks for checksums.
#[test]
#[ignore = "for a_program_on_a_trunk_talks_with_the_kernel_in_one_of_its_vlans"]
fn a_program_on_a_trunk_talks_with_the_kernel_in_one_of_its_vlans_inside() {
    let (mut nic, _) = Nic::start_with_file(
        "wire = 'switch'\n\
         [[port]]\nkind = 'tap'\nname = 'tap0'\noptions = { mtu = 1500, address = '10.9.0.1/24' }\npolicy = { vlan = 10 }\n\
         [[port]]\nkind = 'tap'\nname = 'tap1'\noptions = { address = '10.8.0.1/24' }\npolicy = { vlan = 20 }\n\
         [[port]]\nkind = 'tap'\nname = 'mon0'\noptions = { mtu = 9000 }\n\
         [[program]]\nname = 'stack'\n[program.policy]\ntrunk = [10, 30]\nmacs = ['02:00:00:00:02:01']\n\
         addresses = ['10.9.0.2']\nmirror = { to = 'tap:mon0' }\n",
    );
    let mut stack = Stack::open(&nic.socket, &["10.9.0.2"], 1500, true);
    stack.port.vlan = Some(Tci::new(10));
    stack.ping("10.9.0.1");
    const BYTES: usize = 512 << 10; // less than a ring has room for: smoltcp does not slow down
    let mut server = stack.listen(7);
    let client = std::thread::spawn(|| exchange(connect("10.9.0.2:7".parse().unwrap()), [1, 2], BYTES));
    until("both directions", || stack.exchange(&mut server, [2, 1], BYTES));
    until("the kernel's end", || {
        stack.poll();
        client.is_finished()
    });
    client.join().unwrap();
    // The kernel asks for somebody in the other VLAN, which nobody else is in.
    let floods = nic.counters("tap:tap1").drop_no_destination;
    let asks = std::net::UdpSocket::bind("10.8.0.1:0").unwrap();
    until("the question to be dropped", || {
        asks.send_to(b"hello", "10.8.0.2:9").unwrap();
        nic.counters("tap:tap1").drop_no_destination > floods
    });
    let (program, mirror) = (nic.counters("stack"), nic.counters("tap:mon0"));
    assert_eq!((program.drop_spoofed, program.drop_vlan), (0, 0));
    let copies = mirror.rx_packets + drops(&mirror);
    assert!(copies > 2 * (BYTES / 1500) as u64, "of both directions: {mirror:?}");
    stack.port.vlan = Some(Tci::new(20));
    assert!(stack.port.send(&[[0xff; 6], MAC].concat().repeat(6), 0));
    until("a frame of another VLAN to be dropped", || nic.counters("stack").drop_vlan == 1);
    nic.accounts_for_all();
}

#[test]
fn ports_come_and_go_while_others_do_not_notice() {
    in_namespace("policy::ports_come_and_go_while_others_do_not_notice_inside");
}

#[test]
#[ignore = "for ports_come_and_go_while_others_do_not_notice"]
fn ports_come_and_go_while_others_do_not_notice_inside() {
    const FIRST: &str = "wire = 'switch'\nlater-ports = ['tap']\n[[port]]\nkind = 'tap'\nname = 'tap0'\noptions = { mtu = 1500, address = '10.9.0.1/24' }\n";
    let (mut nic, file) = Nic::start_with_file(FIRST);
    let mut stack = Stack::open(&nic.socket, &["10.9.0.2"], 1500, false);
    stack.ping("10.9.0.1");
    let id = nic.port("tap:tap0").id;
    let applied = |nic: &Nic| nic.daemon.log().matches("the configuration has been applied").count();
    let refused = |nic: &Nic| nic.daemon.log().matches("the configuration stays as it was").count();
    let reload = |nic: &Nic, text: &str, count: &dyn Fn(&Nic) -> usize| {
        let before = count(nic);
        std::fs::write(&file, text).unwrap();
        kill_process(nic.daemon.pid(), Signal::HUP).unwrap();
        until("the file to be read", || count(nic) > before);
    };
    let second = format!(
        "{FIRST}[[port]]\nkind = 'tap'\nname = 'tap1'\npolicy = {{ mirror = {{ to = 'tap:tap0', sent = false }} }}\n"
    );
    reload(&nic, &second.replace("tap0', sent", "tap1', sent"), &refused); // its own mirror
    assert!(nic.daemon.program("tap:tap1").is_none());
    for _ in 0..3 {
        reload(&nic, &format!("{FIRST}[[port]]\nkind = 'tap'\nname = 'tap1'\n"), &applied);
        assert!(nic.port("tap:tap1").id > id && ip("link show").contains("tap1"));
        stack.ping("10.9.0.1");
        reload(&nic, FIRST, &applied);
        assert!(nic.daemon.program("tap:tap1").is_none() && !ip("link show").contains("tap1"));
        stack.ping("10.9.0.1");
    }
    reload(&nic, &FIRST.replace("mtu = 1500", "mtu = 1500, queues = 2"), &refused);
    assert!(nic.daemon.log().contains("port tap:tap0: only its mtu can change"), "{}", nic.daemon.log());
    reload(
        &nic,
        "wire = 'switch'\nlater-ports = ['tap']\n[[port]]\nkind = 'tap'\nname = 'a-name-of-16-byt'\n",
        &refused,
    );
    stack.ping("10.9.0.1");
    assert_eq!((nic.port("tap:tap0").id, drops(&nic.counters("stack"))), (id, 0));
}

#[test]
fn what_is_kept_decides_which_ports_come_later() {
    in_namespace("policy::what_is_kept_decides_which_ports_come_later_inside");
}

/// Of another user, where there is one: in a user namespace there is not.
#[test]
#[ignore = "for what_is_kept_decides_which_ports_come_later"]
fn what_is_kept_decides_which_ports_come_later_inside() {
    let users = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    let others = users.split_whitespace().nth(2).is_some_and(|count| count != "1");
    let user = if others { "user = '4242:4343'\n" } else { "" };
    for (later, kept) in [("", &[][..]), ("later-ports = ['tap']\n", &["cap_net_admin"])] {
        let first = format!(
            "wire = 'switch'\n{user}{later}[[port]]\nkind = 'tap'\nname = 'tap0'\noptions = {{ address = '10.9.0.1/24' }}\n"
        );
        let (mut nic, file) = Nic::start_with_file(&first);
        let sandbox = nic.daemon.status().sandbox.unwrap();
        assert_eq!((without_lock(&sandbox), sandbox.uid), (kept.to_vec(), if others { 4242 } else { 0 }));
        let mut stack = Stack::open(&nic.socket, &["10.9.0.2"], 1500, false);
        stack.ping("10.9.0.1");
        // The file has to be readable for the other user, in a directory of root's.
        let directory = file.parent().unwrap();
        std::os::unix::fs::chown(directory, others.then_some(4242), None).unwrap();
        let more = "[[port]]\nkind = 'tap'\nname = 'tap1'\noptions = { mtu = 1400, address = '10.8.0.1/24', queues = 2 }\n";
        std::fs::write(&file, format!("{first}{more}")).unwrap();
        kill_process(nic.daemon.pid(), Signal::HUP).unwrap();
        if kept.is_empty() {
            until("the refusal", || nic.daemon.log().contains("stays as it was"));
            assert!(
                nic.daemon.log().contains("port tap:tap1: ccnicd has given away"),
                "{}",
                nic.daemon.log()
            );
            assert!(nic.daemon.log().contains("--later-ports tap") && !ip("link show").contains("tap1"));
            let refused = |request: Request| {
                let why = Connection::open(&nic.socket).unwrap().change(&request).unwrap_err().to_string();
                assert!(why.contains("--later-ports tap"), "{request:?}: {why}");
            };
            let set = BTreeMap::from([("mtu".to_owned(), 1000.into())]);
            refused(Request::PortAdd(PortAdd { port: "tap:tap1".into(), check: true, ..PortAdd::default() }));
            refused(Request::PortSet(PortSet { name: "tap:tap0".into(), set, check: true }));
        } else {
            until("the port", || nic.daemon.program("tap:tap1").is_some());
            assert!(ip("addr show dev tap1").contains("10.8.0.1/24"));
        }
        stack.ping("10.9.0.1");
    }
}
