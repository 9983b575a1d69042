//! A new configuration for a daemon that runs: the difference is applied, and what is the same does not notice. SIGHUP, `ccnic apply` and
//! `ccnic port` all end here.
//!
//! First a [`Plan`] is made, which opens and changes nothing. Then everything that can fail is done: ports that are new are opened, rules are
//! made, MTUs set. Then the rest is applied as a whole.

use anyhow::{Context, ensure};
use ccnic_control::messages::{Affected, Applied, Change};
use ccnic_control::{ClientId, Quota, printable};

use super::attach::open_port;
use super::plane::{ControlPlane, DIED, DealtPort, FIRST_OUTSIDE};
use crate::flow::{ConfiguredFlows, FlowBook};
use crate::ports::tap::Mtu;
use crate::ports::{PortOptions, kept};
use crate::switch::policy::{Policies, Policy, Rules};

/// Why a daemon that was started without [`Running`](crate::config::Running) refuses changes.
pub(super) const NOT_CONFIGURED: &str =
    "this NIC was started without a configuration that can change: start ccnicd";

/// What a daemon that runs can be told anew.
#[derive(Debug, Clone)]
struct Reload {
    /// Ports that are no programs.
    ports: Vec<PortOptions>,
    /// What ports and programs may do.
    policies: Policies,
    /// Flow rules of programs.
    flows: ConfiguredFlows,
    /// What programs of a name may take.
    quotas: Vec<Quota>,
}

/// A port that is no program.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    id: ClientId,
    name: String,
}

/// What is to be done, so that the daemon is as a [`Reload`] says.
#[derive(Debug, Default)]
struct Plan {
    /// The ports that there will be, in the order of the configuration.
    ports: Vec<Named>,
    /// Those of them that are to be opened, by their place.
    open: Vec<usize>,
    close: Vec<Named>,
    /// Ports that get another MTU.
    set: Vec<(Named, u32)>,
    /// Ports and programs that get another policy.
    govern: Vec<(Named, Policy)>,
    /// Programs that get other flow rules.
    steer: Vec<(Named, FlowBook)>,
    /// Programs that may not be attached any more.
    detach: Vec<Named>,
}

impl Plan {
    /// What it comes to, beside the difference of the configurations.
    fn effects(&self) -> Applied {
        let affected = |named: &Named| Affected { id: named.id, name: named.name.clone() };
        Applied {
            opened: self.open.iter().filter_map(|at| self.ports.get(*at)).map(affected).collect(),
            closed: self.close.iter().map(affected).collect(),
            set: self.set.iter().map(|(port, _)| affected(port)).collect(),
            governed: self.govern.iter().map(|(port, _)| affected(port)).collect(),
            steered: self.steer.iter().map(|(program, _)| affected(program)).collect(),
            detached: self.detach.iter().map(affected).collect(),
            ..Applied::default()
        }
    }
}

impl ControlPlane {
    /// What a program may do; `None`: it may not attach.
    pub(super) fn policy_of_program(&self, name: &str, uid: u32) -> Option<Policy> {
        let policy = self.options.policies.of_program(name, uid)?;
        let there: Vec<Named> =
            self.outside.iter().map(|port| Named { id: port.id, name: port.name.clone() }).collect();
        Some(placed(policy, &self.options.ports, &there))
    }

    /// Changes the configuration, or only says what would change.
    ///
    /// # Errors
    /// What is wrong, and what would be right. Nothing has changed then.
    pub(super) fn reconfigure(&mut self, change: &Change) -> anyhow::Result<Applied> {
        let before = self.running.as_ref().context(NOT_CONFIGURED)?;
        let after = before.after(change)?;
        let settled = after.now().settle()?;
        let changes = before.now().difference(after.now())?;
        let new = Reload {
            ports: settled.ports,
            policies: settled.policies,
            flows: settled.flows,
            quotas: settled.limits.quotas,
        };
        let plan = self.plan(&new)?;
        let applied = Applied { changes, ..plan.effects() };
        if !change.is_check() {
            self.carry_out(new, plan)?;
            self.running = Some(after);
            tracing::info!(
                opened = applied.opened.len(),
                closed = applied.closed.len(),
                set = applied.set.len(),
                governed = applied.governed.len(),
                steered = applied.steered.len(),
                detached = applied.detached.len(),
                "the configuration has been applied"
            );
        }
        Ok(applied)
    }

