//! Callers and servers, each on a thread or in a process of its own; hostile ones, and such as die.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use ccnic::SharedMemory;
use ccnic::call::CallLayout;
use ccnic_control::call::CallConnection;
use ccnic_shm::{Pages, Region};

use super::*;
use crate::Error;

/// Longer than anything here takes, also on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(120);
/// Shorter than the handler of a test that waits for it to pass.
const SOON: Duration = Duration::from_millis(20);

/// A server on a thread, until it is dropped.
struct Serving {
    waker: CallWaker,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    fn start(socket: &Path, mut handler: impl FnMut(&[u8], &mut [u8]) -> usize + Send + 'static) -> Serving {
        let mut server = CallServer::listen(socket).unwrap();
        let waker = server.waker();
        let thread = std::thread::spawn(move || server.serve(&mut handler).unwrap());
        Serving { waker, thread: Some(thread) }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.waker.stop();
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Answers with the request, each byte inverted, and its first byte again.
fn invert(request: &[u8], answer: &mut [u8]) -> usize {
    answer.iter_mut().zip(request).for_each(|(to, from)| *to = !from);
    request.len()
}

fn directory() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("calls.sock");
    (directory, socket)
}

/// Calls with messages of these lengths, and checks the answers.
fn exchange(caller: &mut Caller, lengths: impl IntoIterator<Item = usize>) {
    let mut answer = vec![0; caller.capacity() as usize];
    for len in lengths {
        let request: Vec<u8> = (0..len).map(|i| (i * 5 + len) as u8).collect();
        assert_eq!(caller.call(&request, &mut answer, PATIENCE).unwrap(), len);
        assert!(answer.iter().zip(&request).all(|(got, sent)| *got == !*sent), "answer of {len} bytes");
    }
}

#[test]
fn callers_of_several_threads_get_their_own_answers() {
    let (_directory, socket) = directory();
    let _server = Serving::start(&socket, invert);
    std::thread::scope(|scope| {
        for capacity in [56, 4088, 100_000] {
            let socket = &socket;
            scope.spawn(move || {
                let mut caller = Caller::open_with(socket, capacity).unwrap();
                exchange(&mut caller, (0..=capacity as usize).step_by(1.max(capacity as usize / 300)));
                exchange(&mut caller, [capacity as usize, 0, 1]);
            });
        }
    });
}

#[test]
fn a_side_that_sleeps_is_woken() {
    let (_directory, socket) = directory();
    let _server = Serving::start(&socket, |request, answer| {
        std::thread::sleep(SOON); // the caller sleeps meanwhile
        invert(request, answer)
    });
    let mut caller = Caller::open(&socket).unwrap();
    for len in 0..5 {
        std::thread::sleep(SOON); // the server sleeps meanwhile
        exchange(&mut caller, [len]);
    }
}

#[test]
fn a_late_answer_is_not_the_answer_to_the_next_call() {
    let (_directory, socket) = directory();
    let (goes_on, waits) = mpsc::channel::<()>();
    let _server = Serving::start(&socket, move |request, answer| {
        if request == b"slow" {
            waits.recv().unwrap();
        }
        invert(request, answer)
    });
    let mut caller = Caller::open(&socket).unwrap();
    let mut answer = [0; 8];
    assert!(matches!(caller.call(b"slow", &mut answer, SOON), Err(Error::TimedOut)));
    assert!(
        matches!(caller.call(b"next", &mut answer, SOON), Err(Error::TimedOut)),
        "the late one comes first"
    );
    goes_on.send(()).unwrap();
    exchange(&mut caller, [3, 60, 0]);
}

#[test]
fn what_does_not_fit_is_refused_or_cut() {
    let (_directory, socket) = directory();
    let _server = Serving::start(&socket, invert);
    let mut caller = Caller::open_with(&socket, 100).unwrap();
    let error = caller.call(&[0; 101], &mut [0; 8], PATIENCE).unwrap_err();
    assert!(error.to_string().contains("a message has 101 bytes; this channel takes 100"), "{error}");
    let mut answer = [7; 8];
    assert_eq!(caller.call(&[0xff; 90], &mut answer, PATIENCE).unwrap(), 90);
    assert_eq!(answer, [0; 8]);
    exchange(&mut caller, [100]);
}

#[test]
fn each_side_learns_that_the_other_has_gone() {
    let (_directory, socket) = directory();
    let mut server = CallServer::listen(&socket).unwrap();
    let caller = Caller::open(&socket).unwrap();
    server.wait(PATIENCE).unwrap();
    assert_eq!(server.callers(), 1);
    drop(caller);
    while server.callers() > 0 {
        server.wait(PATIENCE).unwrap();
    }
    drop(server);
    assert!(!socket.exists());
    assert!(Caller::open(&socket).unwrap_err().to_string().contains("no server answers"));
    let server = Serving::start(&socket, invert);
    let mut caller = Caller::open(&socket).unwrap();
    exchange(&mut caller, [5]);
    drop(server);
    for _ in 0..2 {
        assert!(matches!(caller.call(b"x", &mut [], PATIENCE), Err(Error::ServerGone)));
    }
}

/// A hostile caller: its channel, and its connection.
fn channel(socket: &Path) -> (Region, CallLayout, CallConnection) {
    let layout = CallLayout::new(1000).unwrap();
    let region = Region::create(layout.size(), Pages::Small).unwrap();
    layout.store(&memory(&region));
    let connection = CallConnection::open(socket, &region).unwrap();
    (region, layout, connection)
}

#[test]
fn a_caller_that_writes_what_it_must_not_is_disconnected_and_disturbs_nobody() {
    let (_directory, socket) = directory();
    let _server = Serving::start(&socket, invert);
    let mut good = Caller::open(&socket).unwrap();
    for word in [1, u64::MAX, 1 << 32 | 1001, 2 << 32 | 8, 1 << 40 | 1 << 32 | 8] {
        let (region, layout, connection) = channel(&socket);
        memory(&region).store_release(layout.slots()[0], word);
        connection.wake();
        while !connection.has_ended() {
            exchange(&mut good, [9]);
        }
    }
    // Scribbles over all of the channel while the server works, and wakes it without end.
    let (region, layout, connection) = channel(&socket);
    for i in 0..2000_u64 {
        let at = (i.wrapping_mul(0x9e37_79b9) as u32 % layout.size()) & !7;
        memory(&region).store(at, i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        connection.wake();
    }
    exchange(&mut good, [0, 4000]);
}

#[test]
fn what_is_no_channel_is_refused_with_a_reason() {
    let (_directory, socket) = directory();
    let _server = Serving::start(&socket, invert);
    let refused = |region: &Region| match CallConnection::open(&socket, region) {
        Err(ccnic_control::Error::Refused { reason }) => reason,
        other => panic!("{other:?}"),
    };
    let region = Region::create(4096, Pages::Small).unwrap();
    assert!(refused(&region).contains("magic"));
    CallLayout::new(8000).unwrap().store(&memory(&region));
    assert!(refused(&region).contains("its geometry needs"));
    let large = Region::create(8 << 20, Pages::Small).unwrap();
    CallLayout::new(8000).unwrap().store(&memory(&large));
    assert!(refused(&large).contains("its channel needs"));
}

/// Where a child process serves or calls.
const SOCKET: &str = "CCNIC_TEST_CALLS";

/// Runs the ignored test `name` of this program in another process.
fn child(name: &str, socket: &Path) -> Child {
    let program = std::env::current_exe().unwrap();
    let arguments = ["--exact", "--ignored", "--nocapture", name];
    Command::new(program).args(arguments).env(SOCKET, socket).spawn().unwrap()
}

#[test]
#[ignore = "the server of another test, in a process of its own"]
fn serves_for_ever() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    CallServer::listen(Path::new(&socket)).unwrap().serve(invert).unwrap();
}

#[test]
#[ignore = "the caller of another test, in a process of its own"]
fn calls_for_ever() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    let mut caller = Caller::open(Path::new(&socket)).unwrap();
    loop {
        exchange(&mut caller, 0..300);
    }
}

