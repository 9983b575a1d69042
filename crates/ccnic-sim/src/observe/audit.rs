//! The auditor: do caches, directories and last-level caches agree? Tests ask it between events.

use crate::machine::Machine;
use crate::machine::directory::Line;
use crate::machine::ids::{AgentId, NOBODY};
use crate::protocols::table::State;

impl Machine {
    /// Checks every line: one owner, or readers; private caches that the directory knows of; last-level caches that have what the
    /// directory says.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn audit(&self) -> Result<(), String> {
        for core in &self.cores {
            for (line, state) in core.caches.iter() {
                self.audit_copy(core.id, line, state)?;
            }
        }
        for (line, known) in self.uncore.directory.iter() {
            self.audit_line(line, known)?;
        }
        Ok(())
    }

    /// True when the home agent has answered an agent's request, and the answer is on its way.
    fn is_granted(&self, agent: AgentId, line: u32) -> bool {
        self.cores[agent as usize].mshrs.iter().any(|m| m.line == line && m.granted)
    }

    /// Is a private cache's copy of a line what the directory knows?
    fn audit_copy(&self, agent: AgentId, line: u32, state: State) -> Result<(), String> {
        let known = self.uncore.directory.look(line);
        let contradiction =
            |what: &str| Err(format!("line {line}: agent {agent} {what}, the directory has {known:?}"));
        match state {
            State::Invalid => return contradiction("keeps it though invalid"),
            State::Shared | State::Forward => {
                // Ownership of a line that it has may be on its way.
                let upgrade = known.owner == agent && self.is_granted(agent, line);
                if known.sharers & 1 << agent == 0 || known.owner != NOBODY && !upgrade {
                    return contradiction("has it to read");
                }
            }
            State::Exclusive | State::Modified => {
                if known.owner != agent || known.sharers != 1 << agent {
                    return contradiction("owns it");
                }
            }
        }
        if state == State::Forward && known.forward != agent && known.owner != agent {
            return contradiction("forwards it");
        }
        Ok(())
    }

    /// Is what the directory knows of a line true?
    fn audit_line(&self, line: u32, known: &Line) -> Result<(), String> {
        if known.owner != NOBODY && known.llc != 0 {
            return Err(format!("line {line}: owned, and in a last-level cache: {known:?}"));
        }
        for core in &self.cores {
            let missing = !core.state(line).readable() && !self.is_granted(core.id, line);
            if known.sharers & 1 << core.id != 0 && missing {
                return Err(format!("line {line}: agent {} does not have it: {known:?}", core.id));
            }
        }
        for (socket, llc) in self.uncore.llcs.iter().enumerate() {
            let found = llc.get(line);
            let (said, said_dirty) = (known.llc & 1 << socket != 0, known.dirty & 1 << socket != 0);
            if found.is_some() != said || found.unwrap_or_default() != said_dirty {
                return Err(format!("line {line}: the cache of socket {socket} disagrees with {known:?}"));
            }
        }
        Ok(())
    }
}
