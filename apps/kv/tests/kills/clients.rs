//! Clients of the store: over a stack of their own, over a Unix socket, over the kernel's TCP and a TAP port. Each has keys of its own, and
//! knows what the store must have.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use ccnic_check::oracle;
use ccnic_hostile::Random;
use ccnic_tcp::{Conn, Stack};

use super::journal::{Journal, Key};
use super::life::{self, Life, Says};
use super::streams::host;

/// Keys that are written to at a time.
const KEYS: u64 = 48;
/// Silence after which a client whose store was killed gives up a connection.
const GIVE_UP: Duration = Duration::from_secs(2);
const PORT: u16 = 11211;

/// A connection to the store, or none.
trait Way {
    fn connect(&mut self, life: &Life) -> io::Result<()>;
    /// Some of the bytes are taken: `Ok(0)` when there is no room now.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// `None`: nothing has come within some milliseconds.
    fn read(&mut self, to: &mut [u8]) -> io::Result<Option<usize>>;
    /// When nothing is to be done.
    fn idle(&mut self) {
        std::thread::sleep(Duration::from_millis(2));
    }
    fn close(&mut self);
    /// The death of a NIC may end connections.
    fn depends_on_the_kernel(&self) -> bool {
        false
    }
}

fn pending<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        // A call with a time limit is interrupted when its process was stopped.
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        done => done.map(Some),
    }
}

struct OwnStack(Stack, Option<Conn>);

