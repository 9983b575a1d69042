//! As the NIC of the server's region: the generator is what the server's queue pair is connected to, so that nothing but the interface is
//! between them, no third program and no kernel. What a real NIC would have from its wire, the generator makes itself: frames of a host
//! with an address of its own, which answers ARP.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use ccnic_frame::{Checksum, Headers, L4, Meta, checksum};
use ccnic_nic::{BurstError, Desc, Nic, Part, Program, Queue, Takes};
use ccnic_tcp::Network;
use ccnic_tcp::udp::{Template, ends};

use super::arp::{self, Mac};
use super::udp::{Coder, Speech};
use super::{Lost, Number, Transport};
use crate::protocol::{Reply, Request};

/// The port that requests come from.
const PORT: u16 = 40_000;
/// The generator's address on the wire that there is not.
const OWN: Mac = [2, 0, 0, 0, 0, 1];
/// How long the server may take to attach, and then to tell its Ethernet address.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks whether the server has asked the NIC something.
const TURN: Duration = Duration::from_millis(20);
/// Frames that are handed over at once.
const BURST: usize = 32;
/// Bytes of a packet that comes in one buffer.
const ROOM: usize = 4096;

/// The NIC of a server with one queue pair.
pub struct AsNic {
    wire: Wire,
    program: Program,
    _control: Control,
    takes: Takes,
    own: SocketAddr,
    server: SocketAddr,
    template: Template,
    coder: Coder,
    /// Frames that wait to be sent: those from `sent` on, up to `made`.
    frames: Box<[Vec<u8>; BURST]>,
    sent: usize,
    made: usize,
}

/// The queue, and where frames are copied to.
struct Wire {
    queue: Queue,
    rooms: Box<[[u8; ROOM]]>,
    /// Descriptors of what lies there.
    descs: [Desc; BURST],
    /// A packet in several buffers, put together.
    chain: Vec<u8>,
}

