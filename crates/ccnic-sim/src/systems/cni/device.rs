//! The devices' side: registers, and the engines that move messages between the processor's side and the network.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use ccnic::SharedMemory;

use super::layout::{self, Kind};
use super::message::{ENTRY, HEADER, Header};
use super::queue::{Publish, Sender};
use crate::bus::Sim;
use crate::bus::agent::Agent;
use crate::bus::network::{MESSAGE, Message};
use crate::bus::node::{BLOCK, Device};

/// Register: what is possible now, see [`ROOM`] and [`MESSAGE_THERE`].
pub const STATUS: u32 = 0;
/// Register of NI2w: two words of the message.
pub const DATA: u32 = 1;
/// Register: a message is ready to be sent.
pub const READY: u32 = 2;
/// Register of CNI4: the message has been read, the blocks are to be used again.
pub const POP: u32 = 3;

/// Bit of [`STATUS`]: a message can be sent.
pub const ROOM: u64 = 1;
/// Bit of [`STATUS`]: a message is there.
pub const MESSAGE_THERE: u64 = 2;

/// What registers and engines share.
#[derive(Debug)]
pub struct State {
    kind: Kind,
    fifo: usize,
    /// Messages on their way to the network, and from it.
    out: VecDeque<Message>,
    come: VecDeque<Box<Message>>,
    /// NI2w: what the processor has stored of a message, and how much it has loaded of another.
    stored: Vec<u8>,
    loaded: usize,
    /// Messages that the processor has signalled.
    signalled: u32,
    /// Blocks of the message after those that are complete, as far as the bus has shown it.
    complete: u32,
    /// CNI4: the processor may write its blocks; a message lies in the device's; the processor has asked to use them again.
    room: bool,
    there: bool,
    popped: bool,
}

/// The registers: the processor's hold on the state.
struct Registers(Rc<RefCell<State>>);

impl Device for Registers {
    fn load(&mut self, register: u32) -> (u64, bool) {
        let mut state = self.0.borrow_mut();
        if register == DATA { state.next_word() } else { (state.status(), false) }
    }

    fn store(&mut self, register: u32, value: u64) -> bool {
        let mut state = self.0.borrow_mut();
        match register {
            DATA => return state.add_word(value),
            READY => (state.signalled, state.complete, state.room) = (state.signalled + 1, 0, false),
            POP => (state.popped, state.there) = (true, false),
            _ => {}
        }
        true
    }

    /// CNI section 3: since messages are written in order, the processor is done with the block before.
    fn snooped(&mut self, block: u32) {
        let sending = layout::send(self.0.borrow().kind).base / BLOCK;
        if let Some(block) = block.checked_sub(sending).filter(|b| *b < self.0.borrow().kind.blocks()) {
            self.0.borrow_mut().complete = block % (ENTRY / BLOCK);
        }
    }
}

impl State {
    fn status(&self) -> u64 {
        let (room, there) = match self.kind {
            Kind::Ni2w => (self.out.len() < self.fifo, !self.come.is_empty()),
            _ => (self.room, self.there),
        };
        (u64::from(room) * ROOM) | (u64::from(there) * MESSAGE_THERE)
    }

    /// NI2w: 8 bytes of a message that is to be sent; true when it is whole.
    fn add_word(&mut self, value: u64) -> bool {
        self.stored.extend_from_slice(&value.to_le_bytes());
        let mut bytes = [0; MESSAGE];
        let len = self.stored.len().min(MESSAGE);
        if len < HEADER {
            return false;
        }
        bytes[..len].copy_from_slice(&self.stored[..len]);
        let header = Header::read(&bytes);
        if len < header.size() {
            return false;
        }
        self.stored.clear();
        self.out.push_back(Message { to: header.to, from: header.from, len: header.size(), bytes });
        true
    }

    /// NI2w: the next 8 bytes of the first message; with the last ones it is gone.
    fn next_word(&mut self) -> (u64, bool) {
        let Some(message) = self.come.front() else { return (0, false) };
        let mut word = [0; 8];
        word.copy_from_slice(&message.bytes[self.loaded..self.loaded + 8]);
        self.loaded += 8;
        let last = self.loaded >= message.len;
        if last {
            self.come.pop_front();
            self.loaded = 0;
        }
        (u64::from_le_bytes(word), last)
    }
}

/// The state of a device and its registers.
pub fn new(kind: Kind, fifo: usize) -> (Rc<RefCell<State>>, Box<dyn Device>) {
    let state = Rc::new(RefCell::new(State {
        kind,
        fifo,
        out: VecDeque::new(),
        come: VecDeque::new(),
        stored: Vec::new(),
        loaded: 0,
        signalled: 0,
        complete: 0,
        room: true,
        there: false,
        popped: false,
    }));
    (Rc::clone(&state), Box::new(Registers(state)))
}

