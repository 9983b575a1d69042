//! A program on the switch with an IP stack: smoltcp over a queue pair.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::path::Path;

use ccnic::{Burst, Config};
use ccnic_client::{Nic, Pages, QueuePair};
use ccnic_frame::{Checksum as Wanted, Headers, Meta, Takes, Tci, vlan};
use smoltcp::iface::{Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::{icmp, tcp};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};

use super::net::byte;

pub const MAC: [u8; 6] = [2, 0, 0, 0, 2, 1];

/// A queue pair as smoltcp's network device.
pub struct Port {
    nic: Nic,
    pair: QueuePair,
    received: VecDeque<Vec<u8>>,
    mtu: usize,
    /// Checksums of TCP are requested, not computed.
    offload: bool,
    /// What it takes of others.
    takes: Takes,
    /// Super-packets that have come.
    pub supers: usize,
    /// Packets with payload of TCP that have come with nothing left to do.
    pub complete: usize,
    /// It is on a trunk, and uses this VLAN of it: each frame has a tag.
    pub vlan: Option<Tci>,
}

impl Port {
    /// Attaches under this name.
    #[track_caller]
    pub fn open(socket: &Path, name: &str, mtu: usize, offload: bool) -> Port {
        let config = Config { ring: 1024, buffers: 4096, ..Config::default() };
        let mut nic = Nic::options().name(name).config(&config).pages(Pages::Small).open(socket).unwrap();
        let pair = nic.queue_pair(0).unwrap();
        Port {
            nic,
            pair,
            received: VecDeque::new(),
            mtu,
            offload,
            takes: Takes::NONE,
            supers: 0,
            complete: 0,
            vlan: None,
        }
    }

    /// Takes what others request of its packets, but for tags, from now on. Before [`Stack::over`].
    #[track_caller]
    pub fn take_all(&mut self) {
        self.takes = Takes::NONE.with_tcp_segments().with_udp_segments();
        self.nic.set_takes(self.takes).unwrap();
    }

    /// The next frame, if one has come.
    pub fn next(&mut self) -> Option<Vec<u8>> {
        if self.received.is_empty() {
            self.fill();
        }
        self.received.pop_front()
    }

    fn fill(&mut self) {
        let (mut burst, mut frame, mut requests) = (Burst::new(), Vec::new(), Meta::default());
        self.pair.rx_burst(&mut burst, 32);
        for buf in burst.as_slice() {
            let meta = Meta::from_word(buf.meta());
            assert!(
                self.takes.covers(meta),
                "{meta:?} is left to a program that has not said that it can do it"
            );
            if frame.is_empty() {
                requests = meta;
            }
            self.pair.with(buf, |bytes| frame.extend_from_slice(bytes));
            if !buf.more() {
                self.count(&frame, requests);
                if let Some(own) = self.vlan {
                    assert_eq!(vlan::strip(&mut frame), Some(own), "a frame of another VLAN, or of none");
                    frame.drain(..vlan::TAG);
                }
                self.received.push_back(std::mem::take(&mut frame));
            }
        }
        self.pair.free(&mut burst);
    }

    fn count(&mut self, frame: &[u8], requests: Meta) {
        let headers = Headers::parse(frame, frame.len());
        let data = headers.l4 == ccnic_frame::L4::Tcp && headers.payload_at < headers.l4_end;
        self.supers += usize::from(requests.segmentation().is_some());
        self.complete += usize::from(data && requests == Meta::default());
    }

    /// Sends a frame with this metadata word; false when there is no room.
    pub fn send(&mut self, frame: &[u8], meta: u64) -> bool {
        let mut room = [&[0; vlan::TAG], frame].concat();
        let tagged = self.vlan.is_some_and(|own| vlan::insert(&mut room, own));
        let frame = if tagged { &room } else { frame };
        let (mut burst, pair) = (Burst::new(), &mut self.pair);
        pair.alloc(frame.len() as u16, frame.len().div_ceil(4096), &mut burst);
        let mut rest = frame;
        for buf in burst.iter_mut() {
            let n = pair.write(buf, 0, rest);
            rest = &rest[n..];
            buf.set_meta(meta);
        }
        let sent = !burst.is_empty() && pair.tx_burst(&mut burst) > 0;
        pair.free(&mut burst);
        sent
    }
}

pub struct Received(Vec<u8>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

pub struct Sending<'a>(&'a mut Port);

impl TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        let tcp = Headers::parse(&frame, len).l4 == ccnic_frame::L4::Tcp;
        let meta = Meta::default().with_l4_checksum(Wanted::Requested);
        self.0.send(&frame, if self.0.offload && tcp { meta.word() } else { 0 }); // lost where there is no room, as on any wire
        result
    }
}

