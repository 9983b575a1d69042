//! The four message protocols (PIO section 4.3, figure 4), without time, links or data: which of the two lines has which role, and what a
//! device does with a load that it holds back.
//!
//! | figure | initiates | home of the lines | the core's message lies in | the core waits at |
//! |---|---|---|---|---|
//! | 4a | CPU | device | line `turn` | the other line |
//! | 4b | device | device | the line of the request | line `turn` |
//! | 4c | CPU | CPU | as 4a | as 4a |
//! | 4d | device | CPU | as 4b | as 4b |
//!
//! A load that reaches the device (where the CPU is home: the home's probe) says that the core's message lies in the other line. The
//! device holds it, takes that line, and answers. With each answer the lines change their roles, also if it is NOT_READY, with which a
//! device answers before the bus times out (section 4.4).
//!
//! The simulated programs and devices of this module's neighbours run these two state machines, and `ccnic-check/tests/pio` visits every
//! state of them with every order of messages, evictions and timeouts.

/// One of the two lines, A and B: 0 or 1.
pub type Line = usize;

/// Which side sends the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Initiator {
    /// Figures 4a and 4c.
    Cpu,
    /// Figures 4b and 4d.
    Device,
}

/// What makes the device's side work. Each can be taken away, to see what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rules {
    /// The device has the request's line before it answers (section 4.3, step 3).
    pub waits_for_request: bool,
    /// The device takes a line with NOT_READY back before it answers. The paper leaves this open.
    pub takes_back_not_ready: bool,
    /// The device keeps its last message, and answers a repeated load with it: the line was evicted before the load was done.
    pub repeats: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { waits_for_request: true, takes_back_not_ready: true, repeats: true }
    }
}

/// The CPU's side: the lines' roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CpuSide {
    initiator: Initiator,
    turn: Line,
}

impl CpuSide {
    /// At the beginning.
    pub fn new(initiator: Initiator) -> CpuSide {
        CpuSide { initiator, turn: 0 }
    }

    /// The line that it loads.
    pub fn waits_at(&self) -> Line {
        if self.initiator == Initiator::Cpu { 1 - self.turn } else { self.turn }
    }

    /// The line of its next message, which it may write.
    pub fn writes_at(&self) -> Line {
        self.turn
    }

    /// Its message is written, or it has none to send. An answer lies where the request came: the next one comes in the other line.
    pub fn wrote(&mut self) {
        if self.initiator == Initiator::Device {
            self.turn = 1 - self.turn;
        }
    }

    /// It has loaded a message of the device, or (`ready` is false) NOT_READY: then it waits at the other line, and writes nothing.
    pub fn took(&mut self, ready: bool) {
        if self.initiator == Initiator::Cpu || !ready {
            self.turn = 1 - self.turn;
        }
    }
}

/// What the device does when a load has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLoad {
    /// The load was there before: its answer again.
    Repeat,
    /// Holds it, and takes this line.
    Fetch(Line),
    /// Holds it; it may be answered.
    Hold,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    /// Nothing to do before a load comes.
    Idle,
    /// Takes the line of the core's last message.
    Fetch,
    /// Has what it needs, and may answer the load.
    Ready,
}

/// The device's side: what it does with the load that it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceSide {
    initiator: Initiator,
    rules: Rules,
    /// Its parity, as the core's.
    turn: Line,
    phase: Phase,
    /// The load that it holds.
    held: Option<Line>,
    /// A request of the core is being worked on (the CPU initiates), or a message of the device is at the core (the device does).
    busy: bool,
    /// Where its last answer went.
    last: Option<Line>,
}

impl DeviceSide {
    /// At the beginning.
    pub fn new(initiator: Initiator, rules: Rules) -> DeviceSide {
        DeviceSide { initiator, rules, turn: 0, phase: Phase::Idle, held: None, busy: false, last: None }
    }

    /// The line of the core's last message.
    fn fetches(&self) -> Line {
        if self.initiator == Initiator::Cpu { self.turn } else { 1 - self.turn }
    }

    /// A load has come.
    pub fn load(&mut self, line: Line) -> OnLoad {
        if self.rules.repeats && self.last == Some(line) {
            return OnLoad::Repeat;
        }
        self.held = Some(line);
        let skips = match (self.initiator, self.busy) {
            (Initiator::Cpu, true) => !self.rules.takes_back_not_ready,
            (Initiator::Cpu, false) => !self.rules.waits_for_request,
            (Initiator::Device, _) => false,
        };
        if skips {
            (self.phase, self.busy) = (Phase::Ready, true);
            return OnLoad::Hold;
        }
        self.phase = Phase::Fetch;
        OnLoad::Fetch(self.fetches())
    }

    /// The line is there. True when a message of the core lies in it: not if it had NOT_READY, or nothing was asked.
    pub fn fetched(&mut self) -> bool {
        self.phase = Phase::Ready;
        let message = self.busy == (self.initiator == Initiator::Device);
        if message {
            self.busy = self.initiator == Initiator::Cpu;
        }
        message
    }

    /// A request of the core is being worked on, or a message of the device is at the core.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// The load that it holds.
    pub fn holds(&self) -> Option<Line> {
        self.held
    }

    /// The load that may be answered now.
    pub fn may_answer(&self) -> Option<Line> {
        self.held.filter(|_| self.phase == Phase::Ready)
    }

    /// It has answered, with a message or (`ready` is false) with NOT_READY.
    pub fn answered(&mut self, ready: bool) {
        (self.last, self.held, self.phase) = (self.held, None, Phase::Idle);
        self.turn = 1 - self.turn;
        if ready {
            self.busy = self.initiator == Initiator::Device;
        }
    }
}
