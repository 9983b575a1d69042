//! From a region, or the options of another port, to what a worker polls.

use std::sync::Arc;

use anyhow::Context;
use ccnic::ring::{Ring, RingVisitor};
use ccnic::{Layout, QueueError, Tuning};
use ccnic_shm::Region;

use super::DaemonOptions;
use crate::dataplane::rss::RssLoopback;
use crate::dataplane::{Attachment, DataplaneKind};
use crate::poll::client::Part;
use crate::ports::pcap::PcapPort;
use crate::ports::program::ProgramPort;
use crate::ports::tap::{Mtu, TapPort};
use crate::ports::xdp::XdpPort;
use crate::ports::{OutsidePort, PortOptions};
use crate::switch::outside::SwitchedOutside;
use crate::switch::policy::{Policy, Rules};
use crate::switch::program::SwitchedProgram;

/// The queues of a region with these numbers, in ascending order, as what one worker polls. (A switch has all of a region's queues. Its port
/// keeps `place`, and is held to `policy`.)
///
/// # Errors
/// When the region has no such queue, or there is no memory for what the policy needs.
pub(super) fn attach(
    region: &Region,
    layout: &Layout,
    numbers: Vec<u16>,
    options: &DaemonOptions,
    policy: &Policy,
    place: &Arc<()>,
) -> anyhow::Result<Part> {
    let part = layout.config().design.dispatch(Attaching {
        region,
        layout,
        numbers,
        kind: options.dataplane,
        tuning: options.tuning.tuning,
        rules: Rules::new(policy).context(NO_MEMORY)?,
        place,
    });
    part.context("could not open its queues")
}

const NO_MEMORY: &str = "no memory for what its policy looks into";

/// A port that has been opened.
pub(super) struct OpenedPort {
    /// What a worker polls.
    pub(super) part: Part,
    /// The name of its kind.
    pub(super) kind: &'static str,
    pub(super) queues: u16,
    /// Its MTU, where that can change.
    pub(super) mtu: Option<Mtu>,
}

/// Opens a port that is no program. Its port of the switch keeps `place`, and is held to `policy`.
///
/// # Errors
/// Which step failed, and what to do.
pub(super) fn open_port(
    options: &PortOptions,
    policy: &Policy,
    place: &Arc<()>,
) -> anyhow::Result<OpenedPort> {
    let rules = Rules::new(policy).context(NO_MEMORY)?;
    match options {
        PortOptions::Tap(options) => {
            let port = TapPort::open(options)?;
            let mtu = Some(port.mtu());
            let part = Part::Port(Box::new(SwitchedOutside::new(port, rules, Arc::clone(place))));
            Ok(OpenedPort { part, kind: "tap", queues: options.queues, mtu })
        }
        PortOptions::Xdp(options) => {
            let port = XdpPort::open(options)?;
            let (kind, queues) = (port.design(), OutsidePort::queues(&port) as u16);
            let part = Part::Port(Box::new(SwitchedOutside::new(port, rules, Arc::clone(place))));
            Ok(OpenedPort { part, kind, queues, mtu: None })
        }
        PortOptions::Pcap(options) => {
            let port = PcapPort::open(options)?;
            let part = Part::Port(Box::new(SwitchedOutside::new(port, rules, Arc::clone(place))));
            Ok(OpenedPort { part, kind: "pcap", queues: 1, mtu: None })
        }
    }
}

struct Attaching<'a> {
    region: &'a Region,
    layout: &'a Layout,
    numbers: Vec<u16>,
    kind: DataplaneKind,
    tuning: Tuning,
    rules: Option<Box<Rules>>,
    place: &'a Arc<()>,
}

impl RingVisitor for Attaching<'_> {
    type Output = Result<Part, QueueError>;

    fn visit<R: Ring>(self) -> Self::Output {
        let Attaching { region, layout, numbers, kind, tuning, rules, place } = self;
        let queues = numbers.len();
        let mut port = ProgramPort::<R>::new(region, layout, numbers)?;
        port.set_tuning(tuning);
        if let DataplaneKind::Switch(_) = kind {
            return Ok(Part::Port(Box::new(SwitchedProgram::new(port, queues, rules, Arc::clone(place)))));
        }
        let dataplane = RssLoopback::new(&port, queues, kind == DataplaneKind::Reflect);
        Ok(Part::Apart(Box::new(Attachment::new(port, dataplane))))
    }
}
