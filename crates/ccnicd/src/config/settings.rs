//! What a configuration comes to: everything that was left out has its default, and what does not go together is refused.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ccnic_control::{ClientId, Limits, Quota, SocketAccess, UserLimits};

use super::policy::MirrorConfig;
use super::{Config, FileMode, FlowConfig, ProgramConfig, ReservedName, Text, User, WireName, Within};
use crate::control::users::{gid_of, uid_of};
use crate::control::{DaemonOptions, FIRST_OUTSIDE, Said, default_socket};
use crate::dataplane::DataplaneKind;
use crate::flow::ConfiguredFlows;
use crate::ports::PortOptions;
use crate::sandbox::{Account, Needs, SandboxOptions};
use crate::switch::policy::{Policies, ProgramPolicy};
use crate::switch::{MAX_PORTS, Reserved, TableLimits};

impl Config {
    /// What it comes to. CPUs that are not said are not chosen yet, and of the tuning nothing is known.
    ///
    /// # Errors
    /// What does not go together, and what to do.
    pub fn settle(&self) -> anyhow::Result<DaemonOptions> {
        let ports: Vec<PortOptions> = self.ports.iter().map(|port| port.options.clone()).collect();
        let dataplane = self.dataplane()?;
        self.check_ports(dataplane, &ports)?;
        self.check_programs()?;
        let socket = self.socket.clone().unwrap_or_else(default_socket);
        Ok(DaemonOptions {
            policies: self.policies(dataplane)?,
            flows: self.flows()?,
            ports,
            reserved: match self.reserved.unwrap_or_default() {
                ReservedName::Drop => Reserved::Drop,
                ReservedName::Forward => Reserved::Forward,
            },
            sleep_after: self.sleep_after()?,
            access: self.access()?,
            said: self.said_of_ports(),
            ..DaemonOptions::new(socket, self.cores.clone(), dataplane, self.limits()?)
        })
    }

    /// What the daemon needs at run time, where `options` are what this comes to and `file` is what it reads again.
    pub fn needs(&self, file: Option<&Path>, options: &DaemonOptions) -> Needs {
        Needs {
            config: file.map(Path::to_owned),
            ports: options.ports.clone(),
            later_ports: self.later_ports.clone(),
            later_paths: self.later_paths.clone(),
        }
    }

    /// How the operator has said the socket, and each port.
    fn said_of_ports(&self) -> Said {
        let names = self.ports.iter().map(super::PortConfig::name);
        Said { socket: self.said("socket"), ports: self.said_entries("port", names) }
    }

    /// Whether there can be these ports.
    fn check_ports(&self, dataplane: DataplaneKind, ports: &[PortOptions]) -> anyhow::Result<()> {
        let names: Vec<_> = ports.iter().map(PortOptions::name).collect();
        let said = |at: usize| self.said_entry("port", at, names.get(at).map_or("", String::as_str));
        ensure!(
            ports.is_empty() || matches!(dataplane, DataplaneKind::Switch(_)),
            "{} is a port of a switch, and there is none: say {}, too",
            said(0),
            self.would_say("wire", "switch")
        );
        ensure!(
            ports.len() < MAX_PORTS,
            "{}: a switch has {MAX_PORTS} ports, and {} are given: leave some for programs",
            said(MAX_PORTS - 1),
            ports.len()
        );
        for (at, name) in names.iter().enumerate() {
            let twice = names.iter().take(at).any(|other| other == name);
            ensure!(!twice, "{} is given twice: leave one of them out", said(at));
        }
        Ok(())
    }

    /// Whether each entry for programs can count: the first that fits does.
    fn check_programs(&self) -> anyhow::Result<()> {
        let covers = |first: &ProgramConfig, one: &ProgramConfig| {
            (first.name.is_none() || first.name == one.name)
                && (first.user.is_none() || first.user == one.user)
        };
        for (at, one) in self.programs.iter().enumerate() {
            if let Some(first) = self.programs.iter().take(at).position(|first| covers(first, one)) {
                bail!(
                    "{} never counts: number {} fits all of its programs, and comes first; put it before that one, or leave it out",
                    self.said_entry("program", at, &format!("number {}", at + 1)),
                    first + 1
                );
            }
        }
        Ok(())
    }

    /// `--user`: whom the daemon becomes.
    ///
    /// # Errors
    /// When there is no such user or group.
    pub fn account(&self) -> anyhow::Result<Option<Account>> {
        let account = self.user.as_deref().map(str::parse).transpose();
        account.with_context(|| self.said("user"))
    }

    /// `--sandbox`: what the daemon does to itself.
    pub fn sandbox(&self) -> SandboxOptions {
        self.sandbox.map_or_else(SandboxOptions::default, |Text(sandbox)| sandbox)
    }

