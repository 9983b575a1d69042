//! The same datagrams to memcached's UDP port and to our protocol code: the same messages, header by header and byte by byte.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use ccnic_kv::protocol::Server;
use ccnic_kv::protocol::udp::{Frames, HEADER, LONGEST};
use ccnic_kv::store::Store;

use super::{Memcached, start, unescape};

/// Its UDP port.
struct Port {
    _memcached: Memcached,
    socket: UdpSocket,
    /// Of the next request.
    id: u16,
}

/// What one request is answered: messages, each of some datagrams.
type Messages = Vec<Vec<Vec<u8>>>;

impl Port {
    /// None where memcached is not installed.
    fn open() -> Option<Port> {
        for _ in 0..100 {
            // A port that was free a moment ago: who takes it meanwhile makes memcached end.
            let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let address = free.local_addr().unwrap();
            let port = address.port().to_string();
            drop(free);
            let mut memcached =
                Memcached::spawn(tempfile::tempdir().unwrap(), &["-l", "127.0.0.1", "-p", "0", "-U", &port])?;
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            socket.connect(address).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            while memcached.process.try_wait().unwrap().is_none() {
                let _ = socket.send(&datagram(0, b"mn\r\n"));
                if socket.recv(&mut [0; 2000]).is_ok() {
                    return Some(Port { _memcached: memcached, socket, id: 1 });
                }
            }
        }
        panic!("no port for memcached");
    }

    /// Sends commands, and waits until they and what they have begun are over.
    fn ask(&mut self, commands: &[u8]) -> Messages {
        let id = self.id;
        self.id = self.id.wrapping_add(3);
        self.socket.send(&datagram(id, commands)).unwrap();
        // memcached takes this for the rest of a value that was cut, and else answers it.
        self.socket
            .send(&datagram(id.wrapping_add(1), &[b"get", &b" k".repeat(500)[..], b"\r\n"].concat()))
            .unwrap();
        let (last, mut sent, begun) = (id.wrapping_add(2), None::<Instant>, Instant::now());
        let (mut all, mut bytes) = (Vec::new(), [0; 2000]);
        loop {
            if sent.is_none_or(|sent| sent.elapsed() > Duration::from_secs(2)) {
                self.socket.send(&datagram(last, b"mn\r\n")).unwrap();
                sent = Some(Instant::now());
            }
            assert!(begun.elapsed() < Duration::from_secs(120), "memcached does not answer");
            let Ok(count) = self.socket.recv(&mut bytes) else { continue };
            match u16::from_be_bytes([bytes[0], bytes[1]]) {
                number if number == id => all.push(bytes[..count].to_vec()),
                number if number == last => return one_for_each_get(messages(all)),
                _ => {}
            }
        }
    }
}

/// A request of one datagram.
fn datagram(id: u16, commands: &[u8]) -> Vec<u8> {
    [&id.to_be_bytes()[..], &[0, 0, 0, 1, 0, 0], commands].concat()
}

/// The datagrams, without the request's id, by message. An empty one of memcached's, of none, is none.
fn messages(datagrams: Vec<Vec<u8>>) -> Messages {
    let mut all = Messages::new();
    for datagram in datagrams {
        let datagram = datagram[2..].to_vec();
        match datagram[..6] {
            [_, _, 0, 0, 0, 0] => assert_eq!(datagram.len(), 6),
            [0, 0, _, _, 0, 0] => all.push(vec![datagram]),
            _ => all.last_mut().unwrap().push(datagram),
        }
    }
    all
}

/// memcached answers a get of several keys by a message for each; here it is one.
fn one_for_each_get(messages: Messages) -> Messages {
    let mut all = Messages::new();
    let mut open = false;
    for message in messages {
        let text = message.iter().map(|datagram| &datagram[HEADER - 2..]).collect::<Vec<_>>().concat();
        if open {
            let before = all.pop().unwrap();
            assert_eq!((before.len(), message.len()), (1, 1), "more than a datagram: not compared");
            all.push(vec![[&before[0][..], &text].concat()]);
        } else {
            all.push(message);
        }
        open = (open || text.starts_with(b"VALUE ")) && !text.ends_with(b"END\r\n");
    }
    all
}

fn ours(store: &Store, server: &Server, commands: &[u8]) -> Messages {
    let mut session = store.session(1_700_000_000);
    let mut all = Vec::new();
    let request = datagram(0x1234, commands);
    Frames::new(LONGEST).answer(&request, &mut session, server, |datagram| {
        assert_eq!(datagram[..2], [0x12, 0x34]);
        all.push(datagram.to_vec());
    });
    session.check();
    messages(all)
}

fn shown(messages: &Messages) -> String {
    let text: Vec<String> =
        messages.iter().flatten().map(|datagram| datagram.escape_ascii().to_string()).collect();
    let ours = ccnic_kv::protocol::VERSION.replace("1.6.18", "");
    text.join("\n").replace(&ours, "")
}

fn compare(port: &mut Port, cases: &[Vec<u8>]) -> Result<(), String> {
    let (store, server) = start(&[]);
    for case in cases {
        let (theirs, ours) = (shown(&port.ask(case)), shown(&ours(&store, &server, case)));
        if theirs != ours {
            return Err(format!("{}\nmemcached:\n{theirs:.900}\nours:\n{ours:.900}", case.escape_ascii()));
        }
    }
    Ok(())
}

/// As `compare_patiently`: a second may end between two requests.
fn compare_patiently(cases: &[Vec<u8>]) {
    let mut result = Ok(());
    for _ in 0..4 {
        let Some(mut port) = Port::open() else { return };
        result = compare(&mut port, cases);
        if result.is_ok() {
            return;
        }
    }
    panic!("{}", result.unwrap_err());
}

#[test]
fn datagrams_that_are_written_by_hand() {
    let long = [
        "set big 0 0 3000|{3000}",
        "get big",
        "get big|get a",
        "get a|get big|get big|mn",
        "stats bogus|version",
    ];
    let cut = [
        "set a 0 0 10|abc",
        "set a 0 0 3|",
        "get a|set a 0 0 10|abc",
        "ms a 10|abc",
        "ms a 10 q|abc",
        "set a 0 0 10 noreply|abc",
    ];
    let script =
        include_str!("../script.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    // It does not answer several commands of a datagram any more after a `quit`, and a datagram is no longer than this. What begins with no
    // small letter is not answered here: it may be an answer.
    let script = script.filter(|line| !line.contains("quit")).map(unescape);
    let script =
        script.filter(|case| case.len() < 60_000 && case.first().is_some_and(u8::is_ascii_lowercase));
    let mut cases: Vec<Vec<u8>> = script.collect();
    assert!(cases.len() > 150);
    cases.extend(long.into_iter().map(unescape));
    cases.extend(cut.into_iter().map(unescape));
    compare_patiently(&cases);
}

#[test]
fn datagrams_that_are_drawn() {
    compare_patiently(&super::drawn(800));
}

/// Each case as far as some byte.
#[test]
fn datagrams_that_are_cut() {
    let cut = |(number, mut case): (usize, Vec<u8>)| {
        case.truncate(1 + number * 7919 % case.len());
        case
    };
    compare_patiently(&super::drawn(800).into_iter().enumerate().map(cut).collect::<Vec<_>>());
}
