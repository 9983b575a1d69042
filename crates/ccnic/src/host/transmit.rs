//! The transmit path: bursts of buffers into the ring, by reference or copied into its areas.

use crate::buf::{Buf, Burst, RegionTag};
use crate::config::Demote;
use crate::desc::{FLAG_KEPT, FLAG_MORE, FLAG_SMALL};
use crate::memory::{LINE, SharedMemory, copy, lines};
use crate::pool::{Class, flags};
use crate::ring::{IDLE_POLLS, Producer, Ring};

use super::{NEARLY_EMPTY, QueuePair};

/// How a transmit burst meets the NIC.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pace {
    /// Its lines are demoted.
    pub(super) demote: bool,
    /// The ring is nearly empty: the NIC waits.
    pub(super) idle: bool,
}

impl<M: SharedMemory, R: Ring> QueuePair<M, R> {
    /// Hands packets to the NIC, in order, as many whole ones as the ring has room for; removes them from
    /// `burst` and returns the number of buffers. The rest stays in `burst`, still the program's.
    ///
    /// A packet whose last segment is missing, or that has more than [`CHAIN_MAX`](crate::desc::CHAIN_MAX)
    /// segments, is not taken.
    ///
    /// # Panics
    /// Debug builds: when a buffer is of another region.
    ///
    /// ```
    /// # use ccnic::{Burst, testing::{Sides, config}, ring::GroupedEpoch};
    /// # let mut sides = Sides::<GroupedEpoch>::new(&config::<GroupedEpoch>());
    /// # let pair = &mut sides.host;
    /// let mut burst = Burst::new();
    /// pair.alloc(64, 8, &mut burst);
    /// assert_eq!(pair.tx_burst(&mut burst), 8);
    /// assert!(burst.is_empty());
    /// ```
    #[inline(always)]
    pub fn tx_burst(&mut self, burst: &mut Burst) -> usize {
        let pace = self.pace(burst.len());
        self.transmit(burst, None, pace)
    }

    /// `transmit` where the ring has areas: packets that fit are copied there, and their buffers are free again, still in this core's
    /// cache. Then buffers do not wander to the NIC, which delivers short packets without any.
    #[inline(always)]
    fn transmit_inline(&mut self, burst: &mut Burst, alike: Option<Class>, pace: Pace) -> usize {
        let most = self.inline_max(pace);
        self.begin_inline(pace);
        let n = match alike {
            Some(class) => self.append_alike(class, burst.as_slice()),
            None if most == 0 => self.append_buffers(burst.as_slice()),
            None => self.transmit_up_to(burst, most),
        };
        self.tx.close(&self.mem);
        burst.remove_front(n);
        self.published();
        n
    }

    /// Copies packets of at most `most` bytes into the areas and hands over others in their buffers, as many as there is room for; returns
    /// the number of buffers.
    #[inline(always)]
    fn transmit_up_to(&mut self, burst: &Burst, most: u32) -> usize {
        let (mut shortest, mut longest, mut chains) = (u16::MAX, 0, false);
        for buf in burst.as_slice() {
            shortest = buf.len().min(shortest);
            longest = buf.len().max(longest);
            chains |= buf.more();
        }
        if u32::from(shortest) > most {
            self.append_buffers(burst.as_slice())
        } else if chains || u32::from(longest) > most {
            self.transmit_mixed(burst, most)
        } else {
            let n = self.copy_inline(burst.as_slice(), longest);
            self.pool.free_many(&self.mem, burst.first(n));
            n
        }
    }

    /// Hands over packets of one segment in buffers of one class, as many as there is room for; returns their number.
    #[inline(always)]
    fn append_alike(&mut self, class: Class, bufs: &[Buf]) -> usize {
        let n = self.tx.append(&self.mem, bufs, true);
        self.pool.sent_alike(class, bufs.get(..n).unwrap_or_default());
        n
    }

    /// Hands over packets in their buffers, as many as there is room for; returns the number of buffers.
    #[inline(always)]
    pub(super) fn append_buffers(&mut self, bufs: &[Buf]) -> usize {
        let (any, all) = flags(bufs);
        let n = self.tx.append(&self.mem, bufs, any & u32::from(FLAG_MORE) == 0);
        let (sent, small) = (bufs.get(..n).unwrap_or_default(), u32::from(FLAG_SMALL));
        if any & u32::from(FLAG_KEPT) != 0 {
            self.pool.sent_many(sent); // only those that are not kept
            return n;
        }
        match (any & small, all & small) {
            (0, _) => self.pool.sent_alike(Class::Large, sent),
            (_, 0) => self.pool.sent_many(sent),
            _ => self.pool.sent_alike(Class::Small, sent),
        }
        n
    }

