//! A worker: a thread pinned to a core that polls its clients, as `schedule.rs` says, and sleeps when they have nothing to do (`sleep.rs`).
//! Without clients it blocks.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use ccnic::rss::Spreader;
use ccnic_control::messages::QueueStatus;
use ccnic_control::{ClientId, Notifier};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::busy::BusyTime;
use super::client::{Part, Scheduled};
use super::core::{PollingCore, Rest};
use super::links::Links;
use super::schedule::Scheduler;
use super::sleep::{Caller, Sleeper};
use crate::switch::capture::Capture;
use crate::switch::policy::Rules;
use crate::switch::{Known, Switch};

type Clients = Scheduler<Scheduled, PollingCore>;

/// What the control thread asks of a worker. Each is about one client: a bounded amount of work.
enum Command {
    Add { id: ClientId, part: Part, done: Option<Sender<()>> },
    Notify { id: ClientId, queue: u16, notifier: Notifier },
    Steer { id: ClientId, links: Option<Links>, spreader: Option<Arc<Spreader>>, done: Sender<()> },
    Govern { id: ClientId, rules: Option<Box<Rules>>, done: Sender<Option<Box<Rules>>> },
    Remove { id: ClientId, done: Sender<Part> },
    Report { id: ClientId, to: Sender<Vec<(ClientId, QueueStatus)>> },
    Addresses { from: u32, to: Sender<AddressPage> },
    Capture { capture: Box<Capture>, done: Sender<()> },
    EndCapture { id: u64, done: Sender<Capture> },
}

/// Buckets of the address table that a command looks at: some 4 KiB.
const BUCKETS: u32 = 64;

/// A part of the address table: addresses, each with its client, and where the rest begins.
pub(crate) type AddressPage = (Vec<(Known, ClientId)>, Option<u32>);

/// The control thread's handle on a worker. Dropping it stops the worker and waits for its end.
pub(crate) struct Worker {
    /// CPU that the thread is pinned to.
    cpu: usize,
    /// Queues that it polls.
    pub(crate) queues: usize,
    commands: Option<Sender<Command>>,
    busy: Arc<BusyTime>,
    /// Wakes it.
    caller: Caller,
    /// Gives the clients that it had at its end.
    thread: Option<JoinHandle<Vec<Part>>>,
}

impl Worker {
    /// Starts a worker on `cpu` that does `rest` when there is nothing to do, and sleeps when that has lasted for `sleep_after`; `None`:
    /// never. `caller` wakes it, `switch` joins its clients.
    ///
    /// # Errors
    /// When the system can start no thread.
    pub(crate) fn start(
        cpu: usize,
        rest: Rest,
        sleep_after: Option<Duration>,
        caller: Caller,
        switch: Switch,
    ) -> std::io::Result<Worker> {
        let (commands, inbox) = channel();
        let busy = Arc::<BusyTime>::default();
        let thread = std::thread::Builder::new().name(format!("poll-{cpu}")).spawn({
            let (caller, busy) = (caller.clone(), Arc::clone(&busy));
            move || run(cpu, rest, (sleep_after, caller), switch, busy, &inbox)
        })?;
        Ok(Worker { cpu, queues: 0, commands: Some(commands), busy, caller, thread: Some(thread) })
    }

    /// Nanoseconds that the thread has spent in polls that found packets. Asks nothing of it.
    pub(crate) fn busy_ns(&self) -> u64 {
        self.busy.ns()
    }

    fn send(&self, command: Command) -> bool {
        let sent = self.commands.as_ref().is_some_and(|c| c.send(command).is_ok());
        self.caller.notifier().notify();
        sent
    }

