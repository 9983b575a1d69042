//! The control plane: what programs ask of the daemon ends here, and becomes commands to workers.

mod answer;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use anyhow::Context;
use ccnic::Layout;
use ccnic::rss::Spreader;
use ccnic_control::{
    AttachRequest, ClientId, Connection, MemoryLease, Quotas, Teardown, UserMemory, printable,
};
use ccnic_shm::Region;

use super::DaemonOptions;
use super::assign::{assign, queues_of};
use super::attach::{NO_PLACE, OpenedPort, Shared, attach};
use super::captures;
use super::early::EarlyPorts;
use super::flows::Steering;
use super::members::{home, members, start_workers};
use crate::config::Running;
use crate::flow::FlowBook;
use crate::poll::client::Part;
use crate::poll::core::ticks_per_microsecond;
use crate::poll::links::{Links, mesh, mesh_bytes};
use crate::poll::worker::Worker;
use crate::ports::latency::Latency;
use crate::ports::pcap::Hold;
use crate::ports::tap::Mtu;
use crate::sandbox::Sandbox;
use crate::switch::lanes::lane_bytes;
use crate::switch::places::Places;
use crate::switch::policy::Policy;

pub(super) const DIED: &str = "a polling thread has died; restart ccnicd";

/// What the control thread knows of an attached program.
pub(super) struct ClientRecord {
    pub(super) name: String,
    pid: i32,
    design: &'static str,
    /// What it may do, on a switch.
    pub(super) policy: Policy,
    /// Which queue its packets go to.
    pub(super) steering: Steering,
    /// By worker: the same, as its worker has it. It is dropped here, since that takes long.
    in_force: Vec<Option<Arc<Spreader>>>,
    /// By queue: the worker that polls it.
    workers: Vec<usize>,
    pub(super) memory: UserMemory,
    shared: Shared,
    region: Arc<Region>,
    pub(super) connection: Arc<Connection>,
    /// Its region has gone missing, and it has been told to go.
    lost: bool,
    /// The workers that have a part of it.
    parts: Vec<usize>,
    /// For the hand-off queues between its workers, when it has any.
    handoff: Option<MemoryLease>,
    /// For the tables of its flow rules, since it has had some.
    rules: Option<MemoryLease>,
    teardown: Teardown,
}

impl ClientRecord {
    /// The workers that poll queues of it, each once.
    fn distinct_workers(&self) -> Vec<usize> {
        let mut workers = self.workers.clone();
        workers.sort_unstable();
        workers.dedup();
        workers
    }

    pub(super) fn queues(&self) -> u16 {
        u16::try_from(self.workers.len()).unwrap_or(u16::MAX)
    }

    /// What it has taken of the memory that is accounted for.
    fn bytes(&self) -> u64 {
        let leased = self.handoff.iter().chain(&self.rules).map(MemoryLease::bytes).sum::<u64>();
        u64::from(self.region.size()) + leased
    }

    /// Accounts for the memory of the flow rules that it is to have, unless it has had some.
    ///
    /// # Errors
    /// When its user may not have so much memory.
    fn lease_rules(&mut self, bytes: usize) -> anyhow::Result<()> {
        if bytes > 0 && self.rules.is_none() {
            let lease = self.memory.lease(bytes).map_err(anyhow::Error::msg);
            self.rules = Some(lease.context("no memory for flow rules")?);
        }
        Ok(())
    }

    /// Hand-off queues between its workers, if there are several and they have none yet.
    ///
    /// # Errors
    /// When its user may not have so much memory.
    fn link(&mut self, all: &[Worker]) -> anyhow::Result<Vec<(usize, Links)>> {
        let workers = self.distinct_workers().len();
        if workers < 2 || self.handoff.is_some() {
            return Ok(Vec::new());
        }
        self.lease(mesh_bytes(workers))?;
        let mut links = mesh(&self.workers);
        let caller = |at: usize| all.get(at).map(|worker| worker.caller().clone());
        links.iter_mut().for_each(|(_, links)| links.set_callers(caller));
        Ok(links)
    }

