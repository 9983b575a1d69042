//! What a device on the link is: it is told of every line that the processor wants of it, and answers when it likes.

use crate::kernel::time::Ps;

use crate::machine::ram::Ram;

/// A device at the other end of the link. Lines are known by their numbers, which are addresses divided by [`LINE`](super::LINE).
pub trait Device {
    /// The processor loads a line that the device is home of or owns. Nothing is answered before the device [`give`](EciPort::give)s it.
    fn wanted(&mut self, port: &mut EciPort<'_>, line: u32);

    /// A line that the device has [`fetch`](EciPort::fetch)ed is there: the processor has no copy of it any more.
    fn got(&mut self, port: &mut EciPort<'_>, line: u32);

    /// A time that it has asked for has come.
    fn due(&mut self, port: &mut EciPort<'_>, token: u32);
}

/// What a device has asked for in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Fetch(u32),
    /// A line, exclusive or shared, after a time.
    Give(u32, bool, Ps),
    After(Ps, u32),
}

/// What a device can do. It happens, in this order, when the device's call is over.
#[derive(Debug)]
pub struct EciPort<'a> {
    now: Ps,
    ram: &'a mut Ram,
    wishes: Vec<Wish>,
}

impl<'a> EciPort<'a> {
    pub(super) fn new(now: Ps, ram: &'a mut Ram) -> EciPort<'a> {
        EciPort { now, ram, wishes: Vec::new() }
    }

    pub(super) fn wishes(self) -> Vec<Wish> {
        self.wishes
    }

    /// The time.
    pub fn now(&self) -> Ps {
        self.now
    }

    /// Takes a line from the processor, whichever node is its home: [`Device::got`] follows, at once if the processor does not have it.
    pub fn fetch(&mut self, line: u32) {
        self.wishes.push(Wish::Fetch(line));
    }

    /// After a step of the device and `after`: the line goes to the processor that wants it, to be written too if `exclusive`.
    pub fn give(&mut self, line: u32, exclusive: bool, after: Ps) {
        self.wishes.push(Wish::Give(line, exclusive, after));
    }

    /// [`Device::due`] follows, after so long.
    pub fn after(&mut self, span: Ps, token: u32) {
        self.wishes.push(Wish::After(span, token));
    }

    /// Bytes of a line that the device has.
    pub fn bytes(&self, at: u32, len: usize) -> &[u8] {
        self.ram.bytes(at, len)
    }

    /// Bytes of a line that the device has, to be written.
    pub fn bytes_mut(&mut self, at: u32, len: usize) -> &mut [u8] {
        self.ram.bytes_mut(at, len)
    }
}
