//! When the instructions of a program are charged.
//!
//! Every access to a word is an instruction, and a line of payload takes some. Of the others most lie before an access that goes on to
//! another packet in its *stage*: payload is read, payload is written, a descriptor is published. So many have been counted there
//! ([`Stages`]), and are charged with that access. What the program says it has executed beyond that is charged when it says so.
//!
//! A program is *idle* when it has polled often in vain (`IDLE_POLLS`) and then takes few packets (less than `NEARLY_EMPTY`), until it takes
//! others: the interface has a path of its own for these.
//!
//! | stage | an access that goes on |
//! |---|---|
//! | (take) | loads a word of another descriptor of the ring that the program takes from; only counted here |
//! | read | loads a line of payload that does not follow the last one |
//! | write | stores such a line |
//! | publish | stores a word of another descriptor of the ring that the program publishes in |

use std::ops::Range;

use ccnic::desc::DESC;
use ccnic::host::NEARLY_EMPTY;
use ccnic::ring::IDLE_POLLS;

use crate::machine::ids::NONE;
use crate::platform::{Stage, Stages};

/// The rings of a program, by addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rings {
    /// That it takes packets from.
    pub taken: Range<u32>,
    /// That it publishes packets in.
    pub published: Range<u32>,
}

/// A stage's progress within a burst.
#[derive(Debug, Clone, Copy)]
struct Progress {
    /// The descriptor or line that was gone to last.
    last: u32,
    /// Packets in this burst.
    packets: u32,
}

impl Progress {
    /// True for another line of the same packet, and for an access that is tried again.
    #[inline]
    fn follows(&mut self, line: u32) -> bool {
        let follows = line == self.last || line == self.last.wrapping_add(1);
        if follows {
            self.last = line;
        }
        follows
    }

    /// Goes on to another packet: the instructions before. It has waited for so many packets of the stage before it.
    fn go_on(&mut self, costs: &Stage, to: u32, waited: u32, idle: bool) -> u64 {
        let first = self.packets == 0;
        *self = Progress { last: to, packets: self.packets + 1 };
        let burst = if idle { costs.idle } else { costs.burst };
        let instructions = if first { burst + costs.packet * f64::from(waited) } else { costs.each };
        instructions.round() as u64
    }
}

const NEW: Progress = Progress { last: NONE, packets: 0 };

/// A core's account of instructions.
#[derive(Debug)]
pub struct Charge {
    rings: Rings,
    /// Instructions dispatched, or due, since the program last said how many it has executed.
    counted: u64,
    /// Instructions to dispatch before the next access.
    due: u64,
    /// The descriptor that was looked at last, and those looked at since payload was read.
    looked: u32,
    taken: u32,
    /// Polls in vain since packets were taken.
    vain: u32,
    idle: bool,
    /// Nothing but descriptors has been gone to since.
    takes: bool,
    read: Progress,
    write: Progress,
    publish: Progress,
}

impl Default for Charge {
    fn default() -> Charge {
        Charge {
            rings: Rings::default(),
            counted: 0,
            due: 0,
            looked: NONE,
            taken: 0,
            vain: 0,
            idle: false,
            takes: false,
            read: NEW,
            write: NEW,
            publish: NEW,
        }
    }
}

impl Charge {
    /// The program's rings are these.
    pub fn set_rings(&mut self, rings: Rings) {
        self.rings = rings;
    }

    /// A word is loaded.
    #[inline]
    pub fn load(&mut self, at: u32) {
        if !self.rings.taken.contains(&at) || self.looked == at / DESC {
            return;
        }
        if !self.takes {
            self.begin();
        }
        (self.looked, self.takes) = (at / DESC, true);
        self.taken += 1;
    }

    /// A word is stored.
    #[inline]
    pub fn store(&mut self, at: u32, stages: &Stages) {
        if self.rings.published.contains(&at) && self.publish.last != at / DESC {
            let before = self.publish.go_on(&stages.publish, at / DESC, self.write.packets, self.idle);
            self.due(before);
        }
    }

    /// A line of payload is loaded.
    #[inline]
    pub fn read(&mut self, line: u32, stages: &Stages) {
        if !self.read.follows(line) {
            let taken = std::mem::take(&mut self.taken);
            if self.read.packets == 0 {
                self.idle = std::mem::take(&mut self.vain) >= IDLE_POLLS && (taken as usize) < NEARLY_EMPTY;
            }
            let before = self.read.go_on(&stages.read, line, taken, self.idle);
            self.due(before);
        }
    }

    /// A line of payload is stored.
    #[inline]
    pub fn write(&mut self, line: u32, stages: &Stages) {
        if !self.write.follows(line) {
            let before = self.write.go_on(&stages.write, line, 0, self.idle);
            self.due(before);
        }
    }

    fn due(&mut self, instructions: u64) {
        self.takes = false;
        self.due += instructions;
        self.counted += instructions;
    }

    /// A poll has found nothing: instructions of it that have not been dispatched.
    pub fn poll(&mut self, executed: u64) -> u64 {
        self.vain = self.vain.saturating_add(1);
        self.rest(executed)
    }