impl Way for OwnStack {
    fn connect(&mut self, _: &Life) -> io::Result<()> {
        let to = SocketAddr::new(life::STORE_ADDRESS.parse().unwrap(), PORT);
        let conn = self.0.connect(to).map_err(io::Error::other)?;
        self.1 = Some(conn);
        loop {
            self.0.poll();
            match pending(self.0.write_with(conn, |_| (0, ())))? {
                Some(()) => return Ok(()),
                None => self.idle(),
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = pending(self.0.write(self.1.unwrap(), bytes))?;
        self.0.poll();
        Ok(n.unwrap_or(0))
    }

    fn read(&mut self, to: &mut [u8]) -> io::Result<Option<usize>> {
        self.0.poll();
        let n = pending(self.0.read(self.1.unwrap(), to))?;
        if n.is_none() {
            self.idle();
        }
        Ok(n)
    }

    fn idle(&mut self) {
        while self.0.next_event().is_some() {}
        if let Err(e) = self.0.wait_when_idle(Duration::from_millis(5)) {
            panic!("a NIC refuses this program: {e}"); // that there is none at the moment is no error
        }
        self.0.poll();
    }

    fn close(&mut self) {
        if let Some(conn) = self.1.take() {
            self.0.abort(conn);
            self.0.poll();
        }
    }
}

const TICK: Option<Duration> = Some(Duration::from_millis(20));

/// A socket of the kernel, opened by `open`.
struct Socket {
    open: fn(&Life) -> io::Result<OwnedFd>,
    is_tcp: bool,
    stream: Option<File>,
}

impl Socket {
    fn unix() -> Self {
        let open = |life: &Life| {
            let stream = UnixStream::connect(life.folder.store())?;
            stream.set_read_timeout(TICK)?;
            stream.set_write_timeout(TICK)?;
            Ok(stream.into())
        };
        Self { open, is_tcp: false, stream: None }
    }

    fn tcp() -> Self {
        let open = |_: &Life| {
            let to = SocketAddr::new(life::STORE_ADDRESS.parse().unwrap(), PORT);
            let stream = TcpStream::connect_timeout(&to, Duration::from_secs(2))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(TICK)?;
            stream.set_write_timeout(TICK)?;
            Ok(stream.into())
        };
        Self { open, is_tcp: true, stream: None }
    }
}

impl Way for Socket {
    fn connect(&mut self, life: &Life) -> io::Result<()> {
        self.stream = Some((self.open)(life)?.into());
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(pending(self.stream.as_mut().unwrap().write(bytes))?.unwrap_or(0))
    }

    fn read(&mut self, to: &mut [u8]) -> io::Result<Option<usize>> {
        pending(self.stream.as_mut().unwrap().read(to))
    }

    fn close(&mut self) {
        self.stream = None;
    }

    fn depends_on_the_kernel(&self) -> bool {
        self.is_tcp
    }
}

/// The value of a version of a key.
fn value(name: &str, version: u64) -> Vec<u8> {
    let mut bytes = format!("{name} {version} ").into_bytes();
    let seed = bytes.iter().fold(version, |seed, byte| seed.wrapping_mul(31) + u64::from(*byte));
    let mut rest =
        vec![0; Random::new(seed).below(if seed.is_multiple_of(16) { 20_000 } else { 2_000 }) as usize];
    oracle::fill(seed, 0, &mut rest);
    bytes.extend_from_slice(&rest);
    bytes
}

fn deletes(version: u64) -> bool {
    version.is_multiple_of(8)
}

/// A whole answer to a get: the value, if there is one. `None`: some of it is missing.
fn answer_of_get(name: &str, answer: &[u8]) -> Option<Option<Vec<u8>>> {
    if answer == b"END\r\n" {
        return Some(None);
    }
    let line = answer.windows(2).position(|two| two == b"\r\n")?;
    let head = std::str::from_utf8(&answer[..line]).unwrap();
    let len: usize =
        head.strip_prefix(&format!("VALUE {name} 0 ")).unwrap_or_else(|| panic!("{head}")).parse().unwrap();
    let rest = &answer[line + 2..];
    assert!(rest.len() <= len + 7, "more than an answer");
    (rest.len() == len + 7).then(|| {
        assert_eq!(&rest[len..], b"\r\nEND\r\n");
        Some(rest[..len].to_vec())
    })
}

struct Client<W> {
    life: Life,
    way: W,
    journal: Journal,
    random: Random,
    prefix: &'static str,
    connected: bool,
    /// Deaths of the store and of the NIC when the connection was made, and the life of the store in the journal.
    died: [u64; 2],
    store: u64,
}

impl<W: Way> Client<W> {
    fn killed(&self, who: usize, at: usize) -> bool {
        self.life.board.killed_since(who, self.died[at])
    }

    /// A connection, and what is known of the store at its other end.
    fn connect(&mut self) {
        while !self.connected {
            self.died = [life::STORE, life::DAEMON].map(|who| self.life.board.died(who));
            let way = &mut self.way;
            let life = &self.life;
            life.persist("the store", || way.connect(life).inspect_err(|_| way.close()));
            self.journal.catch_up();
            self.store = self.journal.lives;
            // The notes about a death are there before it counts as over: a death in between shows.
            self.connected = !self.killed(life::STORE, 0);
            if !self.connected {
                self.way.close();
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// The connection has failed, as it may when the store was killed.
    fn broken(&mut self, error: &io::Error) {
        let store = self.killed(life::STORE, 0);
        let nic = self.way.depends_on_the_kernel() && self.killed(life::DAEMON, 1);
        assert!(store || nic, "{}: a connection ended though the store lives: {error}", self.prefix);
        self.life.add(Says::Broken, 1);
        self.way.close();
        self.connected = false;
    }

    /// Sends a command, and waits for what `whole` says is all of the answer.
    fn ask<T>(&mut self, request: &[u8], whole: impl Fn(&[u8]) -> Option<T>) -> io::Result<T> {
        let (mut rest, mut answer, mut moved) = (request, Vec::new(), Instant::now());
        loop {
            if !rest.is_empty() {
                let n = self.way.write(rest)?;
                rest = &rest[n..];
            }
            let mut bytes = [0; 8192];
            match self.way.read(&mut bytes)? {
                Some(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Some(n) => {
                    moved = Instant::now();
                    answer.extend_from_slice(&bytes[..n]);
                    if let Some(answer) = whole(&answer) {
                        return Ok(answer);
                    }
                }
                None if self.killed(life::STORE, 0) && moved.elapsed() > GIVE_UP => {
                    return Err(ErrorKind::TimedOut.into());
                }
                None => {}
            }
        }
    }

    /// Reads a key, and compares what is there with what must be. False when the connection has failed.
    fn check(&mut self, name: &str) -> bool {
        self.connect();
        let request = format!("get {name}\r\n");
        let found = match self.ask(request.as_bytes(), |answer| answer_of_get(name, answer)) {
            Ok(found) => found,
            Err(e) => {
                self.broken(&e);
                return false;
            }
        };
        let Key { sent, least, .. } = self.journal.keys[name];
        let version = match &found {
            None => (least..=sent).find(|version| deletes(*version)),
            Some(bytes) => {
                let version = bytes
                    .split(|byte| *byte == b' ')
                    .nth(1)
                    .and_then(|word| std::str::from_utf8(word).ok()?.parse().ok());
                let version: u64 = version
                    .unwrap_or_else(|| panic!("{name}: damaged: {:x?}", &bytes[..bytes.len().min(64)]));
                assert!(*bytes == value(name, version), "{name}: version {version} is damaged");
                (least..=sent).contains(&version).then_some(version)
            }
        };
        let version = version.unwrap_or_else(|| {
            panic!("{name}: {found:?} is none of versions {least} to {sent} in life {}", self.store)
        });
        if version > least {
            self.journal.has(name, version, self.store);
        }
        self.life.add(Says::Done, 1);
        true
    }

    fn write(&mut self, name: &str) {
        self.connect();
        let version = self.journal.keys.get(name).map_or(1, |key| key.sent + 1);
        let (request, answers) = if deletes(version) {
            (format!("delete {name}\r\n").into_bytes(), ["DELETED\r\n", "NOT_FOUND\r\n"])
        } else {
            let value = value(name, version);
            let head = format!("set {name} 0 0 {}\r\n", value.len());
            ([head.as_bytes(), &value, b"\r\n"].concat(), ["STORED\r\n"; 2])
        };
        self.journal.sends(name, version);
        let whole = |answer: &[u8]| {
            answer.ends_with(b"\r\n").then(|| {
                let answer = String::from_utf8_lossy(answer);
                assert!(answers.contains(&&*answer), "{name} {version}: {answer}");
            })
        };
        match self.ask(&request, whole) {
            Ok(()) => {
                self.journal.has(name, version, self.store);
                self.life.add(Says::Done, 1);
            }
            Err(e) => {
                self.broken(&e);
                self.journal.keys.entry(name.to_owned()).or_default().doubtful = true;
            }
        }
    }

    /// A key that nothing is in doubt about: new ones take the place of others.
    fn name(&mut self) -> String {
        let place = self.random.below(KEYS);
        let mut generation = 0;
        loop {
            let name = format!("{}-{place}-{generation}", self.prefix);
            if self.journal.keys.get(&name).is_none_or(|key| !key.doubtful) {
                return name;
            }
            generation += 1;
        }
    }

    fn run(&mut self) -> ! {
        let mut rested = 0;
        loop {
            match self.life.rest() {
                // Everything that was ever written is still what it should be.
                Some(rest) if rested != rest => {
                    let names: Vec<String> = self.journal.keys.keys().cloned().collect();
                    for name in names {
                        while !self.check(&name) {}
                        self.life.add(Says::Progress, 1);
                    }
                    rested = rest;
                    self.life.say(Says::Rest, rest);
                }
                Some(_) => self.way.idle(),
                None => {
                    let name = self.name();
                    if self.journal.keys.contains_key(&name) && self.random.below(2) == 0 {
                        self.check(&name);
                    } else {
                        self.write(&name);
                    }
                    if self.connected {
                        self.life.add(Says::Progress, 1);
                    }
                }
            }
        }
    }
}

fn client<W: Way>(name: &'static str, life: Life, way: W) {
    let journal = Journal::open(&life.folder.journal(name));
    let random = Random::new(std::process::id().into());
    Client { life, way, journal, random, prefix: name, connected: false, died: [0; 2], store: 0 }.run();
}

#[test]
#[ignore = "a process of a trial"]
fn over_a_nic() {
    let Some(life) = Life::begin() else { return };
    let stack = host(&life, "10.9.0.3/24");
    client(life::NAMES[life::CLIENT_NIC], life, OwnStack(stack, None));
}

#[test]
#[ignore = "a process of a trial"]
fn over_a_unix_socket() {
    let Some(life) = Life::begin() else { return };
    client(life::NAMES[life::CLIENT_UNIX], life, Socket::unix());
}

#[test]
#[ignore = "a process of a trial"]
fn over_the_kernel() {
    let Some(life) = Life::begin() else { return };
    client(life::NAMES[life::CLIENT_KERNEL], life, Socket::tcp());
}
