//! A polling thread: pinned to a core, it owns queues and serves them in turn. With nothing to serve it sleeps.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use ccnic_shm::control::QueueStatus;
use rustix::thread::{CpuSet, sched_setaffinity, sched_yield};

use crate::served::Serve;

/// Turns of queues between two looks at the mailbox. A look costs some 10 ns, a turn that moves packets several hundred.
const TURNS: usize = 256;

/// Identifies an attached program.
pub type ProgramId = u64;

/// What the control thread asks of a polling thread.
enum Command {
    Add { program: ProgramId, queue: Box<dyn Serve> },
    Remove { program: ProgramId, done: Sender<()> },
    Report { to: Sender<Vec<(ProgramId, QueueStatus)>> },
}

/// The control thread's handle on a polling thread. Dropping it ends the thread.
pub struct Worker {
    /// CPU that the thread is pinned to.
    pub cpu: usize,
    /// Queues that it serves.
    pub queues: usize,
    commands: Option<Sender<Command>>,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("cpu", &self.cpu).field("queues", &self.queues).finish()
    }
}

impl Worker {
    /// Starts a polling thread on `cpu`. `alone` says that no program can need that core.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(cpu: usize, alone: bool) -> std::io::Result<Worker> {
        let (commands, mailbox) = channel();
        let thread = std::thread::Builder::new()
            .name(format!("poll-{cpu}"))
            .spawn(move || run(cpu, alone, &mailbox))?;
        Ok(Worker { cpu, queues: 0, commands: Some(commands), thread: Some(thread) })
    }

    fn send(&self, command: Command) -> bool {
        self.commands.as_ref().is_some_and(|c| c.send(command).is_ok())
    }

    /// Hands over a queue. False when the thread has died.
    pub fn add(&mut self, program: ProgramId, queue: Box<dyn Serve>) -> bool {
        self.queues += 1;
        self.send(Command::Add { program, queue })
    }

    /// Serves the rest of a program's queues and lets go of them; returns when that is done.
    pub fn remove(&mut self, program: ProgramId, queues: usize) {
        let (done, wait) = channel();
        if self.send(Command::Remove { program, done }) {
            let _ = wait.recv(); // an error says that the thread has died, and its queues with it
        }
        self.queues = self.queues.saturating_sub(queues);
    }

    /// Counters of every queue.
    pub fn report(&self) -> Vec<(ProgramId, QueueStatus)> {
        let (to, wait) = channel();
        if !self.send(Command::Report { to }) {
            return Vec::new();
        }
        let mut queues = wait.recv().unwrap_or_default();
        queues.iter_mut().for_each(|(_, status)| status.core = self.cpu);
        queues
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic has been printed by the thread itself
        }
    }
}

fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    if let Err(e) = sched_setaffinity(None, &set) {
        tracing::warn!("polling thread is not pinned to CPU {cpu}: {e}");
    }
}

fn run(cpu: usize, alone: bool, mailbox: &Receiver<Command>) {
    pin(cpu);
    let mut queues: Vec<(ProgramId, Box<dyn Serve>)> = Vec::new();
    'serving: loop {
        if queues.is_empty() {
            let Ok(command) = mailbox.recv() else { break };
            obey(command, &mut queues);
        } else {
            poll(&mut queues, alone);
        }
        // All that waits: a program's many queues come one by one, and each look comes many turns after the last.
        loop {
            match mailbox.try_recv() {
                Ok(command) => obey(command, &mut queues),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => break 'serving,
            }
        }
    }
    queues.iter_mut().for_each(|(_, queue)| queue.finish());
}

/// Serves every queue in turn, many times.
fn poll(queues: &mut [(ProgramId, Box<dyn Serve>)], alone: bool) {
    for _ in 0..TURNS.div_ceil(queues.len()) {
        let moved: usize = queues.iter_mut().map(|(_, queue)| queue.turn()).sum();
        if moved > 0 {
            continue;
        }
        if alone {
            std::hint::spin_loop();
        } else {
            sched_yield(); // the program needs this very core to give us something to do
        }
    }
}

fn obey(command: Command, queues: &mut Vec<(ProgramId, Box<dyn Serve>)>) {
    match command {
        Command::Add { program, queue } => queues.push((program, queue)),
        Command::Remove { program, done } => {
            queues.extract_if(.., |(p, _)| *p == program).for_each(|(_, mut queue)| queue.finish());
            let _ = done.send(()); // the control thread may have given up waiting
        }
        Command::Report { to } => {
            let _ = to.send(queues.iter().map(|(p, queue)| (*p, queue.status())).collect());
        }
    }
}
