//! The auditor: does what caches have agree with what directories know? Tests ask it between events.

use crate::machine::World;
use crate::machine::directory::{Line, NOBODY};
use crate::protocols::State;

impl World {
    /// Checks every line: one writer, or readers; directories that know them; last-level caches that have what is said of them.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn audit(&self) -> Result<(), String> {
        for (core, c) in self.cores.iter().enumerate() {
            for (line, state) in c.caches.iter() {
                self.audit_copy(core as u8, line, state)?;
            }
        }
        for (line, known) in self.lines.iter() {
            self.audit_line(line, known)?;
        }
        Ok(())
    }

    /// The home has answered a core's request, and the answer is on its way.
    fn is_coming(&self, core: u8, line: u32) -> bool {
        self.cores[core as usize].misses.iter().any(|m| m.line == line && m.granted)
    }

    /// Is a core's copy of a line what the home knows?
    fn audit_copy(&self, core: u8, line: u32, state: State) -> Result<(), String> {
        let known = self.lines.look(line);
        let told = |what: &str| Err(format!("line {line}: core {core} {what}, its home knows {known:?}"));
        match state {
            State::Invalid => return told("keeps it though invalid"),
            State::Shared | State::Forward => {
                // Ownership of what it has already may be on its way.
                let upgrade = known.owner == core && self.is_coming(core, line);
                if known.sharers & 1 << core == 0 || known.owner != NOBODY && !upgrade {
                    return told("reads it");
                }
            }
            State::Exclusive | State::Modified => {
                if known.owner != core || known.sharers != 1 << core {
                    return told("owns it");
                }
            }
        }
        if state == State::Forward && known.forward != core && known.owner != core {
            return told("forwards it");
        }
        Ok(())
    }

    /// Is what a line's home knows of it so?
    fn audit_line(&self, line: u32, known: &Line) -> Result<(), String> {
        if known.owner != NOBODY && known.llc != 0 {
            return Err(format!("line {line}: owned, and in a last-level cache: {known:?}"));
        }
        for core in 0..self.cores.len() as u8 {
            let readable = self.cores[core as usize].state(line).readable();
            if known.sharers & 1 << core != 0 && !self.is_coming(core, line) && !readable {
                return Err(format!("line {line}: its home thinks that core {core} has it: {known:?}"));
            }
        }
        for (socket, s) in self.sockets.iter().enumerate() {
            let (has, said) = (s.llc.get(line), known.llc & 1 << socket != 0);
            let dirty = has.is_some_and(|(_, dirty)| dirty);
            if has.is_some() != said || dirty != (known.dirty & 1 << socket != 0) {
                return Err(format!("line {line}: the cache of socket {socket} disagrees with {known:?}"));
            }
        }
        Ok(())
    }
}
