//! A network interface as the kernel's network configuration has it: asked for and set by rtnetlink.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use anyhow::{Context, bail};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

/// Bytes of the longest reply: a link with all its attributes takes about two thousand.
const REPLY: usize = 32 << 10;

/// An interface of one network namespace: that which its socket was opened in.
pub(super) struct Link {
    socket: Arc<OwnedFd>,
    index: u32,
    mtu: u32,
    up: bool,
    virtual_kind: bool,
    unused_tap: bool,
    tun: bool,
    receive_queues: u32,
    sequence: u32,
}

impl Link {
    /// The interface of that name in this thread's namespace.
    ///
    /// # Errors
    /// When there is none, or the kernel does not say.
    pub(super) fn open(name: &str) -> anyhow::Result<Link> {
        let (kind, flags) = (SocketType::RAW, SocketFlags::CLOEXEC);
        let family = rustix::net::AddressFamily::NETLINK;
        // (Without a protocol it is NETLINK_ROUTE, which is 0.)
        let socket = socket_with(family, kind, flags, None).context("could not open rtnetlink")?;
        Link::find(Arc::new(socket), name)
    }

    /// The interface of that name in a socket's namespace. One that is asked at a time.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(super) fn find(socket: Arc<OwnedFd>, name: &str) -> anyhow::Result<Link> {
        let mut link = Link {
            socket,
            index: 0,
            mtu: 0,
            up: false,
            virtual_kind: false,
            unused_tap: false,
            tun: false,
            receive_queues: 1,
            sequence: 0,
        };
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        let reply = link.request(RouteNetlinkMessage::GetLink(message), NLM_F_REQUEST)?;
        let Some(RouteNetlinkMessage::NewLink(found)) = reply else {
            bail!("the kernel has not described it")
        };
        link.index = found.header.index;
        link.up = found.header.flags.contains(LinkFlags::Up);
        link.virtual_kind = is_virtual(&found);
        link.unused_tap = is_unused_tap(&found);
        link.tun = is_tun(&found);
        link.receive_queues = receive_queues(&found);
        link.mtu = mtu(&found).context("the kernel has not said its MTU")?;
        Ok(link)
    }

    /// Its index: the kernel's name for it, which no other interface of the namespace gets while it exists.
    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// True when the kernel makes it itself: a veth, a TAP device, a bridge. False for devices with a driver of their own.
    pub(super) fn is_virtual(&self) -> bool {
        self.virtual_kind
    }

    /// True of a TUN or TAP interface.
    pub(super) fn is_tun(&self) -> bool {
        self.tun
    }

    /// Receive queues that it has room for; at least one.
    pub(super) fn receive_queues(&self) -> u32 {
        self.receive_queues
    }

    /// True when it is a TAP interface that no process uses, which there is only where it is persistent.
    pub(super) fn is_unused_tap(&self) -> bool {
        self.unused_tap
    }

    /// A socket of the interface's namespace.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The same, to [find](Self::find) interfaces by later.
    pub(super) fn shared_socket(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.socket)
    }

    /// Its MTU: the longest frame has an Ethernet header more.
    pub(super) fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Gives it this MTU and MAC address, where there are any.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn set(&mut self, mtu: Option<u32>, mac: Option<[u8; 6]>) -> anyhow::Result<()> {
        let mut message = self.message();
        message.attributes.extend(mtu.map(LinkAttribute::Mtu));
        message.attributes.extend(mac.map(|mac| LinkAttribute::Address(mac.to_vec())));
        if message.attributes.is_empty() {
            return Ok(());
        }
        self.acknowledged(RouteNetlinkMessage::SetLink(message), 0)?;
        self.mtu = mtu.unwrap_or(self.mtu);
        Ok(())
    }

    /// Gives it an address; one that it has already stays.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn add_address(&mut self, address: IpAddr, prefix: u8) -> anyhow::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        message.header.prefix_len = prefix;
        message.header.index = self.index;
        message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        self.acknowledged(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Sets it up, unless it is.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn set_up(&mut self) -> anyhow::Result<()> {
        if self.up {
            return Ok(());
        }
        let mut message = self.message();
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.acknowledged(RouteNetlinkMessage::SetLink(message), 0)?;
        self.up = true;
        Ok(())
    }

    fn message(&self) -> LinkMessage {
        let mut message = LinkMessage::default();
        message.header.index = self.index;
        message
    }

    fn acknowledged(&mut self, message: RouteNetlinkMessage, flags: u16) -> anyhow::Result<()> {
        self.request(message, NLM_F_REQUEST | NLM_F_ACK | flags).map(drop)
    }

    /// Sends a request and waits for its reply; `None` is an acknowledgement.
    fn request(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> anyhow::Result<Option<RouteNetlinkMessage>> {
        self.sequence += 1;
        let mut request = NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::from(message));
        (request.header.flags, request.header.sequence_number) = (flags, self.sequence);
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        sendto(&self.socket, &bytes, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))
            .context("could not ask rtnetlink")?;
        let mut reply = vec![0; REPLY];
        let (n, _) =
            recv(&self.socket, &mut reply[..], RecvFlags::empty()).context("rtnetlink does not answer")?;
        let reply = reply.get(..n).unwrap_or_default();
        let reply = NetlinkMessage::<RouteNetlinkMessage>::deserialize(reply);
        match reply.context("rtnetlink's answer is not understood")?.payload {
            NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io().into()),
            NetlinkPayload::InnerMessage(message) => Ok(Some(message)),
            _ => Ok(None),
        }
    }
}

fn mtu(link: &LinkMessage) -> Option<u32> {
    link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Mtu(mtu) => Some(*mtu),
        _ => None,
    })
}

fn is_virtual(link: &LinkMessage) -> bool {
    let kind = |info: &LinkInfo| matches!(info, LinkInfo::Kind(_));
    let mut attributes = link.attributes.iter();
    attributes.any(|attribute| matches!(attribute, LinkAttribute::LinkInfo(infos) if infos.iter().any(kind)))
}

fn is_tun(link: &LinkMessage) -> bool {
    let kind = |info: &LinkInfo| matches!(info, LinkInfo::Kind(InfoKind::Tun));
    let mut attributes = link.attributes.iter();
    attributes.any(|attribute| matches!(attribute, LinkAttribute::LinkInfo(infos) if infos.iter().any(kind)))
}

fn is_unused_tap(link: &LinkMessage) -> bool {
    link.header.link_layer_type == LinkLayerType::Ether
        && is_tun(link)
        && link.attributes.contains(&LinkAttribute::Carrier(0)) // a queue that is open is its cable
}

fn receive_queues(link: &LinkMessage) -> u32 {
    let queues = link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::NumRxQueues(queues) => Some(*queues),
        _ => None,
    });
    queues.unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_found_by_name() {
        let lo = Link::open("lo").unwrap();
        assert_eq!(lo.index, 1);
        assert!(lo.mtu() >= 68 && lo.receive_queues() == 1 && !lo.is_virtual());
        let why = format!("{:#}", Link::open("no-such-device").err().unwrap());
        assert!(why.contains("No such device"), "{why}");
    }
}
