//! Token buckets, kept as time: a packet costs so many ticks of the clock, and what is owed goes down by a tick each tick.
//!
//! A bucket of `rate` units a second that holds what comes in in `burst` is full when nothing is owed, and empty when `burst` is owed. So
//! time is added up exactly, with a shift, and a charge is a multiplication: no division, and no drift however often or rarely the clock is
//! read. A packet may be sent when anything is left, whatever its length, so in any time T a bucket lets `rate * (T + burst)` units pass
//! and at most one packet more.
//!
//! What is over the limit waits at a port that sends, and is dropped at one that receives. TCP without a queue on its way finds no rate
//! between nothing and far too much: it sends until it loses, and begins anew when its retransmission timer has run out. Its packets are
//! super-packets of up to 64 KiB. So a bucket that drops gives TCP its rate only if it does not overflow in that pause
//! ([`Rate::dropping_burst`]).

use std::time::Duration;

/// Bits behind the point of times: a byte at 1 Tb/s costs 1/50 tick.
const FRACTION: u32 = 16;

/// More ticks are not looked at: the shift would lose them. 13 hours at 3 GHz.
const LONGEST: u64 = 1 << (63 - FRACTION);

/// What a port may send, or what may be sent to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Packets a second.
    pub packets: Option<u64>,
    /// Bits a second, of frames without checksum and preamble.
    pub bits: Option<u64>,
    /// A port that was silent may use up at once what it would have got in this time.
    pub burst: Duration,
}

impl Rate {
    /// The burst of a rate beyond which packets wait, if none is given: long beside the times between two looks at the clock, which are
    /// microseconds.
    pub const BURST: Duration = Duration::from_millis(10);

    /// The shortest burst of a rate beyond which packets are dropped, if none is given. Linux retransmits after 200 ms at the earliest
    /// (`TCP_RTO_MIN`).
    const PAUSE: Duration = Duration::from_millis(300);

    /// The least of bits in such a burst: four super-packets.
    const SUPER_PACKETS: u64 = 4 * 8 * (64 << 10);

    /// No limit.
    pub const NONE: Rate = Rate { packets: None, bits: None, burst: Rate::BURST };

    /// The burst of a rate beyond which packets are dropped, if none is given.
    pub fn dropping_burst(bits: Option<u64>) -> Duration {
        let super_packets = bits.map_or(0, |bits| Rate::SUPER_PACKETS * 1000 / bits.max(1));
        Rate::PAUSE.max(Duration::from_millis(super_packets))
    }

    /// So many packets a second.
    pub const fn of_packets(packets: Option<u64>) -> Rate {
        Rate { packets, ..Rate::NONE }
    }
}

impl Default for Rate {
    fn default() -> Rate {
        Rate::NONE
    }
}

/// One bucket.
#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    /// What a unit costs; 0: nothing, and so it is never empty.
    cost: u64,
    owed: u64,
}

impl Bucket {
    fn new(rate: Option<u64>, second: u64) -> Bucket {
        let cost = |rate: u64| ((u128::from(second) << FRACTION) / u128::from(rate.max(1))).max(1);
        Bucket { cost: rate.map_or(0, |rate| u64::try_from(cost(rate)).unwrap_or(u64::MAX)), owed: 0 }
    }
}

/// The buckets of one [`Rate`]: it lets pass what both let pass.
#[derive(Debug, Clone, Copy)]
pub(in crate::switch) struct Limiter {
    packets: Bucket,
    bytes: Bucket,
    /// An empty bucket owes so much.
    most: u64,
    /// When what is owed was brought up to date.
    at: u64,
}

impl Limiter {
    /// Full buckets, for a clock of so many ticks a second.
    pub(in crate::switch) fn new(rate: &Rate, second: u64) -> Limiter {
        let most = (rate.burst.as_nanos() * u128::from(second) / 1_000_000_000) << FRACTION;
        Limiter {
            packets: Bucket::new(rate.packets, second),
            bytes: Bucket::new(rate.bits.map(|bits| (bits / 8).max(1)), second),
            most: u64::try_from(most).unwrap_or(u64::MAX).max(1),
            at: 0,
        }
    }

