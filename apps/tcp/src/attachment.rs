//! The attachment that the stacks of one `open_many` share, and what becomes of it when the NIC ends.
//!
//! To attach to the next NIC takes the queue pairs of all stacks at once, and each stack belongs to a thread of its own. So a stack that
//! sees the end of the NIC hands in its queue pair. Once all are there, whoever comes by tries to attach them to what listens at the same
//! socket now, and then each takes its own back. Connections keep their state meanwhile; TCP sends again what was lost.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ccnic_client::{Error as NicError, Nic, QueuePair, Takes};
use ccnic_control::offloads::Taken;

use crate::error::Error;

/// Between two attempts.
pub(crate) const RETRY: Duration = Duration::from_millis(10);

/// The attachment of all stacks on one NIC.
#[derive(Debug)]
pub(crate) struct Attachment {
    shared: Mutex<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// By queue: queue pairs that no stack has. (They go before the region does.)
    pairs: Vec<Option<QueuePair>>,
    nic: Nic,
    /// The NIC that they were handed in for has a successor: they may be taken back.
    attached: bool,
    /// When to try again.
    next: Instant,
}

impl Attachment {
    pub(crate) fn new(nic: Nic) -> Attachment {
        let pairs = (0..nic.config().queues).map(|_| None).collect();
        Attachment { shared: Mutex::new(Shared { pairs, nic, attached: true, next: Instant::now() }) }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lends the NIC.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Nic) -> R) -> R {
        f(&mut self.shared().nic)
    }

    /// Takes a stack's queue pair if the NIC has ended.
    pub(crate) fn hand_in_if_gone(&self, queue: u16, pair: &mut Option<QueuePair>) {
        let mut shared = self.shared();
        if !shared.nic.alive() {
            shared.attached = false;
            shared.pairs[usize::from(queue)] = pair.take();
        }
    }

    /// Gives a stack's queue pair back, and what the NIC takes, once the NIC has a successor.
    ///
    /// # Errors
    /// There is a successor, and it does not serve this program.
    pub(crate) fn take_back(&self, queue: u16) -> Result<Option<(QueuePair, Takes)>, Error> {
        let shared = &mut *self.shared();
        if !shared.attached && shared.pairs.iter().all(Option::is_some) && Instant::now() >= shared.next {
            let outcome = shared.nic.reconnect(shared.pairs.iter_mut().flatten(), []);
            shared.next = Instant::now() + RETRY;
            match outcome {
                Ok(_) => shared.attached = true,
                Err(
                    e @ (NicError::Refused { .. }
                    | NicError::Protocol { .. }
                    | NicError::NoRss
                    | NicError::NoFlows
                    | NicError::Flow { .. }),
                ) => return Err(e.into()),
                Err(_) => {} // none is there yet, or it has ended again, or memory is short just now
            }
        }
        let pair = shared.pairs[usize::from(queue)].take_if(|_| shared.attached);
        Ok(pair.map(|pair| (pair, takes(&shared.nic))))
    }

    /// The end of a stack: `retire` returns its buffers to its queue pair, which stays here so that others can go on with the next NIC.
    pub(crate) fn leave(&self, queue: u16, pair: Option<QueuePair>, retire: impl FnOnce(&mut QueuePair)) {
        let mut shared = self.shared();
        let slot = &mut shared.pairs[usize::from(queue)];
        if let Some(pair) = pair {
            *slot = Some(pair);
        }
        if let Some(pair) = slot {
            retire(pair);
            pair.retire();
        }
    }
}

/// What may be left to a NIC.
pub(crate) fn takes(nic: &Nic) -> Takes {
    nic.offloads().map_or(Takes::NONE, |does| Taken::takes(&does.takes))
}
