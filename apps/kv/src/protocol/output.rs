//! Replies on their way out: bytes, and between them references to values too long to copy.

use std::collections::VecDeque;

use crate::store::shard::Shard;
use crate::store::{Content, Decimal, Value};

/// Values up to this length are copied into the reply. 16 replies in one `writev` to a Unix socket, ns for each, copied and referred to
/// (medians, Emerald Rapids VM, quiet): 256 bytes 194 and 302, 1024 bytes 298 and 396, 2048 bytes 497 and 505, 16 KiB 3800 and 3480.
pub(crate) const INLINE: usize = 2048;

/// Replies that have not been sent yet.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    /// What of `bytes` has been sent.
    sent: usize,
    /// Values, each with the place in `bytes` that it stands before.
    values: VecDeque<(usize, Value)>,
    /// What of the first value has been sent.
    sent_value: usize,
    /// Bytes of the values.
    value_bytes: usize,
}

/// A place in an [`Output`] to go back to.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    bytes: usize,
    values: usize,
}

impl Output {
    /// An empty one.
    pub fn new() -> Output {
        Output::default()
    }

    /// How many bytes are still to be sent.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent + self.value_bytes - self.sent_value
    }

    /// True if everything has been sent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(crate) fn number(&mut self, number: u64) {
        self.put(Decimal::new(number).as_bytes());
    }

    /// An item's value and CRLF.
    pub(crate) fn value(&mut self, shard: &Shard, id: u32) {
        if let Content::Kept(value) = shard.content(id) {
            value.lend(|part| self.bytes.extend_from_slice(part));
            self.put(b"\r\n");
            return;
        }
        let line = shard.slot(id).value_line();
        if line.len() <= INLINE {
            self.bytes.extend_from_slice(line);
        } else if let Some(value) = shard.share(id) {
            self.value_bytes += value.bytes().len();
            self.values.push_back((self.bytes.len(), value));
        }
    }

    /// This place, for [`Output::back_to`].
    pub fn mark(&self) -> Mark {
        Mark { bytes: self.bytes.len(), values: self.values.len() }
    }

    /// Takes back what was put since; nothing of it may have been sent.
    pub fn back_to(&mut self, mark: Mark) {
        self.bytes.truncate(mark.bytes);
        for (_, value) in self.values.drain(mark.values..) {
            self.value_bytes -= value.bytes().len();
        }
    }

    /// What is to be sent, in order.
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        let ends = self.values.iter().map(|(at, _)| *at).chain([self.bytes.len()]);
        let starts = std::iter::once(self.sent).chain(self.values.iter().map(|(at, _)| *at));
        let values = self.values.iter().map(|(_, value)| value.bytes()).chain([&[][..]]);
        starts
            .zip(ends)
            .zip(values)
            .enumerate()
            .flat_map(move |(number, ((start, end), value))| {
                let skip = if number == 0 { self.sent_value } else { 0 };
                [&self.bytes[start..end], value.get(skip..).unwrap_or_default()]
            })
            .filter(|segment| !segment.is_empty())
    }

    /// Takes the first `count` bytes away: they have been sent.
    pub fn sent(&mut self, mut count: usize) {
        while count > 0 {
            let end = self.values.front().map_or(self.bytes.len(), |(at, _)| *at);
            let now = count.min(end - self.sent);
            self.sent += now;
            count -= now;
            let Some((_, value)) = self.values.front().filter(|_| self.sent == end) else { break };
            let now = count.min(value.bytes().len() - self.sent_value);
            self.sent_value += now;
            count -= now;
            if self.sent_value == value.bytes().len() {
                self.value_bytes -= self.sent_value;
                self.sent_value = 0;
                self.values.pop_front();
            }
        }
        if self.is_empty() {
            self.clear();
        }
    }

    /// Empty again. The memory of ordinary replies is kept.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(64 << 10);
        self.values.clear();
        (self.sent, self.sent_value, self.value_bytes) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Limits, Mode, Store, Update};

    #[test]
    fn any_way_of_sending_gives_the_same_bytes() {
        let store = Store::new(1, &Limits::default(), 100);
        let mut session = store.session(100);
        let long = vec![b'x'; 3000];
        let update = Update { mode: Mode::Set, ..Update::set(b"k", &long) };
        session.update(&update);
        for step in [1, 2, 7, 3001, 3003, 9000] {
            let mut out = Output::new();
            for part in ["ab", "", "c"] {
                out.put(part.as_bytes());
                let place = session.place(b"k");
                let id = session.shard(place).find(place.hash, b"k", 100).unwrap();
                out.value(session.shard(place), id);
            }
            out.put(b"END");
            let mut seen = Vec::new();
            while !out.is_empty() {
                let all: Vec<u8> = out.segments().flatten().copied().collect();
                assert_eq!(all.len(), out.len());
                let now = step.min(all.len());
                seen.extend_from_slice(&all[..now]);
                out.sent(now);
            }
            let line = [&long[..], b"\r\n"].concat();
            assert_eq!(seen, [b"ab", &line[..], &line, b"c", &line, b"END"].concat());
        }
    }

    #[test]
    fn going_back_takes_values_along() {
        let store = Store::new(1, &Limits::default(), 100);
        let mut session = store.session(100);
        session.update(&Update::set(b"k", &[b'x'; 4000]));
        let mut out = Output::new();
        out.put(b"a");
        let mark = out.mark();
        out.put(b"b");
        let place = session.place(b"k");
        let id = session.shard(place).find(place.hash, b"k", 100).unwrap();
        out.value(session.shard(place), id);
        out.back_to(mark);
        assert_eq!((out.len(), out.segments().count()), (1, 1));
    }
}
