//! Queues that a service manager keeps while the daemon is started again. Its part is played by the test.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

use ccnic_control::Connection;
use ccnic_control::messages::{PortDel, Request};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::Signal;

use super::common::{Daemon, PATIENCE};
use super::namespaces::{PROGRAM, configure, has, pings};
use super::net::{Namespace, in_namespace};
use super::stack::Stack;

/// The next message to the service manager about descriptors, and those that came with it.
fn told(manager: &UnixDatagram) -> (String, Vec<OwnedFd>) {
    std::iter::repeat_with(|| message(manager)).find(|(said, _)| said.starts_with("FD")).unwrap()
}

fn message(manager: &UnixDatagram) -> (String, Vec<OwnedFd>) {
    let (mut bytes, mut room) = ([0; 256], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))]);
    let mut beside = RecvAncillaryBuffer::new(&mut room);
    let n =
        recvmsg(manager, &mut [IoSliceMut::new(&mut bytes)], &mut beside, RecvFlags::CMSG_CLOEXEC).unwrap();
    let fds = beside.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => fds.collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let fds = fds.collect();
    (String::from_utf8_lossy(&bytes[..n.bytes]).into_owned(), fds)
}

/// Hands `f` a script that becomes the program in its arguments, as a service whose manager has kept this.
fn as_service<T>(directory: &Path, kept: Option<&OwnedFd>, f: impl FnOnce(&str) -> T) -> T {
    let mut script = format!("export NOTIFY_SOCKET={}\n", directory.join("manager").display());
    if let Some(kept) = kept {
        fcntl_setfd(kept, FdFlags::empty()).unwrap();
        script += "export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=tap.tap0.0\n";
        script += &format!("exec 3<&{0} {0}<&-\n", kept.as_raw_fd());
    }
    let started = f(&(script + "exec \"$0\" \"$@\""));
    kept.inspect(|kept| fcntl_setfd(kept, FdFlags::CLOEXEC).unwrap());
    started
}

/// A daemon with this port, started as a service.
fn start(directory: &Path, port: &str, kept: Option<&OwnedFd>) -> (Daemon, Stack) {
    let (socket, daemon) = (directory.join("nic.sock"), env!("CARGO_BIN_EXE_ccnicd"));
    let args = ["--wire", "switch", "--later-ports", "tap", "--log", "info", "--port", port];
    let daemon = as_service(directory, kept, |script| {
        Daemon::start_by(&["bash", "-c", script, daemon], &socket, &args)
    });
    (daemon, Stack::open(&socket, &[PROGRAM], 1500, false))
}

/// A daemon that may not enter the interface's namespace says so and ends; it does not give the interface up.
fn does_not_start_without_sys_admin(directory: &Path, kept: &OwnedFd) {
    let ended = as_service(directory, Some(kept), |script| {
        let drop = ["--bounding-set=-sys_admin", "--inh-caps=-sys_admin", env!("CARGO_BIN_EXE_ccnicd")];
        let mut daemon = Command::new("bash");
        daemon.args(["-c", script, "setpriv"]).args(drop).arg("--socket").arg(directory.join("nic.sock"));
        daemon.args(["--wire", "switch", "--tuning", "default", "--port", "tap:tap0"]).output()
    });
    let ended = ended.unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success() && said.contains("that takes CAP_SYS_ADMIN"), "{said}");
}

#[test]
fn an_interface_stays_where_it_is() {
    match Command::new("bash").args(["-c", "setpriv --version"]).status() {
        Ok(done) if done.success() => in_namespace("kept::an_interface_stays_where_it_is_inside"),
        _ => println!("skipped: there is no bash, or no setpriv"),
    }
}

/// In another namespace, under another name, with what it was given there, over the end and the death of the daemon. It goes with its port.
#[test]
#[ignore = "for an_interface_stays_where_it_is"]
fn an_interface_stays_where_it_is_inside() {
    let directory = tempfile::tempdir().unwrap();
    let manager = UnixDatagram::bind(directory.path().join("manager")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut daemon, _) = start(directory.path(), "tap:tap0,address=10.8.0.1/24", None);
    let (said, mut kept) = told(&manager);
    assert_eq!((said.as_str(), kept.len()), ("FDSTORE=1\nFDNAME=tap.tap0.0", 1));
    let kept = kept.remove(0);
    let pod = Namespace::new();
    pod.take("tap0");
    pod.ip("link set tap0 name eth0");
    configure(Some(&pod), "eth0");
    for signal in [Signal::TERM, Signal::KILL] {
        daemon.signal(signal);
        does_not_start_without_sys_admin(directory.path(), &kept);
        let stack;
        (daemon, stack) = start(directory.path(), "tap:tap0,address=10.8.0.1/24", Some(&kept));
        pings(Some(&pod), &mut { stack });
        assert!(!has(None, "tap0") && !pod.ip("addr show dev eth0").contains("10.8.0.1"));
    }
    assert!(daemon.log().contains("took over the interface"), "{}", daemon.log());
    let del = Request::PortDel(PortDel { name: "tap:tap0".into(), check: false });
    Connection::open(&directory.path().join("nic.sock")).unwrap().change(&del).unwrap();
    assert_eq!(told(&manager).0, "FDSTOREREMOVE=1\nFDNAME=tap.tap0.0");

    // A port that is not in the configuration any more is not kept, nor used.
    daemon.signal(Signal::TERM);
    let (_daemon, _) = start(directory.path(), "tap:tap1", Some(&kept));
    assert_eq!(told(&manager).0, "FDSTORE=1\nFDNAME=tap.tap1.0");
    assert_eq!(told(&manager).0, "FDSTOREREMOVE=1\nFDNAME=tap.tap0.0");
    drop(kept);
    assert!(!has(Some(&pod), "eth0"), "nobody has it");
}