    /// True when a packet may pass now.
    #[inline(always)]
    pub(in crate::switch) fn admits(&mut self, now: u64) -> bool {
        if now > self.at {
            let passed = (now - self.at).min(LONGEST - 1) << FRACTION;
            self.packets.owed = self.packets.owed.saturating_sub(passed);
            self.bytes.owed = self.bytes.owed.saturating_sub(passed);
            self.at = now;
        }
        self.packets.owed.max(self.bytes.owed) < self.most
    }

    /// True when a packet may pass now, which is charged for it: where only packets are counted.
    #[inline(always)]
    pub(in crate::switch) fn passes(&mut self, now: u64) -> bool {
        let admits = self.admits(now);
        if admits {
            self.charge(0);
        }
        admits
    }

    /// A packet of so many bytes has passed.
    #[inline(always)]
    pub(in crate::switch) fn charge(&mut self, bytes: u32) {
        self.packets.owed = self.packets.owed.saturating_add(self.packets.cost);
        self.bytes.owed = self.bytes.owed.saturating_add(self.bytes.cost.saturating_mul(bytes.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Ticks of a processor's clock in a second.
    const SECOND: u64 = 3_000_000_000;

    /// What passes in so many ticks, of a sender that always has packets of `bytes`, where the clock is read every `step` ticks.
    fn passes(rate: &Rate, second: u64, ticks: u64, step: u64, bytes: u32) -> u64 {
        let mut limiter = Limiter::new(rate, second);
        let (mut now, mut packets) = (1_000_000_000_000, 0);
        let end = now + ticks;
        while now < end {
            while limiter.admits(now) {
                limiter.charge(bytes);
                packets += 1;
            }
            now += step;
        }
        packets
    }

    /// Over a second, less the burst, by packets and by bytes, within a ten-thousandth and a packet.
    #[test]
    fn what_passes_is_what_was_set() {
        for (pps, step) in [(1, 1_000_000), (333, 50_000), (100_000, 48_001), (7_654_321, 50_000)] {
            let rate = Rate { packets: Some(pps), ..Rate::NONE };
            let expected = pps as f64 * 1.01; // a second and the burst
            let got = passes(&rate, SECOND, SECOND, step, 64) as f64;
            assert!(
                (got - expected).abs() <= expected * 1e-4 + 1.0 + pps as f64 * step as f64 / SECOND as f64,
                "{pps}: {got}"
            );
        }
        for (bps, bytes) in
            [(64_000, 1500), (1_000_000_000, 1500), (25_000_000_000, 9000), (10_000_000_000, 64)]
        {
            let rate = Rate { bits: Some(bps), ..Rate::NONE };
            let expected = bps as f64 * 1.01 / 8.0;
            let got = (passes(&rate, SECOND, SECOND, 48_000, bytes) * u64::from(bytes)) as f64;
            assert!(
                (got - expected).abs() <= expected * 2e-4 + f64::from(bytes),
                "{bps}: {got} of {expected}"
            );
        }
    }

    /// Bytes of TCP that pass in so many seconds: packets of at most `longest`, a round trip of 100 microseconds, Reno's window. Where
    /// something was lost and nothing behind it came, the sender waits for its timer: 200 ms, and twice as long each time again.
    fn tcp_passes(rate: &Rate, seconds: u64, longest: u32) -> u64 {
        const SEGMENT: u32 = 1448;
        let mut limiter = Limiter::new(rate, SECOND);
        let (start, round) = (SECOND, SECOND / 10_000);
        let (mut now, mut bytes, mut window, mut threshold, mut timeout) =
            (start, 0, 10 * SEGMENT, 1 << 22, SECOND / 5);
        while now < start + seconds * SECOND {
            let (mut left, mut lost, mut passed) = (window, false, 0);
            while left > 0 {
                let packet = left.min(longest);
                left -= packet;
                let admits = limiter.admits(now);
                if admits {
                    limiter.charge(packet);
                    passed += packet;
                }
                lost |= !admits;
            }
            bytes += u64::from(passed);
            now += round;
            if !lost {
                timeout = SECOND / 5;
                window = if window < threshold { 2 * window } else { window + SEGMENT }.min(1 << 22);
                continue;
            }
            threshold = (window / 2).max(2 * SEGMENT);
            window = SEGMENT;
            now += timeout;
            timeout = if passed > 0 { SECOND / 5 } else { 2 * timeout };
        }
        bytes
    }

    #[test]
    fn tcp_gets_its_rate_where_more_is_dropped() {
        for (bits, longest) in [1_000_000, 10_000_000, 100_000_000, 1_000_000_000]
            .into_iter()
            .flat_map(|bits| [1500, 65_535].map(|longest| (bits, longest)))
        {
            let burst = Rate::dropping_burst(Some(bits));
            let rate = Rate { packets: None, bits: Some(bits), burst };
            let (seconds, bytes) = (20, bits as f64 / 8.0);
            let got = tcp_passes(&rate, seconds, longest) as f64;
            let most = bytes * (seconds as f64 + burst.as_secs_f64() + 1e-3) + f64::from(longest);
            assert!(
                got > 0.95 * bytes * seconds as f64 && got <= most,
                "{bits} bits, packets of {longest}: {got}"
            );
        }
    }

    #[test]
    fn the_stricter_of_two_limits_holds() {
        let rate = Rate { packets: Some(1000), bits: Some(8_000_000), burst: Duration::from_millis(1) };
        assert_eq!(passes(&rate, SECOND, SECOND, 30_000, 100), 1001, "by packets");
        assert_eq!(
            passes(&rate, SECOND, SECOND, 30_000, 10_000),
            101,
            "by bits: a hundred, and one that began in credit"
        );
        let mut free = Limiter::new(&Rate::NONE, SECOND);
        (0..1000).for_each(|_| free.charge(u32::MAX));
        assert!(free.admits(0), "no limit");
    }

    #[test]
    fn a_burst_passes_at_once_after_silence_of_any_length() {
        let rate = Rate { packets: Some(1000), bits: None, burst: Duration::from_millis(50) };
        let mut limiter = Limiter::new(&rate, SECOND);
        for now in [SECOND, 2 * SECOND, 1 << 62, u64::MAX] {
            let passed = (0..1000).take_while(|_| {
                let admits = limiter.admits(now);
                limiter.charge(64);
                admits
            });
            assert_eq!(passed.count(), 50, "{now}");
        }
        assert!(!limiter.admits(0), "a clock that goes back gives nothing");
    }

    proptest! {
        /// However often the clock is read, and whatever the packets are like: never more than rate and burst allow, and one packet.
        #[test]
        fn never_more_than_allowed(
            bps in 8_000u64..1_000_000_000_000,
            burst_ms in 1u64..1000,
            script in prop::collection::vec((0u64..10_000_000, 14u32..65_000), 1..200),
        ) {
            let rate = Rate { packets: None, bits: Some(bps), burst: Duration::from_millis(burst_ms) };
            let mut limiter = Limiter::new(&rate, SECOND);
            let (mut now, mut bytes, mut longest) = (SECOND, 0u64, 0);
            for (step, len) in script {
                now += step;
                if limiter.admits(now) {
                    limiter.charge(len);
                    bytes += u64::from(len);
                    longest = longest.max(len);
                }
            }
            let time = (now - SECOND) as f64 / SECOND as f64 + burst_ms as f64 / 1e3;
            prop_assert!(bytes as f64 <= bps as f64 / 8.0 * time * 1.001 + f64::from(longest));
        }
    }
}
