//! A new configuration for a daemon that runs: the difference is applied, and what is the same does not notice.
//!
//! Everything that can fail is done first: ports that are new are opened, rules are made. Then it is applied as a whole.

use anyhow::{Context, ensure};
use ccnic_control::{ClientId, printable};

use super::attach::open_port;
use super::members::{home, members};
use super::plane::{ControlPlane, DIED, FIRST_OUTSIDE, OutsideRecord};
use crate::poll::client::Part;
use crate::ports::PortOptions;
use crate::switch::policy::{Policies, Policy, Rules};

/// What a daemon that runs can be told anew.
#[derive(Debug, Clone)]
pub struct Reload {
    /// Ports that are no programs.
    pub ports: Vec<PortOptions>,
    /// What ports and programs may do.
    pub policies: Policies,
}

/// What has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Changes {
    pub(super) opened: usize,
    pub(super) closed: usize,
    /// Ports and programs whose policy is another.
    pub(super) governed: usize,
    /// Programs that may not be attached any more.
    pub(super) refused: usize,
}

/// A port that has been opened: its id, what each worker gets of it, the one that polls it, its queues.
type Opened = (ClientId, Vec<(usize, Part)>, usize, u16);

/// A port or program and its new rules, for each worker.
type Ruling = (ClientId, Vec<Option<Box<Rules>>>);

impl ControlPlane {
    /// What a program may do; `None`: it may not attach.
    pub(super) fn policy_of_program(&self, name: &str, uid: u32) -> Option<Policy> {
        let policy = self.options.policies.of_program(name, uid)?;
        Some(placed(policy, &self.options.ports, &self.outside))
    }

    /// Has the daemon be as `new` says.
    ///
    /// # Errors
    /// What cannot be done. Nothing has changed then.
    pub(super) fn reload(&mut self, new: Reload) -> anyhow::Result<Changes> {
        ensure!(self.options.joins() || new.policies == Policies::default(), "there is no switch");
        check_options(&self.options.ports, &new.ports)?;
        let (opened, outside) = self.open_new(&new)?;
        let rulings = self.rulings(&new, &outside)?;
        let mut changes = Changes { opened: opened.len(), governed: rulings.len(), ..Changes::default() };
        // From here on nothing fails but a polling thread that has died.
        let gone: Vec<_> =
            self.outside.iter().filter(|old| outside.iter().all(|port| port.id != old.id)).collect();
        changes.closed = gone.len();
        let gone: Vec<_> = gone.into_iter().map(|port| (port.id, port.home, port.queues)).collect();
        gone.into_iter().for_each(|(id, home, queues)| self.close_port(id, home, queues));
        for (id, parts, home, queues) in opened {
            self.join(id, parts, home, queues)?;
        }
        for (id, rules) in rulings {
            for (worker, rules) in self.workers.iter().zip(rules) {
                ensure!(worker.govern(id, rules), DIED);
            }
        }
        self.outside = outside;
        (self.options.ports, self.options.policies) = (new.ports, new.policies);
        changes.refused = self.settle_programs();
        Ok(changes)
    }

    /// Opens the ports that are new. Returns them, and the record of all ports that there will be, by id, those that stay as they are.
    fn open_new(&self, new: &Reload) -> anyhow::Result<(Vec<Opened>, Vec<OutsideRecord>)> {
        let (mut opened, mut records) = (Vec::new(), Vec::new());
        let mut next = self.outside.iter().map(|port| port.id + 1).max().unwrap_or(FIRST_OUTSIDE);
        for (at, options) in new.ports.iter().enumerate() {
            let name = options.name();
            if let Some(OutsideRecord { id, kind, queues, home, policy, .. }) =
                self.outside.iter().find(|port| port.name == name)
            {
                let (id, kind, queues, home, policy) = (*id, *kind, *queues, *home, policy.clone());
                records.push(OutsideRecord { id, name, kind, queues, home, policy });
                continue;
            }
            // Its mirror may be a port that is opened after it, and follows.
            let policy = Policy { mirror: None, ..new.policies.of_port(at).clone() };
            let place = self.places.take().context("the switch has no place left")?;
            let (part, kind, queues) =
                open_port(options, &policy, &place).with_context(|| format!("port {name}"))?;
            let home = home(&self.workers);
            let parts = members(&self.workers, home, part, &policy, &place)?;
            records.push(OutsideRecord { id: next, name, kind, queues, home, policy });
            opened.push((next, parts, home, queues));
            next += 1;
        }
        records.sort_unstable_by_key(|port| port.id);
        Ok((opened, records))
    }

