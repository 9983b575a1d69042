//! From a region to what a worker polls.

use ccnic::ring::{Doorbell, GroupedClear, GroupedEpoch, Packed, Padded, Ring};
use ccnic::{Design, Layout};
use ccnic_shm::Region;

use crate::dataplane::rss::Rss;
use crate::dataplane::{Attachment, Kind};
use crate::poll::Client;
use crate::ports::program::ProgramPort;

/// The queues of a region with these numbers, in ascending order, as a client of one worker. `None` when the region has no such queue.
pub(super) fn attach(
    region: &Region,
    layout: &Layout,
    numbers: Vec<u16>,
    dataplane: Kind,
) -> Option<Box<dyn Client>> {
    fn of<R: Ring>(region: &Region, layout: &Layout, numbers: Vec<u16>, kind: Kind) -> Option<Box<dyn Client>>
    where
        ProgramPort<R>: Send,
    {
        let queues = numbers.len();
        let port = ProgramPort::<R>::new(region, layout, numbers)?;
        let dataplane = Rss::new(&port, queues, kind == Kind::Reflect);
        Some(Box::new(Attachment::new(port, dataplane)))
    }
    match layout.config().design {
        Design::GroupedEpoch => of::<GroupedEpoch>(region, layout, numbers, dataplane),
        Design::GroupedClear => of::<GroupedClear>(region, layout, numbers, dataplane),
        Design::Packed => of::<Packed>(region, layout, numbers, dataplane),
        Design::Padded => of::<Padded>(region, layout, numbers, dataplane),
        Design::Doorbell => of::<Doorbell>(region, layout, numbers, dataplane),
    }
}
