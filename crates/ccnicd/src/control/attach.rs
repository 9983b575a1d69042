//! From a region, or the options of another port, to what a worker polls.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use anyhow::Context;
use ccnic::ring::{Ring, RingVisitor};
use ccnic::{Layout, QueueError, Tuning};
use ccnic_shm::Region;

use super::DaemonOptions;
use crate::dataplane::rss::RssLoopback;
use crate::dataplane::{Attachment, DataplaneKind};
use crate::poll::client::Part;
use crate::ports::latency::Latency;
use crate::ports::pcap::{Hold, PcapPort};
use crate::ports::program::ProgramPort;
use crate::ports::tap::{Mtu, TapPort};
use crate::ports::xdp::{Helped, XdpPort};
use crate::ports::{OutsidePort, PortOptions};
use crate::switch::outside::SwitchedOutside;
use crate::switch::places::{Place, Places};
use crate::switch::policy::{Policy, Rules};
use crate::switch::program::SwitchedProgram;
use crate::switch::{Member, SwitchPort};

/// What the control thread and the workers of a program have in common.
#[derive(Debug)]
pub(super) struct Shared {
    /// What the program takes of what others request: [`Takes::bits`](ccnic_frame::Takes::bits).
    pub(super) takes: Arc<AtomicU32>,
    /// How long its packets take.
    pub(super) latency: Arc<Latency>,
}

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
    place: &Arc<Place>,
    shared: &Shared,
) -> anyhow::Result<Part> {
    let part = layout.config().design.dispatch(Attaching {
        region,
        layout,
        numbers,
        kind: options.dataplane,
        tuning: options.tuning.tuning,
        rules: Rules::new(policy).context(NO_MEMORY)?,
        place,
        shared,
    });
    part.context("could not open its queues")?
}

pub(super) const NO_PLACE: &str =
    "the switch has 256 ports, and all are taken; detach a program or start another ccnicd";

pub(super) const NO_MEMORY: &str = "no memory for what its policy looks into";

/// A port that has been opened.
pub(super) struct OpenedPort {
    /// What a worker polls.
    pub(super) part: Part,
    /// The name of its kind.
    pub(super) kind: &'static str,
    pub(super) queues: u16,
    /// Its MTU, where that can change.
    pub(super) mtu: Option<Mtu>,
    /// Its place in the switch.
    pub(super) place: Arc<Place>,
    /// Of a port that replays: it begins when this is dropped.
    pub(super) hold: Option<Hold>,
}

/// Opens a port that is no program, at one of `places`. It is held to `policy`. A helper may have been asked before.
///
/// # Errors
/// Which step failed, and what to do.
pub(super) fn open_port(
    options: &PortOptions,
    policy: &Policy,
    places: &Places,
    helped: Option<Helped>,
) -> anyhow::Result<OpenedPort> {
    let rules = Rules::new(policy).context(NO_MEMORY)?;
    let place = places.take().context(NO_PLACE)?;
    let mut hold = None;
    let (part, kind, queues, mtu) = match options {
        PortOptions::Tap(options) => {
            let port = TapPort::open(options)?;
            let mtu = Some(port.mtu());
            (outside(port, rules, &place), "tap", options.queues, mtu)
        }
        PortOptions::Xdp(options) => {
            let port = XdpPort::open(options, helped)?;
            let (kind, queues) = (port.design(), OutsidePort::queues(&port) as u16);
            (outside(port, rules, &place), kind, queues, None)
        }
        PortOptions::Pcap(options) => {
            let mut port = PcapPort::open(options)?;
            hold = Some(port.hold());
            (outside(port, rules, &place), "pcap", 1, None)
        }
    };
    Ok(OpenedPort { part, kind, queues, mtu, place, hold })
}

/// Such a port, at its place in the switch.
fn outside(port: impl OutsidePort + 'static, rules: Option<Box<Rules>>, place: &Arc<Place>) -> Part {
    joined(SwitchedOutside::new(port, rules, Arc::clone(place)), place)
}

/// A port at its place in the switch.
fn joined(port: impl SwitchPort + 'static, place: &Place) -> Part {
    Part::Joined(place.at(), Member::Home(Box::new(port), None))
}

struct Attaching<'a> {
    region: &'a Region,
    layout: &'a Layout,
    numbers: Vec<u16>,
    kind: DataplaneKind,
    tuning: Tuning,
    rules: Option<Box<Rules>>,
    place: &'a Arc<Place>,
    shared: &'a Shared,
}

impl RingVisitor for Attaching<'_> {
    type Output = Result<anyhow::Result<Part>, QueueError>;

    fn visit<R: Ring>(self) -> Self::Output {
        let Attaching { region, layout, numbers, kind, tuning, rules, place, shared } = self;
        let queues = numbers.len();
        let mut port = ProgramPort::<R>::new(region, layout, numbers)?;
        port.set_tuning(tuning);
        if let DataplaneKind::Switch(_) = kind {
            let mut port = SwitchedProgram::new(port, queues, rules, Arc::clone(place));
            port.show_latency(Arc::clone(&shared.latency));
            port.complete_for(Arc::clone(&shared.takes));
            return Ok(Ok(joined(port, place)));
        }
        let mut dataplane = RssLoopback::new(&port, queues, kind == DataplaneKind::Reflect);
        dataplane.show_latency(Arc::clone(&shared.latency));
        Ok(Ok(Part::Apart(Box::new(Attachment::new(port, dataplane)))))
    }
}
