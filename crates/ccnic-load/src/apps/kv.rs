//! A key-value server as CC-NIC section 5.7 has it: requests are datagrams; the answer to a get is a header, and the value where it lies,
//! two segments and no copy. It is one thread's share of the objects: threads own their keys, as those of `ccnic-kv` do.

use std::collections::VecDeque;

use ccnic::host::{KeptBuf, KeptPart, QueuePair};
use ccnic::ring::Ring;
use ccnic::{Burst, SharedMemory};

use super::{HEADERS, packets};

/// Bytes of a get's request: headers, and the fields below.
pub const REQUEST: usize = HEADERS + 22;
/// Bytes of an answer before its value: headers, status, length and number, as the datagrams of `ccnic-kv` have them.
pub const ANSWER: usize = HEADERS + 16;
/// Bytes of a buffer that values lie in, and the grain of their places in it.
const PLACE: u16 = 4096;
const GRAIN: u16 = 64;

/// What is asked of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// A new value follows; otherwise the value is asked for.
    pub set: bool,
    /// The object, by its number among those of the server.
    pub object: u32,
    /// The number of the request, which the answer repeats.
    pub number: u64,
}

impl Request {
    /// The request's datagram, without a set's value.
    pub fn to_bytes(self) -> [u8; REQUEST] {
        let mut bytes = [0; REQUEST];
        bytes[HEADERS] = 1 + u8::from(self.set);
        bytes[HEADERS + 2..HEADERS + 6].copy_from_slice(&self.object.to_le_bytes());
        bytes[REQUEST - 8..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    /// Reads a datagram; `None` if it is no request.
    #[inline]
    pub fn of(bytes: &[u8]) -> Option<Request> {
        let fields = bytes.get(HEADERS..REQUEST)?;
        let object = u32::from_le_bytes(fields.get(2..6)?.try_into().ok()?);
        let number = u64::from_le_bytes(fields.get(14..22)?.try_into().ok()?);
        match *fields.first()? {
            1 => Some(Request { set: false, object, number }),
            2 => Some(Request { set: true, object, number }),
            _ => None,
        }
    }
}

/// The header of an answer with so many bytes of value.
#[inline]
fn answer(number: u64, len: u32) -> [u8; ANSWER] {
    let mut bytes = [0; ANSWER];
    bytes[HEADERS] = 1;
    bytes[HEADERS + 4..HEADERS + 8].copy_from_slice(&len.to_le_bytes());
    bytes[ANSWER - 8..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The values of a server, each in a buffer of its queue pair's pool, or in several if it is longer than one.
#[derive(Debug)]
pub struct Values {
    /// Each with its offset in the region.
    parts: Vec<(u32, KeptBuf)>,
    /// By object: its first part, and its length. One more at the end.
    objects: Vec<(u32, u32)>,
}

impl Values {
    /// Room for values of these sizes; `None` when the pool has not enough buffers.
    pub fn new<M: SharedMemory, R: Ring>(pair: &mut QueuePair<M, R>, sizes: &[u32]) -> Option<Values> {
        let mut values = Values { parts: Vec::new(), objects: Vec::with_capacity(sizes.len() + 1) };
        let (mut burst, mut open) = (Burst::new(), None::<(u32, KeptBuf)>);
        for &size in sizes {
            values.objects.push((values.parts.len() as u32, size));
            let mut left = size;
            while left > 0 {
                let want = left.min(PLACE.into()) as u16;
                // What is left of a buffer and too short is not used.
                let (at, buffer) = match open.take().filter(|(_, rest)| rest.len() >= want) {
                    Some(rest) => rest,
                    None => {
                        pair.alloc(PLACE, 1, &mut burst);
                        let buf = burst.pop()?;
                        (buf.desc().offset(), pair.keep(buf))
                    }
                };
                let (part, rest) = buffer.split_at(want.next_multiple_of(GRAIN));
                open = Some((at + u32::from(part.len()), rest));
                values.parts.push((at, part));
                left -= u32::from(want);
            }
        }
        values.objects.push((values.parts.len() as u32, 0));
        Some(values)
    }

    /// Buffers that values of these sizes take at most.
    pub fn buffers(sizes: &[u32]) -> u32 {
        let place = u32::from(PLACE);
        let (mut buffers, mut rest) = (0, 0);
        for size in sizes
            .iter()
            .flat_map(|&size| (0..size).step_by(place as usize).map(move |at| (size - at).min(place)))
        {
            if rest < size {
                (buffers, rest) = (buffers + 1, place);
            }
            rest -= size.next_multiple_of(GRAIN.into());
        }
        buffers
    }

    /// The length of a value; 0 if there is no such object.
    pub fn len(&self, object: u32) -> u32 {
        self.objects.get(object as usize).map_or(0, |(_, len)| *len)
    }

    /// True when there are no objects.
    pub fn is_empty(&self) -> bool {
        self.objects.len() <= 1
    }

    /// The bytes of a value, to be sent: none if there is no such object.
    #[inline]
    pub fn of(&self, object: u32) -> impl Iterator<Item = KeptPart<'_>> {
        let (first, len) = self.objects.get(object as usize).copied().unwrap_or((0, 0));
        let mut left = len;
        let parts = self.parts.get(first as usize..).unwrap_or_default();
        parts.iter().map_while(move |(_, part)| {
            let now = left.min(part.len().into());
            left -= now;
            if now == 0 { None } else { part.part(0..now as u16) }
        })
    }

    /// Where the values lie in the region, and how many bytes they take there: in the order of the objects.
    pub fn places(&self) -> impl Iterator<Item = (u32, u32)> {
        self.parts.iter().map(|(at, part)| (*at, part.len().into()))
    }

    /// Writes a value; false while the NIC reads the old one.
    fn write<M: SharedMemory, R: Ring>(
        &mut self,
        pair: &mut QueuePair<M, R>,
        object: u32,
        bytes: &[u8],
    ) -> bool {
        let Some([(first, _), (end, _)]) = self.objects.get(object as usize..object as usize + 2) else {
            return true;
        };
        let parts = self.parts.get_mut(*first as usize..*end as usize).unwrap_or_default();
        if !parts.iter().all(|(_, part)| pair.is_released(part)) {
            return false;
        }
        let mut left = bytes;
        for (_, part) in parts {
            let (now, later) = left.split_at(left.len().min(part.len().into()));
            pair.with_kept_mut(part, |to| to.iter_mut().zip(now).for_each(|(to, from)| *to = *from));
            left = later;
        }
        true
    }
}

/// What is still to be answered: the object whose value is asked for, `NONE` for a set, and the request's number.
type Open = (u32, u64);
const NONE: u32 = u32::MAX;

/// A thread of the server, on its queue pair.
pub struct Server<M: SharedMemory, R: Ring> {
    pair: QueuePair<M, R>,
    values: Values,
    requests: Burst,
    /// The headers of the first answers.
    headers: Burst,
    answers: VecDeque<Open>,
    /// Values that cannot be written yet: the NIC reads the old ones.
    sets: VecDeque<(Request, Vec<u8>)>,
    bytes: Vec<u8>,
}

impl<M: SharedMemory, R: Ring> Server<M, R> {
    /// A server of these values, which lie in the pool of its queue pair.
    pub fn new(pair: QueuePair<M, R>, values: Values) -> Server<M, R> {
        Server {
            pair,
            values,
            requests: Burst::new(),
            headers: Burst::new(),
            answers: VecDeque::new(),
            sets: VecDeque::new(),
            bytes: Vec::new(),
        }
    }

    /// The values.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Answers up to `max` requests; returns how many have come. `look_up` is called with the object of each: a simulator makes the
    /// accesses there by which a store finds it.
    #[inline]
    pub fn poll(&mut self, max: usize, mut look_up: impl FnMut(u32)) -> usize {
        if !self.answers.is_empty() {
            self.send(); // no room before; what comes waits in the ring until there is
            return 0;
        }
        if self.pair.rx_burst(&mut self.requests, max) == 0 && self.sets.is_empty() {
            return 0;
        }
        let mut come = 0;
        let Server { pair, values, requests, answers, sets, bytes, .. } = self;
        let mut writes: Vec<(Request, Vec<u8>)> = sets.drain(..).collect();
        packets(pair, requests, bytes, |bytes, _| {
            come += 1;
            let Some(request) = Request::of(bytes) else { return };
            look_up(request.object);
            if request.set {
                writes.push((request, bytes.get(REQUEST..).unwrap_or_default().to_vec()));
            } else {
                answers.push_back((request.object, request.number));
            }
        });
        if come > 0 {
            pair.free(requests);
        }
        for (request, value) in writes {
            if values.write(pair, request.object, &value) {
                answers.push_back((NONE, request.number));
            } else {
                sets.push_back((request, value));
            }
        }
        self.send();
        come
    }

    /// Sends answers, as many as there are buffers and is room for.
    fn send(&mut self) {
        let Server { pair, values, headers, answers, .. } = self;
        let have = headers.len();
        let want = (answers.len() - have).min(headers.space());
        pair.alloc(ANSWER as u16, want, headers);
        for (header, &(object, number)) in headers.iter_mut().zip(answers.iter()).skip(have) {
            let fields = answer(number, values.len(object));
            pair.write(header, 0, &fields);
        }
        let sent = pair.tx_kept(headers, answers.iter().map(|&(object, _)| values.of(object)));
        answers.drain(..sent);
    }

    /// The queue pair: to wait for packets.
    pub fn pair(&self) -> &QueuePair<M, R> {
        &self.pair
    }
}

#[cfg(test)]
mod tests {
    use ccnic::Config;
    use ccnic::nic::{Fetched, NicQueue};
    use ccnic::ring::{Doorbell, GroupedClear, GroupedEpoch};
    use ccnic::testing::{config, nic, pair, region};

    use super::*;

    /// Answers that the NIC has fetched, and their bytes; their units are handed back.
    fn answers<M: SharedMemory, R: Ring>(nic: &mut NicQueue<M, R>, hand_back: bool) -> Vec<Vec<u8>> {
        let mut fetched = Fetched::default();
        nic.fetch(&mut fetched);
        let packets = fetched.rest().split_inclusive(|desc| !desc.more());
        let bytes = |packet: &[ccnic::desc::Desc]| {
            let mut all = Vec::new();
            for desc in packet {
                nic.memory().with(desc.offset(), desc.len().into(), |bytes| all.extend_from_slice(bytes));
            }
            all
        };
        let all = packets.map(bytes).collect();
        if hand_back {
            nic.complete(fetched.rest());
            nic.flush();
        }
        all
    }

    fn gets_and_sets<R: Ring>() {
        let sizes = [5, 4000, 9000, 1];
        let (mem, layout) = region(&Config { buffers: 128, ..config::<R>() });
        let mut nic = nic::<_, R>(mem.clone(), &layout, 0).unwrap();
        let mut pair = pair::<_, R>(mem, &layout, 0).unwrap();
        let values = Values::new(&mut pair, &sizes).unwrap();
        let mut server = Server::new(pair, values);
        let ask = |nic: &mut NicQueue<_, R>, set, object, value: &[u8]| {
            let request = Request { set, object, number: 77 }.to_bytes();
            assert_eq!(Request::of(&request), Some(Request { set, object, number: 77 }));
            assert!(nic.deliver_bytes(&[&request, value], 0));
            nic.flush();
        };
        server.poll(32, |_| {}); // posts buffers, where the host does
        let mut looked = Vec::new();
        for (object, size) in (0..).zip(sizes) {
            let value: Vec<u8> = (0..size).map(|i| (i * 7 + object) as u8).collect();
            ask(&mut nic, true, object, &value);
            assert_eq!(server.poll(32, |object| looked.push(object)), 1);
            assert_eq!(answers(&mut nic, true), [answer(77, 0)], "of a set: no value");
            ask(&mut nic, false, object, &[]);
            server.poll(32, |object| looked.push(object));
            let found = answers(&mut nic, true);
            let [found] = found.as_slice() else { panic!("{} answers", found.len()) };
            assert_eq!((&found[..ANSWER], &found[ANSWER..]), (&answer(77, size)[..], &value[..]));
        }
        assert_eq!(looked, [0, 0, 1, 1, 2, 2, 3, 3]);
        // A value that the NIC is reading is not overwritten; the set is answered when it has been.
        ask(&mut nic, false, 1, &[]);
        server.poll(32, |_| {});
        ask(&mut nic, true, 1, &[9; 4000]);
        server.poll(32, |_| {});
        server.poll(32, |_| {});
        assert_eq!(answers(&mut nic, true).len(), 1, "the get's");
        server.poll(32, |_| {});
        assert_eq!(answers(&mut nic, true), [answer(77, 0)]);
        ask(&mut nic, false, 1, &[]);
        server.poll(32, |_| {});
        assert!(answers(&mut nic, true)[0][ANSWER..].iter().all(|byte| *byte == 9));
        // No such object, and no request.
        ask(&mut nic, false, 4, &[]);
        assert!(nic.deliver_bytes(&[&[3; REQUEST]], 0));
        nic.flush();
        assert_eq!(server.poll(32, |_| {}), 2);
        assert_eq!(answers(&mut nic, true), [answer(77, 0)]);
    }

    #[test]
    fn gets_are_answered_with_what_was_set() {
        gets_and_sets::<GroupedEpoch>();
        gets_and_sets::<GroupedClear>();
        gets_and_sets::<Doorbell>();
    }

    #[test]
    fn values_take_no_more_buffers_than_said() {
        let sizes = [64, 4000, 65, 9600, 1, 4096, 4095, 33, 2000];
        let most = Values::buffers(&sizes);
        let fits = |buffers| {
            let (mem, layout) = region(&Config { buffers, ..config::<GroupedClear>() });
            Values::new(&mut pair::<_, GroupedClear>(mem, &layout, 0).unwrap(), &sizes).is_some()
        };
        assert!(fits(most.max(64)), "{most}");
        assert_eq!(most, 8);
    }
}
