//! DHCP between two kernels with nothing but the switch between them: broadcasts, and packet sockets, which see checksums as they are.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use super::common::until;
use super::net::{Namespace, Nic, Pinger, in_namespace};

#[test]
fn a_lease() {
    in_namespace("dhcp::a_lease_inside");
}

const SERVER: &str = "start 10.9.0.50\nend 10.9.0.59\ninterface left\nlease_file DIR/leases\npidfile DIR/pid\noption subnet 255.255.255.0\n";
const BOUND: &str = "#!/bin/sh\n[ \"$1\" != bound ] || ip addr add \"$ip/24\" dev \"$interface\"\n";

/// BusyBox has both ends.
#[test]
#[ignore = "for a_lease"]
fn a_lease_inside() {
    let applets = Command::new("busybox")
        .arg("--list")
        .output()
        .map(|list| String::from_utf8_lossy(&list.stdout).into_owned());
    if !applets.is_ok_and(|list| list.contains("udhcpd") && list.contains("udhcpc")) {
        println!("skipped: no busybox with udhcpd and udhcpc");
        return;
    }
    let mut nic = Nic::start(&["tap:left,address=10.9.0.1/24", "tap:right"]);
    let there = Namespace::new();
    there.take("right");
    there.ip("link set right up");
    let directory = tempfile::tempdir().unwrap();
    let [conf, script] = ["udhcpd.conf", "bound.sh"].map(|name| directory.path().join(name));
    std::fs::write(&conf, SERVER.replace("DIR", directory.path().to_str().unwrap())).unwrap();
    std::fs::write(&script, BOUND).unwrap();
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let quiet = |command: &mut Command| {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut server = quiet(Command::new("busybox").args(["udhcpd", "-f"]).arg(&conf));
    until("a lease", || {
        let mut client = there.command("busybox");
        client.args(["udhcpc", "-f", "-q", "-n", "-t", "5", "-T", "1", "-i", "right", "-s"]).arg(&script);
        quiet(&mut client).wait().unwrap().success()
    });
    assert!(there.ip("addr show dev right").contains("10.9.0.5"), "of the server's range");
    let leased = there.ip("-4 -o addr show dev right");
    let address = leased.split_whitespace().find_map(|word| word.strip_suffix("/24")).unwrap().to_owned();
    let mut pinger = Pinger::new(address.parse().unwrap());
    until("an answer from the leased address", || {
        pinger.send(56);
        std::thread::sleep(std::time::Duration::from_millis(20));
        pinger.answered()
    });
    let _ = server.kill(); // it may have ended already
    server.wait().unwrap();
    nic.accounts_for_all();
}