    /// What other workers wake it by.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// False when the thread has ended, which it does of itself only by a defect.
    pub(crate) fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Polls `queues` queues of a client from now on. False when the thread has ended. When it returns, a port is in the switch: it gets
    /// what others send from now on.
    pub(crate) fn add(&mut self, id: ClientId, part: Part, queues: usize) -> bool {
        self.queues += queues;
        if let Part::Apart(_) = part {
            return self.send(Command::Add { id, part, done: None });
        }
        let (done, joined) = channel();
        self.send(Command::Add { id, part, done: Some(done) });
        joined.recv().is_ok()
    }

    /// Has a queue of a client notify its program. False when the thread has ended.
    pub(crate) fn notify(&self, id: ClientId, queue: u16, notifier: Notifier) -> bool {
        self.send(Command::Notify { id, queue, notifier })
    }

    /// Has a client spread packets by `spreader`, with `links` to other workers where it has none yet. Sends to `done` when that is in
    /// force. False when the thread has ended.
    pub(crate) fn steer(
        &self,
        id: ClientId,
        links: Option<Links>,
        spreader: Option<Arc<Spreader>>,
        done: Sender<()>,
    ) -> bool {
        self.send(Command::Steer { id, links, spreader, done })
    }

    /// Has a port of the switch be held to `rules` from now on; when it returns, it is. False when the thread has ended.
    pub(crate) fn govern(&self, id: ClientId, rules: Option<Box<Rules>>) -> bool {
        let (done, before) = channel();
        // What was before is dropped here: that unmaps memory.
        self.send(Command::Govern { id, rules, done }) && before.recv().is_ok()
    }

    /// Has the rest of a client's packets served; then its `queues` queues go to `done`.
    pub(crate) fn remove(&mut self, id: ClientId, queues: usize, done: Sender<Part>) {
        self.send(Command::Remove { id, done }); // a thread that has ended serves nothing more
        self.queues = self.queues.saturating_sub(queues);
    }

    /// Counters of every queue of the clients asked for, as far as they are here.
    pub(crate) fn report(&self, ids: &[ClientId]) -> Vec<(ClientId, QueueStatus)> {
        let (to, replies) = channel();
        for id in ids {
            self.send(Command::Report { id: *id, to: to.clone() }); // a thread that has ended reports nothing
        }
        drop(to);
        let mut queues: Vec<_> = replies.into_iter().flatten().collect();
        queues.iter_mut().for_each(|(_, status)| status.core = self.cpu);
        queues
    }

    /// The addresses that the worker's switch knows, from a place in its table on, and where the rest begins. `None` when the thread has
    /// ended.
    pub(crate) fn addresses(&self, from: u32) -> Option<AddressPage> {
        let (to, reply) = channel();
        self.send(Command::Addresses { from, to });
        reply.recv().ok()
    }

    /// Has the worker's switch give copies of packets to a capture from now on; when it returns, it does. False when the thread has ended.
    pub(crate) fn capture(&self, capture: Box<Capture>) -> bool {
        let (done, begun) = channel();
        self.send(Command::Capture { capture, done }) && begun.recv().is_ok()
    }

    /// Ends a capture, if it is here.
    pub(crate) fn end_capture(&self, id: u64) {
        let (done, ended) = channel();
        self.send(Command::EndCapture { id, done });
        drop(ended.recv()); // its memory goes here
    }

