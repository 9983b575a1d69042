//! How a worker sleeps while there is nothing to do.
//!
//! A worker polls while packets come, and for some time more. Then it asks all its clients to call it, makes sure that none has sent
//! anything meanwhile (`ccnic::notify` says why one look is enough), and waits for all of them at once: programs, network interfaces,
//! commands of the control thread. One client that cannot call keeps the worker awake.
//!
//! A program whose call is lost harms itself only: the worker looks for itself every [`LONGEST`].

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use ccnic_handoff::{NativeWord, Notifier, Wake};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{read, write};

use super::client::Scheduled;
use super::core::PollingCore;
use super::schedule::Scheduler;
use crate::ports::Doze;
use crate::switch::Switch;

type Clients = Scheduler<Scheduled, PollingCore>;

/// The longest sleep: what a program waits for that does not take part in heavy barriers and has sent just before the worker slept. A
/// look costs some microseconds, so one in ten milliseconds costs a thousandth of the core.
const LONGEST: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// What the control thread notifies a worker by. Clones notify the same one.
#[derive(Debug, Clone)]
pub(crate) struct EventFd(Arc<OwnedFd>);

impl EventFd {
    /// # Errors
    /// When the system has no descriptor left.
    pub(crate) fn new() -> std::io::Result<EventFd> {
        Ok(EventFd(Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)))
    }

    /// The worker awakes, or does not fall asleep.
    pub(crate) fn notify(&self) {
        let _ = write(&*self.0, &1_u64.to_ne_bytes()); // it fails after 2^64 notifications
    }

    /// What has come is no longer there.
    fn clear(&self) {
        let _ = read(&*self.0, &mut [0; 8]);
    }
}

impl Notifier for EventFd {
    fn notify(&self) {
        EventFd::notify(self);
    }
}

/// What other workers call a worker by when they have handed something over to it. Clones call the same one.
#[derive(Debug, Clone)]
pub struct Caller(Arc<Wake<NativeWord, EventFd>>);

impl Caller {
    /// # Errors
    /// When the system has no descriptor left.
    pub(crate) fn new() -> std::io::Result<Caller> {
        Ok(Caller(Arc::new(Wake::new(EventFd::new()?))))
    }

    pub(crate) fn notifier(&self) -> &EventFd {
        self.0.notifier()
    }

    /// Something has been handed over to the worker: it awakes if it sleeps.
    #[inline(always)]
    pub(crate) fn call(&self) {
        self.0.call();
    }
}

/// When a worker sleeps, and what wakes it.
#[derive(Debug)]
pub(crate) struct Sleeper {
    /// After so many ticks of its clock without a packet; `None`: never.
    after: Option<u64>,
    caller: Caller,
}

impl Sleeper {
    pub(crate) fn new(after: Option<u64>, caller: Caller) -> Sleeper {
        Sleeper { after, caller }
    }

    /// Sleeps if there has been nothing to do for long, until there is. To be called between two polls.
    pub(crate) fn rest(&self, clients: &mut Clients, switch: &mut Switch) {
        let Some(after) = self.after else { return };
        if !clients.is_idle_for(after) {
            return;
        }
        switch.hand_over_captured();
        let dozing = clients.iter().map(|client| client.doze(switch)).collect::<Option<Vec<_>>>();
        if let Some(mut dozing) = dozing {
            dozing.extend(switch.news());
            while self.sleep(&dozing) {}
        }
        clients.awake();
    }

