//! A port to somewhere outside the daemon as a port of a switch.

use std::sync::Arc;

use ccnic::Desc;
use ccnic::nic::{FETCH, Origin};
use ccnic::rss::Spreader;
use ccnic_control::capture::Reason;
use ccnic_control::messages::QueueStatus;
use ccnic_frame::{Meta, Takes};
use ccnic_shm::{NativeMemory, timestamp};

use super::places::Place;
use super::policy::Rules;
use super::port::SwitchPort;
use super::{Completer, PortId, Sending, Switch};
use crate::ports::{Burst, Doze, Losses, Notify, OutsidePort, Statistics};

/// Bursts that are served when the port is closed, at most: more may come all the time.
const BACKLOG: usize = 64;

/// The longest time between two looks at a port that has nothing, in microseconds.
const LONGEST_WAIT: u64 = 32;

/// Any [`OutsidePort`], with what the switch has to know of it.
#[derive(Debug)]
pub struct SwitchedOutside<P> {
    port: P,
    /// What was fetched and not passed on.
    burst: Burst,
    /// By queue.
    sending: Vec<Sending>,
    pace: Pace,
    /// Packets to it that were dropped: what they request cannot be done.
    refused: u64,
    /// Until it joins a switch.
    rules: Option<Box<Rules>>,
    _place: Arc<Place>,
}

impl<P: OutsidePort> SwitchedOutside<P> {
    /// `rules` are what the operator has decided for it. The port keeps `place` for as long as it exists, so that its owner can count ports.
    pub fn new(port: P, rules: Option<Box<Rules>>, place: Arc<Place>) -> SwitchedOutside<P> {
        let sending = (0..port.queues()).map(|_| Sending::default()).collect();
        let pace = Pace::new(port.queues() as u32);
        SwitchedOutside { port, burst: Burst::default(), sending, pace, refused: 0, rules, _place: place }
    }

    /// Sends packets some of which request what the port, which takes complete packets only, does not.
    #[cold]
    #[inline(never)]
    fn send_completed(
        &mut self,
        from: &Origin<'_, NativeMemory>,
        packets: &[Desc],
        lost: &mut Losses<'_>,
        completer: &mut Completer,
    ) {
        for packet in packets.split_inclusive(|desc| !desc.more()) {
            let meta = Meta::from_word(packet.first().map_or(0, |desc| desc.meta));
            if Takes::NONE.covers(meta) {
                self.port.send(from, packet, lost);
                continue;
            }
            let (port, mut why) = (&mut self.port, None); // of any of its segments
            let done = completer.complete(from, packet, Takes::NONE, |from, packets| {
                port.send(from, packets, &mut |_, reason| why = Some(reason));
            });
            if done.is_err() {
                self.refused += 1;
                why = Some(Reason::BadOffload);
            }
            why.into_iter().for_each(|why| lost(packet, why));
        }
    }
}

impl<P: OutsidePort> SwitchPort for SwitchedOutside<P> {
    /// One look at most: it may cost a system call.
    fn spin(&mut self, at: PortId, _polls: usize, switch: &mut Switch) -> usize {
        if switch.has_others() {
            self.settle(at, switch);
            if self.burst.packets.is_empty() && !switch.is_settled(at) {
                return 0; // the memory of the burst is still being copied from
            }
        }
        let SwitchedOutside { port, burst, sending, pace, .. } = self;
        if burst.packets.is_empty() {
            let now = if port.looks_are_cheap() { 0 } else { timestamp() };
            if !pace.is_due(now) {
                return 0;
            }
            let read = port.fetch(burst, &|frame| switch.accepts(at, frame));
            if read == 0 {
                if !port.looks_are_cheap() {
                    pace.missed(now, switch.microsecond());
                }
                return 0;
            }
            pace.found();
            if burst.packets.is_empty() {
                return read; // all were dropped
            }
        }
        let Some(sending) = sending.get_mut(burst.queue) else { return 0 };
        if switch.has_others() && !switch.begin(at, burst.queue as u16) {
            return 0;
        }
        let few = burst.packets.rest().len() < FETCH / 8;
        let origin = Origin { mem: port.memory(), mtu: burst.longest, idle: few };
        let dealt = switch.forward(at, sending, &origin, burst.packets.rest(), &[]);
        burst.packets.advance(dealt.descs);
        dealt.moved()
    }

