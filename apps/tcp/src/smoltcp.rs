//! smoltcp behind [`Engine`].
//!
//! smoltcp's interface looks at all sockets of a set for each frame and in each pass of sending. So each connection is a set of one
//! socket, all with the same interface: a frame costs the same whatever the number of connections, and only those are polled that have
//! something to do.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;

use ccnic_frame::headers::TCP;
use ccnic_frame::{Checksum as Wanted, Meta, Segmentation};
use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, PacketMeta, RxToken, TxToken};
use smoltcp::socket::tcp::{CongestionControl, RecvError, Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr, IpEndpoint, TcpSeqNumber};

use crate::engine::{Answered, Engine, Host, Micros, NEVER, Next, Output, Phase};
use crate::local::Addresses;
use crate::options::Options;
use crate::paths::LIFETIME;
use crate::udp::ETHERNET;

const IPV4: [u8; 2] = [8, 0];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// Flags of TCP.
const FIN: u8 = 1;
const SYN: u8 = 2;
/// A socket whose neighbour is unknown asks to be polled after this time (`Meta::DISCOVERY_SILENT_TIME`). What else has the same deadline is
/// only polled once more than necessary.
const SILENCE: Micros = 1_000_000;

/// The time for which the Ethernet address of the peer's last segment is believed: as long as an entry learnt from ARP.
const HEARD: Micros = 60_000_000;

/// The engine.
pub struct Smoltcp {
    interface: Interface,
    capabilities: DeviceCapabilities,
    host: Host,
    /// For frames that are of no connection.
    none: SocketSet<'static>,
    /// Since when the host is where it is: where peers were heard from before says nothing.
    here_since: Micros,
}

impl std::fmt::Debug for Smoltcp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Smoltcp").finish_non_exhaustive()
    }
}

/// A connection: a set of one socket.
#[derive(Debug)]
pub struct Tcp {
    set: SocketSet<'static>,
    handle: SocketHandle,
    /// When something was sent first that the peer has to answer, and has not.
    asked: Option<Micros>,
    /// Source and time of the peer's last segment: the cache of neighbours is small, and others can fill it.
    heard: ([u8; 6], Micros),
    /// Until when segments are shorter than the own link and the peer permit, since the path carries no longer ones.
    short_until: Micros,
}

impl Tcp {
    fn new(options: &Options) -> Tcp {
        let buffer = |len| SocketBuffer::new(vec![0; len]);
        let mut set = SocketSet::new(Vec::with_capacity(1));
        let handle = set.add(Socket::new(buffer(options.receive_buffer), buffer(options.send_buffer)));
        Tcp { set, handle, asked: None, heard: NOWHERE, short_until: NEVER }
    }

    fn socket(&self) -> &Socket<'static> {
        self.set.get(self.handle)
    }

    fn socket_mut(&mut self) -> &mut Socket<'static> {
        self.set.get_mut(self.handle)
    }
}

/// The peer was never heard of.
const NOWHERE: ([u8; 6], Micros) = ([1; 6], 0);

/// The Ethernet address of a neighbour; none when it is one of a group.
#[inline]
fn neighbour(mac: [u8; 6]) -> Option<HardwareAddress> {
    (mac[0] & 1 == 0).then_some(HardwareAddress::Ethernet(EthernetAddress(mac)))
}

fn number(number: u32) -> TcpSeqNumber {
    TcpSeqNumber(number as i32)
}

fn instant(at: Micros) -> Instant {
    Instant::from_micros(at as i64)
}

impl Smoltcp {
    /// A closed connection with the settings of the options.
    fn closed(&self, used: Option<Tcp>) -> Tcp {
        let mut tcp = used.unwrap_or_else(|| Tcp::new(&self.host.options));
        (tcp.asked, tcp.heard, tcp.short_until) = (None, NOWHERE, NEVER);
        let socket = tcp.socket_mut();
        socket.abort();
        socket.set_nagle_enabled(self.host.options.nagle);
        socket.set_congestion_control(CongestionControl::Reno);
        tcp
    }
}

/// The device of smoltcp for one call: a frame that has come, and where frames go.
struct Wire<'a, O> {
    frame: Option<&'a [u8]>,
    out: &'a mut O,
    capabilities: &'a DeviceCapabilities,
    /// A segment was sent that is to be answered.
    asks: bool,
}

