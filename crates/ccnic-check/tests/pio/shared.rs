//! What both models share: the simulator's own state machines of both sides, what lies in the lines, and the rules that can be taken away.

use crate::protocol::{self, CpuSide, DeviceSide, OnLoad};
pub(crate) use crate::protocol::{Initiator, Line};
use stateright::{Model, Property};

/// Calls of a model: each line has each role twice.
pub(crate) const CALLS: u8 = 4;
/// Times that the device says "not ready yet" (section 4.4), and evictions, in a run.
pub(crate) const TIMEOUTS: u8 = 3;
pub(crate) const EVICTIONS: u8 = 3;

/// What makes the protocols work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Rules {
    /// The core's stores are complete before its next load is sent (section 4.5: DMB).
    pub barrier: bool,
    /// Transactions on the two lines proceed independently (section 4.4).
    pub units_apart: bool,
    /// The device has the request's line before it answers (section 4.3, step 3).
    pub waits_for_request: bool,
    /// The device takes a line with "not ready yet" back before it answers.
    pub takes_back_not_ready: bool,
    /// The device keeps its last message, and answers a repeated load with it.
    pub repeats: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            barrier: true,
            units_apart: true,
            waits_for_request: true,
            takes_back_not_ready: true,
            repeats: true,
        }
    }
}

impl Rules {
    fn device(&self) -> protocol::Rules {
        protocol::Rules {
            waits_for_request: self.waits_for_request,
            takes_back_not_ready: self.takes_back_not_ready,
            repeats: self.repeats,
        }
    }
}

/// A line's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Value {
    /// Nothing that anybody waits for.
    Empty,
    Request(u8),
    Answer(u8),
    NotReady,
}

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    /// A message was missing, came twice, or at the wrong parity.
    NotOnce,
    /// The device has answered without the request's line.
    NotOwned,
}

/// The program on the core: what it does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// Writes its message into the line of its turn.
    Write,
    /// Loads the line at which it waits.
    Load,
}

/// The core: its program, and its store buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Core {
    side: CpuSide,
    step: Step,
    /// Messages of the device that it has taken.
    pub taken: u8,
    pub store: Option<(Line, Value)>,
}

impl Core {
    pub fn new(initiator: Initiator) -> Core {
        let step = if initiator == Initiator::Cpu { Step::Write } else { Step::Load };
        Core { side: CpuSide::new(initiator), step, taken: 0, store: None }
    }

    /// True when its program can do something.
    pub fn goes_on(&self, initiator: Initiator, rules: &Rules, pending: [bool; 2]) -> bool {
        let writes = if initiator == Initiator::Cpu { CALLS } else { CALLS + 1 };
        match self.step {
            Step::Write => self.store.is_none() && self.taken < writes,
            Step::Load => (!rules.barrier || self.store.is_none()) && !pending[self.side.waits_at()],
        }
    }

    /// The line that it loads next; otherwise it has written its message.
    pub fn loads(&mut self, initiator: Initiator) -> Option<Line> {
        if self.step == Step::Load {
            return Some(self.side.waits_at());
        }
        let message = match initiator {
            Initiator::Cpu => Value::Request(self.taken),
            Initiator::Device => Value::Answer(self.taken - 1),
        };
        self.store = Some((self.side.writes_at(), message));
        self.side.wrote();
        self.step = Step::Load;
        None
    }

    /// It takes what it has loaded.
    pub fn take(&mut self, initiator: Initiator, value: Value) -> Result<(), Fault> {
        match (initiator, value) {
            (_, Value::NotReady) => {
                self.side.took(false);
                return Ok(());
            }
            (Initiator::Cpu, Value::Answer(n)) | (Initiator::Device, Value::Request(n))
                if n == self.taken => {}
            _ => return Err(Fault::NotOnce),
        }
        self.side.took(true);
        self.taken += 1;
        self.step = Step::Write;
        Ok(())
    }
}

/// The device: its side of the protocol, and what it has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Device {
    pub side: DeviceSide,
    /// Messages of the core that it has taken.
    pub taken: u8,
    /// It has had the line of the request that it answers next.
    has_request: bool,
    timeouts: u8,
}

impl Device {
    pub fn new(initiator: Initiator, rules: &Rules) -> Device {
        let side = DeviceSide::new(initiator, rules.device());
        Device { side, taken: 0, has_request: false, timeouts: TIMEOUTS }
    }

    /// A load has come at the line where the core waits.
    pub fn load(&mut self, line: Line) -> OnLoad {
        let busy = self.side.is_busy();
        let on_load = self.side.load(line);
        if on_load == OnLoad::Hold && !busy {
            self.taken += 1; // takes the request for granted
        }
        on_load
    }

    /// Takes the content of the line that it has fetched.
    pub fn take(&mut self, initiator: Initiator, value: Value) -> Result<(), Fault> {
        if self.side.fetched() {
            let message = match initiator {
                Initiator::Cpu => Value::Request(self.taken),
                Initiator::Device => Value::Answer(self.taken),
            };
            if value != message {
                return Err(Fault::NotOnce);
            }
            self.taken += 1;
            self.has_request = true;
        }
        Ok(())
    }

    /// The reply to the load that is held, if there is one now: the message, or "not ready yet".
    pub fn replies(&self, initiator: Initiator) -> Vec<Value> {
        if self.side.may_answer().is_none() {
            return Vec::new();
        }
        let message = match initiator {
            Initiator::Cpu => Some(Value::Answer(self.taken.saturating_sub(1))),
            Initiator::Device => (self.taken < CALLS).then_some(Value::Request(self.taken)),
        };
        let not_ready = (self.timeouts > 0).then_some(Value::NotReady);
        message.into_iter().chain(not_ready).collect()
    }

    /// It has replied.
    pub fn replied(&mut self, initiator: Initiator, value: Value) -> Result<(), Fault> {
        let ready = value != Value::NotReady;
        if initiator == Initiator::Cpu && ready && !self.has_request {
            return Err(Fault::NotOwned);
        }
        self.side.answered(ready);
        if ready {
            self.has_request = false;
        } else {
            self.timeouts -= 1;
        }
        Ok(())
    }
}

/// A model's state, as far as both have it.
pub(crate) trait Watched {
    fn core(&self) -> &Core;
    fn device(&self) -> &Device;
    fn fault(&self) -> Option<Fault>;

    /// All calls are done.
    fn is_done(&self, initiator: Initiator) -> bool {
        CALLS == if initiator == Initiator::Cpu { self.core().taken } else { self.device().taken }
    }
}

/// What must hold in both models.
pub(crate) fn properties<M: Model<State: Watched>>() -> Vec<Property<M>> {
    vec![
        Property::always("exactly once", |_, state: &M::State| state.fault() != Some(Fault::NotOnce)),
        Property::always("owned before answered", |_, state: &M::State| {
            state.fault() != Some(Fault::NotOwned)
        }),
    ]
}