    fn receive(
        &mut self,
        from: &Origin<'_, NativeMemory>,
        packets: &[Desc],
        _ahead: &[Desc],
        lost: &mut Losses<'_>,
        completer: &mut Completer,
    ) {
        let said = || packets.iter().fold(0, |said, desc| said | desc.meta);
        if !self.port.takes_offloads() && said() & Takes::NONE.others() != 0 {
            self.send_completed(from, packets, lost, completer);
        } else {
            self.port.send(from, packets, lost);
        }
        self.pace.found(); // an answer may be there already
    }

    fn takes_offloads(&self) -> bool {
        self.port.takes_offloads()
    }

    fn lends(&self) -> (NativeMemory, u16) {
        (self.port.memory().clone(), u16::MAX)
    }

    /// Nothing is handed back: what is fetched next overwrites it.
    fn settle(&mut self, at: PortId, switch: &mut Switch) {
        let lost = switch.settle_handed(at, |_, _| {});
        self.sending.iter_mut().take(1).for_each(|first| first.counters.not_handed += lost);
    }

    fn take_rules(&mut self) -> Option<Box<Rules>> {
        self.rules.take()
    }

    fn round(&self) -> usize {
        1
    }

    fn sweep(&self) -> usize {
        self.sending.len()
    }

    fn backlog(&self) -> usize {
        BACKLOG
    }

    fn retire(&mut self) -> bool {
        false
    }

    fn doze(&self) -> Option<&dyn Doze> {
        if self.burst.packets.is_empty() { self.port.doze() } else { None }
    }

    fn notify(&mut self) -> Option<&mut dyn Notify> {
        None
    }

    fn set_rss(&mut self, _: Option<Arc<Spreader>>) {}
}

impl<P: Statistics> Statistics for SwitchedOutside<P> {
    fn report(&self) -> Vec<QueueStatus> {
        let mut queues = self.port.report();
        queues.iter_mut().zip(&self.sending).for_each(|(queue, sending)| sending.counters.add_to(queue));
        queues.iter_mut().take(1).for_each(|first| first.drop_bad_offload += self.refused);
        queues
    }
}

/// When to look next at a port where a look costs a system call. The longer nothing came, the longer it waits, up to
/// [`LONGEST_WAIT`]; after anything has moved, in either direction, it looks at once.
#[derive(Debug)]
struct Pace {
    queues: u32,
    /// Looks in a row that found nothing.
    empty: u32,
    due: u64,
}

impl Pace {
    fn new(queues: u32) -> Pace {
        Pace { queues, empty: 0, due: 0 }
    }

    #[inline(always)]
    fn is_due(&self, now: u64) -> bool {
        now >= self.due
    }

    fn found(&mut self) {
        (self.empty, self.due) = (0, 0);
    }

    /// The clock has so many ticks in a microsecond. All queues are looked at before it waits.
    fn missed(&mut self, now: u64, microsecond: u64) {
        self.empty = self.empty.saturating_add(1);
        let rounds = self.empty / self.queues.max(1);
        let wait = (1 << rounds.min(6) >> 1).min(LONGEST_WAIT);
        self.due = now.saturating_add(microsecond.saturating_mul(wait));
    }
}

#[cfg(test)]
mod tests {
    use crate::memory::RegionMemory;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use ccnic::SharedMemory;
    use ccnic::nic::gather;
    use ccnic_shm::{Pages, Region};

    use super::*;
    use crate::ports::Accepts;
    use crate::switch::TableLimits;
    use crate::switch::test_workers::Workers;

    /// A port whose other end the test holds. What comes from there has metadata 7 where it may.
    struct Fake {
        mem: NativeMemory,
        comes: Receiver<Vec<Vec<u8>>>,
        goes: Sender<(Vec<u8>, u64)>,
        takes: bool,
    }

    impl OutsidePort for Fake {
        fn queues(&self) -> usize {
            1
        }
        fn memory(&self) -> &NativeMemory {
            &self.mem
        }
        fn fetch(&mut self, burst: &mut Burst, accepts: &dyn Fn(&[u8]) -> Accepts) -> usize {
            let Ok(frames) = self.comes.try_recv() else { return 0 };
            let place = |(i, frame): (usize, &Vec<u8>)| {
                let at = 256 * i as u32;
                self.mem.write(at, frame);
                Desc::new(at, frame.len() as u16, 0).with_meta(if accepts(frame) == Accepts::ALL {
                    7
                } else {
                    0
                })
            };
            let descs: Vec<_> = frames.iter().enumerate().map(place).collect();
            burst.longest = 256;
            burst.packets.refill(&descs);
            frames.len()
        }
        fn send(&mut self, from: &Origin<'_, NativeMemory>, packets: &[Desc], _: &mut Losses<'_>) {
            for desc in packets {
                let mut frame = vec![0; desc.len().into()];
                gather(from.mem, &[*desc], &mut frame);
                self.goes.send((frame, desc.meta)).unwrap();
            }
        }
        fn takes_offloads(&self) -> bool {
            self.takes
        }
    }

