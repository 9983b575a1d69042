//! A host that writes its frames itself, fragments, too.

use ccnic_client::{Burst, Pages, QueuePair};
use ccnic_frame::{Headers, L4, Meta, checksum};
use ccnic_tcp::Stack;

use crate::Echo;
use crate::common::{Nic, until};
use crate::raw::{PEER, RST, Segment, icmp, ip};

/// A host that writes its frames itself.
pub struct Port {
    pair: QueuePair,
    _program: ccnic_client::Nic,
}

impl Port {
    pub fn new(nic: &Nic) -> Port {
        let config = ccnic_client::Config { ring: 1024, buffers: 4096, ..ccnic_client::Config::default() };
        let options = ccnic_client::Nic::options().name("raw").pages(Pages::Small).config(&config);
        let mut program = options.open(&nic.socket).unwrap();
        Port { pair: program.queue_pair(0).unwrap(), _program: program }
    }

    pub fn send(&mut self, frame: &[u8], meta: Meta) {
        let mut burst = Burst::new();
        until("a buffer", || self.pair.alloc(frame.len() as u16, 1, &mut burst) == 1);
        for buf in burst.iter_mut() {
            assert_eq!(self.pair.write(buf, 0, frame), frame.len());
            buf.set_meta(meta.word());
        }
        until("room", || self.pair.tx_burst(&mut burst) == 1);
    }

    fn receive(&mut self) -> Vec<Vec<u8>> {
        let (mut burst, mut frames) = (Burst::new(), Vec::new());
        self.pair.rx_burst(&mut burst, 32);
        for buf in burst.as_slice() {
            let mut frame = vec![0; usize::from(buf.len())];
            self.pair.read(buf, 0, &mut frame);
            frames.push(frame);
        }
        self.pair.free(&mut burst);
        frames
    }

    /// Polls the servers until `enough` of the frames that have come for this host.
    pub fn until(
        &mut self,
        what: &str,
        servers: &mut [Stack],
        mut enough: impl FnMut(&[Vec<u8>], &mut [Stack]) -> bool,
    ) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        until(what, || {
            servers.iter_mut().for_each(|server| _ = server.poll_datagrams(&mut Echo));
            frames.extend(self.receive().into_iter().filter(|frame| frame[0] & 1 == 0));
            enough(&frames, servers)
        });
        frames
    }

    /// What comes up to the answer to a ping: all that the servers have to say to what was sent before.
    pub fn ping(&mut self, servers: &mut [Stack]) -> Vec<Vec<u8>> {
        self.send(&ip(servers[0].mac(), PEER, 1, &icmp(8, 0, [0, 7, 0, 9], b"behind it")), Meta::default());
        self.until("the answer to a ping", servers, |frames, _| frames.iter().any(|frame| frame[23] == 1))
    }
}

/// Segments that reset a connection.
pub fn resets(frames: &[Vec<u8>]) -> usize {
    let segments = frames.iter().filter_map(|frame| Segment::parse(frame));
    segments.filter(|segment| segment.flags & RST != 0).count()
}

/// An IPv4 packet in fragments with so many bytes of data each.
pub fn fragments(frame: &[u8], id: u16, size: usize) -> Vec<Vec<u8>> {
    let data = &frame[34..];
    let parts = data.chunks(size).enumerate().map(|(i, part)| {
        let more = (i + 1) * size < data.len();
        let word = (i * size / 8) as u16 | u16::from(more) << 13;
        let mut frame = [&frame[..34], part].concat();
        let fields = [(20 + part.len() as u16).to_be_bytes(), id.to_be_bytes(), word.to_be_bytes()].concat();
        frame[16..22].copy_from_slice(&fields);
        let headers = Headers::parse(&frame, frame.len());
        checksum::fill_ipv4(&mut frame, &headers).unwrap();
        frame
    });
    parts.collect()
}

/// A datagram from port 12 of the raw host to port 11 of the server.
pub fn datagram(to: [u8; 6], payload: &[u8]) -> Vec<u8> {
    let udp = [&[0, 12, 0, 11][..], &(8 + payload.len() as u16).to_be_bytes(), &[0; 2], payload].concat();
    let mut frame = ip(to, PEER, 17, &udp);
    let headers = Headers::parse(&frame, frame.len());
    checksum::fill_l4(&mut frame, &headers, []).unwrap();
    frame
}

pub fn is_datagram(frame: &[u8]) -> bool {
    Headers::parse(frame, frame.len()).l4 == L4::Udp
}