    /// Memory for hand-off queues, on its user's account.
    fn lease(&mut self, bytes: usize) -> anyhow::Result<()> {
        let lease = self.memory.lease(bytes).map_err(anyhow::Error::msg);
        self.handoff = Some(lease.context("no hand-off queues between polling threads")?);
        Ok(())
    }
}

/// The first id of ports that are no programs. Programs count up from 1, and never get here.
pub(crate) const FIRST_OUTSIDE: ClientId = 1 << 32;

/// What the control thread knows of a port that is no program.
pub(super) struct OutsideRecord {
    pub(super) id: ClientId,
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) queues: u16,
    /// The worker that polls it.
    pub(super) home: usize,
    /// What it may do.
    pub(super) policy: Policy,
    /// Its MTU, where that can change.
    pub(super) mtu: Option<Mtu>,
}

/// A port that is no program, opened, and what each worker gets of it.
pub(super) struct DealtPort {
    parts: Vec<(usize, Part)>,
    /// The worker that polls it.
    home: usize,
    kind: &'static str,
    queues: u16,
    mtu: Option<Mtu>,
    hold: Option<Hold>,
}

/// Clients and workers. Belongs to the control thread.
pub(super) struct ControlPlane {
    pub(super) options: DaemonOptions,
    pub(super) workers: Vec<Worker>,
    pub(super) clients: BTreeMap<ClientId, ClientRecord>,
    /// By id.
    pub(super) outside: Vec<OutsideRecord>,
    /// The id of the next of them: none is used twice.
    pub(super) next_outside: ClientId,
    /// Of the ports in the switch, also of those whose program has gone, until they are out of it.
    pub(super) places: Places,
    /// The configuration, if it can be read and changed.
    pub(super) running: Option<Running>,
    /// What programs of a name may take, where a listener accounts for that.
    pub(super) quotas: Option<Quotas>,
    /// What the process has confined itself to.
    pub(super) sandbox: Option<Sandbox>,
    pub(super) captures: Vec<captures::Running>,
    pub(super) next_capture: u64,
    started: Instant,
    /// Ticks of the workers' clock.
    microsecond: u64,
}

impl ControlPlane {
    /// Starts the workers. `early` are ports that have been opened already.
    pub(super) fn new(
        options: DaemonOptions,
        running: Option<Running>,
        early: EarlyPorts,
        sandbox: Option<Sandbox>,
    ) -> anyhow::Result<ControlPlane> {
        DaemonOptions::check_cores(options.dataplane, options.cores.len())?;
        let workers = start_workers(&options).context("could not start a polling thread")?;
        let mut plane = ControlPlane {
            options,
            workers,
            clients: BTreeMap::new(),
            outside: Vec::new(),
            next_outside: FIRST_OUTSIDE,
            places: early.places.clone(),
            running,
            quotas: None,
            sandbox,
            captures: Vec::new(),
            next_capture: 1,
            started: Instant::now(),
            microsecond: ticks_per_microsecond(),
        };
        plane.open_ports(early)?;
        Ok(plane)
    }

    /// Opens the ports that are no programs, and has the switch join them. Replays begin when all have joined.
    fn open_ports(&mut self, mut early: EarlyPorts) -> anyhow::Result<()> {
        let mut holds = Vec::new();
        for at in 0..self.options.ports.len() {
            let (id, opened) = (FIRST_OUTSIDE + at as ClientId, early.take(at, &self.options)?);
            let name = self.options.ports.get(at).context("no such port")?.name();
            let policy = self.options.policies.of_port(at).clone();
            let dealt = self.deal(opened, &policy)?;
            holds.extend(self.join(id, name, dealt, policy)?);
        }
        Ok(())
    }

