//! Where the threads on queue pairs spend their time: in the interface or in the store.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Context;
use super::stats::put;

/// Where the threads on queue pairs spend their time, in polls that have brought a frame.
#[derive(Debug, Default)]
pub struct InterfaceTime {
    /// Datagrams with requests.
    pub requests: AtomicUsize,
    /// Nanoseconds of those polls.
    pub busy_ns: AtomicUsize,
    /// Replies with a value that was not copied.
    pub uncopied: AtomicUsize,
    /// Requests for which the store's time was taken.
    pub sampled: AtomicUsize,
    /// It, in nanoseconds.
    pub sampled_ns: AtomicUsize,
}

impl InterfaceTime {
    /// `stats`, once there is something to tell.
    pub(super) fn tell(&self, context: &mut Context<'_, '_>) {
        let named = [
            ("nic_requests", &self.requests),
            ("nic_uncopied", &self.uncopied),
            ("nic_busy_ns", &self.busy_ns),
            ("nic_sampled", &self.sampled),
            ("nic_sampled_store_ns", &self.sampled_ns),
        ];
        if self.requests.load(Ordering::Relaxed) > 0 {
            for (name, counter) in named {
                put(context, name, counter.load(Ordering::Relaxed));
            }
        }
    }

    /// `stats reset`
    pub(super) fn reset(&self) {
        let all = [&self.requests, &self.uncopied, &self.busy_ns, &self.sampled, &self.sampled_ns];
        all.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
    }
}
