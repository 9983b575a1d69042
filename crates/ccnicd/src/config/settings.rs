//! What a configuration comes to: everything that was left out has its default, and what does not go together is refused.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ccnic_control::{ClientId, Limits, Quota, SocketAccess, UserLimits};

use super::policy::MirrorConfig;
use super::{Config, FileMode, Text, User, WireName, Within};
use crate::control::users::{gid_of, uid_of};
use crate::control::{DaemonOptions, FIRST_OUTSIDE, default_socket};
use crate::dataplane::DataplaneKind;
use crate::flow::ConfiguredFlows;
use crate::ports::PortOptions;
use crate::sandbox::{Account, Needs, SandboxOptions};
use crate::switch::TableLimits;
use crate::switch::policy::{Policies, ProgramPolicy};

impl Config {
    /// What it comes to. CPUs that are not said are not chosen yet, and of the tuning nothing is known.
    ///
    /// # Errors
    /// What does not go together, and what to do.
    pub fn settle(&self) -> anyhow::Result<DaemonOptions> {
        let ports: Vec<PortOptions> = self.ports.iter().map(|port| port.options.clone()).collect();
        let dataplane = self.dataplane()?;
        DaemonOptions::check_ports(dataplane, &ports)?;
        let socket = self.socket.clone().unwrap_or_else(default_socket);
        Ok(DaemonOptions {
            policies: self.policies(dataplane)?,
            flows: self.flows()?,
            ports,
            sleep_after: self.sleep_after()?,
            access: self.access()?,
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

    /// `--user`: whom the daemon becomes.
    ///
    /// # Errors
    /// When there is no such user or group.
    pub fn account(&self) -> anyhow::Result<Option<Account>> {
        let account = self.user.as_deref().map(str::parse).transpose();
        account.context("--user names nobody")
    }

    /// `--sandbox`: what the daemon does to itself.
    pub fn sandbox(&self) -> SandboxOptions {
        self.sandbox.map_or_else(SandboxOptions::default, |Text(sandbox)| sandbox)
    }

    /// `--socket-mode`, `--socket-owner`, `--socket-group`.
    fn access(&self) -> anyhow::Result<SocketAccess> {
        let owner =
            self.socket_owner.as_deref().map(uid_of).transpose().context("--socket-owner names nobody")?;
        let group =
            self.socket_group.as_deref().map(gid_of).transpose().context("--socket-group names nothing")?;
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
                    "--reflect is the loopback's: a switch copies packets from one program's memory to another's"
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
            policy.with_context(|| format!("port {}", port.options.name()))
        };
        let program = |(at, program): (usize, &super::ProgramConfig)| {
            let policy = program.policy.or(&self.defaults).settle(|mirror| self.mirror(mirror, None));
            let policy = policy.with_context(|| format!("program {}", at + 1))?;
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
        Ok(flows)
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
            "sleep-after is {microseconds}: choose {SLEEP_LEAST} microseconds or more, or 0 to poll all the time"
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

    /// What programs may take.
    fn limits(&self) -> anyhow::Result<Limits> {
        const MIB: u32 = 20;
        let memory_max = self.memory_max.map_or_else(Limits::half_the_memory, |mib| mib.get() << MIB);
        let count = |n: Option<Within<1, { super::U32_MAX }>>, default| n.map_or(default, |n| n.get() as u32);
        let user = UserLimits {
            connections: count(self.user_connections, UserLimits::CONNECTIONS),
            programs: count(self.user_programs, UserLimits::PROGRAMS),
            queues: count(self.user_queues, UserLimits::QUEUES),
            memory: self.user_memory.map_or(UserLimits::within(memory_max).memory, |mib| mib.get() << MIB),
        };
        let uids = |users: &[String]| users.iter().map(|user| uid_of(user)).collect::<Result<Vec<_>, _>>();
        let trusted_users = uids(&self.trusted_users).context("--trusted-users names nobody")?;
        let operators =
            self.operators.as_deref().map(uids).transpose().context("--operators names nobody")?;
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
