//! From a region to what a worker polls.

use ccnic::ring::{Ring, RingVisitor};
use ccnic::{Layout, QueueError};
use ccnic_shm::Region;

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
    kind: DataplaneKind,
) -> Result<Box<dyn Client>, QueueError> {
    layout.config().design.dispatch(Attaching { region, layout, numbers, kind })
}

struct Attaching<'a> {
    region: &'a Region,
    layout: &'a Layout,
    numbers: Vec<u16>,
    kind: DataplaneKind,
}

impl RingVisitor for Attaching<'_> {
    type Output = Result<Box<dyn Client>, QueueError>;

    fn visit<R: Ring>(self) -> Self::Output {
        let Attaching { region, layout, numbers, kind } = self;
        let queues = numbers.len();
        let port = ProgramPort::<R>::new(region, layout, numbers)?;
        let dataplane = RssLoopback::new(&port, queues, kind == DataplaneKind::Reflect);
        Ok(Box::new(Attachment::new(port, dataplane)))
    }
}
