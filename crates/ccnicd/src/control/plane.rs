//! The control plane: what programs ask of the daemon ends here, and becomes commands to workers.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use anyhow::Context;
use ccnic::rss::{Rss, Spreader};
use ccnic_control::messages::{Hello, ProgramStatus, Status};
use ccnic_control::rss::RssMessage;
use ccnic_control::{AttachRequest, ClientId, Handler, MemoryLease, Notifier};
use ccnic_shm::numa;

use super::assign::{assign, queues_of};
use super::attach::attach;
use super::{DaemonOptions, VERSION};
use crate::poll::Client;
use crate::poll::links::{Links, mesh};
use crate::poll::worker::Worker;

const DIED: &str = "a polling thread has died; restart ccnicd";

/// What the control thread knows of an attached program.
struct ClientRecord {
    id: ClientId,
    name: String,
    pid: i32,
    design: &'static str,
    rss: Option<RssMessage>,
    /// By queue: the worker that polls it.
    workers: Vec<usize>,
    /// Its workers have hand-off queues between them.
    linked: bool,
    _memory: MemoryLease,
}

impl ClientRecord {
    /// The workers that poll queues of it, each once.
    fn distinct_workers(&self) -> Vec<usize> {
        let mut workers = self.workers.clone();
        workers.sort_unstable();
        workers.dedup();
        workers
    }
}

/// Clients and workers. Belongs to the control thread.
pub(super) struct ControlPlane {
    options: DaemonOptions,
    workers: Vec<Worker>,
    clients: Vec<ClientRecord>,
    started: Instant,
}

impl ControlPlane {
    /// Starts the workers.
    pub(super) fn new(options: DaemonOptions) -> anyhow::Result<ControlPlane> {
        let start = |cpu: &usize| Worker::start(*cpu, options.dedicated_cores);
        let workers = options.cores.iter().map(start).collect::<Result<Vec<_>, _>>();
        let workers = workers.context("could not start a polling thread")?;
        Ok(ControlPlane { options, workers, clients: Vec::new(), started: Instant::now() })
    }

    pub(super) fn options(&self) -> &DaemonOptions {
        &self.options
    }

    /// Deals a program's queues to the workers.
    fn try_attach(&mut self, request: AttachRequest) -> anyhow::Result<()> {
        let AttachRequest { id, name, pid, layout, region, memory, rss, .. } = request;
        let design = layout.config().design.name();
        let workers = assign(self.workers.iter().map(|worker| worker.queues), layout.config().queues);
        let mut client = ClientRecord {
            id,
            name,
            pid,
            design,
            rss: rss.as_ref().map(RssMessage::from),
            workers,
            linked: false,
            _memory: memory,
        };
        let spreader = spreader(rss.as_ref());
        let mut links = if spreader.is_some() { link(&mut client) } else { Vec::new() };
        for (added, at) in client.distinct_workers().into_iter().enumerate() {
            let numbers = queues_of(&client.workers, at);
            let queues = numbers.len();
            let part = attach(&region, &layout, numbers, self.options.dataplane)
                .context("could not open its queues");
            let outcome = part.and_then(|mut part| {
                if let (Some(spreader), Some(dataplane)) = (&spreader, part.steer()) {
                    take(&mut links, at).into_iter().for_each(|links| dataplane.link(links));
                    dataplane.set_rss(Some(Arc::clone(spreader)));
                }
                let worker = self.workers.get_mut(at).context("no polling thread")?;
                anyhow::ensure!(worker.add(id, part, queues), DIED);
                Ok(())
            });
            if let Err(e) = outcome {
                drop(links); // workers that have begun need not wait for those that will not
                self.remove(&client, added);
                return Err(e);
            }
        }
        let queues = client.workers.len();
        tracing::info!(
            name = client.name,
            pid,
            queues,
            design,
            rss = rss.is_some(),
            bytes = region.size(),
            "attached"
        );
        self.clients.push(client);
        Ok(())
    }

    /// Has all workers of a program spread its packets, or end to; returns when they do.
    fn steer(&mut self, id: ClientId, rss: Option<&Rss>) -> anyhow::Result<()> {
        let client = self.clients.iter_mut().find(|c| c.id == id).context("the program has gone")?;
        let workers = client.distinct_workers();
        let alive = |at: &usize| self.workers.get(*at).is_some_and(Worker::is_alive);
        anyhow::ensure!(workers.iter().all(alive), DIED);
        let spreader = spreader(rss);
        let mut links = if spreader.is_some() { link(client) } else { Vec::new() };
        let (done, replies) = channel();
        for at in &workers {
            let links = take(&mut links, *at);
            let worker = self.workers.get(*at).context("no polling thread")?;
            anyhow::ensure!(worker.steer(id, links, spreader.clone(), done.clone()), DIED);
        }
        drop(done);
        anyhow::ensure!(replies.iter().count() == workers.len(), DIED);
        client.rss = rss.map(RssMessage::from);
        Ok(())
    }