    /// What is to be done.
    fn plan(&self, new: &Reload) -> anyhow::Result<Plan> {
        ensure!(self.options.joins() || !new.policies.need_a_switch(), "there is no switch");
        let mut plan = Plan::default();
        let mut next = self.next_outside;
        for (at, options) in new.ports.iter().enumerate() {
            let name = options.name();
            let old = self.outside.iter().find(|port| port.name == name);
            let id = old.map_or(next, |port| port.id);
            if old.is_none() {
                next += 1;
                plan.open.push(at);
            }
            plan.ports.push(Named { id, name });
        }
        let gone = self.outside.iter().filter(|old| plan.ports.iter().all(|port| port.id != old.id));
        plan.close = gone.map(|old| Named { id: old.id, name: old.name.clone() }).collect();
        plan.set = self.other_options(new, &plan.ports)?;
        self.check_rights(new, &plan)?;
        self.plan_policies(new, &mut plan);
        for (id, flows) in self.other_flows(&new.flows)? {
            let name = self.clients.get(&id).map(|client| client.name.clone()).unwrap_or_default();
            plan.steer.push((Named { id, name }, flows));
        }
        Ok(plan)
    }

    /// Ports that stay, and of which an option is another.
    ///
    /// # Errors
    /// When it cannot change while the port is there.
    fn other_options(&self, new: &Reload, ports: &[Named]) -> anyhow::Result<Vec<(Named, u32)>> {
        let mut set = Vec::new();
        for (options, port) in new.ports.iter().zip(ports) {
            let Some(before) = self.options.ports.iter().find(|old| old.name() == port.name) else {
                continue;
            };
            if before != options {
                let mtu = before.other_mtu(options).with_context(|| {
                    format!(
                        "port {}: only its mtu can change while it is there: leave the other options, or take the port out, then add it",
                        port.name
                    )
                })?;
                set.push((port.clone(), mtu));
            }
        }
        Ok(set)
    }

    /// Whether the daemon has kept what it takes to open ports, and to change some.
    ///
    /// # Errors
    /// What was given away, and which option keeps it.
    fn check_rights(&self, new: &Reload, plan: &Plan) -> anyhow::Result<()> {
        let Some(sandbox) = &self.sandbox else { return Ok(()) };
        for (options, port) in new.ports.iter().zip(&plan.ports) {
            let opened = self.outside.iter().all(|old| old.id != port.id);
            if opened || plan.set.iter().any(|(set, _)| set.id == port.id) {
                sandbox.check(options).with_context(|| format!("port {}", port.name))?;
            }
        }
        Ok(())
    }

    /// Whose policy is another, and who may not stay.
    fn plan_policies(&self, new: &Reload, plan: &mut Plan) {
        for (at, port) in plan.ports.iter().enumerate() {
            let policy = placed(new.policies.of_port(at), &new.ports, &plan.ports);
            let old = self.outside.iter().find(|old| old.id == port.id);
            let same = match old {
                Some(old) => old.policy == policy,
                None => first_policy(new, at) == policy,
            };
            if !same {
                plan.govern.push((port.clone(), policy));
            }
        }
        for (id, client) in &self.clients {
            let program = Named { id: *id, name: client.name.clone() };
            match new.policies.of_program(&client.name, client.memory.uid()) {
                None => plan.detach.push(program),
                Some(policy) => {
                    let policy = placed(policy, &new.ports, &plan.ports);
                    if policy != client.policy {
                        plan.govern.push((program, policy));
                    }
                }
            }
        }
    }