/// The thread that answers what the server asks its NIC. It sleeps until something is asked.
struct Control {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    fn start(nic: Nic) -> std::io::Result<Control> {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let _ = nic.poll(Some(TURN)); // nobody else polls it
            }
        })?;
        Ok(Control { over, thread: Some(thread) })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl AsNic {
    /// Bytes of the largest value: with its key and all headers it fits into one frame.
    pub const LARGEST: usize = 9500;

    /// Listens at `socket` until a server attaches, and finds it at `server`; the generator has the address `own` (`10.9.0.2/24`).
    ///
    /// # Errors
    /// When the socket cannot be made, no server attaches, or none answers.
    pub fn listen(socket: &Path, own: &str, server: SocketAddr, speech: Speech) -> anyhow::Result<AsNic> {
        let network: Network = own.parse().context("--address")?;
        let (IpAddr::V4(_), IpAddr::V4(_)) = (network.address, server.ip()) else {
            anyhow::bail!("--as-nic speaks IPv4 only: give it, and the server, an IPv4 address");
        };
        anyhow::ensure!(speech.ports() == 1, "--as-nic serves one queue pair: --shards 1");
        let takes = Takes::NONE.with_ip_checksum().with_l4_checksum();
        let nic = Nic::options().name("ccnic-kv-load").takes(takes).sleeps(true).listen(socket);
        let nic = nic.with_context(|| format!("--as-nic {}", socket.display()))?;
        let program = attached(&nic).with_context(|| format!("--as-nic {}", socket.display()))?;
        let queue = program.queue(0)?;
        let queues = program.config().queues;
        anyhow::ensure!(queues == 1, "the server has {queues} queue pairs: start ccnic-kv with -t 1");
        let own = SocketAddr::new(network.address, PORT);
        let template = Template::new([OWN, [0xff; 6]], own, server).context("the addresses do not fit")?;
        let mut this = AsNic {
            takes: program.takes(),
            wire: Wire {
                queue,
                rooms: vec![[0; ROOM]; BURST].into(),
                descs: [Desc::default(); BURST],
                chain: Vec::new(),
            },
            _control: Control::start(nic)?,
            program,
            own,
            server,
            template,
            coder: Coder::new(speech),
            frames: Box::new(std::array::from_fn(|_| Vec::new())),
            sent: 0,
            made: 0,
        };
        this.resolve()?;
        Ok(this)
    }

    /// Asks the server for its Ethernet address, which also tells it the generator's.
    fn resolve(&mut self) -> anyhow::Result<()> {
        let (IpAddr::V4(own), IpAddr::V4(server)) = (self.own.ip(), self.server.ip()) else { return Ok(()) };
        let start = Instant::now();
        let mut asked: Option<Instant> = None;
        loop {
            anyhow::ensure!(self.program.alive(), "the server has ended");
            anyhow::ensure!(
                start.elapsed() < PATIENCE,
                "{server} does not answer: does the server have this --address?"
            );
            if asked.is_none_or(|asked| asked.elapsed() > Duration::from_millis(100)) {
                let request = arp::request(OWN, own, server);
                self.wire.queue.tx_copy(&[&request[..]])?;
                asked = Some(Instant::now());
            }
            let mut found = None;
            self.wire.receive(&mut |frame, _| found = found.or(arp::answer_of(frame, server)))?;
            if let Some(mac) = found {
                self.template =
                    Template::new([OWN, mac], self.own, self.server).context("the addresses do not fit")?;
                self.takes = self.program.takes();
                return Ok(());
            }
            std::thread::yield_now();
        }
    }

    /// Hands over frames that wait; false when some still do.
    fn send_frames(&mut self) -> Result<bool, Lost> {
        let requests = self.template.requests();
        let meta = if self.takes.covers(requests) { requests.word() } else { 0 };
        let waiting = self.frames.get(self.sent..self.made).unwrap_or_default();
        let part = |frame| Part { bytes: frame, meta, more: false };
        let sent = if let [frame] = waiting {
            self.wire.queue.tx_copy(&[part(frame)])
        } else {
            let mut parts = [Part::default(); BURST];
            parts.iter_mut().zip(waiting).for_each(|(to, frame)| *to = part(frame));
            self.wire.queue.tx_copy(parts.get(..waiting.len()).unwrap_or_default())
        };
        self.sent += sent.map_err(defect)?;
        if self.sent == self.made {
            (self.sent, self.made) = (0, 0);
        }
        Ok(self.made == 0)
    }
}

impl Wire {
    /// Gives each frame that has come to `take`, with what its sender asks for; returns their number.
    fn receive(&mut self, take: &mut impl FnMut(&[u8], Meta)) -> Result<usize, BurstError> {
        let Wire { queue, rooms, descs, .. } = self;
        let mut rooms = rooms.iter_mut();
        let copied = queue.rx_copy(BURST, ROOM as u16, |i, desc| {
            if let Some(kept) = descs.get_mut(i) {
                *kept = desc;
            }
            rooms.next().and_then(|room| room.get_mut(..desc.len().into())).unwrap_or_default()
        });
        match copied {
            Ok(n) => {
                for (room, desc) in self.rooms.iter().zip(&self.descs).take(n) {
                    take(room.get(..desc.len().into()).unwrap_or_default(), Meta::from_word(desc.meta));
                }
                Ok(n)
            }
            Err(_) => self.receive_chain(take),
        }
    }