#[test]
fn a_server_that_is_killed_is_replaced() {
    let (_directory, socket) = directory();
    for _ in 0..2 {
        let mut server = child("call::tests::serves_for_ever", &socket);
        let mut caller = loop {
            match Caller::open(&socket) {
                Ok(caller) => break caller,
                Err(_) => std::thread::sleep(SOON),
            }
        };
        exchange(&mut caller, [3, 100]);
        server.kill().unwrap();
        let error = loop {
            if let Err(error) = caller.call(b"x", &mut [], PATIENCE) {
                break error; // calls may succeed until the signal comes
            }
        };
        assert!(matches!(error, Error::ServerGone), "{error}");
        server.wait().unwrap();
    }
}

#[test]
fn a_caller_that_is_killed_is_forgotten() {
    let (_directory, socket) = directory();
    let mut server = CallServer::listen(&socket).unwrap();
    let mut caller = child("call::tests::calls_for_ever", &socket);
    let mut answered = 0;
    while answered < 1000 {
        match server.poll(invert) {
            0 => server.wait(PATIENCE).unwrap(),
            n => answered += n,
        }
    }
    caller.kill().unwrap();
    while server.callers() > 0 {
        if server.poll(invert) == 0 {
            server.wait(PATIENCE).unwrap();
        }
    }
    caller.wait().unwrap();
}
