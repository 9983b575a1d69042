//! Messages between the nodes, and when they arrive: a latency, a rate, and an order for each direction.

use crate::kernel::events;
use crate::kernel::server::Server;
use crate::kernel::time::{Ps, ps};
use crate::platform::PioPlatform;

use super::line::{LINE, Node};

/// What a message says of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// To the home: wants to read it.
    Load,
    /// To the home: wants to write it.
    Own,
    /// From the home: here it is, to read.
    DataShared,
    /// From the home: here it is, to write.
    DataExclusive,
    /// From the home: may be written now; the data are there.
    Upgraded,
    /// From the home: give it back.
    Recall,
    /// From the home: give it back, and keep a copy to read.
    RecallShared,
    /// To the home: given back, not written.
    RecalledClean,
    /// To the home: given back, with what was written.
    RecalledDirty,
    /// To the home: evicted, with what was written.
    WriteBack,
    /// Of no line: when everything before it is done, answer. The line is the number of the core.
    Sync,
    /// Its answer.
    Synced,
}

/// What happens at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A message has an effect at a node.
    Message(Node, Message, u32),
    /// A core's data, or its barrier's answer, are with it: it goes on.
    Resume(usize),
    /// A time that the device has asked for.
    Timer(u32),
    /// The device gives a line, exclusive or shared.
    Give(u32, bool),
    /// The device is told that a line of it is wanted.
    Wanted(u32),
    /// The device is told that a line that it has fetched is there.
    Got(u32),
}

const MESSAGES: [Message; 12] = [
    Message::Load,
    Message::Own,
    Message::DataShared,
    Message::DataExclusive,
    Message::Upgraded,
    Message::Recall,
    Message::RecallShared,
    Message::RecalledClean,
    Message::RecalledDirty,
    Message::WriteBack,
    Message::Sync,
    Message::Synced,
];

impl events::Event for Event {
    fn pack(self) -> u64 {
        let word = |kind: u64, detail: u64, number: u32| kind << 48 | detail << 32 | u64::from(number);
        match self {
            Event::Message(node, message, line) => word(0, (node as u64) << 8 | message as u64, line),
            Event::Resume(core) => word(1, 0, core as u32),
            Event::Timer(token) => word(2, 0, token),
            Event::Give(line, exclusive) => word(3, exclusive.into(), line),
            Event::Wanted(line) => word(4, 0, line),
            Event::Got(line) => word(5, 0, line),
        }
    }

    fn unpack(word: u64) -> Event {
        let (kind, detail, number) = (word >> 48, word >> 32 & 0xffff, word as u32);
        match kind {
            0 => Event::Message((detail >> 8) as Node, MESSAGES[(detail & 0xff) as usize], number),
            1 => Event::Resume(number as usize),
            2 => Event::Timer(number),
            3 => Event::Give(number, detail == 1),
            4 => Event::Wanted(number),
            _ => Event::Got(number),
        }
    }
}

/// Both directions.
#[derive(Debug)]
pub struct Wires {
    one_way: Ps,
    header: u32,
    gbytes_per_s: f64,
    servers: [Server; 2],
    /// When the last message to each node arrived: later ones do not overtake it.
    last: [Ps; 2],
}

impl Wires {
    /// The link of a platform; `one_way` is what it takes to what is at its end.
    pub fn new(platform: &PioPlatform, one_way: f64) -> Wires {
        let (header, rate) =
            platform.link.as_ref().map_or((0, 1.0), |link| (link.header.get(), link.gbytes_per_s.get()));
        Wires {
            one_way: ps(one_way),
            header,
            gbytes_per_s: rate,
            servers: [Server::default(), Server::default()],
            last: [0; 2],
        }
    }

    /// When a message that is sent at `at` arrives at `to`.
    pub fn arrival(&mut self, to: Node, message: Message, at: Ps) -> Ps {
        use Message::{DataExclusive, DataShared, RecalledDirty, WriteBack};
        let carries = matches!(message, DataShared | DataExclusive | RecalledDirty | WriteBack);
        let bytes = self.header + if carries { LINE } else { 0 };
        let sent = self.servers[to].serve(at, ps(f64::from(bytes) / self.gbytes_per_s));
        self.last[to] = self.last[to].max(sent + self.one_way);
        self.last[to]
    }
}