    /// Does what is planned.
    ///
    /// # Errors
    /// What cannot be done. Nothing has changed then, unless a polling thread has died.
    fn carry_out(&mut self, new: Reload, plan: Plan) -> anyhow::Result<()> {
        let opened = self.open_new(&new, &plan)?;
        let of_workers = |policy: &Policy| self.workers.iter().map(|_| Rules::new(policy)).collect();
        let rules: Result<Vec<Vec<_>>, _> =
            plan.govern.iter().map(|(_, policy)| of_workers(policy)).collect();
        let rules = rules.context("no memory for what a policy looks into")?;
        let flows = plan.steer.into_iter().map(|(program, flows)| (program.id, flows)).collect();
        let before = self.steer_all(flows)?;
        if let Err(e) = self.set_mtus(&plan.set) {
            self.steer_back(before);
            return Err(e);
        }
        // From here on nothing fails but a polling thread that has died.
        for port in &plan.close {
            self.close_port(port.id);
        }
        let mut holds = Vec::new(); // replays begin when all ports are there, with their policies
        for (at, port) in opened {
            let Named { id, name } = plan.ports.get(at).context("a port without a name")?.clone();
            holds.extend(self.join(id, name, port, first_policy(&new, at))?);
        }
        for ((named, policy), rules) in plan.govern.into_iter().zip(rules) {
            for (worker, rules) in self.workers.iter().zip(rules) {
                ensure!(worker.govern(named.id, rules), DIED);
            }
            self.note_policy(named.id, policy);
        }
        drop(holds);
        (self.options.ports, self.options.policies, self.options.flows) =
            (new.ports, new.policies, new.flows);
        self.options.limits.quotas.clone_from(&new.quotas);
        self.quotas.iter().for_each(|quotas| quotas.set(new.quotas.clone()));
        for program in &plan.detach {
            tracing::warn!(name = printable(&program.name), "detaching the program: it is refused now");
            if let Some(client) = self.clients.get(&program.id) {
                client.connection.hang_up();
            }
        }
        Ok(())
    }

    /// Opens the ports that are new; each with its place in the configuration.
    fn open_new(&self, new: &Reload, plan: &Plan) -> anyhow::Result<Vec<(usize, DealtPort)>> {
        let open = |at: &usize| {
            let options = new.ports.get(*at).context("a port without options")?;
            let policy = first_policy(new, *at);
            let opened = open_port(options, &policy, &self.places, None);
            let dealt = opened.and_then(|opened| self.deal(opened, &policy));
            Ok((*at, dealt.with_context(|| format!("port {}", options.name()))?))
        };
        plan.open.iter().map(open).collect()
    }

    /// Sets the MTUs of ports: of all, or of none.
    fn set_mtus(&self, set: &[(Named, u32)]) -> anyhow::Result<()> {
        let mut done: Vec<(&Mtu, u32)> = Vec::new();
        for (port, mtu) in set {
            let record = self.outside.iter().find(|old| old.id == port.id);
            let Some(there) = record.and_then(|old| old.mtu.as_ref()) else { continue };
            let before = there.get();
            if let Err(e) = there.set(*mtu) {
                for (there, before) in done {
                    if let Err(e) = there.set(before) {
                        tracing::warn!("an MTU stays as it was set: {e:#}");
                    }
                }
                return Err(e).with_context(|| format!("port {}: could not set mtu={mtu}", port.name));
            }
            done.push((there, before));
        }
        Ok(())
    }

    /// Writes down what a port or program may do now.
    fn note_policy(&mut self, id: ClientId, policy: Policy) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.policy = policy;
        } else if let Some(port) = self.outside.iter_mut().find(|port| port.id == id) {
            port.policy = policy;
        }
    }

    /// Closes a port that is no program, once what has come from it has been served.
    fn close_port(&mut self, id: ClientId) {
        let Some(at) = self.outside.iter().position(|port| port.id == id) else { return };
        let port = self.outside.remove(at);
        if let Some(interface) = port.name.strip_prefix("tap:") {
            kept::forget(interface, port.queues);
        }
        let (done, parts) = std::sync::mpsc::channel();
        for (at, worker) in self.workers.iter_mut().enumerate() {
            worker.remove(id, if at == port.home { port.queues.into() } else { 0 }, done.clone());
        }
        drop(done);
        parts.into_iter().for_each(drop); // workers hand it back after some polls; an interface goes with it
    }
}

/// What a port may do when it is opened: its mirror may be a port that is opened after it, and follows.
fn first_policy(new: &Reload, at: usize) -> Policy {
    Policy { mirror: None, ..new.policies.of_port(at).clone() }
}

/// A policy with the id of its mirror. Where it was made, that is a place in a list of ports.
fn placed(policy: &Policy, ports: &[PortOptions], there: &[Named]) -> Policy {
    let mut policy = policy.clone();
    if let Some(mirror) = &mut policy.mirror {
        let name = ports.get((mirror.to - FIRST_OUTSIDE) as usize).map(PortOptions::name);
        let port = there.iter().find(|port| Some(&port.name) == name.as_ref());
        mirror.to = port.map_or(ClientId::MAX, |port| port.id);
    }
    policy
}
