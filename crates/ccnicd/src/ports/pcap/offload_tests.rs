//! Every offload against a port that takes none: what is recorded is complete, of a port and of a mirror, whatever the sender has requested.

use std::sync::mpsc::{Sender, channel};

use ccnic::nic::Origin;
use ccnic::{Desc, SharedMemory};
use ccnic_control::messages::QueueStatus;
use ccnic_frame::{Checksum, Headers, L3, Meta, Segmentation, Tci, checksum, vlan};
use ccnic_shm::{NativeMemory, Pages, Region};

use super::tests::read;
use super::{PcapOptions, PcapPort};
use crate::memory::RegionMemory;
use crate::ports::{Accepts, Burst, Losses, OutsidePort, Statistics};
use crate::switch::outside::SwitchedOutside;
use crate::switch::policy::{Mirror, Policy, Rules};
use crate::switch::{Member, PortId, Switch, SwitchPort, TableLimits};

/// Sends what the test says, with requests, as a program does: whatever receivers take.
struct Source {
    mem: NativeMemory,
    sends: std::sync::mpsc::Receiver<(Vec<u8>, Meta)>,
}

impl OutsidePort for Source {
    fn queues(&self) -> usize {
        1
    }
    fn memory(&self) -> &NativeMemory {
        &self.mem
    }
    fn fetch(&mut self, burst: &mut Burst, _: &dyn Fn(&[u8]) -> Accepts) -> usize {
        let Ok((frame, meta)) = self.sends.try_recv() else { return 0 };
        self.mem.write(0, &frame);
        let parts = frame.len().div_ceil(4096);
        let part = |at: usize| {
            let len = (frame.len() - at * 4096).min(4096) as u16;
            Desc::new(at as u32 * 4096, len, 0).with_meta(meta.word()).with_more(at + 1 < parts)
        };
        burst.packets.refill(&(0..parts).map(part).collect::<Vec<_>>());
        burst.longest = frame.len() as u16;
        1
    }
    fn send(&mut self, _: &Origin<'_, NativeMemory>, _: &[Desc], _: &mut Losses<'_>) {}
    fn takes_offloads(&self) -> bool {
        true
    }
    fn looks_are_cheap(&self) -> bool {
        true
    }
}

impl Statistics for Source {
    fn report(&self) -> Vec<QueueStatus> {
        vec![QueueStatus::default()]
    }
}

/// IP of either version with TCP or UDP of so much payload, without checksums, from station 1 to nobody known.
fn frame(v6: bool, tcp: bool, payload: usize) -> Vec<u8> {
    let l4 = if tcp { 20 } else { 8 };
    let len = l4 + payload;
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1];
    if v6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend((len as u16).to_be_bytes());
        frame.extend([if tcp { 6 } else { 17 }, 64]);
        frame.extend([[0xfd; 16], [0xfc; 16]].concat());
    } else {
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((20 + len as u16).to_be_bytes());
        frame.extend([0, 9, 0x40, 0, 64, if tcp { 6 } else { 17 }, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    }
    frame.extend([0, 1, 0, 2]);
    if tcp {
        frame.extend([0, 0, 0, 100, 0, 0, 0, 0, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    } else {
        frame.extend((len as u16).to_be_bytes());
        frame.extend([0, 0]);
    }
    frame.extend((0..payload).map(|at| (at * 7) as u8));
    frame
}

fn join(switch: &mut Switch, at: PortId, port: impl SwitchPort + 'static) {
    switch.join(u64::from(at), at, Member::Home(Box::new(port), None)).ok().unwrap();
}

#[test]
fn what_is_recorded_is_complete() {
    let requested = Checksum::Requested;
    let both = Meta::default().with_l4_checksum(requested).with_ip_checksum(requested);
    let one = Meta::default().with_l4_checksum(requested);
    // What is sent, what is requested of it, and the packets that this makes.
    let mut table = vec![(frame(false, false, 30), Meta::default(), 1)];
    for tcp in [true, false] {
        table.push((frame(false, tcp, 301), both, 1));
        table.push((frame(true, tcp, 300), one, 1));
    }
    table.push((frame(false, true, 5000), both.with_segmentation(Segmentation::tcp_ipv4(1448)), 4));
    table.push((frame(true, true, 5000), one.with_segmentation(Segmentation::tcp_ipv6(1000)), 5));
    table.push((frame(false, false, 5000), both.with_segmentation(Segmentation::udp(1400)), 4));
    table.push((frame(true, false, 9000), one.with_segmentation(Segmentation::udp(1400)), 7));
    let tag = Tci::new(5 << 13 | 7);
    let tagged: Vec<_> =
        table.iter().map(|(frame, meta, packets)| (frame.clone(), meta.with_vlan(tag), *packets)).collect();
    table.extend(tagged);

    let directory = tempfile::tempdir().unwrap();
    let files = ["port", "mirror"].map(|name| directory.path().join(name));
    let mut switch = Switch::new(TableLimits::default()).unwrap();
    let (sends, comes): (Sender<_>, _) = channel();
    let mem = Region::create(64 << 10, Pages::Small).unwrap().memory();
    let policy = Policy { mirror: Some(Mirror { to: 2, sent: true, received: false }), ..Policy::default() };
    let source = Source { mem, sends: comes };
    join(&mut switch, 0, SwitchedOutside::new(source, Rules::new(&policy).unwrap(), Default::default()));
    for (at, file) in (1..).zip(&files) {
        let options = PcapOptions { record: Some(file.clone()), ..PcapOptions::new(None) };
        let port = PcapPort::open(&options).unwrap();
        join(&mut switch, at, SwitchedOutside::new(port, None, Default::default()));
    }
    for (frame, meta, _) in &table {
        sends.send((frame.clone(), *meta)).unwrap();
        while switch.spin(0, 1) > 0 {}
    }
    // What contradicts the packet is not recorded, and counted.
    sends.send(([&frame(false, true, 0)[..12], &[0; 48]].concat(), both)).unwrap();
    while switch.spin(0, 1) > 0 {}
    for at in [1, 2] {
        assert_eq!(switch.report(at)[0].drop_bad_offload, 1);
    }
    drop(switch);
    for file in &files {
        let recorded = read(&std::fs::read(file).unwrap());
        assert_eq!((recorded.wrong, recorded.skipped.len()), (None, 0));
        let mut rest = recorded.packets.into_iter().map(|(_, bytes)| bytes);
        for (sent, meta, packets) in &table {
            let all: Vec<_> = rest.by_ref().take(*packets).collect();
            let from = Headers::parse(sent, sent.len()).payload_at;
            let mut payload = Vec::new();
            for bytes in &all {
                assert_eq!(vlan::outer(bytes), meta.vlan(), "{meta:?}");
                let headers = Headers::parse(bytes, bytes.len());
                assert!(headers.malformed.is_none() && headers.l3_end == bytes.len(), "{meta:?}");
                if *meta != Meta::default().with_vlan(tag) && *meta != Meta::default() {
                    assert!(headers.l3 == L3::Ipv6 || checksum::verify_ipv4(bytes, &headers) == Ok(true));
                    assert_eq!(checksum::verify_l4(bytes, &headers, []), Ok(true), "{meta:?}");
                }
                payload.extend_from_slice(&bytes[headers.payload_at..]);
            }
            assert!(payload == sent[from..], "{meta:?}");
        }
        assert_eq!(rest.next(), None);
    }
}