struct Received<'a>(&'a [u8]);

impl RxToken for Received<'_> {
    #[inline]
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

struct Sending<'a, O> {
    out: &'a mut O,
    cut: Option<u16>,
    asks: &'a mut bool,
}

impl<O: Output> TxToken for Sending<'_, O> {
    #[inline]
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        self.out.frame(len, |bytes| {
            let result = f(bytes);
            let tcp = tcp_at(bytes);
            *self.asks |= tcp.is_some_and(|at| asks(bytes, at));
            (requests(bytes, tcp.is_some(), self.cut), result)
        })
    }

    fn set_meta(&mut self, meta: PacketMeta) {
        self.cut = meta.segmentation_offload_size.map(|size| size.get());
    }
}

/// Where the TCP segment of a frame begins, if it has one. (smoltcp sends no options of IP.)
#[inline]
fn tcp_at(frame: &[u8]) -> Option<usize> {
    let (protocol, begin) = match frame.get(12..ETHERNET) {
        Some(kind) if kind == IPV4 => (9, 20),
        Some(kind) if kind == IPV6 => (6, 40),
        _ => return None,
    };
    (frame.get(ETHERNET + protocol) == Some(&TCP)).then_some(ETHERNET + begin)
}

/// What smoltcp has left to the NIC in a frame.
#[inline]
fn requests(frame: &[u8], is_tcp: bool, cut: Option<u16>) -> Meta {
    let none = Meta::default();
    match frame.get(12..ETHERNET) {
        Some(kind) if kind == IPV4 => {
            let meta = none.with_ip_checksum(Wanted::Requested);
            match cut {
                _ if !is_tcp => meta,
                Some(size) => meta.with_segmentation(Segmentation::tcp_ipv4(size)),
                None => meta.with_l4_checksum(Wanted::Requested),
            }
        }
        Some(kind) if kind == IPV6 && is_tcp => match cut {
            Some(size) => none.with_segmentation(Segmentation::tcp_ipv6(size)),
            None => none.with_l4_checksum(Wanted::Requested),
        },
        _ => none,
    }
}

/// True for a frame with payload, SYN or FIN in its TCP segment, which begins there.
#[inline]
fn asks(frame: &[u8], tcp: usize) -> bool {
    let Some([offset, flags]) = frame.get(tcp + 12..tcp + 14) else { return false };
    flags & (FIN | SYN) != 0 || frame.len() > tcp + usize::from(offset >> 4) * 4
}

impl<O: Output> Device for Wire<'_, O> {
    type RxToken<'b>
        = Received<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = Sending<'b, O>
    where
        Self: 'b;

    #[inline]
    fn receive(&mut self, _: Instant) -> Option<(Received<'_>, Sending<'_, O>)> {
        let frame = self.frame.take()?;
        Some((Received(frame), Sending { out: self.out, cut: None, asks: &mut self.asks }))
    }

    #[inline]
    fn transmit(&mut self, _: Instant) -> Option<Sending<'_, O>> {
        self.out.room().then_some(Sending { out: self.out, cut: None, asks: &mut self.asks })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.capabilities.clone()
    }
}

/// A device that neither sends nor receives.
struct Nowhere;

impl Output for Nowhere {
    fn room(&self) -> bool {
        false
    }

    fn frame<R>(&mut self, len: usize, fill: impl FnOnce(&mut [u8]) -> (Meta, R)) -> R {
        fill(&mut vec![0; len]).1
    }
}

fn capabilities(host: &Host) -> DeviceCapabilities {
    let mut capabilities = DeviceCapabilities::default();
    capabilities.medium = Medium::Ethernet;
    capabilities.max_transmission_unit = host.options.mtu + ETHERNET;
    // Verified before a frame comes here, and requested of the NIC.
    capabilities.checksum.ipv4 = Checksum::None;
    capabilities.checksum.tcp = Checksum::None;
    capabilities.segmentation.tcpv4 = host.segmentation.and_then(NonZeroUsize::new);
    // Not over IPv6: smoltcp 0.14 drops there what is longer than the MTU, also when it is to be cut.
    capabilities
}

