//! What must go when a program goes, and who lets it go.
//!
//! Closing a descriptor that a program has sent may block for as long as the program likes (a socket that lingers, sockets in flight in
//! its queue, a file of a file system in user space), and unmapping a region takes milliseconds. So nothing of a program is closed or
//! unmapped by a thread that others wait for: the thread of the program's own connection does it, after everybody else has let go.

use std::sync::mpsc::{Receiver, SendError, Sender, channel};

type Job = Box<dyn FnOnce() + Send>;

/// Handle on the end of a program. Whoever holds anything of the program (its region, memory of its region, its notifiers, its
/// connection) keeps a `Teardown` of it, and drops that last: the thread of the program's connection, which lets go of all this at the
/// program's end, first waits until there is no `Teardown` any more.
#[derive(Debug, Clone)]
pub struct Teardown(Sender<Job>);

impl Teardown {
    /// Has the thread of the program's connection run `job` at the program's end: to wait for what others still hold, and to drop it.
    pub fn at_end(&self, job: impl FnOnce() + Send + 'static) {
        if let Err(SendError(job)) = self.0.send(Box::new(job)) {
            std::mem::forget(job); // that thread has died by a defect: better never than here
        }
    }
}

/// The other end: what is left to do at the end of a program.
#[derive(Debug)]
pub(crate) struct Jobs(Receiver<Job>);

impl Jobs {
    /// Runs all jobs, and waits until there can be no further ones.
    pub(crate) fn run(self) {
        self.0.into_iter().for_each(|job| job());
    }
}

pub(crate) fn teardown() -> (Teardown, Jobs) {
    let (give, take) = channel();
    (Teardown(give), Jobs(take))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn jobs_run_in_order_until_every_handle_has_gone() {
        let (teardown, jobs) = teardown();
        let ran = Arc::new(AtomicUsize::new(0));
        let (first, second, other) = (Arc::clone(&ran), Arc::clone(&ran), teardown.clone());
        teardown.at_end(move || assert_eq!(first.fetch_add(1, Ordering::Relaxed), 0));
        let thread = std::thread::spawn(move || jobs.run());
        drop(teardown);
        other.at_end(move || assert_eq!(second.fetch_add(1, Ordering::Relaxed), 1));
        assert!(!thread.is_finished(), "it waits for the last handle");
        drop(other);
        thread.join().unwrap();
        assert_eq!(ran.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn nothing_is_dropped_by_its_sender() {
        struct Precious;
        impl Drop for Precious {
            fn drop(&mut self) {
                panic!("dropped by the thread that gave it");
            }
        }
        let (teardown, jobs) = teardown();
        drop(jobs);
        let precious = Precious;
        teardown.at_end(move || drop(precious));
    }
}
