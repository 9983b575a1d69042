//! Attacks by notifications, each of which is a system call of the NIC.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::Context;
use ccnic_control::messages::Request;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv};

use crate::filler::{Filler, word};
use crate::process::last_in_line;
use crate::program::{Program, config};
use crate::stage::Stage;

const QUEUES: u16 = 256;
/// Threads that each notification wakes.
const WAITERS: usize = 200;
/// Their stacks, in bytes.
const STACK: usize = 64 << 10;

/// Each queue's notifier is confirmed once, when it is handed over; many threads wait for that, so that it takes its time.
pub fn requests(stage: &Stage<'_>) -> anyhow::Result<()> {
    let (ours, theirs) = UnixStream::pair().context("could not make a pair of sockets")?;
    std::thread::scope(|scope| {
        for _ in 0..WAITERS {
            let waiter = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || {
                last_in_line();
                while stage.goes_on() {
                    let mut fds = [PollFd::new(&ours, PollFlags::PRI)];
                    let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 100_000_000 }));
                }
            });
            if waiter.is_err() {
                break; // fewer, then
            }
        }
        while stage.goes_on() {
            let Some(program) = Program::attached(stage, "notify-requests", &config(QUEUES, 64, 16))? else {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            request_all(stage, &program, &theirs);
            let _ = recv(&ours, &mut [0; 4096], RecvFlags::DONTWAIT);
        }
        Ok(())
    })
}

/// A request for each queue, and one more that is answered when all have been heard.
fn request_all(stage: &Stage<'_>, program: &Program, notifier: &UnixStream) {
    let Some(connection) = &program.connection else { return };
    for queue in 0..program.layout.config().queues {
        if stage
            .tried(connection.send(&Request::Notify { queue, wakes: false }, Some(notifier.as_fd())))
            .is_none()
        {
            return;
        }
    }
    let _ = connection.ask(&Request::Hello, None);
}

/// All queues want to be notified of the next packet, always, and there is always a next packet.
pub fn again(stage: &Stage<'_>) -> anyhow::Result<()> {
    let config = config(QUEUES, 64, 4096);
    let Some(program) = Program::attached(stage, "notify-again", &config)? else {
        stage.linger();
        return Ok(());
    };
    let (ours, theirs) = UnixStream::pair().context("could not make a pair of sockets")?;
    request_all(stage, &program, &theirs);
    let first = program.layout.pool().buffers;
    let mut filler = Filler::new(&program);
    while stage.goes_on() {
        filler.arm();
        stage.did(filler.fill(1, |n| word(first + (n % 4096) as u32 * 4096, 64, 0)));
        filler.drain();
        let _ = recv(&ours, &mut [0; 4096], RecvFlags::DONTWAIT);
    }
    Ok(())
}
