//! From a region to what a worker polls.

use ccnic::ring::{Ring, RingVisitor};
use ccnic::{Layout, QueueError, Tuning};
use ccnic_shm::Region;

use super::DaemonOptions;
use crate::dataplane::rss::RssLoopback;
use crate::dataplane::{Attachment, DataplaneKind};
use crate::poll::Client;
use crate::ports::program::ProgramPort;

/// The queues of a region with these numbers, in ascending order, as a client of one worker.
///
/// # Errors
/// When the region has no such queue.
pub(super) fn attach(
    region: &Region,
    layout: &Layout,
    numbers: Vec<u16>,
    options: &DaemonOptions,
) -> Result<Box<dyn Client>, QueueError> {
    layout.config().design.dispatch(Attaching {
        region,
        layout,
        numbers,
        kind: options.dataplane,
        tuning: options.tuning.tuning,
    })
}

struct Attaching<'a> {
    region: &'a Region,
    layout: &'a Layout,
    numbers: Vec<u16>,
    kind: DataplaneKind,
    tuning: Tuning,
}

impl RingVisitor for Attaching<'_> {
    type Output = Result<Box<dyn Client>, QueueError>;

    fn visit<R: Ring>(self) -> Self::Output {
        let Attaching { region, layout, numbers, kind, tuning } = self;
        let queues = numbers.len();
        let mut port = ProgramPort::<R>::new(region, layout, numbers)?;
        port.set_tuning(tuning);
        let dataplane = RssLoopback::new(&port, queues, kind == DataplaneKind::Reflect);
        Ok(Box::new(Attachment::new(port, dataplane)))
    }
}
