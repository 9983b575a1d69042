//! What becomes of packets at the port that they are for, while somebody captures.
//!
//! A port takes what it has room for and counts the rest: it does not say which packets these were. So it gets them one by one here, and its
//! counters are looked at after each. That is slow, and only done for packets that are captured: not beyond the rate of a capture.
//!
//! What is dropped later, by the kernel behind a port or by a disk that is too slow, has arrived.

use ccnic::Desc;
use ccnic::nic::Origin;
use ccnic_control::ClientId;
use ccnic_control::capture::Reason;
use ccnic_shm::NativeMemory;

use super::capture::Captures;
use super::port::SwitchPort;

/// Packets that a port has dropped, for each of [`Reason::OF_RECEIVERS`].
type Dropped = [u64; Reason::OF_RECEIVERS.len()];

fn dropped(port: &dyn SwitchPort) -> Dropped {
    let queues = port.report();
    Reason::OF_RECEIVERS.map(|reason| reason.count(&queues))
}

impl Captures {
    /// Has a port receive packets, which lie where `from` says, and captures them with what becomes of them. `client`: whose port it is.
    pub(super) fn receive(
        &mut self,
        now: u64,
        client: ClientId,
        port: &mut dyn SwitchPort,
        from: &Origin<'_, NativeMemory>,
        (packets, ahead): (&[Desc], &[Desc]),
    ) {
        if self.is_empty() {
            return port.receive(from, packets, ahead);
        }
        if !self.watch(now, client) {
            port.receive(from, packets, ahead);
            return self.went(now, client, from.mem, packets, None); // beyond the rate of whoever sees them: they are counted
        }
        let mut before = dropped(port);
        for packet in packets.split_inclusive(|desc| !desc.more()) {
            port.receive(from, packet, &[]);
            let after = dropped(port);
            let reasons = Reason::OF_RECEIVERS.iter().zip(before.iter().zip(&after));
            let why = reasons.into_iter().find(|(_, (before, after))| before != after);
            self.went(now, client, from.mem, packet, why.map(|(reason, _)| *reason));
            before = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use ccnic_control::capture::{CHUNK_HEADER, CaptureReader, CaptureRequest, Direction};

    use super::super::capture::{CHUNKS, Capture, Chunk};
    use super::super::policy::{Policy, Rate};
    use super::super::policy_tests::net::{Net, frame, none};

    /// What a capture says of three packets to a port that may receive one: port, direction, reason.
    fn seen(port: Option<u64>, drops: bool) -> Vec<(u64, Direction, Option<&'static str>)> {
        let slow = Policy { receives: Rate::of_packets(Some(1)), ..none() };
        let mut net = Net::new([none(), slow, none()]);
        net.cast(1, &frame(255, 1, 64));
        let ((full_in, full), (give, empty)) = (sync_channel(CHUNKS), sync_channel(CHUNKS));
        (0..CHUNKS).for_each(|_| give.send(Chunk { bytes: vec![0; CHUNK_HEADER], core: 0 }).unwrap());
        let request = CaptureRequest { port, snap: 64, drops, rate: 0 };
        net.switch.switches[0].capture(Box::new(Capture::new(7, &request, empty, full_in)));
        let got = net.burst(0, vec![(frame(1, 0, 64), 0); 3]);
        assert_eq!((got[1].len(), net.count(1).drop_rate), (1, 2));
        drop(net.switch.switches[0].end_capture(7)); // what has waited is handed over
        let stream: Vec<u8> = full.try_iter().flat_map(|chunk| chunk.bytes).collect();
        let (mut reader, mut seen) = (CaptureReader::new(&stream[..]), Vec::new());
        while let Some((about, bytes)) = reader.next_packet().unwrap() {
            assert_eq!(bytes, frame(1, 0, 64));
            seen.push((about.port, about.direction, about.dropped));
        }
        assert_eq!(reader.missed(), 0);
        seen
    }

    #[test]
    fn what_a_port_may_not_receive_is_seen_with_its_reason() {
        use Direction::{In, Out};
        let (came, lost) = ((0, In, None), (1, Out, Some("drop_rate")));
        assert_eq!(seen(None, false), [came; 3]);
        assert_eq!(seen(None, true), [came, came, came, lost, lost]);
        assert_eq!(seen(Some(1), false), [(1, Out, None)]);
        let mut all = seen(Some(1), true);
        all.sort_by_key(|(_, _, dropped)| dropped.is_some());
        assert_eq!(all, [(1, Out, None), lost, lost]);
        assert_eq!(seen(Some(2), true), []);
    }
}
