//! Calls by the message protocols: a line with a request, a line with its answer (PIO section 4.3).

use std::cell::RefCell;
use std::rc::Rc;

use ccnic::SharedMemory;

use super::PioError;
use super::protocol::{CpuSide, DeviceSide, Initiator, OnLoad, Rules};
use crate::eci::{Agent, Device, EciPort, LINE, Sim};
use crate::kernel::time::{Ps, ps};
use crate::platform::PioPlatform;

/// The first word of a line that says "not ready yet"; no message begins with it.
pub const NOT_READY: u64 = u64::from_le_bytes(*b"NOTREADY");

/// Bytes of a message.
pub const MESSAGE: usize = LINE as usize;

/// Where the two lines are.
pub const LINES: [u32; 2] = [0, LINE];

/// Between an answer and the next request of a device.
const GAP: Ps = 400_000;

/// A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Protocol {
    /// Who begins.
    pub initiator: Initiator,
    /// The CPU is home of the lines, not the device.
    pub cpu_homed: bool,
    /// The device answers loads with ownership. Otherwise the CPU has to ask for it before it writes.
    pub exclusive: bool,
}

impl Protocol {
    /// Figure 4a, as section 5 uses it.
    pub const PAPER: Protocol = Protocol { initiator: Initiator::Cpu, cpu_homed: false, exclusive: true };
}

/// What the device computes: changes a request into its answer, and says how long that takes.
pub type Function = Box<dyn FnMut(&mut [u8]) -> Ps>;

/// The CPU's program, where it initiates.
#[derive(Debug)]
pub struct Caller<'a> {
    cpu: Agent<'a>,
    side: CpuSide,
    call: u32,
}

impl<'a> Caller<'a> {
    /// At the beginning; `call` is the cycles of instructions around a call.
    pub fn new(cpu: Agent<'a>, call: u32) -> Caller<'a> {
        Caller { cpu, side: CpuSide::new(Initiator::Cpu), call }
    }

    /// A call of at most a line each way. NOT_READY is answered by waiting at the other line; returns how often.
    pub fn call(&mut self, request: &[u8], answer: &mut [u8]) -> u32 {
        self.cpu.work(self.call);
        self.cpu.write(LINES[self.side.writes_at()], request);
        let mut not_ready = 0;
        loop {
            self.cpu.barrier();
            let at = LINES[self.side.waits_at()];
            if self.cpu.load(at) != NOT_READY {
                self.cpu.read(at, answer);
                self.side.took(true);
                return not_ready;
            }
            self.side.took(false);
            not_ready += 1;
        }
    }

    /// The line with the last answer is lost, and loaded again.
    pub fn repeat(&mut self, answer: &mut [u8]) {
        let at = LINES[self.side.writes_at()];
        self.cpu.evict(at);
        self.cpu.read(at, answer);
    }
}

/// The CPU's program, where the device initiates: answers requests by `function` until `calls` are done and no more come.
pub fn serve(cpu: Agent<'_>, call: u32, calls: u32, mut function: impl FnMut(&mut [u8])) {
    let (mut side, mut done, mut message) = (CpuSide::new(Initiator::Device), 0, [0; MESSAGE]);
    loop {
        cpu.barrier();
        let at = LINES[side.waits_at()];
        let ready = cpu.load(at) != NOT_READY;
        side.took(ready);
        if !ready {
            if done == calls {
                return;
            }
            continue;
        }
        cpu.work(call);
        cpu.read(at, &mut message);
        function(&mut message);
        cpu.write(LINES[side.writes_at()], &message);
        side.wrote();
        done += 1;
    }
}

/// A time that the device has asked for: its kind, and for [`Token::Late`] the number of the load.
enum Token {
    /// The answer is computed, or there is a message to send.
    Ready,
    /// A load was held for long.
    Late(u32),
}

impl Token {
    fn word(self) -> u32 {
        match self {
            Token::Ready => u32::MAX,
            Token::Late(load) => load % u32::MAX,
        }
    }
}

/// The device.
struct Responder {
    protocol: Protocol,
    side: DeviceSide,
    function: Function,
    not_ready: Ps,
    /// Loads that have come.
    loads: u32,
    /// The message that waits to be given: an answer, or a request.
    message: Option<Vec<u8>>,
    /// What was given last.
    last: Vec<u8>,
    /// Where the device initiates: when it had the message, the calls that are left, and their times.
    begun: Ps,
    left: u32,
    times: Rc<RefCell<Vec<Ps>>>,
}

impl Responder {
    fn line(&self, line: u32) -> usize {
        usize::from(line != LINES[0] / LINE)
    }

