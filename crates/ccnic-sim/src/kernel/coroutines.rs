//! Programs as stackful coroutines: a program runs until it has to wait, gives control back, and is resumed where it stood.

use std::io;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

/// Bytes of a program's stack.
const STACK: usize = 128 * 1024;

/// What a program gives control back with.
pub type Suspend = Yielder<(), ()>;

/// The programs of a simulation, one at most for each agent.
#[derive(Default)]
pub struct Coroutines {
    programs: Vec<Option<Coroutine<(), (), ()>>>,
}

impl std::fmt::Debug for Coroutines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Coroutines").field("programs", &self.programs.len()).finish_non_exhaustive()
    }
}

impl Coroutines {
    /// Gives an agent a program; it begins when it is resumed.
    ///
    /// # Errors
    /// When there is no memory for its stack.
    pub fn add(&mut self, agent: usize, program: impl FnOnce(&Suspend) + 'static) -> io::Result<()> {
        let stack = DefaultStack::new(STACK)?;
        let coroutine = Coroutine::with_stack(stack, move |suspend: &Suspend, ()| program(suspend));
        if self.programs.len() <= agent {
            self.programs.resize_with(agent + 1, || None);
        }
        self.programs[agent] = Some(coroutine);
        Ok(())
    }

    /// Runs an agent's program until it gives control back, or ends.
    #[inline]
    pub fn resume(&mut self, agent: usize) {
        if let Some(program) = self.programs.get_mut(agent)
            && let Some(coroutine) = program
            && let CoroutineResult::Return(()) = coroutine.resume(())
        {
            *program = None;
        }
    }

    /// True when an agent has no program, or its program has ended.
    pub fn is_done(&self, agent: usize) -> bool {
        self.programs.get(agent).is_none_or(Option::is_none)
    }

    /// Unwinds all programs that have not ended.
    pub fn unwind(&mut self) {
        self.programs.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    #[test]
    fn programs_take_turns_and_are_unwound() {
        struct Last(Rc<RefCell<Vec<u32>>>);
        impl Drop for Last {
            fn drop(&mut self) {
                self.0.borrow_mut().push(99);
            }
        }
        let (seen, mut all) = (Rc::new(RefCell::new(Vec::new())), Coroutines::default());
        for (agent, steps) in [(0, 2), (3, 50)] {
            let seen = Rc::clone(&seen);
            all.add(agent, move |suspend| {
                let last = Last(Rc::clone(&seen));
                for step in 0..steps {
                    last.0.borrow_mut().push(agent as u32 * 100 + step);
                    suspend.suspend(());
                }
            })
            .unwrap();
        }
        for agent in [0, 3, 0, 0, 0, 1] {
            all.resume(agent);
        }
        assert_eq!(*seen.borrow(), [0, 300, 1, 99]);
        assert!(all.is_done(0) && all.is_done(1) && !all.is_done(3));
        all.unwind();
        assert_eq!(seen.borrow().len(), 5);
        assert!(all.is_done(3));
    }
}
