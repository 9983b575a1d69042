//! `struct ccnic_program`: an attached program, and its queues as C knows them.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccnic_nic::{Error, Program};

use super::abi::CcnicProgramInfo;
use super::queue::CcnicNicQueue;
use crate::abi::{CcnicView, HOST_MANAGED};
use crate::errno::Failure;
use crate::handle::{Owned, handles};
use crate::held::Held;

/// `struct ccnic_program`. Any thread may call; calls that open queues take the lock, none is a burst.
#[derive(Debug)]
pub struct CcnicProgram {
    queues: Mutex<Vec<Option<Owned<CcnicNicQueue>>>>,
    pub(crate) program: Program,
    /// In the debug mode.
    held: Option<Arc<Held>>,
}

handles!(CcnicProgram);

impl CcnicProgram {
    pub(crate) fn new(program: Program) -> CcnicProgram {
        let queues = Mutex::new((0..program.config().queues).map(|_| None).collect());
        let held = Held::of_environment(CcnicView::new(program.region(), program.layout()));
        CcnicProgram { queues, program, held }
    }

    fn queues(&self) -> MutexGuard<'_, Vec<Option<Owned<CcnicNicQueue>>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True while a queue is open.
    pub(crate) fn busy(&self) -> bool {
        self.queues().iter().flatten().any(Owned::is_open)
    }

    /// Opens queue `index`, for the first time or again.
    pub(crate) fn queue(&self, index: u16) -> Result<NonNull<CcnicNicQueue>, Failure> {
        let queues = &mut *self.queues();
        let queue = match queues.get_mut(usize::from(index)) {
            Some(Some(queue)) if queue.is_open() => return Err(Error::QueueTaken { queue: index }.into()),
            // The lock is held, so no other thread opens it.
            Some(Some(queue)) => return Ok(queue.reopen()),
            _ => self.program.queue(index)?,
        };
        let view = CcnicView::new(self.program.region(), self.program.layout());
        let queue = Owned::new(CcnicNicQueue::new(view, queue, self.held.clone()));
        let pointer = queue.as_ptr();
        if let Some(slot) = queues.get_mut(usize::from(index)) {
            *slot = Some(queue);
        }
        Ok(pointer)
    }

    pub(crate) fn info(&self) -> CcnicProgramInfo {
        let config = self.program.config();
        CcnicProgramInfo {
            name: c_string(self.program.name()),
            pid: self.program.pid(),
            design: config.design as u32,
            queues: config.queues.into(),
            ring: config.ring,
            buffers: config.buffers,
            mtu: config.mtu.into(),
            flags: if config.shared_pool { 0 } else { HOST_MANAGED },
            mac: self.program.mac().unwrap_or_default(),
            reserved: [0; 2],
        }
    }
}

/// The longest beginning of a name that fits 256 bytes with the terminating zero, and splits no character.
fn c_string(name: &str) -> [u8; 256] {
    let mut bytes = [0; 256];
    let mut end = name.len().min(255);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let kept = name.as_bytes().get(..end).unwrap_or_default();
    bytes.iter_mut().zip(kept).for_each(|(to, byte)| *to = *byte);
    bytes
}

#[cfg(test)]
mod tests {
    use super::c_string;

    #[test]
    fn a_long_name_is_cut_between_characters() {
        assert_eq!(c_string("a")[..2], *b"a\0");
        let long = c_string(&"n".repeat(300));
        assert!(long[..255].iter().all(|&byte| byte == b'n') && long[255] == 0);
        let wide = c_string(&"\u{e9}".repeat(200));
        assert_eq!(std::str::from_utf8(&wide[..254]).unwrap().chars().count(), 127);
        assert_eq!(wide[254..], [0, 0]);
    }
}