impl Device for Port {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sending<'_>)> {
        let frame = self.next()?;
        Some((Received(frame), Sending(self)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sending<'_>> {
        Some(Sending(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = self.mtu + 14;
        capabilities.checksum.tcp = match (self.offload, self.takes == Takes::NONE) {
            (false, true) => Checksum::Both,
            (true, true) => Checksum::Rx,
            (false, false) => Checksum::Tx,
            (true, false) => Checksum::None,
        };
        capabilities
    }
}

/// The program: it answers ARP, neighbour solicitations and echo requests, and more when it is told to. Received checksums are all
/// verified.
pub struct Stack {
    pub port: Port,
    interface: Interface,
    sockets: SocketSet<'static>,
}

impl Stack {
    /// Attaches with these addresses, all of them with 64 or 24 bits of prefix.
    #[track_caller]
    pub fn open(socket: &Path, addresses: &[&str], mtu: usize, offload: bool) -> Stack {
        Stack::over(Port::open(socket, "stack", mtu, offload), addresses)
    }

    /// The same over a port that is attached, and takes what it takes: smoltcp asks for its capabilities here, and never again.
    #[track_caller]
    pub fn over(mut port: Port, addresses: &[&str]) -> Stack {
        let hardware = EthernetAddress(MAC).into();
        let mut interface = Interface::new(smoltcp::iface::Config::new(hardware), &mut port, Instant::now());
        interface.update_ip_addrs(|list| {
            for address in addresses {
                let ip: IpAddr = address.parse().unwrap();
                list.push(IpCidr::new(ip.into(), if ip.is_ipv4() { 24 } else { 64 })).unwrap();
            }
        });
        Stack { port, interface, sockets: SocketSet::new(Vec::new()) }
    }

    /// Receives and answers what has come.
    pub fn poll(&mut self) {
        self.interface.poll(Instant::now(), &mut self.port, &mut self.sockets);
    }

    /// Sends an echo request to this address and waits for its answer.
    #[track_caller]
    pub fn ping(&mut self, to: &str) {
        let to: IpAddress = to.parse::<IpAddr>().unwrap().into();
        let buffer = || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; 4], vec![0; 2048]);
        let handle = self.sockets.add(icmp::Socket::new(buffer(), buffer()));
        self.sockets.get_mut::<icmp::Socket>(handle).bind(icmp::Endpoint::Ident(0x77)).unwrap();
        let request = [8, 0, 0, 0, 0, 0x77, 0, 1, b'h', b'e', b'l', b'l', b'o'];
        let mut message = request;
        let checksum = ccnic_frame::Sum::of(&message).checksum().to_be_bytes();
        message[2..4].copy_from_slice(&checksum);
        self.sockets.get_mut::<icmp::Socket>(handle).send_slice(&message, to).unwrap();
        crate::common::until("an answer of the kernel", || {
            self.poll();
            let socket = self.sockets.get_mut::<icmp::Socket>(handle);
            socket.recv().is_ok_and(|(bytes, from)| from == to && bytes[0] == 0 && bytes[4..] == request[4..])
        });
        self.sockets.remove(handle);
    }

    /// Listens on a TCP port.
    pub fn listen(&mut self, port: u16) -> Connection {
        // Less than the rings have room for: so nothing is lost unless the test has it so.
        let buffer = || tcp::SocketBuffer::new(vec![0; 1 << 20]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.listen(port).unwrap();
        Connection { handle: self.sockets.add(socket), sent: 0, received: 0 }
    }

    /// One step of a TCP connection over which the program sends `len` bytes of one direction and receives as many of the other one,
    /// every byte compared; true when all of it is done.
    #[track_caller]
    pub fn exchange(&mut self, with: &mut Connection, [sends, receives]: [u8; 2], len: usize) -> bool {
        self.poll();
        let socket = self.sockets.get_mut::<tcp::Socket>(with.handle);
        if socket.may_recv() && socket.can_recv() {
            let at = with.received;
            let compare = |bytes: &mut [u8]| {
                assert!(
                    bytes.iter().enumerate().all(|(i, b)| *b == byte(receives, at + i)),
                    "after {at} bytes"
                );
                (bytes.len(), bytes.len())
            };
            with.received += socket.recv(compare).unwrap();
        }
        if socket.can_send() && with.sent < len {
            let at = with.sent;
            let fill = |room: &mut [u8]| {
                let n = room.len().min(len - at);
                room[..n].iter_mut().enumerate().for_each(|(i, to)| *to = byte(sends, at + i));
                (n, n)
            };
            with.sent += socket.send(fill).unwrap();
        }
        with.received == len && with.sent == len && socket.send_queue() == 0
    }
}

/// A TCP connection of the program.
pub struct Connection {
    handle: SocketHandle,
    sent: usize,
    received: usize,
}

impl Connection {
    /// Bytes that have been moved.
    pub fn moved(&self) -> usize {
        self.sent + self.received
    }
}
