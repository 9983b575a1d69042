//! Memory of the process under hostile clients: it stays below what README.md says, whatever they leave unread, unfinished or unsaid.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;

use common::{Program, ask, set};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const MEMORY: usize = 32 << 20;
const CLIENTS: usize = 2500;
/// What a client may cost beside the store: what it has sent and what is not executed yet.
const SENDS: usize = 64 << 10;
/// What it may cost more when it does not read replies that are not references to items: those that wait, the last of them whole.
const WAITS: usize = (256 + 64) << 10;
/// Clients that do something. The others are idle.
const OF_EACH: usize = 100;
/// What an idle client may cost.
const IDLE: usize = 2 << 10;

/// Of /proc/PID/status, in bytes.
fn memory(program: &Program, name: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
}

/// A client that sends all that the server takes, and reads nothing.
fn pushes(program: &Program, bytes: &[u8]) -> UnixStream {
    let mut client = program.connect();
    if let Err(error) = client.write_all(bytes) {
        // It has been closed.
        assert!(matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset), "{error}");
    }
    client
}

#[test]
fn it_stays_within_its_bound() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(4096), maximum }).unwrap();
    let program = Program::start(&["-s", "FOLDER/socket", "-t", "2", "-m", "32", "-c", "3000"]);
    let mut control = program.connect();
    ask(&mut control, b"mn\r\n", "MN\r\n");
    let empty = memory(&program, "VmHWM:");
    let idle: Vec<UnixStream> = (0..CLIENTS - 6 * OF_EACH).map(|_| program.connect()).collect();
    let large = vec![b'x'; 1_000_000];
    ask(&mut control, &set("large", &large), "STORED\r\n");
    let mut busy = Vec::new();
    for round in 0..OF_EACH {
        // Values in flight, which others overwrite.
        busy.push(pushes(&program, &b"get large\r\n".repeat(2000)));
        ask(&mut control, &set("large", &large[round..]), "\r\n");
        // One command whose reply would be 250 MB.
        ask(&mut control, &set("small", &large[..2000]), "STORED\r\n");
        busy.push(pushes(&program, &[b"get".to_vec(), b" small".repeat(125_000), b"\r\n".to_vec()].concat()));
        // Values and lines that never end.
        busy.push(pushes(&program, &set("unfinished", &large)[..900_000]));
        busy.push(pushes(&program, &[b"get ".to_vec(), b"a ".repeat(450_000)].concat()));
        // A value of half a gigabyte, of which some megabytes come; a line that is none.
        busy.push(pushes(&program, &[b"set huge 0 0 500000000\r\n".to_vec(), vec![b'x'; 4 << 20]].concat()));
        busy.push(pushes(&program, &[b"set".to_vec(), vec![b'k'; 1 << 20]].concat()));
        // Items, until memory is used up several times.
        for number in 0..40 {
            ask(&mut control, &set(&format!("item-{round}-{number}"), &large[..50_000]), "\r\n");
        }
    }
    let clients = idle.len() * IDLE + 6 * OF_EACH * SENDS + OF_EACH * WAITS;
    let bound = empty + MEMORY + MEMORY / 2 + clients;
    let used = memory(&program, "VmHWM:");
    eprintln!("{} KiB of {} KiB, {} KiB at the start", used >> 10, bound >> 10, empty >> 10);
    assert!(used <= bound, "{used} of {bound}");
    // The others have noticed nothing.
    assert_eq!(ask(&mut control, b"mn\r\n", "MN\r\n"), "MN\r\n");
    assert!(ask(&mut program.connect(), b"stats\r\n", "END\r\n").contains("STAT rejected_connections 0\r\n"));
    drop((idle, busy));
    assert!(program.end().success());
}