    /// Chooses the worker that polls a port that has been opened.
    ///
    /// # Errors
    /// When there is no memory for what the policy needs.
    pub(super) fn deal(&self, opened: OpenedPort, policy: &Policy) -> anyhow::Result<DealtPort> {
        let OpenedPort { part, kind, queues, mtu, place, hold } = opened;
        let home = home(&self.workers);
        let parts = members(&self.workers, home, part, policy, &place)?;
        Ok(DealtPort { parts, home, kind, queues, mtu, hold })
    }

    /// Has the switch join a port. Its replay, if it has one, begins when what this returns is dropped.
    ///
    /// # Errors
    /// When a polling thread has died.
    pub(super) fn join(
        &mut self,
        id: ClientId,
        name: String,
        port: DealtPort,
        policy: Policy,
    ) -> anyhow::Result<Option<Hold>> {
        let DealtPort { parts, home, kind, queues, mtu, hold } = port;
        for (at, part) in parts {
            let worker = self.workers.get_mut(at).context("no polling thread")?;
            anyhow::ensure!(worker.add(id, part, if at == home { queues.into() } else { 0 }), DIED);
        }
        tracing::info!(name, queues, "port opened");
        self.next_outside = self.next_outside.max(id + 1);
        self.outside.push(OutsideRecord { id, name, kind, queues, home, policy, mtu });
        Ok(hold)
    }

    pub(super) fn options(&self) -> &DaemonOptions {
        &self.options
    }

    /// Deals a program's queues to the workers.
    fn try_attach(&mut self, request: AttachRequest) -> anyhow::Result<()> {
        let AttachRequest { id, name, pid, layout, region, memory, rss, flows, connection, teardown, .. } =
            request;
        let policy = self.policy_of_program(&name, memory.uid()).context(
            "ccnicd's configuration refuses programs of this name and user; change its [[program]] entries",
        )?;
        let queues = layout.config().queues;
        let workers = match self.options.joins() {
            true => vec![home(&self.workers); queues.into()], // a port is polled by one worker
            false => assign(self.workers.iter().map(|worker| worker.queues), queues),
        };
        let distinct = workers.iter().collect::<BTreeSet<_>>().len();
        let flows = FlowBook::new(distinct, &flows).map_err(|why| anyhow::anyhow!("a flow rule: {why}"))?;
        let flows = self.with_configured_flows((&name, memory.uid(), queues), &flows)?;
        let mut client = ClientRecord {
            name,
            pid,
            design: layout.config().design.name(),
            policy,
            steering: Steering { rss, flows },
            in_force: Vec::new(),
            workers,
            memory,
            shared: Shared { takes: Arc::default(), latency: Arc::new(Latency::new(self.microsecond)) },
            region,
            connection,
            lost: false,
            parts: Vec::new(),
            handoff: None,
            rules: None,
            teardown,
        };
        client.lease_rules(client.steering.bytes(distinct))?;
        let spreaders = client.steering.spreaders(distinct).map_err(anyhow::Error::msg)?;
        client.in_force.clone_from(&spreaders);
        let parts = self.parts(&mut client, &layout, &spreaders)?;
        client.parts = parts.iter().map(|(at, _)| *at).collect();
        for (added, (at, part)) in parts.into_iter().enumerate() {
            let queues = queues_of(&client.workers, at).len();
            if !self.workers.get_mut(at).is_some_and(|worker| worker.add(id, part, queues)) {
                self.remove(id, client, added);
                anyhow::bail!(DIED);
            }
        }
        self.clients.insert(id, client);
        Ok(())
    }