    /// Copies packets of one segment into the areas, as many as there is room for; returns their number.
    #[inline(always)]
    fn copy_inline(&mut self, bufs: &[Buf], longest: u16) -> usize {
        let (mem, tx) = (&self.mem, &mut self.tx);
        if u32::from(longest) <= LINE {
            let mut bufs = bufs.iter();
            return tx.push_lines(
                mem,
                bufs.len(),
                #[inline(always)]
                |_, at| {
                    let Some(desc) = bufs.next().map(Buf::desc) else { return (0, 0) };
                    copy(mem, desc.offset(), mem, at, desc.len().into());
                    (desc.len(), desc.meta)
                },
            );
        }
        for (n, desc) in bufs.iter().map(Buf::desc).enumerate() {
            let Some(at) = tx.place(mem, desc.len().into()) else { return n };
            copy(mem, desc.offset(), mem, at, desc.len().into());
            tx.add(mem, at, desc.len(), desc.meta);
        }
        bufs.len()
    }

    /// A burst in which some packets are longer than `most` or chains: the others are copied, these are sent in their buffers.
    #[inline(never)]
    fn transmit_mixed(&mut self, burst: &Burst, most: u32) -> usize {
        let (bufs, mut n) = (burst.as_slice(), 0);
        while let Some(rest) = bufs.get(n..).filter(|rest| !rest.is_empty()) {
            let segments = rest.iter().position(|buf| !buf.more()).map_or(rest.len(), |last| last + 1);
            let packet = rest.get(..segments).unwrap_or_default();
            let sent = match packet {
                [short] if !short.more() && u32::from(short.len()) <= most => {
                    let sent = self.copy_inline(packet, short.len());
                    self.pool.free_many(&self.mem, packet.get(..sent).unwrap_or_default());
                    sent
                }
                _ => self.append_buffers(packet),
            };
            n += sent;
            if sent < segments {
                break;
            }
        }
        n
    }

    /// `tx_burst`; with `alike` every packet is known to be one segment in a buffer of that class, too long to be copied inline.
    #[inline(always)]
    pub(super) fn transmit(&mut self, burst: &mut Burst, alike: Option<Class>, pace: Pace) -> usize {
        RegionTag::of(&self.mem).check(burst.as_slice());
        let first = self.tx.position();
        if pace.demote {
            self.demote_payload(burst);
        }
        if self.tx.has_areas() {
            return self.transmit_inline(burst, alike, pace);
        }
        let most = if self.managed.is_some() { self.managed_room(burst.len()) } else { Burst::CAPACITY };
        let n = self.tx.push(&self.mem, burst.first(most));
        if pace.demote {
            self.tx.demote(&self.mem);
        }
        match (&mut self.managed, alike) {
            (None, Some(class)) => self.pool.sent_alike(class, burst.first(n)),
            (None, None) => self.pool.sent_many(burst.first(n)),
            (Some(managed), _) => managed.note_sent(first, burst.first(n)),
        }
        burst.remove_front(n);
        self.published();
        n
    }

    /// The pace of a burst of `n` packets.
    #[inline(always)]
    pub(super) fn pace(&mut self, n: usize) -> Pace {
        let idle = self.rx.empty_polls() >= IDLE_POLLS && n < NEARLY_EMPTY;
        let demote = match self.tuning().demote {
            Demote::Auto => idle,
            Demote::On => true,
            Demote::Off => false,
        };
        Pace { demote, idle }
    }

    /// Host-managed pool: how many of `n` buffers can be sent, which is as many as can be noted until the NIC
    /// has completed them.
    #[inline(never)]
    pub(super) fn managed_room(&mut self, n: usize) -> usize {
        let first = self.tx.position();
        let Some(managed) = &mut self.managed else { return n };
        if managed.free_slots(first) < n {
            managed.reap(&self.mem, &mut self.tx, &mut self.pool);
        }
        managed.free_slots(first)
    }

    /// Demotes the data of a burst.
    #[inline(never)]
    pub(super) fn demote_payload(&self, burst: &Burst) {
        for buf in burst.as_slice() {
            for line in lines(buf.desc().offset(), u32::from(buf.len())) {
                self.mem.demote(line);
            }
        }
    }

    /// The longest packet that goes to the areas of the ring.
    #[inline(always)]
    pub(super) fn inline_max(&self, pace: Pace) -> u32 {
        if R::AREAS { self.tuning().inline_max(pace.idle) } else { 0 }
    }

    /// Before packets are written to the areas.
    #[inline(always)]
    pub(super) fn begin_inline(&mut self, pace: Pace) {
        self.tx.begin(pace.demote, if pace.idle { 0 } else { self.tuning().ahead });
    }
}
