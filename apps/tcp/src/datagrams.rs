//! Datagrams of a stack: ports, peers, what is sent to them. [`udp`](crate::udp) has the program's side.

use std::net::SocketAddr;

use crate::engine::Engine;
use crate::error::Error;
use crate::kept::KeptMemory;
use crate::stack::Stack;
use crate::udp::{Later, Peer, Reply, Template};

impl<E: Engine> Stack<E> {
    /// From now on datagrams for this port go to the handler of [`poll_datagrams`](Stack::poll_datagrams). Example:
    /// [`compose`](Stack::compose).
    ///
    /// # Errors
    /// [`Error::PortInUse`].
    pub fn bind(&mut self, port: u16) -> Result<(), Error> {
        if self.core.bound.contains(&port) {
            return Err(Error::PortInUse { port });
        }
        self.core.bound.push(port);
        Ok(())
    }

    /// The peer at this address for [`send_to`](Stack::send_to); `None` while its Ethernet address is not known: poll, and ask again.
    /// Ask again each minute or so: a peer may get another Ethernet address. The scope id of a link-local address is ignored: a
    /// stack has one link.
    ///
    /// # Errors
    /// [`Error::NoRoute`].
    pub fn peer(&mut self, to: SocketAddr) -> Result<Option<Peer>, Error> {
        self.core.tick();
        let core = &mut self.core;
        let no_route = || Error::NoRoute { address: to.ip() };
        let hop = core.options.next_hop(to.ip()).ok_or_else(no_route)?;
        // A link-local gateway is asked for from the link-local address.
        let own = (core.mac, core.addresses.source(hop).ok_or_else(no_route)?);
        let mac = core.neighbours.find(core.now, hop, own, &mut core.out);
        let address = SocketAddr::new(to.ip(), to.port()); // as the peer's datagrams say it
        Ok(mac.map(|mac| Peer { mac, address }))
    }

    /// True when [`send_to`](Stack::send_to) has room for a datagram, however long.
    #[inline]
    pub fn can_send(&self) -> bool {
        let out = &self.core.out;
        out.room_for(self.core.options.mtu) && out.has_room_for_long()
    }

    /// Sends a datagram from this port, its payload put together from pieces; the next poll or [`flush`](Stack::flush) hands it to the NIC.
    /// False, and nothing is sent, when it is [too long](crate::udp), or there is no room: poll first. Example: [`Peer`].
    pub fn send_to(&mut self, from: u16, to: &Peer, payload: &[&[u8]]) -> bool {
        self.compose(from, to).is_some_and(|datagram| datagram.send_all(payload))
    }

    /// As [`send_to`](Stack::send_to), the answer to a datagram that has come before. Example: [`Later`].
    pub fn answer(&mut self, to: &Later, payload: &[&[u8]]) -> bool {
        self.answer_to(to).send_all(payload)
    }

    /// Begins the answer to a datagram that has come before; [`Reply::send`] queues it. Example: [`Later`].
    pub fn answer_to(&mut self, to: &Later) -> Reply<'_> {
        let core = &mut self.core;
        let mtu = core.mtu_to(to.0.destination());
        Reply::new(&mut core.out, to.0, mtu)
    }

    /// Begins a datagram from this port; [`Reply::send`] queues it. `None` when this host has no address of the peer's kind.
    ///
    /// Two hosts, polled in turns by one thread:
    ///
    /// ```
    /// # mod example { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/example_hosts.rs")); }
    /// # let (mut server, mut client, _nic) = example::hosts();
    /// use std::net::SocketAddr;
    ///
    /// use ccnic_tcp::{Datagrams, Reply};
    ///
    /// struct Last(Option<(SocketAddr, Vec<u8>)>);
    ///
    /// impl Datagrams for Last {
    ///     fn datagram(&mut self, from: SocketAddr, _: SocketAddr, payload: &[u8], _: &mut Reply<'_>) {
    ///         self.0 = Some((from, payload.to_vec()));
    ///     }
    /// }
    ///
    /// server.bind(7)?;
    /// let peer = loop {
    ///     // The Ethernet address is asked for (ARP), and the server answers when it polls.
    ///     if let Some(peer) = client.peer("10.9.0.2:7".parse()?)? {
    ///         break peer;
    ///     }
    ///     server.poll();
    ///     client.poll();
    /// };
    /// assert_eq!(peer.address(), "10.9.0.2:7".parse()?);
    ///
    /// let mut datagram = client.compose(4000, &peer).ok_or("no IPv4 address")?;
    /// let room = datagram.room();
    /// assert!(datagram.put(b"hel") && datagram.put(b"lo"));
    /// assert_eq!((room, datagram.room()), (65_507, room - 5));
    /// assert_eq!(datagram.room_in_frame(), 1500 - 20 - 8 - 5); // the MTU, less the headers of IP and UDP
    /// assert!(datagram.send());
    /// client.flush_datagrams();
    ///
    /// let mut last = Last(None);
    /// while last.0.is_none() {
    ///     server.poll_datagrams(&mut last);
    /// }
    /// assert_eq!(last.0, Some(("10.9.0.3:4000".parse()?, b"hello".to_vec())));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compose(&mut self, from: u16, to: &Peer) -> Option<Reply<'_>> {
        let core = &mut self.core;
        let own = core.addresses.source(to.address.ip())?;
        let mtu = core.mtu_to(to.address.ip());
        let template = Template::new([core.mac, to.mac], SocketAddr::new(own, from), to.address)?;
        Some(Reply::new(&mut core.out, template, mtu))
    }

    /// Memory for values that are sent without a copy, by [`Reply::put_kept`]. Example: [the module](crate::kept).
    pub fn kept(&mut self) -> &mut KeptMemory {
        &mut self.core.out.kept
    }
}