    /// Answers the load that is held, if it may be and there is something to say.
    fn answer(&mut self, port: &mut EciPort<'_>) {
        if self.side.may_answer().is_some()
            && let Some(message) = self.message.take()
        {
            self.give(port, message, true);
        }
    }

    fn give(&mut self, port: &mut EciPort<'_>, message: Vec<u8>, ready: bool) {
        if let Some(line) = self.side.may_answer() {
            port.bytes_mut(LINES[line], MESSAGE).copy_from_slice(&message);
            port.give(LINES[line] / LINE, self.protocol.exclusive, 0);
            self.side.answered(ready);
            self.last = message;
        }
    }

    /// The core's message has come.
    fn take(&mut self, port: &mut EciPort<'_>) {
        let mut message = port.bytes(LINES[self.line_of_message()], MESSAGE).to_vec();
        if self.protocol.initiator == Initiator::Cpu {
            let time = (self.function)(&mut message);
            self.message = Some(message);
            if time > 0 {
                self.begun = port.now() + time;
                port.after(time, Token::Ready.word());
            }
            return;
        }
        (self.function)(&mut message);
        self.times.borrow_mut().push(port.now() - self.begun);
        self.next(port);
    }

    fn line_of_message(&self) -> usize {
        // The other one is held.
        self.side.holds().map_or(0, |held| 1 - held)
    }

    /// The device's next request, after a while.
    fn next(&mut self, port: &mut EciPort<'_>) {
        if self.left > 0 {
            self.left -= 1;
            // Not always at the same moment of the device's clock.
            self.begun = port.now() + GAP + Ps::from(self.left % 7) * 480;
            self.message = None;
            port.after(self.begun - port.now(), Token::Ready.word());
        }
    }

    /// Its message is not computed yet.
    fn is_computing(&self, now: Ps) -> bool {
        now < self.begun
    }
}

impl Device for Responder {
    fn wanted(&mut self, port: &mut EciPort<'_>, line: u32) {
        let line = self.line(line);
        self.loads += 1;
        match self.side.load(line) {
            OnLoad::Repeat => {
                port.bytes_mut(LINES[line], MESSAGE).copy_from_slice(&self.last);
                port.give(LINES[line] / LINE, self.protocol.exclusive, 0);
                return;
            }
            OnLoad::Fetch(other) => port.fetch(LINES[other] / LINE),
            OnLoad::Hold => {}
        }
        port.after(self.not_ready, Token::Late(self.loads).word());
        if self.loads == 1 && self.protocol.initiator == Initiator::Device {
            self.next(port);
        }
    }

    fn got(&mut self, port: &mut EciPort<'_>, _: u32) {
        if self.side.fetched() {
            self.take(port);
        }
        if !self.is_computing(port.now()) {
            self.answer(port);
        }
    }