/// Adds a device's engines to its node.
///
/// # Errors
/// When there is no memory for their stacks.
pub fn spawn(sim: &mut Sim, node: usize, state: &Rc<RefCell<State>>) -> std::io::Result<()> {
    let mut engine = |program: fn(Agent<'_>, &RefCell<State>)| {
        let state = Rc::clone(state);
        sim.spawn_engine(node, move |agent| program(agent, &state))
    };
    let kind = state.borrow().kind;
    if kind.has_queues() {
        engine(fetch_from_queue)?;
        return engine(deliver_to_queue);
    }
    engine(inject)?;
    engine(accept)?;
    if kind == Kind::Cni4 {
        engine(fetch_from_registers)?;
        engine(deliver_to_registers)?;
    }
    Ok(())
}

/// NI2w, CNI4: messages from the FIFO to the network.
fn inject(agent: Agent<'_>, state: &RefCell<State>) {
    loop {
        let first = state.borrow().out.front().cloned();
        if first.is_some_and(|message| agent.send(&message)) {
            state.borrow_mut().out.pop_front();
            agent.changed();
        } else {
            agent.sleep();
        }
    }
}

/// NI2w, CNI4: messages from the network to the FIFO.
fn accept(agent: Agent<'_>, state: &RefCell<State>) {
    loop {
        let room = state.borrow().come.len() < state.borrow().fifo;
        match if room { agent.take() } else { None } {
            Some(message) => {
                state.borrow_mut().come.push_back(message);
                agent.changed();
            }
            None => agent.sleep(),
        }
    }
}

/// Reads the blocks of the message after `taken` others, each as soon as it is complete (virtual polling), until all of it is there.
fn fetch(agent: Agent<'_>, state: &RefCell<State>, taken: u32, at: u32) -> Message {
    let mut bytes = [0; MESSAGE];
    let mut got = 0;
    loop {
        let signalled = state.borrow().signalled > taken;
        let complete = state.borrow().complete as usize;
        // The first block has the length.
        let there = match (signalled, got) {
            (true, 0) => 1,
            (true, _) => Header::read(&bytes).blocks(),
            (false, _) => complete,
        };
        if got < there {
            let from = got * BLOCK as usize;
            agent.read(at + from as u32, &mut bytes[from..from + BLOCK as usize]);
            got += 1;
        } else if signalled {
            let header = Header::read(&bytes);
            return Message { to: header.to, from: header.from, len: header.size(), bytes };
        } else {
            agent.sleep();
        }
    }
}

/// CNI4: messages from the processor's blocks to the FIFO.
fn fetch_from_registers(agent: Agent<'_>, state: &RefCell<State>) {
    for taken in 0.. {
        let message = fetch(agent, state, taken, layout::send(Kind::Cni4).base);
        while state.borrow().out.len() >= state.borrow().fifo {
            agent.sleep();
        }
        state.borrow_mut().out.push_back(message);
        state.borrow_mut().room = true;
        agent.changed();
    }
}

/// CNI4: messages from the FIFO into the device's blocks. The processor's copies of the last message are invalidated before the
/// register shows that there is another one (the second step of the three-cycle handshake, CNI sections 2.1 and 3).
fn deliver_to_registers(agent: Agent<'_>, state: &RefCell<State>) {
    let at = layout::receive(Kind::Cni4).base;
    loop {
        let Some(message) = state.borrow_mut().come.pop_front() else {
            agent.sleep();
            continue;
        };
        agent.changed();
        agent.write(at, &message.bytes[..message.len]);
        state.borrow_mut().there = true;
        agent.changed();
        while !state.borrow().popped {
            agent.sleep();
        }
        state.borrow_mut().popped = false;
        agent.touch_blocks(at, message.len as u32, true);
    }
}

/// CNI with queues: messages from the queue to the network.
fn fetch_from_queue(agent: Agent<'_>, state: &RefCell<State>) {
    let queue = layout::send(state.borrow().kind);
    for taken in 0.. {
        let message = fetch(agent, state, taken, queue.entry(taken));
        while !agent.send(&message) {
            agent.sleep();
        }
        agent.store_release(queue.head, u64::from(taken) + 1);
    }
}

/// CNI with queues: messages from the network into the queue.
fn deliver_to_queue(agent: Agent<'_>, state: &RefCell<State>) {
    let mut queue = Sender::new(layout::receive(state.borrow().kind));
    loop {
        // A processor that makes room writes its head, which the device sees on the bus.
        if !agent.has_arrived() || !queue.has_room(&agent) {
            agent.sleep();
            continue;
        }
        if let Some(message) = agent.take() {
            let header = Header::read(&message.bytes);
            queue.send(&agent, header, &message.bytes[HEADER..message.len], Publish::ValidFirstBlockLast);
        }
    }
}
