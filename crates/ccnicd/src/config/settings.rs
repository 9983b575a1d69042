//! What a configuration comes to: everything that was left out has its default, and what does not go together is refused.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ccnic_control::{ClientId, Limits, UserLimits};

use super::policy::{MirrorConfig, PolicyConfig};
use super::{Config, Text, User, WireName, Within};
use crate::control::users::uid_of;
use crate::control::{DaemonOptions, FIRST_OUTSIDE, default_socket};
use crate::dataplane::DataplaneKind;
use crate::ports::PortOptions;
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
            ports,
            sleep_after: self.sleep_after()?,
            ..DaemonOptions::new(socket, self.cores.clone(), dataplane, self.limits()?)
        })
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
        let says = !self.programs.is_empty() || self.defaults != PolicyConfig::default();
        ensure!(
            !says || matches!(dataplane, DataplaneKind::Switch(_)),
            "[[program]] and [defaults] are a switch's, and there is none: say wire = \"switch\", too"
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
        let operators = operators.unwrap_or_else(Limits::default_operators);
        let region_max = self.region_max.map_or(REGION_MAX, |mib| mib.get() as u32) << MIB;
        Ok(Limits { region_max, memory_max, user, trusted_users, operators })
    }
}

/// Microseconds: programs that wait must see what came before the NIC slept (`ccnic::notify`), and waking takes ten.
const SLEEP_LEAST: u64 = 100;
/// MiB of the largest region, if nothing is said.
const REGION_MAX: u32 = 1280;