    /// The rules of all ports and programs whose policy is another than it was; `outside` says which ports there will be.
    fn rulings(&mut self, new: &Reload, outside: &[OutsideRecord]) -> anyhow::Result<Vec<Ruling>> {
        let (mut rulings, workers) = (Vec::new(), self.workers.len());
        let mut rule = |id, before: &Policy, policy: &Policy| {
            if before != policy {
                let rules = (0..workers).map(|_| Rules::new(policy)).collect::<Result<Vec<_>, _>>();
                rulings.push((id, rules.context("no memory for what a policy looks into")?));
            }
            anyhow::Ok(())
        };
        for (at, options) in new.ports.iter().enumerate() {
            let name = options.name();
            let record = outside.iter().find(|port| port.name == name).context("a port without record")?;
            rule(record.id, &record.policy, &placed(new.policies.of_port(at), &new.ports, outside))?;
        }
        for (id, client) in &self.clients {
            if let Some(policy) = new.policies.of_program(&client.name, client.memory.uid()) {
                rule(*id, &client.policy, &placed(policy, &new.ports, outside))?;
            }
        }
        Ok(rulings)
    }

    /// Writes down what all ports and programs may do now, and ends the connections of programs that may not be attached; returns how many.
    fn settle_programs(&mut self) -> usize {
        let ControlPlane { options, outside, clients, .. } = self;
        for (at, port) in options.ports.iter().map(PortOptions::name).enumerate() {
            let policy = placed(options.policies.of_port(at), &options.ports, outside);
            outside
                .iter_mut()
                .filter(|record| record.name == port)
                .for_each(|record| record.policy = policy.clone());
        }
        let mut refused = 0;
        for client in clients.values_mut() {
            match options.policies.of_program(&client.name, client.memory.uid()) {
                Some(policy) => client.policy = placed(policy, &options.ports, outside),
                None => {
                    tracing::warn!(
                        name = printable(&client.name),
                        "detaching the program: it is refused now"
                    );
                    client.connection.hang_up();
                    refused += 1;
                }
            }
        }
        refused
    }

    /// Closes a port that is no program, once what has come from it has been served.
    fn close_port(&mut self, id: ClientId, home: usize, queues: u16) {
        let (done, parts) = std::sync::mpsc::channel();
        for (at, worker) in self.workers.iter_mut().enumerate() {
            worker.remove(id, if at == home { queues.into() } else { 0 }, done.clone());
        }
        drop(done);
        parts.into_iter().for_each(drop); // workers hand it back after some polls; an interface goes with it
    }
}

/// A policy with the id of its mirror. Where it was made, that is a place in a list of ports.
fn placed(policy: &Policy, ports: &[PortOptions], outside: &[OutsideRecord]) -> Policy {
    let mut policy = policy.clone();
    if let Some(mirror) = &mut policy.mirror {
        let name = ports.get((mirror.to - FIRST_OUTSIDE) as usize).map(PortOptions::name);
        let port = outside.iter().find(|port| Some(&port.name) == name.as_ref());
        mirror.to = port.map_or(ClientId::MAX, |port| port.id);
    }
    policy
}

/// Whether ports that stay are what they were.
fn check_options(old: &[PortOptions], new: &[PortOptions]) -> anyhow::Result<()> {
    for port in new {
        let before = old.iter().find(|old| old.name() == port.name());
        ensure!(
            before.is_none_or(|before| before == port),
            "port {}: its options cannot change while it is there; leave them, or take the port out and reload, then add it",
            port.name()
        );
    }
    Ok(())
}