    fn due(&mut self, port: &mut EciPort<'_>, token: u32) {
        if token == Token::Ready.word() {
            if self.protocol.initiator == Initiator::Device {
                let mut message = vec![self.left as u8; MESSAGE];
                message[..8].copy_from_slice(&u64::from(self.left).to_le_bytes());
                self.message = Some(message);
            }
            self.answer(port);
        } else if token == Token::Late(self.loads).word() && self.side.may_answer().is_some() {
            let mut message = vec![0; MESSAGE];
            message[..8].copy_from_slice(&NOT_READY.to_le_bytes());
            self.give(port, message, false);
        }
    }
}

/// A machine with a device that computes `function`; where it initiates, it makes `calls` calls and notes the time of each in `times`.
/// The CPU's program is still to be spawned, on node 0.
///
/// # Errors
/// When the platform has no coherent device.
pub fn build(
    platform: &PioPlatform,
    protocol: Protocol,
    function: Function,
    calls: u32,
    times: &Rc<RefCell<Vec<Ps>>>,
) -> Result<Sim, PioError> {
    let device = super::part(platform, "device", &platform.device)?;
    let responder = Responder {
        protocol,
        side: DeviceSide::new(protocol.initiator, Rules::default()),
        function,
        not_ready: ps(device.not_ready.get() * 1e3),
        loads: 0,
        message: None,
        last: vec![0; MESSAGE],
        begun: 0,
        left: calls,
        times: Rc::clone(times),
    };
    let home = usize::from(!protocol.cpu_homed);
    let mut sim = Sim::new(platform, 2 * LINE, |_| home, Some(Box::new(responder)));
    // As after earlier calls: the CPU may write its first request, the device has what it answers in.
    match (protocol.initiator, protocol.cpu_homed) {
        (Initiator::Cpu, false) => sim.place_remote(LINES[0]),
        (Initiator::Cpu, true) => sim.place_remote(LINES[1]),
        (Initiator::Device, true) => LINES.into_iter().for_each(|line| sim.place_remote(line)),
        (Initiator::Device, false) => {}
    }
    Ok(sim)
}

/// Nanoseconds of each of `calls` calls with a message of `bytes` each way, which takes as many exchanges of lines as it has lines. The
/// function turns every bit over.
///
/// # Errors
/// When the platform has no coherent device, or the protocol comes to a halt.
pub fn times(
    platform: &PioPlatform,
    protocol: Protocol,
    bytes: usize,
    calls: u32,
) -> Result<Vec<f64>, PioError> {
    let times = Rc::new(RefCell::new(Vec::new()));
    let wrong = Rc::new(std::cell::Cell::new(false));
    let call = platform.core.call.get();
    let failed = Rc::clone(&wrong);
    let mut sim;
    if protocol.initiator == Initiator::Cpu {
        let function = |message: &mut [u8]| {
            message.iter_mut().for_each(|byte| *byte = !*byte);
            0
        };
        sim = build(platform, protocol, Box::new(function), 0, &times)?;
        let times = Rc::clone(&times);
        sim.spawn(0, move |cpu| {
            let mut caller = Caller::new(cpu, call);
            let request: Vec<u8> = (0..bytes).map(|i| i as u8).collect();
            let mut answer = vec![0; bytes];
            for round in 0..calls {
                let begun = cpu.now();
                for (request, answer) in request.chunks(MESSAGE).zip(answer.chunks_mut(MESSAGE)) {
                    caller.call(request, answer);
                }
                times.borrow_mut().push(cpu.now() - begun);
                failed.set(failed.get() || !answer.iter().zip(&request).all(|(a, r)| *a == !*r));
                cpu.work(round % 7); // the device's clock is met at different moments
            }
        })?;
    } else {
        let expected = std::cell::Cell::new(calls);
        let function = move |message: &mut [u8]| {
            expected.set(expected.get().wrapping_sub(1));
            let first = u64::from_le_bytes(message[..8].try_into().unwrap_or_default());
            failed.set(failed.get() || first != !u64::from(expected.get()));
            0
        };
        sim = build(platform, protocol, Box::new(function), calls, &times)?;
        sim.spawn(0, move |cpu| {
            serve(cpu, call, calls, |message| message.iter_mut().for_each(|byte| *byte = !*byte));
        })?;
    }
    super::finish(sim)?;
    if wrong.get() {
        return Err(PioError::Wrong("a call"));
    }
    Ok(times.take().into_iter().map(crate::kernel::time::ns).collect())
}