    /// What each worker polls of a new program.
    fn parts(
        &self,
        client: &mut ClientRecord,
        layout: &Layout,
        spreaders: &[Option<Arc<Spreader>>],
    ) -> anyhow::Result<Vec<(usize, Part)>> {
        let joins = self.options.joins();
        let place = if joins { self.places.take().context(NO_PLACE)? } else { Arc::default() };
        let mut links = Vec::new();
        if joins {
            client.lease(lane_bytes(self.workers.len()))?;
        } else if spreaders.iter().any(Option::is_some) {
            links = client.link(&self.workers)?;
        }
        let mut parts = Vec::new();
        for (at, spreader) in client.distinct_workers().into_iter().zip(spreaders) {
            let numbers = queues_of(&client.workers, at);
            let ClientRecord { region, policy, shared, .. } = &*client;
            let mut part = attach(region, layout, numbers, &self.options, policy, &place, shared)?;
            if let Some(spreader) = spreader {
                part.steer(take(&mut links, at), Some(Arc::clone(spreader)));
            }
            parts.extend(members(&self.workers, at, part, &client.policy, &place)?);
        }
        Ok(parts)
    }

    /// Has all workers of a program steer its packets so; returns when they do.
    pub(super) fn steer(&mut self, id: ClientId, steering: Steering) -> anyhow::Result<()> {
        let client = self.clients.get_mut(&id).context("the program has gone")?;
        let workers = client.distinct_workers();
        let alive = |at: &usize| self.workers.get(*at).is_some_and(Worker::is_alive);
        anyhow::ensure!(workers.iter().all(alive), DIED);
        client.lease_rules(steering.bytes(workers.len()))?;
        let spreaders = steering.spreaders(workers.len()).map_err(anyhow::Error::msg)?;
        let steered = spreaders.iter().any(Option::is_some);
        let joins = self.options.joins();
        let mut links = if steered && !joins { client.link(&self.workers)? } else { Vec::new() };
        let (done, replies) = channel();
        for (at, spreader) in workers.iter().zip(spreaders.clone()) {
            let links = take(&mut links, *at);
            let worker = self.workers.get(*at).context("no polling thread")?;
            anyhow::ensure!(worker.steer(id, links, spreader, done.clone()), DIED);
        }
        drop(done);
        anyhow::ensure!(replies.iter().count() == workers.len(), DIED);
        (client.steering, client.in_force) = (steering, spreaders);
        Ok(())
    }

    /// Ends the connections of programs whose region has gone missing: there is nothing to serve any more, and they have made it so
    /// (`ccnic_shm::survive_holes`). What follows is as if the program had closed it.
    pub(super) fn hang_up_on_lost(&mut self) {
        let lost = self.clients.values_mut().filter(|client| !client.lost && client.region.is_lost());
        for client in lost {
            client.lost = true;
            let (name, pid) = (printable(&client.name), client.pid);
            tracing::warn!(
                name,
                pid,
                "detaching the program: a page of its region is missing, and all of it is lost"
            );
            client.connection.hang_up();
        }
    }

    /// Has the first `workers` workers of a program serve the rest of its packets and let its region go.
    fn remove(&mut self, id: ClientId, client: ClientRecord, workers: usize) {
        let (done, parts) = channel::<Part>();
        for at in client.parts.iter().copied().take(workers) {
            let queues = queues_of(&client.workers, at).len();
            if let Some(worker) = self.workers.get_mut(at) {
                worker.remove(id, queues, Sender::clone(&done));
            }
        }
        let ClientRecord { handoff, region, connection, teardown, .. } = client;
        // Unmapping a large region takes milliseconds: neither a polling thread nor the next program waits for that.
        teardown.at_end(move || {
            parts.into_iter().for_each(drop);
            drop((handoff, region, connection));
        });
    }
}

impl Drop for ControlPlane {
    /// Workers wait for each other's last packets: all are stopped before the first is waited for.
    fn drop(&mut self) {
        self.workers.iter_mut().for_each(Worker::stop);
    }
}

/// The links of one worker.
fn take(links: &mut Vec<(usize, Links)>, worker: usize) -> Option<Links> {
    let at = links.iter().position(|(at, _)| *at == worker)?;
    Some(links.swap_remove(at).1)
}
