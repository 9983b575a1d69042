//! Every offload against a port that takes none: what is recorded is complete, of a port and of a mirror, whatever the sender has requested.

use std::sync::mpsc::{Sender, channel};

use ccnic::nic::Origin;
use ccnic::{Desc, SharedMemory};
use ccnic_control::messages::QueueStatus;
use ccnic_frame::{Checksum, Meta};
use ccnic_shm::{NativeMemory, Pages, Region};

use super::tests::read;
use super::{PcapOptions, PcapPort};
use crate::memory::RegionMemory;
use crate::ports::offload_table::{check, frame, table};
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

fn join(switch: &mut Switch, at: PortId, port: impl SwitchPort + 'static) {
    switch.join(u64::from(at), at, Member::Home(Box::new(port), None)).ok().unwrap();
}

#[test]
fn what_is_recorded_is_complete() {
    let table = table();
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
    let request = Meta::default().with_l4_checksum(Checksum::Requested);
    // What contradicts the packet is not recorded, and counted.
    sends.send(([&frame(false, true, 0)[..12], &[0; 48]].concat(), request)).unwrap();
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
            check(sent, *meta, &all);
        }
        assert_eq!(rest.next(), None);
    }
}