/// smoltcp's host, which knows no neighbours yet.
fn interface(host: &Host, capabilities: &DeviceCapabilities, now: Micros) -> Interface {
    let mut wire = Wire { frame: None, out: &mut Nowhere, capabilities, asks: false };
    let mut config = Config::new(EthernetAddress(host.mac).into());
    config.random_seed = host.seed;
    let mut interface = Interface::new(config, &mut wire, instant(now));
    interface.update_ip_addrs(|list| {
        for network in Addresses::new(&host.options, host.mac).networks(&host.options) {
            let _ = list.push(IpCidr::new(network.address.into(), network.prefix)); // it has room for three
        }
    });
    let Options { gateway4, gateway6, .. } = host.options;
    let routes = interface.routes_mut(); // it has room for two
    let _ = gateway4.map(|gateway| routes.add_default_ipv4_route(gateway));
    let _ = gateway6.map(|gateway| routes.add_default_ipv6_route(gateway));
    interface
}

impl Engine for Smoltcp {
    type Tcp = Tcp;

    fn new(host: &Host) -> Smoltcp {
        let capabilities = capabilities(host);
        let interface = interface(host, &capabilities, 0);
        let none = SocketSet::new(Vec::new());
        Smoltcp { interface, capabilities, host: host.clone(), none, here_since: 0 }
    }

    fn moved(&mut self, now: Micros, segmentation: Option<usize>, seed: u64) {
        (self.host.segmentation, self.host.seed) = (segmentation, seed);
        self.capabilities = capabilities(&self.host);
        self.interface = interface(&self.host, &self.capabilities, now); // connections keep all of their state
        self.here_since = now;
    }

    fn listening(&mut self, port: u16, isn: u32, used: Option<Tcp>) -> Tcp {
        let mut tcp = self.closed(used);
        tcp.socket_mut().set_next_isn(Some(number(isn)));
        let _ = tcp.socket_mut().listen(port); // it is closed, and the port of a listener is not 0
        tcp
    }

    fn answered(&mut self, answered: &Answered, used: Option<Tcp>) -> Tcp {
        let mut tcp = self.closed(used);
        let Answered { remote, local, remote_isn, isn, segment } = *answered;
        let (local, remote) = (IpEndpoint::from(local), IpEndpoint::from(remote));
        // It is closed, and the ends are those of a segment; otherwise it stays closed.
        let _ = tcp.socket_mut().resume_handshake(local, remote, number(isn), number(remote_isn), segment);
        tcp
    }

