//! A daemon that is set up as far as takes more rights than it keeps: its socket is bound, its TAP interfaces are made, it is connected to
//! helpers. No thread has been started yet, so that the process can confine itself (`sandbox`).

use std::collections::BTreeMap;

use anyhow::Context;
use ccnic_control::{Bound, Listener};

use super::attach::{OpenedPort, open_port};
use super::plane::ControlPlane;
use super::{Daemon, DaemonOptions, VERSION};
use crate::config::Running;
use crate::ports::xdp::{Helped, XdpOptions};
use crate::ports::{PortOptions, kept};
use crate::sandbox::Sandbox;
use crate::switch::places::Places;

/// Ports that have been opened before the daemon was confined.
#[derive(Default)]
pub(super) struct EarlyPorts {
    /// By their place in the list of ports.
    opened: BTreeMap<usize, OpenedPort>,
    /// Helpers that have been asked for what such ports are made of, by the ports' places.
    helped: BTreeMap<usize, Helped>,
    /// Of the ports in the switch.
    pub(super) places: Places,
}

impl EarlyPorts {
    fn open(options: &DaemonOptions) -> anyhow::Result<EarlyPorts> {
        let mut early = EarlyPorts::default();
        for (at, port) in options.ports.iter().enumerate() {
            match port {
                PortOptions::Tap(_) => {
                    let opened = early.take(at, options)?;
                    early.opened.insert(at, opened);
                }
                PortOptions::Xdp(XdpOptions { name, helper: Some(helper), .. }) => {
                    let helped = Helped::connect(helper, name);
                    early.helped.insert(at, helped.with_context(|| options.said_port(at))?);
                }
                _ => {}
            }
        }
        Ok(early)
    }

    /// The port at this place: one that is open, or it is opened now.
    pub(super) fn take(&mut self, at: usize, options: &DaemonOptions) -> anyhow::Result<OpenedPort> {
        if let Some(opened) = self.opened.remove(&at) {
            return Ok(opened);
        }
        let port = options.ports.get(at).context("no such port")?;
        open_port(port, options.policies.of_port(at), &self.places, self.helped.remove(&at))
            .with_context(|| options.said_port(at))
    }
}

/// A daemon that has its socket and TAP interfaces, and no threads.
pub struct Prepared {
    socket: Bound,
    ports: EarlyPorts,
    options: DaemonOptions,
    running: Option<Running>,
}

impl Prepared {
    pub(super) fn new(options: DaemonOptions, running: Option<Running>) -> anyhow::Result<Prepared> {
        let socket = Listener::bind(&options.socket, &options.access);
        let socket = socket.with_context(|| options.said.socket.clone())?;
        let ports = EarlyPorts::open(&options)?;
        kept::forget_others();
        Ok(Prepared { socket, ports, options, running })
    }

    /// Opens the other ports, starts the workers, and answers programs as soon as it [runs](Daemon::run). `sandbox` is what the process has
    /// confined itself to.
    ///
    /// # Errors
    /// When a port cannot be opened, or the system refuses a thread.
    pub fn start(self, sandbox: Option<Sandbox>) -> anyhow::Result<Daemon> {
        let Prepared { socket, ports, options, running } = self;
        let limits = options.limits.clone();
        let mut plane = ControlPlane::new(options, running, ports, sandbox)?;
        let listener = Listener::serve(socket, limits)?;
        plane.quotas = Some(listener.quotas());
        let options = plane.options();
        let (socket, cores, wire) = (options.socket.display(), &options.cores, options.dataplane.name());
        tracing::info!(target: "ccnicd::control", %socket, ?cores, wire, "ccnicd {VERSION} is ready");
        Ok(Daemon { listener, plane })
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("options", &self.options).finish_non_exhaustive()
    }
}
