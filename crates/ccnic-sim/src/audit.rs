//! The auditor: does what caches have agree with what directories know? Tests ask it between events.

use crate::lines::NOBODY;
use crate::protocol::State;
use crate::world::World;

impl World {
    /// Checks every line: one writer, or readers; directories that know them; last-level caches that have what is said of them.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn audit(&self) -> Result<(), String> {
        for (core, c) in self.cores.iter().enumerate() {
            for (line, state) in c.l2.iter() {
                let known = self.lines.look(line);
                let said = match state {
                    State::Invalid => {
                        return Err(format!("line {line}: core {core} keeps it though invalid"));
                    }
                    State::Shared | State::Forward => known.sharers & 1 << core != 0 && known.owner == NOBODY,
                    State::Exclusive | State::Modified => {
                        known.owner as usize == core && known.sharers == 1 << core
                    }
                };
                // A snoop on its way to the core is known to the home and not to the core.
                if !said && !known.busy {
                    return Err(format!(
                        "line {line}: core {core} has it {state:?}, its home knows {known:?}"
                    ));
                }
                if state == State::Forward && known.forward as usize != core && !known.busy {
                    return Err(format!("line {line}: core {core} forwards it, its home knows {known:?}"));
                }
            }
        }
        for (line, known) in self.lines.iter() {
            for core in 0..self.cores.len() as u8 {
                let knows = known.sharers & 1 << core != 0;
                let c = &self.cores[core as usize];
                let coming = c.misses.iter().any(|m| m.line == line && m.granted);
                if knows && !known.busy && !coming && !c.state(line).readable() {
                    return Err(format!("line {line}: its home thinks that core {core} has it: {known:?}"));
                }
            }
            for (socket, s) in self.sockets.iter().enumerate() {
                let (has, said) = (s.llc.find(line), known.llc & 1 << socket != 0);
                let dirty = has.is_some_and(|slot| s.llc.state(slot));
                if has.is_some() != said || dirty != (known.dirty & 1 << socket != 0) {
                    return Err(format!(
                        "line {line}: the cache of socket {socket} disagrees with {known:?}"
                    ));
                }
            }
        }
        Ok(())
    }
}
