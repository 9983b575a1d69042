//! A network interface as the kernel's network configuration has it: asked for and set by rtnetlink (rtnetlink(7)).

use std::convert::Infallible;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, bail};
use libc::{
    AF_INET, AF_INET6, IFA_ADDRESS, IFA_LOCAL, IFF_UP, IFLA_ADDRESS, IFLA_IFNAME, IFLA_INFO_KIND,
    IFLA_LINKINFO, IFLA_MTU, IFLA_NUM_RX_QUEUES, RTM_GETLINK, RTM_NEWADDR, RTM_NEWLINK, RTM_SETLINK,
};
use netlink_packet_core::{
    DefaultNla, Emitable, NLA_HEADER_SIZE, NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST,
    NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable, NlasIterator,
};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

/// Bytes of the longest reply: a link with all its attributes takes about two thousand.
const REPLY: usize = 32 << 10;

/// An interface of this network namespace.
pub(super) struct Link {
    socket: OwnedFd,
    index: u32,
    mtu: u32,
    up: bool,
    virtual_kind: bool,
    receive_queues: u32,
    sequence: u32,
}

impl Link {
    /// The interface of that name.
    ///
    /// # Errors
    /// When there is none, or the kernel does not say.
    pub(super) fn open(name: &str) -> anyhow::Result<Link> {
        let (kind, flags) = (SocketType::RAW, SocketFlags::CLOEXEC);
        let family = rustix::net::AddressFamily::NETLINK;
        // (Without a protocol it is NETLINK_ROUTE, which is 0.)
        let socket = socket_with(family, kind, flags, None).context("could not open rtnetlink")?;
        let mut link =
            Link { socket, index: 0, mtu: 0, up: false, virtual_kind: false, receive_queues: 1, sequence: 0 };
        let message =
            Message::of_link(RTM_GETLINK, 0, 0).with(IFLA_IFNAME, &[name.as_bytes(), &[0]].concat());
        let Some(found) = link.request(message, NLM_F_REQUEST)?.filter(|reply| reply.kind == RTM_NEWLINK)
        else {
            bail!("the kernel has not described it")
        };
        link.index = found.word(INDEX).context("the kernel has not said its index")?;
        link.up = found.word(FLAGS).is_some_and(|flags| flags & IFF_UP as u32 != 0);
        let info = found.attribute(IFLA_LINKINFO);
        link.virtual_kind = info.is_some_and(|info| attribute(info, IFLA_INFO_KIND).is_some());
        link.receive_queues = found.attribute(IFLA_NUM_RX_QUEUES).and_then(word).unwrap_or(1).max(1);
        link.mtu = found.attribute(IFLA_MTU).and_then(word).context("the kernel has not said its MTU")?;
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

    /// Receive queues that it has room for; at least one.
    pub(super) fn receive_queues(&self) -> u32 {
        self.receive_queues
    }

    /// A socket of the interface's namespace.
    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
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
        if mtu.is_none() && mac.is_none() {
            return Ok(());
        }
        let mut message = Message::of_link(RTM_SETLINK, self.index, 0);
        if let Some(mtu) = mtu {
            message = message.with(IFLA_MTU, &mtu.to_ne_bytes());
        }
        if let Some(mac) = mac {
            message = message.with(IFLA_ADDRESS, &mac);
        }
        self.acknowledged(message, 0)?;
        self.mtu = mtu.unwrap_or(self.mtu);
        Ok(())
    }

    /// Gives it an address; one that it has already stays.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn add_address(&mut self, address: IpAddr, prefix: u8) -> anyhow::Result<()> {
        let (family, address) = match address {
            IpAddr::V4(address) => (AF_INET, address.octets().to_vec()),
            IpAddr::V6(address) => (AF_INET6, address.octets().to_vec()),
        };
        // struct ifaddrmsg: family, prefix, flags, scope; the index.
        let body = [[family as u8, prefix, 0, 0], self.index.to_ne_bytes()].concat();
        let message = Message { kind: RTM_NEWADDR, body };
        let message = message.with(IFA_LOCAL, &address).with(IFA_ADDRESS, &address);
        self.acknowledged(message, NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Sets it up, unless it is.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn set_up(&mut self) -> anyhow::Result<()> {
        if self.up {
            return Ok(());
        }
        self.acknowledged(Message::of_link(RTM_SETLINK, self.index, IFF_UP as u32), 0)?;
        self.up = true;
        Ok(())
    }

    fn acknowledged(&mut self, message: Message, flags: u16) -> anyhow::Result<()> {
        self.request(message, NLM_F_REQUEST | NLM_F_ACK | flags).map(drop)
    }

    /// Sends a request and waits for its reply; `None` is an acknowledgement.
    fn request(&mut self, message: Message, flags: u16) -> anyhow::Result<Option<Message>> {
        self.sequence += 1;
        let mut request =
            NetlinkMessage::new(NetlinkHeader::default(), NetlinkPayload::InnerMessage(message));
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
        let reply = NetlinkMessage::<Message>::deserialize(reply);
        match reply.context("rtnetlink's answer is not understood")?.payload {
            NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io().into()),
            NetlinkPayload::InnerMessage(message) => Ok(Some(message)),
            _ => Ok(None),
        }
    }
}

/// A message of rtnetlink: a fixed structure, then attributes.
struct Message {
    /// `RTM_`...
    kind: u16,
    body: Vec<u8>,
}

/// Bytes of `struct ifinfomsg`: family and type of device, index, flags, which flags to change.
const IFINFOMSG: usize = 16;
const INDEX: usize = 4;
const FLAGS: usize = 8;

impl Message {
    /// A message about an interface, which sets these flags.
    fn of_link(kind: u16, index: u32, flags: u32) -> Message {
        Message { kind, body: [0, index, flags, flags].map(u32::to_ne_bytes).concat() }
    }

    /// Adds an attribute.
    fn with(mut self, kind: u16, value: &[u8]) -> Message {
        let (attribute, at) = (DefaultNla::new(kind, value.to_vec()), self.body.len());
        self.body.resize(at + attribute.buffer_len(), 0);
        attribute.emit(self.body.get_mut(at..).unwrap_or_default());
        self
    }

    /// A word of the fixed structure.
    fn word(&self, at: usize) -> Option<u32> {
        self.body.get(at..at + 4).and_then(word)
    }

    /// The value of an attribute of a message about an interface.
    fn attribute(&self, kind: u16) -> Option<&[u8]> {
        attribute(self.body.get(IFINFOMSG..)?, kind)
    }
}

fn attribute(attributes: &[u8], kind: u16) -> Option<&[u8]> {
    NlasIterator::new(attributes).flatten().find(|attribute| attribute.kind() == kind).map(|found| {
        // (`NlaBuffer::value` borrows from the iterator's item.)
        let length = found.value_length();
        found.into_inner().get(NLA_HEADER_SIZE..NLA_HEADER_SIZE + length).unwrap_or_default()
    })
}

fn word(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_ne_bytes)
}

impl NetlinkSerializable for Message {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.body.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.body);
    }
}

impl NetlinkDeserializable for Message {
    type Error = Infallible;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Message, Infallible> {
        Ok(Message { kind: header.message_type, body: payload.to_vec() })
    }
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