    /// `--socket-mode`, `--socket-owner`, `--socket-group`.
    fn access(&self) -> anyhow::Result<SocketAccess> {
        let owner = self.socket_owner.as_deref().map(uid_of).transpose();
        let owner = owner.with_context(|| self.said("socket-owner"))?;
        let group = self.socket_group.as_deref().map(gid_of).transpose();
        let group = group.with_context(|| self.said("socket-group"))?;
        let owner = owner.or(self.account()?.map(|account| account.uid));
        Ok(SocketAccess { mode: self.socket_mode.map(|Text(FileMode(mode))| mode), owner, group })
    }

    /// `--wire`, with what belongs to it.
    fn dataplane(&self) -> anyhow::Result<DataplaneKind> {
        let default = TableLimits::default();
        let limits = TableLimits {
            addresses: self.mac_table.map_or(default.addresses, |n| n.get() as usize),
            per_port: self.mac_port.map_or(default.per_port, |n| n.get() as u32),
            ageing: self.mac_ageing.map_or(default.ageing, |n| n.get() as u32),
        };
        Ok(match (self.wire.unwrap_or_default(), self.reflect) {
            (WireName::Loopback, false) => DataplaneKind::Loopback,
            (WireName::Loopback, true) => DataplaneKind::Reflect,
            (WireName::Switch, false) => DataplaneKind::Switch(limits),
            (WireName::Switch, true) => {
                bail!(
                    "{} is the loopback's: a switch copies packets from one program's memory to another's; leave it out",
                    self.said("reflect")
                )
            }
        })
    }

    fn policies(&self, dataplane: DataplaneKind) -> anyhow::Result<Policies> {
        let policies = self.programs.iter().map(|program| &program.policy).chain([&self.defaults]);
        let says = policies.into_iter().any(|policy| !policy.is_empty());
        ensure!(
            !says || matches!(dataplane, DataplaneKind::Switch(_)),
            "[defaults] and the policy of a [[program]] are a switch's, and there is none: say wire = \"switch\", too"
        );
        let port = |(at, port): (usize, &super::PortConfig)| {
            let policy = port.policy().or(&self.defaults).settle(|mirror| self.mirror(mirror, Some(at)));
            policy.with_context(|| self.said_entry("port", at, &port.name()))
        };
        let program = |(at, program): (usize, &super::ProgramConfig)| {
            let policy = program.policy.or(&self.defaults).settle(|mirror| self.mirror(mirror, None));
            let policy =
                policy.with_context(|| self.said_entry("program", at, &format!("number {}", at + 1)))?;
            let uid = program.user.map(|Text(User(uid))| uid);
            Ok(ProgramPolicy { name: program.name.clone(), uid, policy: (!program.refuse).then_some(policy) })
        };
        Ok(Policies {
            ports: self.ports.iter().enumerate().map(port).collect::<anyhow::Result<_>>()?,
            programs: self.programs.iter().enumerate().map(program).collect::<anyhow::Result<_>>()?,
            others: self.defaults.settle(|mirror| self.mirror(mirror, None)).context("defaults")?,
        })
    }

    /// `[[flow]]`.
    fn flows(&self) -> anyhow::Result<ConfiguredFlows> {
        let flows: anyhow::Result<_> = self.flows.iter().map(|flow| flow.get_ref().settle()).collect();
        let flows = ConfiguredFlows(flows?);
        if let Err((at, why)) = flows.check() {
            let place = self.flows.get(at).map(|flow| self.place(flow.span().start)).unwrap_or_default();
            bail!("{place}flow: {why}");
        }
        let covered = (0..self.flows.len()).find_map(|at| Some((at, self.covers_flow(at)?)));
        if let Some((at, first)) = covered {
            bail!(
                "{} is never followed: number {} is about all of its packets, and is followed first; put it before that one, give it a \
                 lower priority, or leave it out",
                self.said_entry("flow", at, &format!("number {}", at + 1)),
                first + 1
            );
        }
        Ok(flows)
    }

    /// The rule that is followed for all packets which the rule at this place is about, whatever queues the program has.
    fn covers_flow(&self, at: usize) -> Option<usize> {
        let one = self.flows.get(at)?.get_ref();
        let rank = |at: usize, flow: &FlowConfig| (flow.priority.unwrap_or(0), at);
        self.flows.iter().enumerate().position(|(other, flow)| {
            let flow = flow.get_ref();
            rank(other, flow) < rank(at, one) && flow.queue.is_none() && flow.is_about_all_of(one)
        })
    }

    /// The port that is the mirror of the port at this place, or of a program.
    fn mirror(&self, mirror: &MirrorConfig, of: Option<usize>) -> anyhow::Result<ClientId> {
        let name = mirror.to.get_ref();
        let place = self.place(mirror.to.span().start);
        let at = self.ports.iter().position(|port| port.options.name() == *name);
        let Some(at) = at else {
            let names: Vec<_> = self.ports.iter().map(|port| port.options.name()).collect();
            let there = if names.is_empty() { "there is none".to_owned() } else { names.join(", ") };
            bail!(
                "{place}mirror.to = {name:?} is no port: add a [[port]], or name one of those there are ({there})"
            );
        };
        ensure!(of != Some(at), "{place}mirror.to = {name:?} is the port itself: name another");
        Ok(FIRST_OUTSIDE + at as ClientId)
    }

