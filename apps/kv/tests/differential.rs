//! The same requests to Debian's memcached and to our protocol code: the same answers, byte for byte, CAS ids and TTLs included. One part
//! is written by hand (`script.txt`), one is drawn from a grammar, the same in every run.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::Duration;

use ccnic_kv::protocol::{Connection, Output, Server};
use ccnic_kv::store::{Limits, Store};

/// memcached, ended with the test.
struct Memcached {
    process: Child,
    folder: tempfile::TempDir,
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Memcached {
    fn start() -> Option<Memcached> {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let options = ["-u", "root", "-t", "1", "-o", "no_lru_crawler,no_lru_maintainer", "-s"];
        let process = Command::new("memcached").args(options).arg(&socket).spawn().ok()?;
        let memcached = Memcached { process, folder };
        for _ in 0..1000 {
            if UnixStream::connect(memcached.socket()).is_ok() {
                return Some(memcached);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("memcached does not listen");
    }

    fn socket(&self) -> std::path::PathBuf {
        self.folder.path().join("socket")
    }

    /// The answers on a connection of its own.
    fn ask(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = UnixStream::connect(self.socket()).unwrap();
        stream.write_all(request).unwrap();
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    }
}

/// Ours on a connection of its own.
fn ask(store: &Store, server: &Server, request: &[u8]) -> Vec<u8> {
    let mut session = store.session(1_700_000_000);
    let (mut connection, mut out, mut answer) = (Connection::new(), Output::new(), Vec::new());
    let mut at = 0;
    loop {
        let used = connection.advance(&request[at..], &mut session, server, &mut out);
        at += used;
        answer.extend(out.segments().flatten());
        out.clear();
        if used == 0 || at == request.len() {
            break;
        }
    }
    connection.end(&session);
    session.check();
    answer
}

/// A line of the script: `|` ends a line, `\xHH` is a byte, `{N}` is N letters.
fn unescape(line: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), line);
    while let Some(first) = rest.chars().next() {
        if let Some(hex) = rest.strip_prefix("\\x") {
            bytes.push(u8::from_str_radix(&hex[..2], 16).unwrap());
            rest = &hex[2..];
        } else if let Some((count, after)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            bytes.extend(std::iter::repeat_n(b'a', count.parse().unwrap()));
            rest = after;
        } else {
            match first {
                '|' => bytes.extend(b"\r\n"),
                other => bytes.extend(other.to_string().bytes()),
            }
            rest = &rest[first.len_utf8()..];
        }
    }
    bytes.extend(b"\r\n");
    bytes
}

/// Commands drawn from a grammar, over few keys, so that they meet each other's items.
fn drawn(count: usize) -> Vec<Vec<u8>> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut below = move |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % n as u64) as usize
    };
    (0..count).map(|_| (0..1 + below(6)).flat_map(|_| draw(&mut below)).collect()).collect()
}

fn draw(below: &mut impl FnMut(usize) -> usize) -> Vec<u8> {
    let mut pick = |from: &[&str]| from[below(from.len())].to_string();
    let key = pick(&["a", "b", "c", "YQ==", "num", "num", "long"]);
    let value = pick(&["", "1", "17", "99", "18446744073709551615", "10   ", "x", "some words", "5\r\n6"]);
    let time = pick(&["0", "0", "0", "100", "-1", "3000000000", "x"]);
    let noreply = pick(&["", "", "", " noreply"]);
    let number = pick(&["0", "1", "9", "-1", "x", "18446744073709551615"]);
    let kind = pick(&[
        "store", "store", "get", "count", "delete", "touch", "cas", "mg", "ms", "ms", "md", "ma", "me",
    ]);
    let flag_sets = [
        "v", "t", "f", "s", "k", "c", "h", "O1", "q", "u", "T100", "T0", "T-1", "N30", "R60", "R1000", "b",
        "I", "Oab", "C1", "C50", "ME", "MA", "MP", "MR", "MS", "MI", "MD", "M+", "M-", "D5", "J13", "F9",
        "F1", "z", "Tx", "k",
    ];
    let flags: String = (0..4).map(|_| pick(&flag_sets)).fold(String::new(), |all, flag| all + " " + &flag);
    let text = match kind.as_str() {
        "store" => {
            let command = pick(&["set", "set", "add", "replace", "append", "prepend"]);
            format!(
                "{command} {key} {} {time} {}{noreply}\r\n{value}\r\n",
                pick(&["0", "7", "x"]),
                value.len()
            )
        }
        "get" => format!("{} {key} b num\r\n", pick(&["get", "gets", "gat 10", "gats 0", "gat x"])),
        "count" => format!("{} {key} {number}{noreply}\r\n", pick(&["incr", "decr"])),
        "delete" => format!("delete {key}{noreply}\r\n"),
        "touch" => format!("touch {key} {time}{noreply}\r\n"),
        "cas" => format!("cas {key} 0 0 {} {}\r\n{value}\r\n", value.len(), pick(&["1", "9", "60"])),
        "ms" => format!("ms {key} {}{flags}\r\n{value}\r\n", value.len()),
        command => format!("{command} {key}{flags}\r\n"),
    };
    text.into_bytes()
}

/// The first case that is answered differently.
fn compare(memcached: &Memcached, cases: &[Vec<u8>]) -> Result<(), String> {
    let store = Store::new(1, &Limits::default(), 1_699_999_990);
    let server = Server::default();
    for case in cases {
        let (theirs, ours) = (memcached.ask(case), ask(&store, &server, case));
        let theirs = String::from_utf8_lossy(&theirs).replace("VERSION 1.6.18\r\n", "VERSION\r\n");
        let ours = String::from_utf8_lossy(&ours)
            .replace(ccnic_kv::protocol::VERSION, "")
            .replace("VERSION \r\n", "VERSION\r\n");
        if theirs != ours {
            let case = case.escape_ascii().to_string();
            return Err(format!("{:.300}\nmemcached: {theirs:.600?}\nours:      {ours:.600?}", case));
        }
    }
    Ok(())
}

/// A second that ends between two requests changes what is left of a TTL: then once more, with empty servers.
fn compare_patiently(cases: &[Vec<u8>]) {
    let mut result = Ok(());
    for _ in 0..4 {
        let Some(memcached) = Memcached::start() else {
            eprintln!("SKIPPED: no memcached (apt-get install memcached)");
            return;
        };
        result = compare(&memcached, cases);
        if result.is_ok() {
            return;
        }
    }
    panic!("{}", result.unwrap_err());
}

#[test]
fn what_is_written_by_hand() {
    let script = include_str!("script.txt");
    let lines = script.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let cases: Vec<Vec<u8>> = lines.map(unescape).collect();
    assert!(cases.len() > 150);
    compare_patiently(&cases);
}

#[test]
fn what_is_drawn() {
    compare_patiently(&drawn(1500));
}
