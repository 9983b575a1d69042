//! What the control thread and the queues' threads share: which programs are attached, their counters, notifiers on their way to
//! the queues.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccnic::nic::NicCounters;
use ccnic::rss::{Rss, Spreader};
use ccnic_control::messages::{Cursor, ProgramStatus, QueueStatus};
use ccnic_control::{ClientId, Notifier, Page};
use ccnic_frame::Takes;

/// A copy of a queue's counters for the control thread.
#[derive(Debug, Default)]
pub(crate) struct Published([AtomicUsize; 9]);

impl Published {
    /// Only the queue's thread calls this.
    #[inline(always)]
    pub(crate) fn set(&self, c: &NicCounters) {
        let values = [
            c.tx_packets,
            c.tx_bytes,
            c.rx_packets,
            c.rx_bytes,
            c.bad_descriptor,
            c.bad_chain,
            c.too_long,
            c.ring_full,
            c.no_buffer,
        ];
        for (to, value) in self.0.iter().zip(values) {
            to.store(value as usize, Ordering::Relaxed);
        }
    }

    fn status(&self, queue: u16) -> QueueStatus {
        let [
            tx_packets,
            tx_bytes,
            rx_packets,
            rx_bytes,
            bad_descriptor,
            bad_chain,
            too_long,
            ring_full,
            no_buffer,
        ] = self.0.each_ref().map(|value| value.load(Ordering::Relaxed) as u64);
        QueueStatus {
            queue,
            core: 0,
            tx_packets,
            tx_bytes,
            rx_packets,
            rx_bytes,
            drop_bad_descriptor: bad_descriptor,
            drop_bad_chain: bad_chain,
            drop_too_long: too_long,
            wait_ring_full: ring_full,
            wait_no_buffer: no_buffer,
            ..QueueStatus::default()
        }
    }
}

/// Hands something from the control thread to the queue's thread: what is there and has not been taken is replaced.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    full: AtomicBool,
    letter: Mutex<Option<T>>,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Mailbox<T> {
        Mailbox { full: AtomicBool::new(false), letter: Mutex::new(None) }
    }
}

impl<T> Mailbox<T> {
    fn letter(&self) -> MutexGuard<'_, Option<T>> {
        self.letter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Ordering::Acquire)
    }

    fn put(&self, letter: T) {
        *self.letter() = Some(letter);
        self.full.store(true, Ordering::Release);
    }

    #[cold]
    pub(crate) fn take(&self) -> Option<T> {
        self.full.store(false, Ordering::Relaxed);
        self.letter().take()
    }
}

/// How a program wants its packets spread; `None`: it does not.
pub(crate) type Steering = Option<Arc<Spreader>>;

/// What the control thread and a queue's thread share.
#[derive(Debug, Clone, Default)]
pub(crate) struct QueueLink {
    pub(crate) published: Arc<Published>,
    pub(crate) notifier: Arc<Mailbox<Notifier>>,
    pub(crate) steering: Arc<Mailbox<Steering>>,
}

/// What the control thread knows of a program.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: ClientId,
    pub(crate) name: String,
    pub(crate) pid: i32,
    design: &'static str,
    /// The NIC has accepted it and not released it.
    accepted: AtomicBool,
    /// What it takes of what the NIC requests: [`Takes::bits`].
    takes: AtomicU32,
    /// Its connection has ended.
    gone: AtomicBool,
    queues: Vec<QueueLink>,
}

impl Client {
    pub(crate) fn new(id: ClientId, name: String, pid: i32, design: &'static str, queues: u16) -> Client {
        let queues = (0..queues).map(|_| Default::default()).collect();
        Client {
            id,
            name,
            pid,
            design,
            accepted: AtomicBool::new(false),
            takes: AtomicU32::new(Takes::NONE.bits()),
            gone: AtomicBool::new(false),
            queues,
        }
    }

    pub(crate) fn accept(&self) {
        self.accepted.store(true, Ordering::Release);
    }