    /// As `receive_frames`, frames in several buffers too.
    #[cold]
    fn receive_chain(&mut self, take: &mut impl FnMut(&[u8], Meta)) -> Result<usize, BurstError> {
        let mut descs = [Desc::default(); BURST];
        let n = self.queue.rx_burst(&mut descs);
        let (mut frames, mut meta) = (0, Meta::default());
        for desc in descs.iter().take(n) {
            let at = self.chain.len();
            if at == 0 {
                meta = Meta::from_word(desc.meta);
            }
            self.chain.resize(at + usize::from(desc.len()), 0);
            self.queue.read(*desc, 0, self.chain.get_mut(at..).unwrap_or_default())?;
            if !desc.more() {
                take(&self.chain, meta);
                self.chain.clear();
                frames += 1;
            }
        }
        self.queue.free(descs.get(..n).unwrap_or_default())?;
        Ok(frames)
    }
}

/// Waits until a server has attached.
fn attached(nic: &Nic) -> anyhow::Result<Program> {
    let start = Instant::now();
    loop {
        nic.poll(Some(TURN))?;
        if let Some(program) = nic.accept() {
            return Ok(program);
        }
        anyhow::ensure!(start.elapsed() < PATIENCE, "no server has attached for {} s", PATIENCE.as_secs());
    }
}

/// The payload of a datagram from the server to the generator.
#[inline]
fn payload(frame: &[u8], meta: Meta, from: SocketAddr, to: SocketAddr) -> Option<&[u8]> {
    let headers = Headers::parse(frame, frame.len());
    let whole = headers.l4 == L4::Udp && headers.malformed.is_none() && headers.tags == 0;
    if !whole || ends(frame, &headers) != Some((from, to)) {
        return None;
    }
    let verified =
        meta.l4_checksum() != Checksum::Unknown || checksum::verify_l4(frame, &headers, []) == Ok(true);
    frame.get(headers.payload_at..headers.l4_end).filter(|_| verified)
}

fn defect(error: BurstError) -> Lost {
    Lost::Io(std::io::Error::other(error))
}

impl Transport for AsNic {
    fn send(&mut self, number: Number, request: Request<'_>) -> Result<bool, Lost> {
        if self.made == BURST && !self.send_frames()? {
            return Ok(false);
        }
        let (_, datagram) = self.coder.write(number, request);
        let requests = self.template.requests();
        let Some(frame) = self.frames.get_mut(self.made) else { return Ok(false) };
        frame.clear();
        frame.extend_from_slice(self.template.headers(datagram.len()));
        frame.extend_from_slice(datagram);
        if !self.takes.covers(requests) {
            let headers = Headers::parse(frame, frame.len());
            let _ = checksum::complete(requests, frame, &headers, []); // it has both checksums
        }
        self.made += 1;
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), Lost> {
        if self.made > 0 {
            self.send_frames()?;
        }
        Ok(())
    }

    fn receive(&mut self, take: &mut impl FnMut(Number, Reply<'_>)) -> Result<usize, Lost> {
        let AsNic { wire, coder, own, server, .. } = self;
        let (mut replies, mut asks, mut fragments) = (0, None, false);
        let frames = wire.receive(&mut |frame, meta| {
            if let Some(payload) = payload(frame, meta, *server, *own) {
                replies += usize::from(coder.read(payload, take));
            } else {
                asks = asks.or(arp::asks_for(frame, own.ip()));
                fragments |= Headers::parse(frame, frame.len()).l4 == L4::Fragment;
            }
        });
        let frames = frames.map_err(defect)?;
        if fragments {
            let why = "the server sends long answers in fragments: start ccnic-kv with --mtu 9586";
            return Err(Lost::Io(std::io::Error::other(why)));
        }
        if let (Some((mac, ip)), IpAddr::V4(own)) = (asks, self.own.ip()) {
            self.wire.queue.tx_copy(&[&arp::answer(OWN, own, mac, ip)[..]]).map_err(defect)?;
        }
        if frames == 0 && !self.program.alive() {
            return Err(Lost::Io(std::io::Error::other("the server has ended")));
        }
        Ok(replies)
    }

    fn forget(&mut self, number: Number) -> bool {
        self.coder.forget(number)
    }

    fn strays(&self) -> u64 {
        self.coder.strays()
    }
}