    /// Has the thread end once its clients' packets have been served, without waiting for that. Workers that hand packets to each other
    /// end together: stop all of them before the first is dropped.
    pub(crate) fn stop(&mut self) {
        self.commands = None;
        self.caller.notifier().notify();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            // Its clients are dropped here, where nobody's packets wait. A panic has been printed by the thread itself.
            drop(thread.join());
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

fn run(
    cpu: usize,
    rest: Rest,
    (sleep_after, caller): (Option<Duration>, Caller),
    mut switch: Switch,
    busy: Arc<BusyTime>,
    inbox: &Receiver<Command>,
) -> Vec<Part> {
    pin(cpu);
    let core = PollingCore::new(rest);
    switch.set_clock(core.second());
    busy.set_clock(core.second());
    let times = core.times();
    let sleeper = Sleeper::new(sleep_after.map(|after| core.ticks(after)), caller);
    let mut clients = Clients::new(core, times);
    clients.show_load(busy);
    let mut stopped = false;
    while !stopped {
        if clients.is_empty() {
            let Ok(command) = inbox.recv() else { break };
            execute(command, &mut clients, &mut switch);
        } else {
            poll(&mut clients, &mut switch);
            sleeper.rest(&mut clients, &mut switch);
        }
        let receive = || {
            let command = inbox.try_recv();
            stopped |= matches!(command, Err(TryRecvError::Disconnected));
            command.ok()
        };
        clients.attend(receive, |clients, command| execute(command, clients, &mut switch));
    }
    finish(clients, &mut switch)
}

/// Polls for a while. Where there is a switch, the clock is read once for it.
fn poll(clients: &mut Clients, switch: &mut Switch) {
    if !switch.is_empty() {
        switch.tick(clients.now());
    }
    clients.run(switch);
}

/// Serves what all clients have sent, at the thread's end.
fn finish(mut clients: Clients, switch: &mut Switch) -> Vec<Part> {
    let (done, gone) = channel();
    clients.clients().for_each(|client| client.leave_last(done.clone(), switch));
    // A port of a switch has packets under way to it as long as others are served.
    while !clients.clients().all(|client| client.is_served()) {
        poll(&mut clients, switch);
    }
    clients.clients().for_each(Scheduled::let_go);
    while !clients.is_empty() {
        poll(&mut clients, switch);
    }
    gone.try_iter().collect()
}

fn find(clients: &mut Clients, id: ClientId) -> Option<&mut Scheduled> {
    clients.clients().find(|client| client.id == id)
}

/// Counters of every queue of a client, and how long it has waited for the others.
fn report(clients: &Clients, switch: &Switch, id: ClientId) -> Vec<(ClientId, QueueStatus)> {
    let Some((client, waits)) = clients.find(|client| client.id == id) else { return Vec::new() };
    let mut queues = client.report(switch);
    for (_, queue) in &mut queues {
        (queue.late_turns, queue.longest_wait_us) = (waits.late, clients.microseconds(waits.longest));
    }
    queues
}

fn execute(command: Command, clients: &mut Clients, switch: &mut Switch) {
    match command {
        Command::Add { id, part, done } => {
            clients.add(Scheduled::new(id, part, switch), switch);
            done.into_iter().for_each(|done| _ = done.send(())); // the control thread waits
        }
        Command::Notify { id, queue, notifier } => {
            if let Some(port) = find(clients, id).and_then(|client| client.notify(switch)) {
                port.set_notifier(queue, notifier);
            }
        }
        Command::Steer { id, links, spreader, done } => {
            if let Some(client) = find(clients, id) {
                client.steer(links, spreader, switch);
                let _ = done.send(()); // the control thread waits
            }
        }
        Command::Govern { id, rules, done } => {
            if let Some(client) = find(clients, id) {
                let _ = done.send(client.govern(rules, switch)); // the control thread waits
            }
        }
        Command::Remove { id, done } => {
            if let Some(client) = find(clients, id) {
                client.leave(done, switch);
            }
        }
        Command::Report { id, to } => {
            let _ = to.send(report(clients, switch, id));
        }
        Command::Capture { capture, done } => {
            switch.capture(capture);
            let _ = done.send(()); // the control thread waits
        }
        Command::EndCapture { id, done } => {
            switch.end_capture(id).into_iter().for_each(|capture| _ = done.send(capture));
        }
        Command::Addresses { from, to } => {
            switch.exchange_news(); // what other workers know by now
            let (known, next) = switch.table().page(from, BUCKETS);
            let client = |known: Known| Some((known, switch.client(known.port)?));
            let _ = to.send((known.into_iter().filter_map(client).collect(), next));
        }
    }
}
