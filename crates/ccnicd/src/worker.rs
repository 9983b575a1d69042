//! A polling thread: pinned to a core, it owns queues and serves them in turn. With nothing to serve it sleeps.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

use ccnic_control::messages::QueueStatus;
use ccnic_control::{ClientId, Notifier};
use rustix::thread::{CpuSet, sched_setaffinity, sched_yield};

use crate::served::Serve;
use crate::tenant::Tenant;

/// Turns of programs between two looks at the mailbox. A look costs some 10 ns, a turn that moves packets several hundred.
const TURNS: usize = 256;

/// What the control thread asks of a polling thread.
enum Command {
    Add { program: ClientId, queues: Box<dyn Serve> },
    Take { program: ClientId, to: Sender<Box<dyn Serve>> },
    Notify { program: ClientId, queue: u16, notifier: Notifier },
    Remove { program: ClientId, done: Sender<Box<dyn Serve>> },
    Report { to: Sender<Vec<(ClientId, QueueStatus)>> },
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

    /// Hands over queues of a program that this thread does not serve. False when the thread has died.
    pub fn add(&mut self, program: ClientId, queues: Box<dyn Serve>) -> bool {
        self.queues += queues.queues();
        self.send(Command::Add { program, queues })
    }

    /// Takes away a program's queues, with what is on its way in them.
    pub fn take(&mut self, program: ClientId) -> Option<Box<dyn Serve>> {
        let (to, wait) = channel();
        self.send(Command::Take { program, to });
        let queues = wait.recv().ok()?; // none: the thread serves none of them, or has died
        self.queues = self.queues.saturating_sub(queues.queues());
        Some(queues)
    }

    /// Has a queue wake its program. False when the thread has died.
    pub fn notify(&self, program: ClientId, queue: u16, notifier: Notifier) -> bool {
        self.send(Command::Notify { program, queue, notifier })
    }

    /// Has the rest of a program's queues served; they come to `done` then.
    pub fn remove(&mut self, program: ClientId, queues: usize, done: Sender<Box<dyn Serve>>) {
        self.send(Command::Remove { program, done }); // a thread that has died serves nothing more
        self.queues = self.queues.saturating_sub(queues);
    }

    /// Counters of every queue.
    pub fn report(&self) -> Vec<(ClientId, QueueStatus)> {
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
    let mut tenants: Vec<Tenant> = Vec::new();
    'serving: loop {
        if tenants.is_empty() {
            let Ok(command) = mailbox.recv() else { break };
            obey(command, &mut tenants);
        } else {
            poll(&mut tenants, alone);
            tenants.retain(|tenant| !tenant.has_left());
        }
        // All that waits: a program's many queues come one by one, and each look comes many turns after the last.
        loop {
            match mailbox.try_recv() {
                Ok(command) => obey(command, &mut tenants),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => break 'serving,
            }
        }
    }
    tenants.into_iter().for_each(Tenant::finish);
}

/// Serves every program in turn, many times.
fn poll(tenants: &mut [Tenant], alone: bool) {
    for _ in 0..TURNS.div_ceil(tenants.len()) {
        let moved: usize = tenants.iter_mut().map(Tenant::turn).sum();
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

fn obey(command: Command, tenants: &mut Vec<Tenant>) {
    match command {
        Command::Add { program, queues } => tenants.push(Tenant::new(program, queues)),
        Command::Take { program, to } => {
            let tenant = tenants.iter_mut().find(|t| t.program == program);
            if let Some(queues) = tenant.and_then(Tenant::take) {
                let _ = to.send(queues); // the control thread waits
            }
            tenants.retain(|tenant| !tenant.has_left());
        }
        Command::Notify { program, queue, notifier } => {
            if let Some(tenant) = tenants.iter_mut().find(|t| t.program == program) {
                tenant.notify(queue, notifier);
            }
        }
        Command::Remove { program, done } => {
            if let Some(tenant) = tenants.iter_mut().find(|t| t.program == program) {
                tenant.leave(done);
            }
        }
        Command::Report { to } => {
            let _ = to.send(tenants.iter().flat_map(Tenant::report).collect());
        }
    }
}
