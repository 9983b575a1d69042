//! Enters the sandbox as the daemon does, and tries to get out. What is forbidden fails, and the process goes on.
//!
//! A program of its own, without the harness of tests: that has threads, and the sandbox is entered by a process with one.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use ccnicd::sandbox::{self, Needs, SandboxOptions};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use rustix::thread::LinkNameSpaceType;

fn main() {
    let directory = tempfile::tempdir().unwrap();
    let (config, recordings) = (directory.path().join("etc"), directory.path().join("out"));
    [&config, &recordings].into_iter().for_each(|path| std::fs::create_dir(path).unwrap());
    let (file, outside) = (config.join("nic.toml"), directory.path().join("secret"));
    std::fs::write(&file, "wire = 'switch'").unwrap();
    std::fs::write(&outside, "secret").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let kept_open = std::fs::File::open(&outside).unwrap();
    let record = format!("pcap:record={}", recordings.join("all").display());
    let needs =
        Needs { config: Some(file.clone()), ports: vec![record.parse().unwrap()], ..Needs::default() };
    let landlock =
        sandbox::enter(&SandboxOptions::default(), None, &needs).unwrap().status().landlock.clone();
    let inside = std::thread::spawn(move || {
        let eperm = |outcome: rustix::io::Result<()>| assert_eq!(outcome, Err(Errno::PERM));
        let refused = |kind: ErrorKind| assert_eq!(kind, ErrorKind::PermissionDenied);
        refused(Command::new("/bin/true").spawn().unwrap_err().kind());
        refused(TcpStream::connect(listener.local_addr().unwrap()).unwrap_err().kind());
        refused(TcpListener::bind("127.0.0.1:0").unwrap_err().kind());
        refused(std::os::unix::net::UnixStream::connect("/run/any.sock").unwrap_err().kind());
        refused(std::fs::rename(&file, config.join("other")).unwrap_err().kind());
        eperm(test_kill_process(Pid::from_raw(1).unwrap()));
        eperm(test_kill_process(rustix::process::getppid().unwrap()));
        eperm(rustix::process::chroot("/"));
        eperm(rustix::thread::set_thread_uid(rustix::thread::Uid::ROOT));
        eperm(rustix::thread::move_into_link_name_space(
            std::os::fd::AsFd::as_fd(&kept_open),
            Some(LinkNameSpaceType::Network),
        ));
        // What it needs it can do.
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "wire = 'switch'");
        std::fs::write(recordings.join("all"), "packets").unwrap();
        assert!(!std::fs::read_to_string("/proc/thread-self/schedstat").unwrap().is_empty());
        drop(std::os::unix::net::UnixStream::pair().unwrap());
        if landlock == "none" {
            return println!("files not tested: this kernel has no Landlock");
        }
        for path in [outside.as_path(), Path::new("/etc/hostname"), Path::new("/dev/null")] {
            refused(std::fs::File::open(path).unwrap_err().kind());
        }
        for path in [config.join("new"), outside.with_file_name("new")] {
            refused(std::fs::write(path, "").unwrap_err().kind());
        }
        for path in [outside.clone(), recordings.join("all")] {
            refused(std::fs::remove_file(path).unwrap_err().kind());
        }
        refused(std::fs::write(&file, "").unwrap_err().kind());
    });
    inside.join().unwrap();
    println!("sandbox_inside: all of it was refused");
}
