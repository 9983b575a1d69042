//! A store that is killed while it writes a snapshot: the next one has all of the old snapshot or all of the new one.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ccnic_hostile::Random;
use ccnic_testing::{alone, until};
use rustix::process::{Pid, Signal, kill_process};

const KEYS: u32 = 100;
const LEN: usize = 20_000;
const GENERATIONS: u32 = 16;

fn start(folder: &Path) -> (Child, UnixStream) {
    let socket = folder.join("kv.sock");
    let _ = std::fs::remove_file(&socket);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ccnic-kv"));
    command.args(["-v", "-p", "0", "-t", "2", "-m", "64", "-s"]).arg(&socket);
    let mut store =
        command.arg("--snapshot").arg(folder.join("kv.snap")).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(store.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ccnic-kv: ready"), "{:?}", store.wait());
    std::thread::spawn(move || lines.for_each(drop));
    (store, UnixStream::connect(socket).unwrap())
}

/// The answer, up to this end.
fn ask(stream: &mut UnixStream, request: &[u8], end: &[u8]) -> Vec<u8> {
    stream.write_all(request).unwrap();
    let (mut answer, mut bytes) = (Vec::new(), [0; 1 << 16]);
    while !answer.ends_with(end) {
        let n = stream.read(&mut bytes).unwrap();
        assert!(n > 0, "an end after {answer:?}");
        answer.extend_from_slice(&bytes[..n]);
    }
    answer
}

/// Every key of a generation has the same value.
fn value(generation: u32) -> Vec<u8> {
    format!("{generation:08} ").into_bytes().into_iter().cycle().take(LEN).collect()
}

fn write(stream: &mut UnixStream, generation: u32) {
    for key in 0..KEYS {
        let head = format!("set key{key} 0 0 {LEN}\r\n");
        assert_eq!(
            ask(stream, &[head.as_bytes(), &value(generation), b"\r\n"].concat(), b"\r\n"),
            b"STORED\r\n"
        );
    }
}

/// The generation that all keys have.
fn read(stream: &mut UnixStream, may_be: [u32; 2]) -> u32 {
    let answers: Vec<_> = (0..KEYS)
        .map(|key| {
            let answer = ask(stream, format!("get key{key}\r\n").as_bytes(), b"END\r\n");
            let whole = |generation: &u32| {
                [format!("VALUE key{key} 0 {LEN}\r\n").as_bytes(), &value(*generation), b"\r\nEND\r\n"]
                    .concat()
                    == answer
            };
            may_be.into_iter().find(whole).unwrap_or_else(|| panic!("key{key} is of none of {may_be:?}"))
        })
        .collect();
    assert!(answers.iter().all(|generation| *generation == answers[0]), "a mixture: {answers:?}");
    answers[0]
}

#[test]
fn a_kill_leaves_the_old_snapshot_or_the_new_one() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(super::seed());
    let snapshot = folder.path().join("kv.snap");
    let (mut store, mut stream) = start(folder.path());
    write(&mut stream, 1);
    let pid = |store: &Child| Pid::from_child(store);
    let asked = Instant::now();
    kill_process(pid(&store), Signal::USR1).unwrap();
    until("the first snapshot", || snapshot.exists());
    // Moments before, while and after one is written on this machine.
    let moments = 2 * asked.elapsed().as_micros() as u64;
    let (mut saved, mut newer) = (1, 0);
    for generation in 2..=GENERATIONS {
        write(&mut stream, generation);
        kill_process(pid(&store), Signal::USR1).unwrap();
        std::thread::sleep(Duration::from_micros(random.below(moments)));
        kill_process(pid(&store), Signal::KILL).unwrap();
        store.wait().unwrap();
        (store, stream) = start(folder.path());
        let found = read(&mut stream, [saved, generation]);
        newer += u32::from(found == generation);
        saved = found;
        let left: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| name == "kv.snap" || name == "kv.sock"), "left over: {left:?}");
    }
    println!("{newer} of {} snapshots were whole before the kill", GENERATIONS - 1);
    store.kill().unwrap();
    store.wait().unwrap();
}
