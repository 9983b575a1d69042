//! What the tests of `ccnic` share: a NIC in a thread of the test.

#![allow(dead_code, reason = "each test uses its part")]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread::JoinHandle;

use ccnic_control::Limits;
use ccnicd::config::Running;
use ccnicd::dataplane::DataplaneKind;
use ccnicd::{Daemon, DaemonOptions};

/// A daemon. Dropping it stops it.
pub struct TestNic {
    stop: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl TestNic {
    /// On the first CPU that may be used, which programs use, too.
    pub fn start(socket: &Path, dataplane: DataplaneKind) -> TestNic {
        let first = ccnicd::control::placement::allowed_cpus().unwrap().into_iter().take(1);
        TestNic::start_with(options(socket, first.collect(), dataplane))
    }

    /// As `options` say.
    pub fn start_with(options: DaemonOptions) -> TestNic {
        TestNic::run(Daemon::new(options).unwrap())
    }

    /// As the configuration says, which may change; on the first CPU that may be used.
    pub fn configured(running: Running) -> TestNic {
        let cores = ccnicd::control::placement::allowed_cpus().unwrap().into_iter().take(1).collect();
        let options = DaemonOptions { cores, ..running.now().settle().unwrap() };
        TestNic::run(Daemon::with_config(options, running).unwrap())
    }

    fn run(daemon: Daemon) -> TestNic {
        let (stopped, stop) = UnixStream::pair().unwrap();
        TestNic { stop, thread: Some(std::thread::spawn(move || daemon.run(&stopped))) }
    }
}

/// The defaults, and memory for small regions.
pub fn options(socket: &Path, cores: Vec<usize>, dataplane: DataplaneKind) -> DaemonOptions {
    DaemonOptions::new(socket.to_owned(), cores, dataplane, Limits::new(1 << 30, 1 << 30))
}

impl Drop for TestNic {
    fn drop(&mut self) {
        // The daemon stops when the other end of its pipe is written to.
        let _ = std::io::Write::write_all(&mut self.stop, &[0]);
        self.thread.take().into_iter().for_each(|thread| _ = thread.join());
    }
}
