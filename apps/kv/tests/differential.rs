//! The same requests to Debian's memcached and to our protocol code: the same answers, byte for byte, CAS ids and TTLs included. One part
//! is written by hand (`script.txt`), one is drawn from a grammar, the same in every run.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "differential/datagrams.rs"]
mod datagrams;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::Duration;

use ccnic_kv::protocol::{Connection, Endpoint, Listed, Output, Server};
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
    /// One with a Unix socket. None, and a word about it, where memcached is not installed.
    fn start(more: &[&str]) -> Option<Memcached> {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let memcached = Memcached::spawn(folder, &[more, &["-s", socket.to_str().unwrap()]].concat())?;
        for _ in 0..1000 {
            if UnixStream::connect(memcached.socket()).is_ok() {
                return Some(memcached);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("memcached does not listen");
    }

    /// Without the background threads that there are none of here.
    fn spawn(folder: tempfile::TempDir, more: &[&str]) -> Option<Memcached> {
        let options = ["-u", "root", "-t", "1", "-o", "no_lru_crawler,no_lru_maintainer,no_slab_reassign"];
        let mut command = Command::new("memcached");
        let Ok(process) = command.args(options).args(more).spawn() else {
            eprintln!("SKIPPED: no memcached (apt-get install memcached)");
            return None;
        };
        Some(Memcached { process, folder })
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
        if (used == 0 || at == request.len()) && !connection.is_paused() {
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
    let time = pick(&["0", "0", "0", "100", "-1", "x"]);
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
            // The data of a set that is refused are not taken for commands here: protocol/tests.rs.
            let time = if time == "x" { "0" } else { &time };
            format!("{command} {key} {} {time} {}{noreply}\r\n{value}\r\n", pick(&["0", "7"]), value.len())
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

/// Ours, started with these options of memcached.
fn start(options: &[&str]) -> (Store, Server) {
    let mut server = Server::default();
    server.settings.no_flush = options == ["-F"];
    server.settings.no_cas = options == ["-C"];
    server.settings.memory_limit = true;
    let limits = Limits { cas: !server.settings.no_cas, ..Limits::default() };
    (Store::new(1, &limits, 1_699_999_990), server)
}

/// The first case that is answered differently.
fn compare(memcached: &Memcached, options: &[&str], cases: &[Vec<u8>]) -> Result<(), String> {
    let (store, server) = start(options);
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
fn compare_patiently(options: &[&str], cases: &[Vec<u8>]) {
    let mut result = Ok(());
    for _ in 0..4 {
        let Some(memcached) = Memcached::start(options) else { return };
        result = compare(&memcached, options, cases);
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
    compare_patiently(&[], &cases);
}

#[test]
fn what_is_drawn() {
    compare_patiently(&[], &drawn(1500));
}

#[test]
fn without_cas_ids() {
    // Within the second of a flush_all everything is gone: what else is compared must not depend on when that was.
    let cases = drawn(1500);
    compare_patiently(&["-C"], &cases);
    let sizes =
        b"set a 0 0 1\r\nx\r\ngets a\r\nme a\r\nstats sizes_enable\r\nstats sizes\r\ncas a 0 0 1 0\r\ny\r\n";
    compare_patiently(&["-C"], &[sizes.to_vec(), b"flush_all\r\nset b 0 0 1\r\nx\r\nget b\r\n".to_vec()]);
}

/// What is told under each name.
fn told(answer: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8_lossy(answer);
    let lines = text.lines().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// The names without the numbers of connections in front, which differ.
fn names(told: &BTreeMap<String, String>) -> Vec<String> {
    let number = |name: &str| name.split_once(':').is_some_and(|(number, _)| number.parse::<u64>().is_ok());
    let name =
        |name: &String| if number(name) { name.split_once(':').unwrap().1.into() } else { name.clone() };
    let mut names: Vec<String> = told.keys().map(name).collect();
    names.sort();
    names.dedup();
    names
}

/// Settings of what there is none of here: slabs, the LRU's segments and threads, `watch`, prefixes of `stats detail`, extstore, TLS.
const NO_SETTINGS: [&str; 4] = ["slab_automove_", "ext_", "ssl_", "lru_crawler_"];

/// Every name that memcached has and ours has not.
const NOT_TOLD: [&str; 16] = [
    // Its event library, its pools of buffers, its own files.
    "libevent",
    "response_obj_count",
    "response_obj_bytes",
    "read_buf_count",
    "read_buf_bytes",
    "read_buf_bytes_free",
    "reserved_fds",
    // Settings that are not options here.
    "stat_key_prefix",
    "hashpower_init",
    "hot_lru_pct",
    "warm_lru_pct",
    "hot_max_factor",
    "warm_max_factor",
    "temporary_ttl",
    "watcher_logbuf_size",
    "worker_logbuf_size",
];

/// What memcached tells only with its background threads, and what is ours.
const OURS: [&str; 4] = ["udp_replies_dropped", "evicted_active", "moves_within_lru", "direct_reclaims"];

#[test]
fn stats_have_the_names_that_tools_read() {
    let Some(memcached) = Memcached::start(&[]) else { return };
    let store = Store::new(1, &Limits::default(), 1_699_999_990);
    let mut server = Server::default();
    server.settings.processor_time = Some(|| [Duration::from_micros(1_000_001); 2]);
    let all = [Endpoint::Unix("/socket".into()), Endpoint::Unnamed];
    let listed = |end: &Endpoint| {
        let server_end = (*end == Endpoint::Unnamed).then(|| all[0].clone());
        server.connections.add(end.clone(), server_end, 1_700_000_000)
    };
    let _listed: Vec<Listed> = all.iter().map(listed).collect();
    let item = b"set a 0 0 1\r\nx\r\n";
    assert_eq!(
        (memcached.ask(item), ask(&store, &server, item)),
        (b"STORED\r\n".to_vec(), b"STORED\r\n".to_vec())
    );
    for what in ["", " settings", " items", " slabs", " conns", " sizes"] {
        let request = format!("stats{what}\r\n");
        let theirs = names(&told(&memcached.ask(request.as_bytes())));
        let ours = names(&told(&ask(&store, &server, request.as_bytes())));
        let last = |name: &String| name.rsplit(':').next().unwrap().to_owned();
        let missing: Vec<&String> = theirs.iter().filter(|name| !ours.contains(name)).collect();
        let is_listed = |name: &&&String| {
            NOT_TOLD.contains(&name.as_str())
                || what == " settings" && NO_SETTINGS.iter().any(|start| name.starts_with(start))
        };
        let unknown: Vec<&&String> = missing.iter().filter(|name| !is_listed(name)).collect();
        assert!(unknown.is_empty(), "stats{what}: memcached has {unknown:?}, too");
        let more = ours.iter().filter(|name| !theirs.contains(name) && !OURS.contains(&last(name).as_str()));
        assert_eq!(
            more.collect::<Vec<_>>(),
            Vec::<&String>::new(),
            "stats{what}: memcached has no such names"
        );
        assert!(ours.len() + missing.len() >= theirs.len() && !theirs.is_empty());
    }
}

/// What both must count alike: not what depends on sockets, memory, time and the process. memcached looks at the end of its list with each
/// new item, and reclaims what is over there; here it is met later. With keys that are all met again what is left is the same, too.
fn is_compared(name: &str, all_met: bool) -> bool {
    let counted = [
        "cmd_",
        "get_hits",
        "get_misses",
        "delete_",
        "incr_",
        "decr_",
        "cas_",
        "touch_",
        "store_",
        "auth_",
        "evict",
    ];
    let same = ["total_items", "chunk_size", "chunks_per_page", "outofmemory", "tailrepairs"];
    let left = ["curr_items", "get_flushed", "number", "mem_requested", "used_chunks"];
    let last = name.rsplit(':').next().unwrap_or(name);
    counted.iter().any(|start| last.starts_with(start))
        || same.contains(&last)
        || all_met && left.contains(&last)
}

/// Items that there are and that went by themselves.
fn items(told: &BTreeMap<String, String>) -> u64 {
    let names = ["curr_items", "get_expired", "get_flushed", "reclaimed"];
    names.iter().filter_map(|name| told.get(*name)).map(|number| number.parse::<u64>().unwrap()).sum()
}

#[test]
fn stats_count_as_memcached_does() {
    let lines = include_str!("script.txt").lines();
    let script: Vec<Vec<u8>> = lines.filter(|line| !line.starts_with('#')).map(unescape).collect();
    let runs = [
        (&[][..], drawn(1500), true),
        (&["-C"][..], drawn(1500), true),
        (&[][..], script.clone(), false),
        (&["-F"][..], script, false),
    ];
    for (options, mut cases, all_met) in runs {
        let Some(memcached) = Memcached::start(options) else { return };
        let (store, server) = start(options);
        cases.retain(|case| !case.starts_with(b"stats"));
        cases.splice(..0, [b"stats sizes_enable\r\n".to_vec(), b"flush_all x\r\n".to_vec()]);
        for case in cases {
            memcached.ask(&case);
            ask(&store, &server, &case);
        }
        for request in ["stats\r\n", "stats items\r\n", "stats slabs\r\n", "stats sizes\r\n"] {
            let ours = told(&ask(&store, &server, request.as_bytes()));
            let theirs = told(&memcached.ask(request.as_bytes()));
            assert_eq!(items(&theirs), items(&ours));
            if all_met && request.contains("sizes") {
                assert_eq!(theirs, ours, "sizes");
                assert!(!theirs.is_empty());
            }
            let differ: Vec<_> = theirs
                .iter()
                .filter(|(name, _)| is_compared(name, all_met))
                .map(|(name, value)| (name, value, ours.get(name)))
                // Room for an item that never came makes a class of memcached's.
                .filter(|(name, value, ours)| {
                    ours.map_or(*value != "0" && !name.contains("chunk"), |ours| ours != *value)
                })
                .collect();
            assert!(differ.is_empty(), "{options:?} {request:?}: (name, memcached's, ours) {differ:?}");
        }
    }
}
