//! Why one side of a queue pair cannot be made.

use core::fmt;

use crate::config::Design;
use crate::layout::{Layout, QueueLayout};
use crate::ring::Ring;

/// Why a queue pair cannot be opened, on the host's side or the NIC's.
///
/// ```
/// use ccnic::{Config, Layout, QueueError, heap::HeapMemory, host, ring::GroupedEpoch};
///
/// let layout = Layout::new(&Config::default())?;
/// let mem = HeapMemory::new(layout.size());
/// let error = host::QueuePair::<_, GroupedEpoch>::new(mem, &layout, 3).unwrap_err();
/// assert_eq!(error, QueueError::NoQueue { queue: 3, queues: 1 });
/// # Ok::<(), ccnic::ConfigError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueError {
    /// The region has fewer queue pairs.
    NoQueue {
        /// The number asked for.
        queue: u16,
        /// Queue pairs of the region: numbers 0 to `queues - 1` exist.
        queues: u16,
    },
    /// The region's rings are of another type.
    WrongDesign {
        /// The ring type asked for.
        asked: Design,
        /// The design of the region.
        has: Design,
    },
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueueError::NoQueue { queue, queues } => {
                write!(f, "queue {queue} does not exist: the region has {queues}")
            }
            QueueError::WrongDesign { asked, has } => {
                write!(f, "the region's rings are of design {}, not {}", has.name(), asked.name())
            }
        }
    }
}

impl core::error::Error for QueueError {}

/// The layout of queue pair `queue`, if the region has it and its rings are of type `R`.
pub(crate) fn queue_layout<R: Ring>(layout: &Layout, queue: u16) -> Result<QueueLayout, QueueError> {
    let config = layout.config();
    if config.design != R::DESIGN {
        return Err(QueueError::WrongDesign { asked: R::DESIGN, has: config.design });
    }
    layout.queue(queue).ok_or(QueueError::NoQueue { queue, queues: config.queues })
}
