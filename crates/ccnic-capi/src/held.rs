//! The debug mode (`CCNIC_DEBUG=1`): which buffers the program, or a NIC in C, holds, so that one that is handed over twice is noticed.
//!
//! A byte for each 128 bytes of a pool, in private memory, says what became of the buffer that begins there. A call that hands over a buffer
//! which is not held does nothing and returns -EINVAL; the first of an attachment is told on standard error, too, since a program that frees
//! twice seldom looks at what that returns.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use ccnic::Desc;
use ccnic::layout::{LARGE_BUF, SMALL_BUF};
use rustix::io::Errno;

use crate::abi::{CcnicBuf, CcnicView};
use crate::errno::Failure;

/// A buffer's state, and its holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Fate {
    /// It was never handed out.
    Unknown,
    Small,
    Large,
    Freed,
    Sent,
}

impl Fate {
    fn of(byte: u8) -> Fate {
        [Fate::Unknown, Fate::Small, Fate::Large, Fate::Freed, Fate::Sent]
            .into_iter()
            .find(|fate| *fate as u8 == byte)
            .unwrap_or(Fate::Unknown)
    }

    /// A buffer's state.
    fn held(desc: Desc) -> Fate {
        if desc.small() { Fate::Small } else { Fate::Large }
    }

    fn text(self) -> &'static str {
        match self {
            Fate::Unknown => "it was never allocated or received",
            Fate::Small => "it is in use as a small one",
            Fate::Large => "it is in use as a large one",
            Fate::Freed => "it was freed before",
            Fate::Sent => "it was sent before",
        }
    }
}

/// States of the buffers of a pool. Shared by all queues and pools of an attachment.
#[derive(Debug)]
pub(crate) struct Held {
    first: u32,
    fates: Box<[AtomicU8]>,
    told: AtomicBool,
}

impl Held {
    /// `None` unless the environment asks for it.
    pub(crate) fn of_environment(view: CcnicView) -> Option<Arc<Held>> {
        let asked = std::env::var_os("CCNIC_DEBUG").is_some_and(|value| !value.is_empty() && value != "0");
        asked.then(|| Arc::new(Held::new(view.first, view.span)))
    }

    fn new(first: u32, span: u32) -> Held {
        let fates = (0..span / SMALL_BUF).map(|_| AtomicU8::new(Fate::Unknown as u8)).collect();
        Held { first, fates, told: AtomicBool::new(false) }
    }

    /// The entry of a buffer; `None`: the handle names none, as the call itself will say.
    fn fate(&self, desc: Desc) -> Option<&AtomicU8> {
        let within = desc.offset().checked_sub(self.first)?;
        let start = if desc.small() { within } else { within & !(LARGE_BUF - 1) };
        self.fates.get((start / SMALL_BUF) as usize)
    }

    /// The buffers of a burst are the program's now.
    pub(crate) fn take(&self, bufs: impl IntoIterator<Item = CcnicBuf>) {
        for desc in bufs.into_iter().map(Desc::from) {
            if let Some(fate) = self.fate(desc) {
                fate.store(Fate::held(desc) as u8, Ordering::Relaxed);
            }
        }
    }

    /// Those of the first `n` entries, which have been written.
    #[cold]
    pub(crate) fn take_written(&self, out: &[MaybeUninit<CcnicBuf>], n: usize) {
        // SAFETY: the burst has written so many (its contract); the type is plain bytes.
        self.take(out.iter().take(n).map(|buf| unsafe { buf.assume_init() }));
    }

    /// The call has handed over so many of the buffers; the others are held on.
    #[cold]
    pub(crate) fn take_back(&self, bufs: &[CcnicBuf], given: &Result<usize, Failure>) {
        self.take(bufs.iter().skip(*given.as_ref().unwrap_or(&0)).copied());
    }

    /// The call hands the buffers over. An error, and nothing is handed over, if one is not held, or comes twice.
    #[cold]
    pub(crate) fn give<'a>(
        &self,
        call: &str,
        to: Fate,
        bufs: impl IntoIterator<Item = &'a CcnicBuf> + Clone,
    ) -> Result<(), Failure> {
        for (i, buf) in bufs.clone().into_iter().enumerate() {
            let desc = Desc::from(*buf);
            let Some(fate) = self.fate(desc) else { continue };
            let held = Fate::held(desc) as u8;
            let Err(found) = fate.compare_exchange(held, to as u8, Ordering::Relaxed, Ordering::Relaxed)
            else {
                continue;
            };
            self.take(bufs.into_iter().take(i).copied());
            return Err(self.misused(call, i, desc, Fate::of(found)));
        }
        Ok(())
    }

    fn misused(&self, call: &str, i: usize, desc: Desc, found: Fate) -> Failure {
        let (size, at) = (if desc.small() { "small" } else { "large" }, desc.offset());
        let text = format!("{call}: entry {i}, a {size} buffer at {at:#x}, is not held: {}", found.text());
        if !self.told.swap(true, Ordering::Relaxed) {
            eprintln!("libccnic: {text}; nothing of the call was done");
        }
        Failure::with_text(Errno::INVAL, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccnic::desc::FLAG_SMALL;

    fn text(result: Result<(), Failure>) -> String {
        format!("{:?}", result.unwrap_err())
    }

    #[test]
    fn what_is_not_held_cannot_be_handed_over() {
        let held = Held::new(8192, 4 * LARGE_BUF);
        let large = |i: u32, at: u32| CcnicBuf::from(Desc::new(8192 + i * LARGE_BUF + at, 60, 0));
        let small = |i: u32| CcnicBuf::from(Desc::new(8192 + i * SMALL_BUF + 2, 60, FLAG_SMALL));
        assert!(text(held.give("f", Fate::Freed, &[large(0, 0)])).contains("never allocated"));
        held.take([large(0, 0), large(1, 0)]);
        // Any byte of the buffer names it. A call that is refused has handed nothing over.
        assert!(
            text(held.give("f", Fate::Freed, &[large(1, 700), large(0, 64), large(1, 0)]))
                .contains("entry 2")
        );
        assert_eq!(held.give("f", Fate::Sent, &[large(1, 700), large(0, 64)]), Ok(()));
        assert!(text(held.give("f", Fate::Freed, &[large(0, 0)])).contains("sent before"));
        // As small ones the same bytes are other buffers.
        held.take([small(0), small(1)]);
        assert!(text(held.give("f", Fate::Freed, &[large(0, 0)])).contains("in use as a small one"));
        assert_eq!(held.give("f", Fate::Freed, &[small(1), small(0)]), Ok(()));
        assert!(text(held.give("f", Fate::Freed, &[small(1)])).contains("freed before"));
        // A handle that names no buffer is for the call itself.
        assert_eq!(held.give("f", Fate::Freed, &[large(9, 0), CcnicBuf::from(Desc::new(0, 1, 0))]), Ok(()));
    }
}
