//! A memory that a hostile peer changes between any two accesses, and that checks what each access touches.

use std::cell::Cell;
use std::rc::Rc;

use ccnic::SharedMemory;
use ccnic::desc::{FLAG_INLINE, SIGNAL_SHIFT};
use ccnic::heap::HeapMemory;
use ccnic::layout::{AREA, LARGE_BUF, Layout, RingLayout, SMALL_BUF};
use ccnic::memory::LINE;

use crate::input::Input;

/// Bytes of the header page, which neither side writes once the region is made.
const HEADER: u32 = 4096;

/// Words that the attacked side has accessed last.
const RECENT: usize = 8;

/// A region under attack. The sides access it through [`View`]s.
#[derive(Debug)]
pub struct Region {
    mem: HeapMemory,
    layout: Layout,
    input: Rc<Input>,
    /// Accesses until the next change.
    wait: Cell<u32>,
    /// No changes: both sides work alone.
    calm: Cell<bool>,
    /// Only words that hold positions of the NIC are changed.
    positions_only: bool,
    recent: [Cell<u32>; RECENT],
    accesses: Cell<u64>,
}

/// One side's access to a region.
#[derive(Debug, Clone)]
pub struct View {
    region: Rc<Region>,
    /// The other side changes the memory between any two accesses of this one.
    attacked: bool,
}

impl Region {
    pub(crate) fn new(layout: &Layout, input: &Rc<Input>, positions_only: bool) -> Rc<Region> {
        Rc::new(Region {
            mem: HeapMemory::new(layout.size()),
            layout: *layout,
            input: Rc::clone(input),
            wait: Cell::new(0),
            calm: Cell::new(true),
            positions_only,
            recent: Default::default(),
            accesses: Cell::new(0),
        })
    }

    /// A side that is attacked, or the other one.
    pub(crate) fn view(self: &Rc<Region>, attacked: bool) -> View {
        View { region: Rc::clone(self), attacked }
    }

    /// Begins or ends the attack.
    pub(crate) fn set_calm(&self, calm: bool) {
        self.calm.set(calm);
    }

    /// Accesses of all sides so far.
    pub(crate) fn accesses(&self) -> u64 {
        self.accesses.get()
    }

    /// Before an access of the attacked side to the word at `at`.
    fn attack(&self, at: u32) {
        let now = self.accesses.get() as usize % RECENT;
        self.recent[now].set(at);
        match self.wait.get() {
            0 => {}
            more => return self.wait.set(more - 1),
        }
        if self.input.is_used_up() {
            return;
        }
        self.change(at);
        // Often at once again, sometimes much later.
        self.wait.set(match self.input.change() {
            soon @ ..=191 => u32::from(soon % 12),
            late => u32::from(late - 191) * 8,
        });
    }

    /// Changes one word; `next` is the one that is accessed next.
    pub(crate) fn change(&self, next: u32) {
        let input = &self.input;
        let at = if self.positions_only {
            self.position()
        } else {
            match input.change() % 8 {
                0..4 => next,
                4 => self.recent[usize::from(input.change()) % RECENT].get(),
                5 => self.shared_word(),
                6 => self.position(),
                _ => (input.change_number(4) % u64::from(self.layout.size())) as u32,
            }
        } & !7;
        self.mem.store(at, self.value(at, self.mem.load(at)));
    }

    /// A word that holds one of the NIC's positions in a ring.
    fn position(&self) -> u32 {
        let queue = self.queue();
        let words = [
            queue.tx.head,
            queue.tx.taken,
            queue.fill.head,
            queue.fill.taken,
            queue.rx_dropped,
            queue.rx.tail,
        ];
        words[usize::from(self.input.change()) % words.len()]
    }

    fn queue(&self) -> ccnic::layout::QueueLayout {
        let queue = u16::from(self.input.change()) % self.layout.config().queues;
        self.layout.queue(queue).expect("the number is below the number of queues")
    }

    /// A word that both sides read: a unit of a ring, a list head, a link, a kind, a position of the host.
    fn shared_word(&self) -> u32 {
        let (input, pool, queue) = (&self.input, self.layout.pool(), self.queue());
        let unit = self.layout.config().design.unit();
        let units = |base: u32, count: u32| {
            let at = input.change_number(2) as u32 % (count * unit);
            base + at
        };
        match input.change() % 8 {
            0 => units(queue.tx.units, queue.tx.count),
            1 => units(queue.rx.units, queue.rx.count),
            2 if !self.layout.config().shared_pool => units(queue.fill.units, queue.fill.count),
            3 => [pool.small, pool.large, pool.split][usize::from(input.change()) % 3],
            4 => pool.kinds + u32::from(input.change()) % self.layout.config().buffers * 8,
            5 => [queue.tx.tail, queue.rx.head, queue.rx.taken, queue.fill.tail, queue.rx_event]
                [usize::from(input.change()) % 5],
            _ => pool.links + input.change_number(2) as u32 % (pool.kinds - pool.links),
        }
    }