    /// Has the first `workers` workers of a program serve the rest of its packets and let its region go.
    fn remove(&mut self, client: &ClientRecord, workers: usize) {
        let (done, parts) = channel::<Box<dyn Client>>();
        for at in client.distinct_workers().into_iter().take(workers) {
            let queues = queues_of(&client.workers, at).len();
            if let Some(worker) = self.workers.get_mut(at) {
                worker.remove(client.id, queues, Sender::clone(&done));
            }
        }
        drop(done);
        // Unmapping a large region takes milliseconds: neither a polling thread nor the next program waits for that.
        let unmap = std::thread::Builder::new().name("unmap".to_owned());
        let _ = unmap.spawn(move || parts.into_iter().for_each(drop)); // without a thread the others do wait
    }
}

impl Drop for ControlPlane {
    /// Workers wait for each other's last packets: all are stopped before the first is waited for.
    fn drop(&mut self) {
        self.workers.iter_mut().for_each(Worker::stop);
    }
}

fn spreader(rss: Option<&Rss>) -> Option<Arc<Spreader>> {
    rss.map(|rss| Arc::new(Spreader::new(rss.clone())))
}

/// Hand-off queues between the workers of a program, if there are several and they have none yet.
fn link(client: &mut ClientRecord) -> Vec<(usize, Links)> {
    let several = client.distinct_workers().len() > 1;
    if !several || std::mem::replace(&mut client.linked, true) {
        return Vec::new();
    }
    mesh(&client.workers)
}

/// The links of one worker.
fn take(links: &mut Vec<(usize, Links)>, worker: usize) -> Option<Links> {
    let at = links.iter().position(|(at, _)| *at == worker)?;
    Some(links.swap_remove(at).1)
}

impl Handler for ControlPlane {
    fn hello(&self) -> Hello {
        let node = self.options.cores.first().map_or(0, |cpu| numa::node_of(*cpu));
        Hello { version: VERSION.to_owned(), node, rss: true }
    }

    fn attach(&mut self, request: AttachRequest) -> Result<(), String> {
        self.try_attach(request).map_err(|e| format!("{e:#}"))
    }

    fn set_rss(&mut self, id: ClientId, rss: Option<Rss>) -> Result<(), String> {
        let steers = self.clients.iter().any(|c| c.id == id && c.rss.is_some());
        if rss.is_none() && !steers {
            return Ok(());
        }
        self.steer(id, rss.as_ref()).map_err(|e| format!("{e:#}"))
    }

    fn notify(&mut self, id: ClientId, queue: u16, notifier: Notifier) -> Result<(), String> {
        let client = self.clients.iter().find(|c| c.id == id);
        let worker = client.and_then(|c| c.workers.get(usize::from(queue)));
        let worker = worker.and_then(|at| self.workers.get(*at)).ok_or("no worker polls it")?;
        if worker.notify(id, queue, notifier) { Ok(()) } else { Err(DIED.to_owned()) }
    }

    /// What the program had sent is served, its region released.
    fn detach(&mut self, id: ClientId) {
        let Some(at) = self.clients.iter().position(|c| c.id == id) else { return };
        let client = self.clients.remove(at);
        self.remove(&client, self.workers.len());
        tracing::info!(name = client.name, pid = client.pid, "detached");
    }

    fn status(&self) -> Status {
        let ids: Vec<_> = self.clients.iter().map(|client| client.id).collect();
        let queues: Vec<_> = self.workers.iter().flat_map(|worker| worker.report(&ids)).collect();
        let programs = self.clients.iter().map(|client| {
            let mut mine: Vec<_> =
                queues.iter().filter(|(id, _)| *id == client.id).map(|(_, q)| *q).collect();
            mine.sort_by_key(|q| q.queue);
            ProgramStatus {
                name: client.name.clone(),
                pid: client.pid,
                design: client.design.to_owned(),
                rss: client.rss.clone(),
                queues: mine,
            }
        });
        Status {
            version: VERSION.to_owned(),
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            wire: self.options.dataplane.name().to_owned(),
            cores: self.options.cores.clone(),
            programs: programs.collect(),
        }
    }
}
