//! What the [`ControlPlane`] answers on the control socket: requests of programs and operators, and its status.

use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;

use ccnic::rss::Rss;
use ccnic_control::capture::CaptureRequest;
use ccnic_control::flow::{FlowReply, FlowRequest};
use ccnic_control::messages::{
    AddressPage, Applied, Change, Cursor, Hello, LearnedAddress, PROTOCOL, ProgramStatus, QueueStatus,
    Status, TuningStatus,
};
use ccnic_control::offloads::Offloads;
use ccnic_control::rss::RssMessage;
use ccnic_control::{AttachRequest, ClientId, Handler, Notifier, Page};
use ccnic_frame::Takes;
use ccnic_shm::numa;

use super::{ControlPlane, DIED};
use crate::control::VERSION;
use crate::control::flows::Steering;
use crate::control::members::merged;
use crate::control::reload::NOT_CONFIGURED;
use crate::flow::book::ABILITY;
use crate::poll::worker::Worker;
use crate::switch::Known;

impl Handler for ControlPlane {
    fn hello(&self) -> Hello {
        let node = self.options.cores.first().map_or(0, |cpu| numa::node_of(*cpu));
        Hello {
            version: VERSION.to_owned(),
            protocol: PROTOCOL,
            node,
            rss: true,
            sleeps: self.options.sleep_after.is_some(),
            kept: true,
            offloads: Some(if self.options.joins() {
                Offloads::completed(Takes::ALL)
            } else {
                Offloads::passed()
            }),
            tuning: Some(self.options.tuning.tuning.word()),
            flow: Some(ABILITY),
        }
    }

    fn attach(&mut self, request: AttachRequest) -> Result<(), String> {
        self.try_attach(request).map_err(|e| format!("{e:#}"))
    }

    fn set_rss(&mut self, id: ClientId, rss: Option<Rss>) -> Result<(), String> {
        let Some(client) = self.clients.get(&id) else { return Err("the program has gone".to_owned()) };
        if rss.is_none() && client.steering.rss.is_none() {
            return Ok(());
        }
        let flows = client.steering.flows.clone();
        self.steer(id, Steering { rss, flows }).map_err(|e| format!("{e:#}"))
    }

    fn flow(&mut self, of: ClientId, request: FlowRequest) -> Result<FlowReply, String> {
        self.change_flows(of, request).map_err(|e| format!("{e:#}"))
    }

    fn set_takes(&mut self, id: ClientId, takes: Takes) {
        if let Some(client) = self.clients.get(&id) {
            client.shared.takes.store(takes.bits(), Ordering::Relaxed);
        }
    }

    fn notify(&mut self, id: ClientId, queue: u16, notifier: Notifier) -> Result<(), String> {
        let client = self.clients.get(&id);
        let worker = client.and_then(|c| c.workers.get(usize::from(queue)));
        let worker = worker.and_then(|at| self.workers.get(*at)).ok_or("no worker polls it")?;
        if worker.notify(id, queue, notifier) { Ok(()) } else { Err(DIED.to_owned()) }
    }

    /// What the program had sent is served, its region released.
    fn detach(&mut self, id: ClientId) {
        if let Some(client) = self.clients.remove(&id) {
            self.remove(id, client, self.workers.len());
        }
    }

    fn config(&self) -> Result<String, String> {
        let running = self.running.as_ref().ok_or(NOT_CONFIGURED)?;
        running.now().to_toml().map_err(|e| format!("{e:#}"))
    }

    fn change(&mut self, change: &Change) -> Result<Applied, String> {
        self.reconfigure(change).map_err(|e| format!("{e:#}"))
    }

    fn mac_table(&self, from: u32) -> Result<AddressPage, String> {
        if !self.options.joins() {
            return Err("the loopback has no address table; start ccnicd with --wire switch".to_owned());
        }
        let (known, next) = self.workers.first().and_then(|worker| worker.addresses(from)).ok_or(DIED)?;
        let address = |(known, program): (Known, ClientId)| LearnedAddress {
            mac: known.station.mac().bytes(),
            program,
            age_s: known.age,
            vlan: known.station.vlan(),
            fixed: known.fixed,
        };
        Ok(AddressPage { addresses: known.into_iter().map(address).collect(), next })
    }

    fn capture(&mut self, request: CaptureRequest, to: UnixStream) -> Result<(), String> {
        self.start_capture(&request, to).map_err(|e| format!("{e:#}"))
    }

    fn status(&self, from: Cursor) -> Status {
        let programs = self.clients.iter().map(|(id, client)| (*id, client.queues()));
        let page = Page::new(from, programs.chain(self.outside.iter().map(|port| (port.id, port.queues))));
        let reports = self.reports(&page);
        let programs = page.programs.iter().filter_map(|(id, shown)| {
            let queues = reports.iter().filter(|(of, queue)| of == id && shown.contains(&queue.queue));
            let mut queues: Vec<_> = queues.map(|(_, queue)| *queue).collect();
            queues.sort_unstable_by_key(|queue| queue.queue);
            self.describe(*id, queues)
        });
        Status {
            version: VERSION.to_owned(),
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            wire: self.options.dataplane.name().to_owned(),
            cores: self.options.cores.clone(),
            busy_ns: self.workers.iter().map(Worker::busy_ns).collect(),
            tuning: Some(TuningStatus::new(self.options.tuning.tuning, self.options.tuning.source.name())),
            sandbox: self.sandbox.as_ref().map(|sandbox| sandbox.status().clone()),
            programs: programs.collect(),
            next: page.next,
        }
    }
}

impl ControlPlane {
    /// A program, or another port, with these queues.
    fn describe(&self, id: ClientId, queues: Vec<QueueStatus>) -> Option<ProgramStatus> {
        if let Some(client) = self.clients.get(&id) {
            return Some(ProgramStatus {
                id,
                name: client.name.clone(),
                pid: client.pid,
                design: client.design.to_owned(),
                rss: client.steering.rss.as_ref().map(RssMessage::from),
                latency: Some(client.shared.latency.status()),
                memory: Some(client.memory.status(client.bytes())),
                queues,
            });
        }
        let port = self.outside.iter().find(|port| port.id == id)?;
        let (pid, design) = (std::process::id().cast_signed(), port.kind.to_owned());
        Some(ProgramStatus { id, name: port.name.clone(), pid, design, queues, ..ProgramStatus::default() })
    }

    /// True when a worker polls queues of a program or another port.
    fn polls(&self, id: ClientId, worker: usize) -> bool {
        match self.clients.get(&id) {
            Some(client) => client.workers.contains(&worker),
            None => self.outside.iter().any(|port| port.id == id && port.home == worker),
        }
    }

    /// The counters of the programs and ports on a page, from the workers that poll them.
    fn reports(&self, page: &Page) -> Vec<(ClientId, QueueStatus)> {
        let report = |(at, worker): (usize, &Worker)| {
            let polled =
                |id: &&ClientId| self.clients.get(id).is_none_or(|client| client.parts.contains(&at));
            let ids: Vec<_> = page.programs.iter().map(|(id, _)| id).filter(polled).copied().collect();
            let polls = move |id: &ClientId| self.polls(*id, at);
            worker.report(&ids).into_iter().map(move |(id, queue)| (polls(&id), id, queue))
        };
        let mut reports: Vec<_> = self.workers.iter().enumerate().flat_map(report).collect();
        reports.sort_by_key(|(polls, ..)| !polls);
        merged(reports.into_iter().map(|(_, id, queue)| (id, queue)).collect())
    }
}
