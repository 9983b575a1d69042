//! Opening stacks.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use ccnic_client::{Config, Nic, QueuePair, Rss, Takes};

use crate::attachment::{Attachment, takes};
use crate::core::Core;
use crate::engine::{Engine, Host};
use crate::error::Error;
use crate::kept::KeptMemory;
use crate::kept::runs::PAGE;
use crate::neighbours::Group;
use crate::options::Options;
use crate::smoltcp::Smoltcp;
use crate::sockets::Ports;
use crate::stack::Stack;
use crate::transmit::Transmit;

impl Stack<Smoltcp> {
    /// Attaches a program with one queue pair to the NIC at this socket. Example: [the crate](crate).
    ///
    /// # Errors
    /// The options are not valid, or the program cannot be attached.
    pub fn open(socket: impl AsRef<Path>, options: &Options) -> Result<Stack, Error> {
        let mut stacks = Stack::open_many(socket, options, 1)?;
        stacks.pop().ok_or(Error::Range { field: "stacks", value: 0, least: 1, most: 256 })
    }

    /// Attaches a program with several queue pairs, and opens a stack on each, for a thread each: the same host, whose connections are spread
    /// over the queues by their addresses (receive-side scaling). Each stack has its own listeners; a port must be listened on by all.
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// use ccnic_tcp::{Options, Stack};
    ///
    /// let options = Options::new("10.9.0.2/24".parse()?);
    /// for mut stack in Stack::open_many("/tmp/nic.sock", &options, 4)? {
    ///     std::thread::spawn(move || {
    ///         let listener = stack.listen(80, 128)?;
    ///         loop {
    ///             stack.poll();
    ///             while let Some(conn) = stack.accept(listener) {
    ///                 stack.close(conn); // a server of use would serve it
    ///             }
    ///             stack.wait_when_idle(Duration::from_secs(1))?;
    ///         }
    ///         # #[expect(unreachable_code)]
    ///         Ok::<(), ccnic_tcp::Error>(())
    ///     });
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`open`](Stack::open); the NIC cannot spread packets.
    pub fn open_many(socket: impl AsRef<Path>, options: &Options, stacks: u16) -> Result<Vec<Stack>, Error> {
        Stack::open_with(socket.as_ref(), options, stacks)
    }
}

impl<E: Engine> Stack<E> {
    /// As [`open_many`](Stack::open_many), with another TCP engine. Example: [`Engine`].
    ///
    /// # Errors
    /// As [`open_many`](Stack::open_many).
    pub fn open_with(socket: &Path, options: &Options, stacks: u16) -> Result<Vec<Stack<E>>, Error> {
        let mac = options.mac.unwrap_or_else(|| made_up(options));
        options.check(mac)?;
        if mac[0] & 1 == 1 {
            return Err(Error::Range {
                field: "the first byte of mac",
                value: mac[0].into(),
                least: 0,
                most: 254,
            });
        }
        let kept = options.kept.div_ceil(PAGE) as u32 * u32::from(stacks);
        let buffers = options.config.buffers.saturating_add(kept);
        let config = Config { queues: stacks, mtu: Config::MAX_MTU, buffers, ..options.config };
        let mut open = Nic::options().mac(mac).config(&config).pages(options.pages);
        if let Some(name) = &options.name {
            open = open.name(name);
        }
        let rss = (stacks > 1).then(|| Rss::new(stacks));
        if let Some(rss) = &rss {
            open = open.rss(rss.clone());
        }
        let mut nic = open.open(socket)?;
        nic.set_takes(Takes::NONE.with_ip_checksum().with_l4_checksum().with_tcp_segments())?;
        for rule in &options.flows {
            nic.flow_create(rule)?;
        }
        let takes = takes(&nic);
        #[expect(unsafe_code, reason = "frames and kept values are reached while a received frame is lent")]
        // SAFETY: used at the offsets of buffers that the stack holds, `Buf`s and kept pages, within their 4096 bytes. Bytes of a frame are
        // lent while the stack that owns its buffer is borrowed; of kept values only what is written no more is lent (`kept`).
        let memory = unsafe { nic.region().agent() };
        let pairs = (0..stacks).map(|queue| nic.queue_pair(queue)).collect::<Result<Vec<_>, _>>()?;
        let attachment = Arc::new(Attachment::new(nic));
        let groups = Group::new(stacks.into());
        let open = |((mut pair, group), queue): ((QueuePair, Group), u16)| {
            let kept = KeptMemory::new(memory.clone(), &mut pair, options.kept);
            let out = Transmit::new(memory.clone(), takes, kept, group.idents());
            let host =
                Host { mac, options: options.clone(), segmentation: out.segmentation(), seed: random() };
            let ports = Ports::new(rss.as_ref().map(|rss| (rss, queue)));
            let core = Core::new(E::new(&host), options.clone(), mac, out, group, ports);
            core.group.wakes(pair.waiter());
            Stack { core, pair: Some(pair), attachment: Arc::clone(&attachment), queue, looked: 0 }
        };
        Ok(pairs.into_iter().zip(groups).zip(0..).map(open).collect())
    }
}

/// A random number: the keys of the standard library's hash tables are random.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The Ethernet address of a host that was given none: locally administered, and made of its IPv4 address, or, without one, of its IPv6
/// address (FNV-1a). So the next program with this address has it, too, also with another one beside it, and is reached at once by those who
/// keep it in their tables, where another one would be missed for a minute.
fn made_up(options: &Options) -> [u8; 6] {
    let bytes = options.ipv4.or(options.ipv6).into_iter().flat_map(|network| match network.address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    });
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let [a, b, c, d, e, ..] = bytes.fold(0xcbf2_9ce4_8422_2325, mix).to_le_bytes();
    [2, a, b, c, d, e]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]
    use super::*;

    #[test]
    fn a_made_up_address_belongs_to_the_host() {
        let options = |text: &str| Options::new(text.parse().unwrap());
        let first = made_up(&options("10.9.0.2/24"));
        assert_eq!(first, made_up(&options("10.9.0.2/16")), "the same whenever it is started");
        assert_eq!(first[0], 2, "locally administered, of one host");
        let mut both = options("10.9.0.2/24");
        both.ipv6 = Some("fd09::2/64".parse().unwrap());
        assert_eq!(made_up(&both), first, "the same with another address beside it");
        let others = [options("10.9.0.3/24"), options("10.9.1.2/24"), options("fd09::2/64")];
        assert!(others.iter().all(|other| made_up(other) != first));
    }
}