    fn connecting(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        isn: u32,
        used: Option<Tcp>,
    ) -> io::Result<Tcp> {
        let mut tcp = self.closed(used);
        tcp.socket_mut().set_next_isn(Some(number(isn)));
        let context = self.interface.context();
        let (local, remote) = (IpEndpoint::from(local), IpEndpoint::from(remote));
        match tcp.set.get_mut::<Socket<'_>>(tcp.handle).connect(context, remote, local) {
            Ok(()) => Ok(tcp),
            Err(_) => Err(io::ErrorKind::AddrNotAvailable.into()),
        }
    }

    #[inline]
    fn input(&mut self, now: Micros, frame: &[u8], tcp: Option<&mut Tcp>, out: &mut impl Output) {
        let mut wire = Wire { frame: Some(frame), out, capabilities: &self.capabilities, asks: false };
        // Answers go to the address that it has come from, and ask for no neighbour.
        let from = frame.get(6..12).and_then(|mac| mac.first_chunk::<6>()).copied();
        self.interface.set_neighbor_hint(from.and_then(neighbour));
        let set = tcp.map_or(&mut self.none, |tcp| {
            tcp.asked = None;
            tcp.heard = (from.unwrap_or(tcp.heard.0), now);
            &mut tcp.set
        });
        self.interface.poll_ingress_single(instant(now), &mut wire, set);
    }

    #[inline]
    fn output(&mut self, now: Micros, tcp: &mut Tcp, out: &mut impl Output) -> Next {
        // Not by smoltcp's timeout, which counts from the last segment that has come, also where nothing was asked since: a connection
        // that is idle stays, and one whose window the peer keeps closed, which answers each probe of it.
        let socket = tcp.set.get_mut::<Socket<'_>>(tcp.handle);
        let awaits = socket.send_queue() > 0 || matches!(socket.state(), State::SynSent | State::SynReceived);
        let timeout = self.host.options.timeout.as_micros() as Micros;
        tcp.asked = tcp.asked.filter(|_| awaits);
        if tcp.asked.take_if(|asked| asked.saturating_add(timeout) <= now).is_some() {
            socket.abort();
        }
        let (mac, heard) = tcp.heard;
        let still_there = heard >= self.here_since && heard + HEARD > now;
        self.interface.set_neighbor_hint(neighbour(mac).filter(|_| still_there));
        if tcp.short_until <= now {
            tcp.short_until = NEVER;
            tcp.socket_mut().set_path_mss(None); // longer ones are tried anew
        }
        let mut wire = Wire { frame: None, out, capabilities: &self.capabilities, asks: false };
        let (at, unresolved) = loop {
            let sent = self.interface.poll_egress(instant(now), &mut wire, &mut tcp.set);
            let next = self.interface.poll_at(instant(now), &tcp.set);
            let at = next.map_or(NEVER, |at| at.total_micros() as Micros);
            if at > now || sent == PollResult::None {
                break (at, at == now + SILENCE);
            }
        };
        if awaits && (wire.asks || unresolved) {
            tcp.asked.get_or_insert(now);
        }
        let socket = tcp.set.get::<Socket<'_>>(tcp.handle);
        if tcp.short_until == NEVER && socket.path_mss().is_some() {
            tcp.short_until = now + LIFETIME; // a black hole
        }
        let waits = socket.send_queue() > 0 && socket.state() != State::Closed;
        debug_assert!(!waits || at < NEVER, "what is lost is sent again only where a timer runs");
        let given_up = tcp.asked.map_or(NEVER, |asked| asked.saturating_add(timeout));
        Next { at: at.min(given_up), unresolved }
    }

    fn local(tcp: &Tcp) -> Option<IpAddr> {
        tcp.socket().local_endpoint().map(|end| end.addr.into())
    }

    fn next_numbers(tcp: &Tcp) -> [u32; 2] {
        let socket = tcp.socket();
        [socket.send_next(), socket.recv_next()].map(|next| next.0 as u32)
    }

    #[inline]
    fn phase(tcp: &Tcp) -> Phase {
        match tcp.socket().state() {
            State::Listen => Phase::Listening,
            State::SynSent | State::SynReceived => Phase::Opening,
            State::TimeWait => Phase::TimeWait,
            State::Closed => Phase::Closed,
            _ => Phase::Open,
        }
    }

    #[inline]
    fn readable(tcp: &Tcp) -> usize {
        tcp.socket().recv_queue()
    }

    #[inline]
    fn finished(tcp: &mut Tcp) -> bool {
        matches!(tcp.socket_mut().peek(1), Err(RecvError::Finished))
    }

    #[inline]
    fn writable(tcp: &Tcp) -> Option<usize> {
        let socket = tcp.socket();
        matches!(socket.state(), State::Established | State::CloseWait)
            .then(|| socket.send_capacity() - socket.send_queue())
    }

    fn unacknowledged(tcp: &Tcp) -> usize {
        tcp.socket().send_queue()
    }

    #[inline]
    fn read<R>(tcp: &mut Tcp, f: impl FnOnce(&[u8]) -> (usize, R)) -> Option<R> {
        tcp.socket_mut().recv(|bytes| f(bytes)).ok()
    }

    #[inline]
    fn write<R>(tcp: &mut Tcp, f: impl FnOnce(&mut [u8]) -> (usize, R)) -> Option<R> {
        tcp.socket_mut().send(f).ok()
    }

    fn shutdown(tcp: &mut Tcp) {
        tcp.socket_mut().close();
    }

    fn too_big(tcp: &mut Tcp, now: Micros, seq: u32, payload: usize) -> bool {
        let taken = tcp.socket_mut().packet_too_big(number(seq), payload);
        tcp.short_until = if taken { now + LIFETIME } else { tcp.short_until };
        taken
    }

    fn limit(tcp: &mut Tcp, payload: usize, until: Micros) {
        tcp.short_until = until;
        tcp.socket_mut().set_path_mss(Some(payload));
    }

    fn release(tcp: &mut Tcp) {
        tcp.socket_mut().release_buffers();
    }

    fn abort(tcp: &mut Tcp) {
        tcp.socket_mut().abort();
    }
}