    /// `--sleep-after`.
    fn sleep_after(&self) -> anyhow::Result<Option<Duration>> {
        let Some(microseconds) = self.sleep_after.map(Within::get) else {
            return Ok(Some(DaemonOptions::SLEEP_AFTER));
        };
        ensure!(
            microseconds == 0 || microseconds >= SLEEP_LEAST,
            "{}: choose {SLEEP_LEAST} microseconds or more, or 0 to poll all the time",
            self.said("sleep-after")
        );
        Ok((microseconds > 0).then(|| Duration::from_micros(microseconds)))
    }

    /// Root, and the user that the daemon runs as once it is set up.
    fn default_operators(&self) -> anyhow::Result<Vec<u32>> {
        let own = self.account()?.map(|account| vec![0, account.uid]);
        let mut operators = own.unwrap_or_else(Limits::default_operators);
        operators.dedup();
        Ok(operators)
    }

    /// Whether each limit that was said can be reached, where one that it is part of was said, too.
    fn check_limits(&self) -> anyhow::Result<()> {
        let mib = |n: Option<Within<1, { super::MIB_MAX }>>| n.map(Within::get);
        let count = |n: Option<Within<1, { super::U32_MAX }>>| n.map(Within::get);
        let (memory_max, user_memory) = (mib(self.memory_max), mib(self.user_memory));
        let region_max = self.region_max.map(Within::get);
        let quotas = self.programs.iter().enumerate();
        let quotas = quotas.map(|(at, program)| (format!("program.{at}.memory"), mib(program.memory)));
        let pairs = [
            ("user-memory", user_memory, "memory-max", memory_max),
            ("region-max", region_max, "memory-max", memory_max),
            ("region-max", region_max, "user-memory", user_memory),
            ("user-programs", count(self.user_programs), "user-connections", count(self.user_connections)),
            ("user-programs", count(self.user_programs), "user-queues", count(self.user_queues)),
        ];
        let pairs = pairs.map(|(key, value, all, of)| (key.to_owned(), value, all, of));
        let quotas = quotas.flat_map(|(key, value)| {
            let of_all = (key.clone(), value, "memory-max", memory_max);
            [(key, value, "user-memory", user_memory), of_all]
        });
        for (key, value, all, of) in pairs.into_iter().chain(quotas) {
            let Some((value, of)) = value.zip(of) else { continue };
            ensure!(
                value <= of,
                "{} cannot be reached: {all} is {of}; lower it, or raise {all}",
                self.said(&key)
            );
        }
        Ok(())
    }

    /// What programs may take.
    fn limits(&self) -> anyhow::Result<Limits> {
        const MIB: u32 = 20;
        self.check_limits()?;
        let memory_max = self.memory_max.map_or_else(Limits::half_the_memory, |mib| mib.get() << MIB);
        let count = |n: Option<Within<1, { super::U32_MAX }>>, default| n.map_or(default, |n| n.get() as u32);
        let user = UserLimits {
            connections: count(self.user_connections, UserLimits::CONNECTIONS),
            programs: count(self.user_programs, UserLimits::PROGRAMS),
            queues: count(self.user_queues, UserLimits::QUEUES),
            memory: self.user_memory.map_or(UserLimits::within(memory_max).memory, |mib| mib.get() << MIB),
        };
        let uids = |users: &[String]| users.iter().map(|user| uid_of(user)).collect::<Result<Vec<_>, _>>();
        let trusted_users = uids(&self.trusted_users).with_context(|| self.said("trusted-users"))?;
        let operators = self.operators.as_deref().map(uids).transpose();
        let operators = operators.with_context(|| self.said("operators"))?;
        let operators = match operators {
            Some(operators) => operators,
            None => self.default_operators()?,
        };
        let region_max = self.region_max.map_or(REGION_MAX, |mib| mib.get() as u32) << MIB;
        let quota = |program: &super::ProgramConfig| Quota {
            name: program.name.clone(),
            uid: program.user.map(|Text(User(uid))| uid),
            memory: program.memory.map(|mib| mib.get() << MIB),
        };
        let quotas = self.programs.iter().map(quota).collect();
        Ok(Limits { region_max, memory_max, user, trusted_users, operators, quotas })
    }
}

/// Microseconds: programs that wait must see what came before the NIC slept (`ccnic::notify`), and waking takes ten.
const SLEEP_LEAST: u64 = 100;
/// MiB of the largest region, if nothing is said.
const REGION_MAX: u32 = 1280;