    /// Sleeps once. False when there is something to do.
    fn sleep(&self, dozing: &[&dyn Doze]) -> bool {
        self.caller.0.announce_sleep();
        let armed = dozing.iter().take_while(|doze| doze.arm()).count();
        if armed > 0 {
            self.caller.0.before_last_look();
        }
        let all = armed == dozing.len() && !dozing.iter().any(|doze| doze.has_work());
        let mut calls = vec![PollFd::from_borrowed_fd(self.caller.notifier().0.as_fd(), PollFlags::IN)];
        let ends: Vec<_> = dozing
            .iter()
            .map(|doze| {
                doze.calls(&mut calls);
                calls.len()
            })
            .collect();
        // An error is as good as a call: there is nothing to wait for.
        let called = !all || poll(&mut calls, Some(&LONGEST)) != Ok(0);
        self.caller.0.announce_awake();
        let mut from = 1;
        for (doze, end) in dozing.iter().zip(ends).take(armed) {
            doze.disarm(calls.get(from..end).unwrap_or_default());
            from = end;
        }
        if calls.first().is_some_and(|notifier| !notifier.revents().is_empty()) {
            self.caller.notifier().clear();
        }
        !called
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Is notified by an eventfd of its own.
    struct Fake {
        notifier: EventFd,
        dozes: bool,
        /// Has something to do at each of these looks.
        work: RefCell<Vec<bool>>,
        armed: Cell<i32>,
        called: Cell<u32>,
    }

    impl Fake {
        fn new(dozes: bool, work: &[bool]) -> Fake {
            let work = RefCell::new(work.iter().rev().copied().collect());
            Fake {
                notifier: EventFd::new().unwrap(),
                dozes,
                work,
                armed: Cell::default(),
                called: Cell::default(),
            }
        }
    }

    impl Doze for Fake {
        fn arm(&self) -> bool {
            self.armed.set(self.armed.get() + i32::from(self.dozes));
            self.dozes
        }
        fn has_work(&self) -> bool {
            self.work.borrow_mut().pop().unwrap_or(false)
        }
        fn calls<'a>(&'a self, to: &mut Vec<PollFd<'a>>) {
            to.push(PollFd::from_borrowed_fd(self.notifier.0.as_fd(), PollFlags::IN));
        }
        fn disarm(&self, answered: &[PollFd<'_>]) {
            self.armed.set(self.armed.get() - 1);
            assert_eq!(answered.len(), 1);
            self.called.set(self.called.get() + u32::from(!answered[0].revents().is_empty()));
        }
    }

    fn sleep(caller: &Caller, fakes: &[&Fake]) -> bool {
        let dozing: Vec<_> = fakes.iter().map(|fake| *fake as &dyn Doze).collect();
        let more = Sleeper::new(None, caller.clone()).sleep(&dozing);
        assert!(!caller.0.is_asleep());
        fakes.iter().for_each(|fake| assert_eq!(fake.armed.get(), 0, "disarmed as often as armed"));
        more
    }

    #[test]
    fn it_sleeps_until_one_calls_and_knows_who() {
        let (caller, one, two) = (Caller::new().unwrap(), Fake::new(true, &[]), Fake::new(true, &[]));
        assert!(sleep(&caller, &[&one, &two]), "nobody calls: a look after the longest sleep, and on");
        two.notifier.notify();
        assert!(!sleep(&caller, &[&one, &two]));
        assert_eq!((one.called.get(), two.called.get()), (0, 1));
    }

    #[test]
    fn it_does_not_sleep_beside_one_that_cannot_call_or_has_something_to_do() {
        let (caller, one) = (Caller::new().unwrap(), Fake::new(true, &[false, true]));
        assert!(!sleep(&caller, &[&one, &Fake::new(false, &[])]), "one cannot call");
        assert!(sleep(&caller, &[&one]));
        assert!(!sleep(&caller, &[&one]), "a packet has come since");
    }

    #[test]
    fn a_command_that_came_before_the_sleep_ends_it_once() {
        let (caller, one) = (Caller::new().unwrap(), Fake::new(true, &[]));
        caller.notifier().notify();
        caller.notifier().notify();
        assert!(!sleep(&caller, &[&one]));
        assert!(sleep(&caller, &[&one]));
    }
    #[test]
    fn another_worker_notifies_it_only_while_it_sleeps() {
        let (caller, one) = (Caller::new().unwrap(), Fake::new(true, &[]));
        caller.call();
        assert!(sleep(&caller, &[&one]), "nobody slept: nobody was notified");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    caller.call();
                    std::thread::yield_now();
                }
            });
            while sleep(&caller, &[&one]) {}
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(one.called.get(), 0, "it was the worker that was called");
    }
}