    impl Statistics for Fake {
        fn report(&self) -> Vec<QueueStatus> {
            vec![QueueStatus::default()]
        }
    }

    /// The other end of a fake port.
    struct Cable {
        sends: Sender<Vec<Vec<u8>>>,
        receives: Receiver<(Vec<u8>, u64)>,
        at: PortId,
    }

    fn join(switch: &mut Workers, takes: bool) -> Cable {
        let ((sends, comes), (goes, receives)) = (channel(), channel());
        let mem = Region::create(64 << 10, Pages::Small).unwrap().memory();
        let port = SwitchedOutside::new(Fake { mem, comes, goes, takes }, None, Arc::default());
        let at = switch.join(1, Box::new(port)).ok().unwrap();
        Cable { sends, receives, at }
    }

    fn switch() -> Workers {
        let mut switch = Workers::new(TableLimits::default());
        switch.set_clock(1_000_000);
        switch
    }

    fn frame(to: u8, from: u8, number: u8) -> Vec<u8> {
        let mac = |n: u8| if n == 0xff { [0xff; 6] } else { [2, 0, 0, 0, 0, n] };
        [&mac(to)[..], &mac(from), &[0x88, 0xb5, number]].concat()
    }

    /// Four ports: a burst of floods is dealt with in several polls, before anything more is fetched.
    #[test]
    fn floods_take_several_polls_and_stay_in_order() {
        let mut switch = switch();
        let ports = [(); 4].map(|()| join(&mut switch, false));
        ports[0].sends.send((0..30).map(|n| frame(0xff, 1, n)).collect()).unwrap();
        ports[0].sends.send(vec![frame(0xff, 1, 30)]).unwrap();
        let moved: Vec<_> =
            std::iter::repeat_with(|| switch.spin(ports[0].at, 16)).take_while(|n| *n > 0).collect();
        assert_eq!(moved, [11, 11, 8, 1], "32 copies or a few more a poll");
        for port in &ports[1..] {
            assert!(port.receives.try_iter().map(|(frame, _)| frame[14]).eq(0..31));
        }
        assert!(ports[0].receives.try_recv().is_err());
        let status = switch.report(ports[0].at);
        assert_eq!((status[0].flooded, status[0].extra_copies), (31, 62));
    }

    #[test]
    fn requests_stay_with_packets_all_of_whose_receivers_take_them() {
        let mut switch = switch();
        let [a, b, plain] = [true, true, false].map(|takes| join(&mut switch, takes));
        let pass = |switch: &mut Workers, from: &Cable, frame: Vec<u8>| {
            from.sends.send(vec![frame]).unwrap();
            assert_eq!(switch.spin(from.at, 1), 1);
            let metas = [&a, &b, &plain]
                .map(|port| port.receives.try_iter().map(|(_, meta)| meta).collect::<Vec<_>>());
            metas.concat()
        };
        assert_eq!(pass(&mut switch, &b, frame(9, 2, 0)), [0, 0], "to all others, one of which takes none");
        assert_eq!(pass(&mut switch, &plain, frame(9, 3, 0)), [7, 7], "to all others, which take them");
        assert_eq!(pass(&mut switch, &a, frame(2, 1, 0)), [7]);
        assert_eq!(pass(&mut switch, &a, frame(3, 1, 0)), [0]);
        assert_eq!(pass(&mut switch, &a, frame(0xff, 1, 0)), [0, 0]);
        switch.leave(plain.at);
        assert_eq!(pass(&mut switch, &a, frame(0xff, 1, 0)), [7]);
    }

    #[test]
    fn a_port_that_has_nothing_is_looked_at_less_and_less_often() {
        let mut pace = Pace::new(2);
        let (mut now, mut waits) = (1000, Vec::new());
        for _ in 0..20 {
            assert!(pace.is_due(now));
            pace.missed(now, 10);
            let due = (now..).find(|tick| pace.is_due(*tick)).unwrap();
            waits.push(due - now);
            now = due;
        }
        assert_eq!(waits[..12], [0, 10, 10, 20, 20, 40, 40, 80, 80, 160, 160, 320]);
        assert!(waits[12..].iter().all(|wait| *wait == 10 * LONGEST_WAIT));
        pace.found();
        assert!(pace.is_due(now), "at once");
        pace.missed(now, 10);
        assert!(pace.is_due(now), "the other queue");
    }
}
