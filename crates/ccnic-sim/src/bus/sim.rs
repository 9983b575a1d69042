//! A machine and its programs: processors', and engines of network interfaces.

use std::cell::{Ref, RefCell};
use std::rc::Rc;

use super::agent::Agent;
use super::buses::Cycle;
use super::machine::Machine;
use super::node::{Node, Wiring};
use crate::kernel::coroutines::Coroutines;
use crate::platform::BusPlatform;

/// Programs of one node at most: processors and the device's engines.
const SEATS: usize = 8;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The programs of all processors have ended.
    Done,
    /// Some wait for what never comes.
    Stuck,
}

/// A machine and its programs.
#[derive(Debug)]
pub struct Sim {
    machine: Rc<RefCell<Machine>>,
    programs: Coroutines,
    copy: Cycle,
    poll: Cycle,
}

impl Sim {
    /// Nodes of a platform with so many processors and bytes of memory each, and what `wiring` says of their network interfaces.
    pub fn new(
        platform: &BusPlatform,
        processors: usize,
        bytes: u32,
        mut wiring: impl FnMut(usize) -> Option<Wiring>,
    ) -> Sim {
        let nodes = 0..platform.nodes.get() as usize;
        let nodes = nodes.map(|n| Node::new(platform, n, processors, bytes, wiring(n))).collect();
        let latency = platform.network.latency.get().into();
        let machine = Machine::new(nodes, latency);
        let software = &platform.software;
        Sim {
            machine: Rc::new(RefCell::new(machine)),
            programs: Coroutines::default(),
            copy: software.copy.get().into(),
            poll: software.poll.get().into(),
        }
    }

    /// Puts a program on a node's processor.
    ///
    /// # Errors
    /// When there is no memory for its stack.
    pub fn spawn(
        &mut self,
        node: usize,
        processor: usize,
        program: impl FnOnce(Agent<'_>) + 'static,
    ) -> std::io::Result<()> {
        let seat = self.machine.borrow_mut().nodes[node].seat(processor);
        self.machine.borrow_mut().running += 1;
        let (machine, costs) = (Rc::clone(&self.machine), (self.copy, self.poll));
        self.programs.add(node * SEATS + seat, move |suspend| {
            program(Agent::new(&machine, suspend, (node, seat), costs));
            machine.borrow_mut().running -= 1;
        })
    }

    /// Adds an engine of a node's network interface: a program that never ends.
    ///
    /// # Errors
    /// When there is no memory for its stack.
    pub fn spawn_engine(
        &mut self,
        node: usize,
        program: impl FnOnce(Agent<'_>) + 'static,
    ) -> std::io::Result<()> {
        let mut machine = self.machine.borrow_mut();
        let cache = machine.nodes[node].device_cache();
        let seat = machine.nodes[node].seat(cache);
        drop(machine);
        let machine = Rc::clone(&self.machine);
        self.programs.add(node * SEATS + seat, move |suspend| {
            program(Agent::new(&machine, suspend, (node, seat), (0, 0)));
        })
    }

    /// Runs until the programs of all processors have ended.
    pub fn run(&mut self) -> End {
        loop {
            let next = self.machine.borrow_mut().step();
            let Some((node, seat)) = next else { break };
            self.programs.resume(node * SEATS + seat);
        }
        if self.machine.borrow().running == 0 { End::Done } else { End::Stuck }
    }

    /// A node, to look at.
    pub fn node(&self, node: usize) -> Ref<'_, Node> {
        Ref::map(self.machine.borrow(), |machine| &machine.nodes[node])
    }
}
