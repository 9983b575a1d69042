//! What becomes of packets at the port that they are for, while somebody captures.
//!
//! The port gets them as it would without a capture, and says which it has dropped. So a capture changes nothing of what is delivered.
//!
//! What is dropped later, by the kernel behind a port or by a disk that is too slow, has arrived.

use ccnic::Desc;
use ccnic::nic::{FETCH, Origin};
use ccnic_control::ClientId;
use ccnic_control::capture::Reason;
use ccnic_shm::NativeMemory;

use super::capture::Captures;
use super::complete::Completer;
use super::port::SwitchPort;
use crate::ports::only_counted;

/// Of the packets of a burst, by descriptor: why they were dropped, if they were.
type Fates = [Option<Reason>; FETCH];

impl Captures {
    /// Has a port receive packets, which lie where `from` says, and captures them with what becomes of them. `client`: whose port it is.
    pub(super) fn receive(
        &mut self,
        now: u64,
        client: ClientId,
        port: &mut dyn SwitchPort,
        from: &Origin<'_, NativeMemory>,
        (packets, ahead): (&[Desc], &[Desc]),
        completer: &mut Completer,
    ) {
        if !self.see_arrivals(client, true) {
            return port.receive(from, packets, ahead, &mut only_counted, completer);
        }
        let (mut fates, mut some) = (Fates::default(), false);
        let mut lose = |lost: &[Desc], why| {
            some = true;
            mark(&mut fates, packets, lost, why);
        };
        port.receive(from, packets, ahead, &mut lose, completer);
        if self.see_arrivals(client, some) {
            let ends = packets.iter().zip(fates).filter(|(desc, _)| !desc.more());
            self.went(now, client, from.mem, packets, ends.map(|(_, why)| why));
        }
    }
}

/// Notes why some packets of a burst were lost. A port may have changed their metadata, but it has not moved them. (Two with the same bytes
/// are as good as each other.)
fn mark(fates: &mut Fates, packets: &[Desc], lost: &[Desc], why: Reason) {
    for lost in lost {
        let same = |desc: &Desc| desc.with_meta(lost.meta) == *lost;
        let mut all = packets.iter().zip(fates.iter_mut());
        let found = all.find(|(desc, fate)| fate.is_none() && same(desc));
        found.into_iter().for_each(|(_, fate)| *fate = Some(why));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;
    use std::sync::mpsc::sync_channel;

    use ccnic_control::capture::{CHUNK_HEADER, CaptureReader, CaptureRequest, Direction};

    use super::super::capture::{CHUNKS, Capture, Chunk, Missed};
    use super::super::policy::{Policy, Rate};
    use super::super::policy_tests::net::{Net, frame, none};

    /// What a capture says: port, direction, reason.
    type Seen = Vec<(u64, Direction, Option<&'static str>)>;

    /// What becomes of packets while somebody captures, and what that says.
    fn captured(net: &mut Net, port: Option<u64>, drops: bool, send: impl FnOnce(&mut Net)) -> Seen {
        let ((full_in, full), (give, empty)) = (sync_channel(CHUNKS), sync_channel(CHUNKS));
        (0..CHUNKS).for_each(|_| give.send(Chunk { bytes: vec![0; CHUNK_HEADER], core: 0 }).unwrap());
        let request = CaptureRequest { port, snap: 64, drops, rate: 0 };
        let missed = Missed::default();
        net.switch.switches[0].capture(Box::new(Capture::new(
            7,
            &request,
            empty,
            full_in,
            Missed::clone(&missed),
        )));
        send(net);
        drop(net.switch.switches[0].end_capture(7)); // what has waited is handed over
        let sealed = full.try_iter().map(|mut chunk| {
            chunk.seal(0);
            chunk.bytes
        });
        let stream: Vec<u8> = sealed.flatten().collect();
        let (mut reader, mut seen) = (CaptureReader::new(&stream[..]), Vec::new());
        while let Some((about, bytes)) = reader.next_packet().unwrap() {
            assert_eq!(bytes[..12], frame(1, 0, 64)[..12]);
            seen.push((about.port, about.direction, about.dropped));
        }
        assert_eq!(missed.load(Relaxed), 0);
        seen
    }

    /// What a capture says of three packets to a port that may receive one.
    fn seen(port: Option<u64>, drops: bool) -> Seen {
        let slow = Policy { receives: Rate::of_packets(Some(1)), ..none() };
        let mut net = Net::new([none(), slow, none()]);
        net.cast(1, &frame(255, 1, 64));
        captured(&mut net, port, drops, |net| {
            let got = net.burst(0, vec![(frame(1, 0, 64), 0); 3]);
            assert_eq!((got[1].len(), net.count(1).drop_rate), (1, 2));
        })
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

    /// Part of a burst takes as much of a ring as all of it does.
    #[test]
    fn a_port_gets_bursts_whole_whoever_captures_them() {
        use Direction::{In, Out};
        let burst =
            || [60, 64, 64, 5000, 9000].repeat(3).into_iter().map(|len| (frame(1, 0, len), 0)).collect();
        for (port, drops) in [(None, false), (None, true), (Some(1), false), (Some(1), true)] {
            for room in [None, Some(0), Some(7), Some(15)] {
                let mut net = Net::new([none(), none(), none()]);
                net.cast(1, &frame(255, 1, 64));
                let cable = net.cables[1].clone();
                *cable.room.lock().unwrap() = room;
                let took = |net: &mut Net| {
                    cable.publications.lock().unwrap().clear();
                    let got = net.burst(0, burst());
                    (got, cable.publications.lock().unwrap().clone())
                };
                let alone = took(&mut net);
                let mut beside = None;
                let seen = captured(&mut net, port, drops, |net| beside = Some(took(net)));
                assert_eq!(Some(alone), beside, "{port:?} {drops} {room:?}");
                let room = room.unwrap_or(15);
                let out = seen.iter().filter(|(at, way, _)| (*at, *way) == (1, Out));
                let reasons: Vec<_> = out.map(|(_, _, dropped)| *dropped).collect();
                let (taken, lost) = (vec![None; room], vec![Some("drop_ring_full"); 15 - room]);
                let expected = match (port, drops) {
                    (None, false) => vec![],
                    (None, true) => lost,
                    (_, false) => taken,
                    _ => [taken, lost].concat(),
                };
                assert_eq!(reasons, expected);
                let came = seen.iter().filter(|seen| **seen == (0, In, None)).count();
                assert_eq!(came, if port.is_none() { 15 } else { 0 });
            }
        }
    }
}