    /// What the word at `at` becomes that was `now`.
    fn value(&self, at: u32, now: u64) -> u64 {
        let (input, pool) = (&self.input, self.layout.pool());
        let byte = || u64::from(input.change());
        match input.change() % 11 {
            0 => byte(),
            1 => now.wrapping_add(byte() % 8 + 1),
            2 => now.wrapping_sub(byte() % 8 + 1),
            3 => now ^ 1 << (byte() % 64),
            4 => now.wrapping_add(u64::from(self.layout.config().ring) * (byte() % 5)),
            5 => now ^ byte() << SIGNAL_SHIFT,
            6 => now ^ ((byte() % 8) << 48), // the flags of a descriptor
            // The first word of a descriptor that names a buffer, more or less.
            7 => {
                let (buffer, within) = (byte() as u32, byte() as u32);
                let at = pool.buffers + (buffer * LARGE_BUF + within * SMALL_BUF) % (pool.end - pool.buffers);
                u64::from(at) | ((byte() * 64) << 32) | ((byte() % 8) << 48) | byte() << SIGNAL_SHIFT
            }
            8 => u64::MAX - byte(),
            9 => self.inline_word(at),
            _ => input.change_number(8),
        }
    }
}

impl Region {
    /// The rings that have areas.
    fn rings_with_areas(&self) -> impl Iterator<Item = RingLayout> {
        let queues = (0..self.layout.config().queues).filter_map(|q| self.layout.queue(q));
        queues.flat_map(|queue| [queue.tx, queue.rx]).filter(|ring| ring.areas != 0)
    }

    /// The first word of an inline descriptor for the unit at `at`, more or less: in its area, on its edges, or in a neighbour's. For a
    /// word elsewhere it is one of the first unit of a ring.
    fn inline_word(&self, at: u32) -> u64 {
        let ring = |ring: &RingLayout| (ring.units..ring.units + ring.count * LINE).contains(&at);
        let area = match self.rings_with_areas().find(ring) {
            Some(ring) => ring.areas + (at - ring.units) / LINE * AREA,
            None => self.queue().rx.areas,
        };
        let byte = || u64::from(self.input.change());
        let lines = (byte() % 10) as u32 * LINE;
        let at = area.wrapping_add(lines).wrapping_sub(LINE).wrapping_add((byte() % 4) as u32);
        let len = [1, 64, 65, 128, 129, 192, 447, 448, 449, byte()][byte() as usize % 10];
        u64::from(at) | len << 32 | (u64::from(FLAG_INLINE) | (byte() % 2)) << 48 | byte() << SIGNAL_SHIFT
    }

    /// True when the range lies in the buffers, or in the areas of a ring.
    fn holds_payload(&self, at: u32, len: usize) -> bool {
        let end = u64::from(at) + len as u64;
        let pool = self.layout.pool();
        let inside = |first: u32, after: u32| at >= first && end <= u64::from(after);
        inside(pool.buffers, pool.end)
            || self.rings_with_areas().any(|ring| inside(ring.areas, ring.areas + ring.count * AREA))
    }
}

impl View {
    fn touch(&self, at: u32, len: usize) {
        let region = &*self.region;
        let end = u64::from(at) + len as u64;
        assert!(end <= u64::from(region.layout.size()), "{at} + {len} is beyond the region");
        region.accesses.set(region.accesses.get() + 1);
        if self.attacked && !region.calm.get() {
            region.attack(at);
        }
    }

    fn word(&self, at: u32) {
        assert!(at.is_multiple_of(8), "a word at {at}");
        self.touch(at, 8);
    }

    /// A word is stored: neither the header nor, as a word, a byte of payload.
    fn stored(&self, at: u32) {
        assert!(at >= HEADER, "a store to the header, at {at}");
        assert!(!self.region.holds_payload(at, 8), "a word is stored in payload, at {at}");
        self.word(at);
    }

    /// Bytes of payload are accessed: only buffers and areas have some.
    fn payload(&self, at: u32, len: usize) {
        let inside = len == 0 || self.region.holds_payload(at, len);
        assert!(inside, "{len} bytes of payload at {at}, outside buffers and areas");
        self.touch(at, len);
    }
}

impl SharedMemory for View {
    type Adopt = ();

    fn load(&self, at: u32) -> u64 {
        self.word(at);
        self.region.mem.load(at)
    }

    fn store(&self, at: u32, value: u64) {
        self.stored(at);
        self.region.mem.store(at, value);
    }

    fn load_acquire(&self, at: u32) -> u64 {
        self.load(at)
    }

    fn store_release(&self, at: u32, value: u64) {
        self.store(at, value);
    }

    fn compare_exchange(&self, at: u32, current: u64, new: u64) -> Result<u64, u64> {
        self.stored(at);
        self.region.mem.compare_exchange(at, current, new)
    }

    fn read(&self, at: u32, to: &mut [u8]) {
        self.payload(at, to.len());
        self.region.mem.read(at, to);
    }

    fn write(&self, at: u32, from: &[u8]) {
        self.payload(at, from.len());
        self.region.mem.write(at, from);
    }

    fn with<R>(&self, at: u32, len: u32, f: impl FnOnce(&[u8]) -> R) -> R {
        self.payload(at, len as usize);
        self.region.mem.with(at, len, f)
    }

    fn with_mut<R>(&self, at: u32, len: u32, f: impl FnOnce(&mut [u8]) -> R) -> R {
        self.payload(at, len as usize);
        self.region.mem.with_mut(at, len, f)
    }

    // Hints access nothing: behind the end of a ring they may name the lines of the next one.
    fn prefetch_read(&self, _: u32) {}
    fn prefetch_own(&self, _: u32) {}
    fn demote(&self, _: u32) {}
    fn relax(&self) {}
}
