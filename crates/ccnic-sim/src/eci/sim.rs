//! A machine and its programs.

use std::cell::RefCell;
use std::rc::Rc;

use super::agent::Agent;
use super::core::Core;
use super::device::Device;
use super::line::{Node, number};
use super::machine::Machine;
use crate::kernel::coroutines::Coroutines;
use crate::kernel::time::Ps;
use crate::platform::PioPlatform;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All programs have ended.
    Done,
    /// A load was not answered before the link's timeout, at this time: a machine check (PIO section 4.4).
    MachineCheck(Ps),
    /// Programs wait for what never comes.
    Stuck,
}

/// A machine and its programs.
#[derive(Debug)]
pub struct Sim {
    machine: Rc<RefCell<Machine>>,
    programs: Coroutines,
}

impl Sim {
    /// So many bytes of shared lines; `home` says of each line's number which node is its home. Without a device there is a second
    /// processor.
    pub fn new(
        platform: &PioPlatform,
        bytes: u32,
        home: impl Fn(u32) -> Node,
        device: Option<Box<dyn Device>>,
    ) -> Sim {
        let machine = Machine::new(platform, bytes, home, device);
        Sim { machine: Rc::new(RefCell::new(machine)), programs: Coroutines::default() }
    }

    /// The line of an address is owned by the node that is not its home, from the beginning.
    pub fn place_remote(&mut self, at: u32) {
        self.machine.borrow_mut().place_remote(number(at));
    }

    /// Puts a program on the core of a node.
    ///
    /// # Errors
    /// When the node has a program already, or there is no memory for its stack.
    pub fn spawn(&mut self, node: Node, program: impl FnOnce(Agent<'_>) + 'static) -> std::io::Result<()> {
        let mut machine = self.machine.borrow_mut();
        let core = machine.cores.len();
        if machine.cores.iter().any(|core| core.node == node) {
            return Err(std::io::Error::other("a node has one core; spawn one program on it"));
        }
        machine.cores.push(Core::new(node));
        machine.start(core);
        drop(machine);
        let machine = Rc::clone(&self.machine);
        // A program's captures are moved to its stack, which takes little at a time.
        let program: Box<dyn FnOnce(Agent<'_>)> = Box::new(program);
        self.programs.add(core, move |suspend| {
            program(Agent::new(&machine, suspend, core));
            machine.borrow_mut().cores[core].ended = true;
        })
    }

    /// Runs until all programs have ended, or none can go on.
    pub fn run(&mut self) -> End {
        loop {
            let mut machine = self.machine.borrow_mut();
            if machine.cores.iter().all(|core| core.ended) {
                return End::Done;
            }
            if let Some(at) = machine.machine_check {
                return End::MachineCheck(at);
            }
            let Some((at, event)) = machine.events.pop_until(Ps::MAX) else {
                return machine.times_out().map_or(End::Stuck, End::MachineCheck);
            };
            let core = machine.happen(at, event);
            drop(machine);
            if let Some(core) = core {
                self.programs.resume(core);
            }
        }
    }
}
