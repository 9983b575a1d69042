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
use crate::ports::pcap::PcapPort;
use crate::ports::program::ProgramPort;
use crate::ports::tap::TapPort;
use crate::ports::xdp::XdpPort;
use crate::ports::{OutsidePort, PortOptions};
use crate::switch::outside::SwitchedOutside;
use crate::switch::places::Place;
use crate::switch::policy::{Policy, Rules};
use crate::switch::program::SwitchedProgram;
use crate::switch::{Member, SwitchPort};

/// The queues of a region with these numbers, in ascending order, as what one worker polls. (A switch has all of a region's queues. Its port
/// keeps `place`, and is held to `policy`; `takes` says what the program takes as it is.)
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
    takes: &Arc<AtomicU32>,
) -> anyhow::Result<Part> {
    let part = layout.config().design.dispatch(Attaching {
        region,
        layout,
        numbers,
        kind: options.dataplane,
        tuning: options.tuning.tuning,
        rules: Rules::new(policy).context(NO_MEMORY)?,
        place,
        takes,
    });
    part.context("could not open its queues")?
}

pub(super) const NO_MEMORY: &str = "no memory for what its policy looks into";

/// Opens a port that is no program; returns what a worker polls, the name of its kind, and the number of its queues. Its port of the switch keeps
/// `place`, and is held to `policy`.
///
/// # Errors
/// Which step failed, and what to do.
pub(super) fn open_port(
    options: &PortOptions,
    policy: &Policy,
    place: &Arc<Place>,
) -> anyhow::Result<(Part, &'static str, u16)> {
    let rules = Rules::new(policy).context(NO_MEMORY)?;
    match options {
        PortOptions::Tap(options) => {
            let port = SwitchedOutside::new(TapPort::open(options)?, rules, Arc::clone(place));
            Ok((joined(port, place), "tap", options.queues))
        }
        PortOptions::Xdp(options) => {
            let port = XdpPort::open(options)?;
            let (design, queues) = (port.design(), OutsidePort::queues(&port) as u16);
            let port = SwitchedOutside::new(port, rules, Arc::clone(place));
            Ok((joined(port, place), design, queues))
        }
        PortOptions::Pcap(options) => {
            let port = SwitchedOutside::new(PcapPort::open(options)?, rules, Arc::clone(place));
            Ok((joined(port, place), "pcap", 1))
        }
    }
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
    takes: &'a Arc<AtomicU32>,
}

impl RingVisitor for Attaching<'_> {
    type Output = Result<anyhow::Result<Part>, QueueError>;

    fn visit<R: Ring>(self) -> Self::Output {
        let Attaching { region, layout, numbers, kind, tuning, rules, place, takes } = self;
        let queues = numbers.len();
        let mut port = ProgramPort::<R>::new(region, layout, numbers)?;
        port.set_tuning(tuning);
        if let DataplaneKind::Switch(_) = kind {
            let mut port = SwitchedProgram::new(port, queues, rules, Arc::clone(place));
            let outcome = port.complete_for(Arc::clone(takes)).context("no memory for what others request");
            return Ok(outcome.map(|()| joined(port, place)));
        }
        let dataplane = RssLoopback::new(&port, queues, kind == DataplaneKind::Reflect);
        Ok(Ok(Part::Apart(Box::new(Attachment::new(port, dataplane)))))
    }
}