    pub(crate) fn takes(&self) -> Takes {
        Takes::from_bits(self.takes.load(Ordering::Relaxed))
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// What a queue's thread needs: where to publish its counters, and where its notifier and its RSS arrive.
    pub(crate) fn queue(&self, index: u16) -> Option<QueueLink> {
        self.queues.get(usize::from(index)).cloned()
    }

    /// Each queue's thread follows it from its next burst on.
    pub(crate) fn set_rss(&self, rss: Option<Rss>) {
        let steering = rss.map(|rss| Arc::new(Spreader::new(rss)));
        for queue in &self.queues {
            queue.steering.put(steering.clone());
        }
    }

    fn status(&self, shown: &Range<u16>) -> ProgramStatus {
        let queues = (0..).zip(&self.queues).filter(|(q, _)| shown.contains(q));
        let queues = queues.map(|(q, link)| link.published.status(q));
        ProgramStatus {
            id: self.id,
            name: self.name.clone(),
            pid: self.pid,
            design: self.design.to_owned(),
            rss: None,
            latency: None,
            memory: None,
            queues: queues.collect(),
        }
    }
}

/// The attached programs, in the order in which they attached. Clones are the same list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registry(Arc<Mutex<Vec<Arc<Client>>>>);

impl Registry {
    fn clients(&self) -> MutexGuard<'_, Vec<Arc<Client>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, client: Arc<Client>) {
        self.clients().push(client);
    }

    /// Removes a program that the NIC has released.
    pub(crate) fn remove(&self, id: ClientId) {
        self.clients().retain(|client| client.id != id);
    }

    /// True while a program is accepted and not released.
    pub(crate) fn any_accepted(&self) -> bool {
        self.clients().iter().any(|client| client.accepted.load(Ordering::Acquire))
    }

    /// A program's connection has ended.
    pub(crate) fn mark_gone(&self, id: ClientId) {
        for client in self.clients().iter().filter(|client| client.id == id) {
            client.gone.store(true, Ordering::Release);
        }
    }

    /// A program has said what it takes.
    pub(crate) fn set_takes(&self, id: ClientId, takes: Takes) {
        for client in self.clients().iter().filter(|client| client.id == id) {
            client.takes.store(takes.bits(), Ordering::Relaxed);
        }
    }

    /// A program has said how its packets are to be spread.
    pub(crate) fn set_rss(&self, id: ClientId, rss: Option<Rss>) {
        for client in self.clients().iter().filter(|client| client.id == id) {
            client.set_rss(rss.clone());
        }
    }

    /// Hands a notifier to the thread of a queue; gives false if there is no such program or queue.
    pub(crate) fn deliver(&self, id: ClientId, queue: u16, notifier: Notifier) -> bool {
        let clients = self.clients();
        let client = clients.iter().find(|client| client.id == id);
        let Some(link) = client.and_then(|client| client.queues.get(usize::from(queue))) else {
            return false;
        };
        link.notifier.put(notifier);
        true
    }

    /// The programs on the page that begins at `from`, and where the next one begins.
    pub(crate) fn status(&self, from: Cursor) -> (Vec<ProgramStatus>, Option<Cursor>) {
        let mut clients = self.clients().clone();
        clients.sort_unstable_by_key(|client| client.id);
        let queues = |client: &Client| u16::try_from(client.queues.len()).unwrap_or(u16::MAX);
        let page = Page::new(from, clients.iter().map(|client| (client.id, queues(client))));
        let shown = clients.iter().filter_map(|client| Some(client.status(&page.queues_of(client.id)?)));
        (shown.collect(), page.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_reach_the_status_under_their_names() {
        let published = Published::default();
        let mut counters = NicCounters::default();
        (counters.tx_packets, counters.tx_bytes, counters.rx_packets, counters.rx_bytes) = (1, 2, 3, 4);
        (counters.bad_descriptor, counters.bad_chain, counters.too_long) = (5, 6, 7);
        (counters.ring_full, counters.no_buffer) = (8, 9);
        published.set(&counters);
        let status = published.status(11);
        assert_eq!((status.queue, status.tx_packets, status.tx_bytes), (11, 1, 2));
        assert_eq!((status.rx_packets, status.rx_bytes), (3, 4));
        let drops = [status.drop_bad_descriptor, status.drop_bad_chain, status.drop_too_long];
        assert_eq!((drops, status.wait_ring_full, status.wait_no_buffer), ([5, 6, 7], 8, 9));
    }
}
