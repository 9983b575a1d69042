//! What both models share: the roles of the lines, what lies in them, and the rules that can be taken away.

/// Calls of a model: each line has each role twice.
pub(crate) const CALLS: u8 = 4;
/// Times that the device says "not ready yet" (section 4.4), and evictions, in a run.
pub(crate) const TIMEOUTS: u8 = 3;
pub(crate) const EVICTIONS: u8 = 3;

/// Which side sends the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Initiator {
    /// Figures 4a and 4c.
    Cpu,
    /// Figures 4b and 4d.
    Device,
}

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

/// One of the two lines, A and B: 0 or 1.
pub(crate) type Line = usize;

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
    /// Its parity: `CPU` initiates, the line of its request; otherwise the line that it loads.
    pub turn: Line,
    pub step: Step,
    /// Messages of the device that it has taken.
    pub taken: u8,
    pub store: Option<(Line, Value)>,
}

impl Core {
    pub fn new(initiator: Initiator) -> Core {
        let step = if initiator == Initiator::Cpu { Step::Write } else { Step::Load };
        Core { turn: 0, step, taken: 0, store: None }
    }

    /// The line that it loads.
    pub fn waits_at(&self, initiator: Initiator) -> Line {
        if initiator == Initiator::Cpu { 1 - self.turn } else { self.turn }
    }

    /// It writes its message: into the store buffer.
    pub fn write(&mut self, initiator: Initiator) {
        let message = match initiator {
            Initiator::Cpu => Value::Request(self.taken),
            // Its answer goes where the request came.
            Initiator::Device => Value::Answer(self.taken - 1),
        };
        self.store = Some((self.turn, message));
        if initiator == Initiator::Device {
            self.turn = 1 - self.turn;
        }
        self.step = Step::Load;
    }

    /// It takes what it has loaded.
    pub fn take(&mut self, initiator: Initiator, value: Value) -> Result<(), Fault> {
        match (initiator, value) {
            // Not rewriting the request, it waits at the other line (section 4.4).
            (_, Value::NotReady) => {
                self.turn = 1 - self.turn;
                Ok(())
            }
            (Initiator::Cpu, Value::Answer(n)) if n == self.taken => {
                self.taken += 1;
                self.turn = 1 - self.turn;
                self.step = Step::Write;
                Ok(())
            }
            (Initiator::Device, Value::Request(n)) if n == self.taken => {
                self.taken += 1;
                self.step = Step::Write;
                Ok(())
            }
            _ => Err(Fault::NotOnce),
        }
    }
}

/// The device: what it does with the load that it holds back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Device {
    /// Its parity, as the core's.
    pub turn: Line,
    pub phase: Phase,
    /// The load that it holds back.
    pub held: Option<Line>,
    /// Messages of the core that it has taken.
    pub taken: u8,
    /// A request of the core is being worked on (CPU initiates), or a message of the device is at the core (device initiates).
    pub busy: bool,
    /// It has had the line of the request that it answers next.
    has_request: bool,
    pub timeouts: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// Nothing to do before a load comes.
    Idle,
    /// Takes the line of the core's last message back.
    Fetch,
    /// Has what it needs, and can reply to the load.
    Ready,
}

impl Device {
    pub fn new() -> Device {
        Device {
            turn: 0,
            phase: Phase::Idle,
            held: None,
            taken: 0,
            busy: false,
            has_request: false,
            timeouts: TIMEOUTS,
        }
    }

    /// The line of the core's last message, which has to be fetched before a load is replied to.
    pub fn fetches(&self, initiator: Initiator) -> Line {
        if initiator == Initiator::Cpu { self.turn } else { 1 - self.turn }
    }

    /// Takes the content of that line.
    pub fn take(&mut self, initiator: Initiator, value: Value) -> Result<(), Fault> {
        let message = match (initiator, self.busy) {
            // What is there is "not ready yet", or, with the device as initiator, nothing was asked.
            (Initiator::Cpu, true) | (Initiator::Device, false) => None,
            (Initiator::Cpu, false) => Some(Value::Request(self.taken)),
            (Initiator::Device, true) => Some(Value::Answer(self.taken)),
        };
        self.phase = Phase::Ready;
        if let Some(message) = message {
            if value != message {
                return Err(Fault::NotOnce);
            }
            self.taken += 1;
            self.busy = initiator == Initiator::Cpu;
            self.has_request = true;
        }
        Ok(())
    }

    /// A load has come at the line where the core waits. Holds it; returns the line to fetch first, if there is one.
    pub fn hold(&mut self, line: Line, initiator: Initiator, rules: &Rules) -> Option<Line> {
        self.held = Some(line);
        let skips = match (initiator, self.busy) {
            (Initiator::Cpu, true) => !rules.takes_back_not_ready,
            (Initiator::Cpu, false) => !rules.waits_for_request,
            (Initiator::Device, _) => false,
        };
        if !skips {
            self.phase = Phase::Fetch;
            return Some(self.fetches(initiator));
        }
        self.phase = Phase::Ready;
        if !self.busy {
            // It takes the request for granted.
            (self.taken, self.busy) = (self.taken + 1, true);
        }
        None
    }

    /// The reply to the load that is held, if there is one now: the message, or "not ready yet".
    pub fn replies(&self, initiator: Initiator) -> Vec<Value> {
        if self.phase != Phase::Ready || self.held.is_none() {
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
        let answer = initiator == Initiator::Cpu && value != Value::NotReady;
        if answer && !self.has_request {
            return Err(Fault::NotOwned);
        }
        (self.held, self.phase) = (None, Phase::Idle);
        self.turn = 1 - self.turn;
        if value == Value::NotReady {
            self.timeouts -= 1;
        } else {
            self.busy = initiator == Initiator::Device;
            self.has_request = false;
        }
        Ok(())
    }
}
