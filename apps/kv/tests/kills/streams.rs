//! Streams of bytes over TCP between two stacks: a client that sends, a server that returns what it gets. Whatever dies, a stream goes on as
//! it was, or ends with an error, which only the death of the other end explains.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ccnic_check::oracle;
use ccnic_client::Pages;
use ccnic_hostile::Random;
use ccnic_tcp::{Conn, Options, Stack};

use super::life::{self, Life, Says};

const SERVER: &str = "10.9.0.4";
const PORT: u16 = 7;
/// Connections at a time.
const CONNS: usize = 3;
/// The number of a stream, and its length.
const HEAD: usize = 16;
const LONGEST: u64 = 300_000;
/// Silence after which an end whose other end was killed gives up: nobody may ever tell it.
const GIVE_UP: Duration = Duration::from_secs(2);

/// A host on the switch.
pub fn host(life: &Life, network: &str) -> Stack {
    let mut options = Options::new(network.parse().unwrap());
    options.pages = Pages::Small;
    // Connections in TIME-WAIT keep their buffers: few of them, so that memory is soon what it will be.
    options.time_wait = 64;
    life.persist("a NIC", || Stack::open(life.folder.nic(), &options))
}

/// One end of a connection.
struct End {
    conn: Conn,
    /// Deaths of the other end's process before this connection: the upper 16 bits of the stream's number say those of the client.
    died: u64,
    /// The stream's number and length: of a server's end, once they have come.
    head: Option<(u64, u64)>,
    sent: u64,
    came: u64,
    /// Bytes that have come and were not returned.
    held: Vec<u8>,
    moved: Instant,
    told: bool,
}

impl End {
    fn new(conn: Conn, died: u64, head: Option<(u64, u64)>) -> End {
        End { conn, died, head, sent: 0, came: 0, held: Vec::new(), moved: Instant::now(), told: false }
    }

    /// Byte by byte what the stream is.
    fn bytes(&self, from: u64, len: usize) -> Vec<u8> {
        let (number, length) = self.head.unwrap();
        let mut bytes = vec![0; len];
        oracle::fill(number, from as usize, &mut bytes);
        let head = [number, length].map(u64::to_le_bytes).concat();
        for (at, byte) in (from as usize..HEAD).zip(&mut bytes) {
            *byte = head[at];
        }
        bytes
    }

    /// Takes what has come and compares it. True at the stream's end.
    fn read(&mut self, stack: &mut Stack, serves: bool) -> io::Result<bool> {
        let mut bytes = [0; 8192];
        let n = match stack.read(self.conn, &mut bytes) {
            Ok(n) => n,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(e) => return Err(e),
        };
        if n == 0 {
            let whole = self.head.is_some_and(|(_, length)| self.came == length);
            assert!(whole, "an end after {} bytes of {:?}", self.came, self.head);
            return Ok(true);
        }
        if serves {
            self.held.extend_from_slice(&bytes[..n]);
            if self.head.is_none() && self.held.len() >= HEAD {
                let word = |at| u64::from_le_bytes(self.held[at..at + 8].try_into().unwrap());
                self.head = Some((word(0), word(8)));
                self.died = word(0) >> 48;
            }
        }
        if let Some((_, length)) = self.head {
            // The head of a server's stream may have come in pieces.
            let (from, got) = match serves && self.came < HEAD as u64 {
                true => (0, self.held.clone()),
                false => (self.came, bytes[..n].to_vec()),
            };
            assert!(got == self.bytes(from, got.len()), "other bytes after {from} of {length}");
            self.came = from + got.len() as u64;
            assert!(self.came <= length, "{} bytes of {length}", self.came);
        }
        self.moved = Instant::now();
        Ok(false)
    }

    fn write(&mut self, stack: &mut Stack, serves: bool) -> io::Result<()> {
        let rest = match (serves, self.head) {
            (true, Some(_)) => self.held.clone(),
            (false, Some((_, length))) => self.bytes(self.sent, (length - self.sent).min(8192) as usize),
            (_, None) => Vec::new(),
        };
        if rest.is_empty() {
            return Ok(());
        }
        let n = match stack.write(self.conn, &rest) {
            Err(e) if e.kind() == ErrorKind::WouldBlock => 0,
            done => done?,
        };
        self.sent += n as u64;
        if serves {
            self.held.drain(..n);
        } else if self.head.is_some_and(|(_, length)| self.sent == length) {
            stack.shutdown(self.conn)?;
        }
        Ok(())
    }
}

