//! A server with a rate that many share: one direction of a link, the memory of a socket.
//!
//! Capacity is kept in short bins of time instead of one "busy until" time, because requests do not arrive in order of their
//! times: a message whose sending time is known early must not delay messages that are sent before it. Queueing begins when a
//! bin is full.

use super::time::Ps;

/// Length of a bin.
const BIN: Ps = 16_000;
/// Bins ahead that are remembered: 65 microseconds.
const BINS: usize = 4096;

/// A server with a rate: each piece of work takes its service time, one after the other.
#[derive(Debug)]
pub struct Server {
    /// For each bin, its number since the start of time and how much of it is taken.
    bins: Vec<(u64, Ps)>,
    /// Service time handed out in all.
    busy: Ps,
}

impl Default for Server {
    fn default() -> Server {
        Server { bins: vec![(0, 0); BINS], busy: 0 }
    }
}

impl Server {
    /// Serves work that arrives at `at` and takes `service`; returns when it is done.
    pub fn serve(&mut self, at: Ps, service: Ps) -> Ps {
        self.busy += service;
        let mut left = service;
        let mut number = at / BIN;
        loop {
            let (stored, used) = &mut self.bins[number as usize % BINS];
            if *stored != number {
                (*stored, *used) = (number, 0);
            }
            // Work that came before us in this bin is done first; what came in an earlier bin has its own.
            let start = at.max(number * BIN + *used);
            let take = left.min(BIN - *used);
            *used += take;
            left -= take;
            if left == 0 {
                return start + take;
            }
            number += 1;
        }
    }

    /// The share of capacity taken shortly before `at`.
    pub fn load(&self, at: Ps) -> f64 {
        const LOOK_BACK: u64 = 8;
        let now = at / BIN;
        let used: Ps = (now.saturating_sub(LOOK_BACK)..now)
            .map(|n| self.bins[n as usize % BINS])
            .zip(now.saturating_sub(LOOK_BACK)..now)
            .map(|((stored, used), n)| if stored == n { used } else { 0 })
            .sum();
        used as f64 / (LOOK_BACK * BIN) as f64
    }

    /// Service time handed out so far.
    pub fn busy(&self) -> Ps {
        self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_server_adds_its_service_time_only() {
        let mut s = Server::default();
        assert_eq!(s.serve(1_000_000, 500), 1_000_500);
        assert_eq!(s.serve(9_000_003, 500), 9_000_503);
    }

    #[test]
    fn work_at_the_same_time_queues() {
        let mut s = Server::default();
        let done: Vec<Ps> = (0..100).map(|_| s.serve(32_000, 500)).collect();
        assert_eq!((done[0], done[1], done[99]), (32_500, 33_000, 32_000 + 100 * 500));
    }

    #[test]
    fn what_is_known_early_does_not_hold_up_what_comes_before() {
        let mut s = Server::default();
        s.serve(900_000, 16_000);
        assert_eq!(s.serve(100_000, 500), 100_500);
    }

    #[test]
    fn work_longer_than_a_bin_takes_its_time() {
        let mut s = Server::default();
        assert_eq!(s.serve(0, 100_000), 100_000);
        assert_eq!(s.serve(0, 100_000), 200_000);
        assert_eq!(s.busy(), 200_000);
    }

    #[test]
    fn the_rate_is_never_exceeded() {
        let mut s = Server::default();
        let last = (0..10_000).map(|i| s.serve(i * 400, 500)).max().unwrap();
        assert!((5_000_000..5_020_000).contains(&last), "{last}");
        assert!(s.load(3_000_000) > 0.99);
    }
}