    /// True after polls in vain.
    pub fn is_idle(&self) -> bool {
        self.idle
    }

    /// A new burst.
    fn begin(&mut self) {
        (self.read, self.write, self.publish) = (NEW, NEW, NEW);
    }

    /// True when instructions have to be dispatched before the next access.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.due > 0
    }

    /// The next of them, at most so many.
    pub fn next(&mut self, most: u64) -> u64 {
        let some = self.due.min(most);
        self.due -= some;
        some
    }

    /// So many are dispatched with an access, or with none.
    #[inline]
    pub fn count(&mut self, instructions: u64) {
        self.counted += instructions;
    }

    /// The program has dealt with a burst by so many instructions: those to dispatch now.
    pub fn end_burst(&mut self, executed: u64) -> u64 {
        self.begin();
        self.rest(executed)
    }

    /// Of those that the program has executed, what has not been dispatched. What has been dispatched beyond them is left for the next
    /// time.
    fn rest(&mut self, executed: u64) -> u64 {
        let rest = executed.saturating_sub(self.counted);
        self.counted = self.counted.saturating_sub(executed);
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAGES: Stages = Stages {
        read: Stage { burst: 100.0, idle: 50.0, packet: 10.0, each: 5.0 },
        write: Stage { burst: 1.0, idle: 2.0, packet: 0.0, each: 2.0 },
        publish: Stage { burst: 30.0, idle: 20.0, packet: 3.0, each: 4.0 },
    };

    fn charge() -> Charge {
        let mut charge = Charge::default();
        charge.set_rings(Rings { taken: 0..1024, published: 1024..2048 });
        charge
    }

    /// A burst of so many packets of two lines, each access tried twice; what is due before each.
    fn burst(charge: &mut Charge, packets: u32) -> Vec<u64> {
        let mut due = Vec::new();
        let mut access = |act: &dyn Fn(&mut Charge)| {
            act(charge);
            act(charge);
            due.push(charge.next(u64::MAX));
        };
        for packet in 0..packets {
            access(&|c| c.load(packet * DESC));
        }
        for line in (0..packets).map(|packet| 100 + 4 * packet) {
            access(&|c| c.read(line, &STAGES));
            access(&|c| c.read(line + 1, &STAGES));
            access(&|c| c.write(line + 1000, &STAGES));
        }
        for at in (0..packets).flat_map(|packet| [8, 0].map(|word| 1024 + packet * DESC + word)) {
            access(&|c| c.store(at, &STAGES));
        }
        due
    }

    #[test]
    fn instructions_lie_before_what_goes_on_to_another_packet() {
        let mut charge = charge();
        assert_eq!(burst(&mut charge, 1), [0, 110, 0, 1, 33, 0]);
        assert_eq!(charge.end_burst(200), 200 - 144);
        // Of the first descriptor nothing new is seen.
        assert_eq!(burst(&mut charge, 2), [0, 0, 110, 0, 1, 5, 0, 2, 36, 0, 4, 0]);
    }

    #[test]
    fn what_was_charged_beyond_what_is_executed_is_left_for_later() {
        let mut charge = charge();
        burst(&mut charge, 1);
        assert_eq!(charge.end_burst(100), 0);
        charge.count(6);
        assert_eq!(charge.poll(80), 30);
        assert!(!charge.is_due());
    }

    #[test]
    fn after_polls_in_vain_few_packets_take_another_path() {
        let idle = |polls, packets| {
            let mut charge = charge();
            (0..polls).for_each(|_| assert_eq!(charge.poll(7), 7));
            let due = burst(&mut charge, packets);
            (charge.is_idle(), due.iter().sum::<u64>())
        };
        let busy = |packets: u64| 131 + 13 * packets + 11 * (packets - 1);
        let after_polls = |packets| busy(packets) - 131 + 72;
        assert_eq!(idle(IDLE_POLLS - 1, 1), (false, busy(1)));
        assert_eq!(idle(IDLE_POLLS, 1), (true, after_polls(1)));
        assert_eq!(idle(IDLE_POLLS, 3), (true, after_polls(3)));
        assert_eq!(idle(IDLE_POLLS, 4), (false, busy(4)));
    }

    /// What a host sends after it has received is idle, too: until it receives without polling in vain.
    #[test]
    fn a_side_is_idle_until_it_takes_more() {
        let mut charge = charge();
        (0..IDLE_POLLS).for_each(|_| assert_eq!(charge.poll(0), 0));
        burst(&mut charge, 1);
        charge.end_burst(0);
        charge.write(500, &STAGES);
        assert_eq!((charge.next(u64::MAX), charge.is_idle()), (2, true));
        charge.read(900, &STAGES);
        assert_eq!((charge.next(u64::MAX), charge.is_idle()), (100, false));
    }

    #[test]
    fn elsewhere_accesses_are_only_instructions() {
        let mut charge = charge();
        (0..100).for_each(|at| charge.load(5000 + at));
        (0..100).for_each(|at| charge.store(at, &STAGES));
        assert!(!charge.is_due());
    }
}