/// Tells once what an end that has not moved for long waits for: the log is shown when somebody hangs.
fn tell_if_stuck(stack: &mut Stack, end: &mut End) {
    if end.moved.elapsed() > Duration::from_secs(30) && !std::mem::replace(&mut end.told, true) {
        let (room, out, local) =
            (stack.room(end.conn), stack.unacknowledged(end.conn), stack.local(end.conn));
        let End { head, sent, came, held, .. } = end;
        let held = held.len();
        eprintln!(
            "{local:?}: {head:?}, sent {sent}, came {came}, holds {held}, room {room}, not acknowledged {out}"
        );
    }
}

/// Judges an end that has failed: only a death of its peer explains it.
fn broken(world: &Life, stack: &mut Stack, end: &End, peer: usize, error: &io::Error) {
    let killed = world.board.killed_since(peer, end.died);
    assert!(
        killed,
        "a stream of {:?} ended after {} bytes though both ends live: {error}",
        end.head, end.came
    );
    world.add(Says::Broken, 1);
    stack.abort(end.conn);
}

fn gives_up(world: &Life, end: &End, peer: usize) -> bool {
    world.board.killed_since(peer, end.died) && end.moved.elapsed() > GIVE_UP
}

#[test]
#[ignore = "a process of a trial"]
fn stream_server() {
    let Some(mut world) = Life::begin() else { return };
    let mut stack = host(&world, &format!("{SERVER}/24"));
    let listener = stack.listen(PORT, 16).unwrap();
    let mut ends: Vec<End> = Vec::new();
    let peer = life::STREAM_CLIENT;
    loop {
        stack.poll();
        while stack.next_event().is_some() {}
        while let Some(conn) = stack.accept(listener) {
            ends.push(End::new(conn, 0, None));
        }
        ends.retain_mut(|end| {
            tell_if_stuck(&mut stack, end);
            let before = end.came;
            let done = end.read(&mut stack, true).and_then(|over| end.write(&mut stack, true).map(|()| over));
            world.add(Says::Progress, u64::from(end.came > before));
            match done {
                Ok(true) if end.held.is_empty() => {
                    stack.close(end.conn);
                    world.add(Says::Done, 1);
                    return false;
                }
                Ok(_) if gives_up(&world, end, peer) => stack.abort(end.conn),
                Ok(_) => return true,
                Err(e) => broken(&world, &mut stack, end, peer, &e),
            }
            false
        });
        if let Some(rest) = world.rest().filter(|_| ends.is_empty()) {
            world.say(Says::Rest, rest);
        }
        if let Err(e) = stack.wait_when_idle(Duration::from_millis(5)) {
            panic!("a NIC refuses this program: {e}"); // that there is none at the moment is no error
        }
    }
}

#[test]
#[ignore = "a process of a trial"]
fn stream_client() {
    let Some(mut world) = Life::begin() else { return };
    let mut stack = host(&world, "10.9.0.5/24");
    let to: SocketAddr = format!("{SERVER}:{PORT}").parse().unwrap();
    let mut random = Random::new(std::process::id().into());
    let mut ends: Vec<End> = Vec::new();
    let (peer, own) = (life::STREAM_SERVER, world.board.died(life::STREAM_CLIENT));
    loop {
        let rest = world.rest();
        if rest.is_none() && ends.len() < CONNS {
            let number = own << 48 | random.word() >> 16;
            let head = (number, HEAD as u64 + random.below(LONGEST));
            ends.push(End::new(stack.connect(to).unwrap(), world.board.died(peer), Some(head)));
        }
        stack.poll();
        while stack.next_event().is_some() {}
        ends.retain_mut(|end| {
            tell_if_stuck(&mut stack, end);
            let before = end.came;
            let done = end.write(&mut stack, false).and_then(|()| end.read(&mut stack, false));
            world.add(Says::Progress, u64::from(end.came > before));
            match done {
                Ok(true) => {
                    stack.close(end.conn);
                    world.add(Says::Done, 1);
                    return false;
                }
                Ok(false) if gives_up(&world, end, peer) => stack.abort(end.conn),
                Ok(false) => return true,
                // A handshake has a time limit of its own, and finds nobody while the server is away.
                Err(_) if end.sent == 0 && end.came == 0 => stack.abort(end.conn),
                Err(e) => broken(&world, &mut stack, end, peer, &e),
            }
            false
        });
        if let Some(rest) = rest.filter(|_| ends.is_empty()) {
            world.say(Says::Rest, rest);
        }
        if let Err(e) = stack.wait_when_idle(Duration::from_millis(5)) {
            panic!("a NIC refuses this program: {e}"); // that there is none at the moment is no error
        }
    }
}
