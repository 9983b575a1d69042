//! For unit tests: a NIC and a program of one process, attached to each other over a real socket.

use ccnic::{Config, Design};
use ccnic_shm::Pages;

use crate::client::Ccnic;
use crate::nic::{CcnicNic, CcnicProgram};

/// Both ends of an attachment.
pub(crate) struct Attached {
    pub(crate) host: Ccnic,
    pub(crate) program: CcnicProgram,
    pub(crate) nic: CcnicNic,
    _directory: tempfile::TempDir,
}

impl Attached {
    /// One queue pair with rings of 64 descriptors, 64 large buffers, an MTU of 9000 bytes.
    pub(crate) fn new(design: Design) -> Attached {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nic.sock");
        let nic = CcnicNic::options().name("test").listen(&socket).unwrap();
        let shared_pool = design != Design::Doorbell;
        let config = Config { design, shared_pool, ring: 64, buffers: 64, mtu: 9000, ..Config::default() };
        let host = std::thread::scope(|scope| {
            let host = scope.spawn(|| Ccnic::open(&socket, "program", &config, Pages::Small, [0; 6], false));
            while nic.poll(None).unwrap() == 0 {}
            while !host.is_finished() {
                nic.poll(Some(std::time::Duration::from_millis(1))).unwrap();
            }
            host.join().unwrap().unwrap()
        });
        let program = CcnicProgram::new(nic.accept().unwrap());
        Attached { host, program, nic, _directory: directory }
    }
}
