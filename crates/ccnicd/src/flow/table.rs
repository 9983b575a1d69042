//! Flow rules as a polling core looks them up: a hash table for each set of fields that rules name.
//!
//! A table never changes; the control thread compiles another one. It chooses the hash function by chance, and again until no
//! look-up takes more than eight slots (`REACH`), so that nobody can make rules that cost others time: on a switch, it is the sender
//! who pays for the look-ups of a receiver's rules.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use ccnic::rss::{Fate, FlowRules};
use ccnic_frame::Meta;

use super::key::{Key, WORDS};

/// Slots that a look-up in one of the tables reads, at most.
pub(super) const REACH: usize = 8;
/// Functions that are tried for a size of a table, and sizes.
const TRIES: u64 = 32;
const DOUBLINGS: u32 = 4;
/// A slot without a rule.
const NONE: u16 = u16::MAX;

/// How often a rule was followed. Written by one worker, read by anybody.
#[derive(Debug, Default)]
pub struct Hits {
    packets: AtomicUsize,
    bytes: AtomicUsize,
}

impl Hits {
    #[inline(always)]
    fn count(&self, bytes: u32) {
        // No read-modify-write: nobody else writes.
        self.packets.store(self.packets.load(Relaxed).wrapping_add(1), Relaxed);
        self.bytes.store(self.bytes.load(Relaxed).wrapping_add(bytes as usize), Relaxed);
    }

    /// Packets, and their bytes.
    pub fn get(&self) -> (u64, u64) {
        (self.packets.load(Relaxed) as u64, self.bytes.load(Relaxed) as u64)
    }
}

/// A rule, compiled for one worker.
#[derive(Debug, Clone)]
pub struct TableRule {
    /// The fields that it names, and their mask.
    pub key: (Key, Key),
    /// The lowest of several is followed; no two rules have the same.
    pub rank: u64,
    /// Where packets go.
    pub fate: Fate,
    /// Their mark.
    pub mark: Option<u16>,
    /// Its counters.
    pub hits: Arc<Hits>,
}

/// A place of a hash table: a rule, and some bits of its hash, so that the rule itself is mostly read only when it is the right
/// one.
#[derive(Debug, Clone, Copy)]
struct Slot {
    tag: u16,
    rule: u16,
}

/// The rules that name the same fields.
#[derive(Debug)]
struct FieldSet {
    mask: Key,
    /// The lowest rank of its rules.
    best: u64,
    hash: Hash,
    slots: Box<[Slot]>,
}

/// Multiply-shift hashing of a vector (Dietzfelbinger et al.): the products do not wait for each other.
#[derive(Debug, Clone, Copy)]
struct Hash {
    factors: [u64; WORDS],
    /// 64 less the bits of an index.
    shift: u32,
}

impl Hash {
    /// The function with number `seed`.
    fn new(seed: u64, bits: u32) -> Hash {
        let mut state = seed;
        let factors = std::array::from_fn(|_| {
            // splitmix64
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ mixed >> 31) | 1
        });
        Hash { factors, shift: u64::BITS - bits.max(1) }
    }

    /// Index of a key, and its tag.
    #[inline(always)]
    fn of(&self, key: &Key) -> (usize, u16) {
        let folded = |word: u64| word ^ word >> 32; // the products' high bits know little of a word's high bits
        let product = |(word, factor): (&u64, &u64)| folded(*word).wrapping_mul(*factor);
        let sum = key.0.iter().zip(&self.factors).map(product).fold(0, u64::wrapping_add);
        ((sum >> self.shift) as usize, (sum >> 16) as u16)
    }
}

/// All rules of a program, for one worker. Part of a [`Spreader`](ccnic::rss::Spreader).
#[derive(Debug)]
pub struct FlowTable {
    /// By their best rank.
    sets: Box<[FieldSet]>,
    rules: Box<[TableRule]>,
}

impl FlowTable {
    /// Compiles rules: at most 65535.
    ///
    /// # Errors
    /// When no hash function is good enough: not even by chance, as good as never.
    pub fn new(rules: Vec<TableRule>) -> Result<FlowTable, String> {
        let mut masks: Vec<Key> = rules.iter().map(|rule| rule.key.1).collect();
        masks.sort_unstable();
        masks.dedup();
        let chance = RandomState::new();
        let sets = masks.into_iter().map(|mask| FieldSet::new(mask, &rules, |try_| chance.hash_one(try_)));
        let mut sets =
            sets.collect::<Option<Vec<_>>>().ok_or("no hash function found for the flow rules; try again")?;
        sets.sort_unstable_by_key(|set| set.best);
        Ok(FlowTable { sets: sets.into(), rules: rules.into() })
    }

    /// The rule to follow for a packet with these fields.
    #[inline(always)]
    fn find(&self, key: &Key) -> Option<&TableRule> {
        let mut found: Option<&TableRule> = None;
        for set in &self.sets {
            if found.is_some_and(|found| found.rank < set.best) {
                break;
            }
            let rule = set.find(&key.under(&set.mask), &self.rules);
            found = match (found, rule) {
                (Some(found), Some(rule)) if found.rank < rule.rank => Some(found),
                (found, rule) => rule.or(found),
            };
        }
        found
    }
}

impl FieldSet {
    /// Of the rules with this mask; `None` when none of many hash functions is good enough.
    fn new(mask: Key, rules: &[TableRule], seed: impl Fn(u64) -> u64) -> Option<FieldSet> {
        let mut own: Vec<u16> =
            (0..NONE).zip(rules).filter(|(_, rule)| rule.key.1 == mask).map(|(at, _)| at).collect();
        let of = |at: &u16| {
            rules.get(usize::from(*at)).map_or((Key::default(), u64::MAX), |rule| (rule.key.0, rule.rank))
        };
        own.sort_unstable_by_key(of);
        own.dedup_by_key(|at| of(at).0); // of several about the same packets the first is followed
        let best = own.iter().map(|at| of(at).1).min().unwrap_or(u64::MAX);
        let bits = (2 * own.len()).next_power_of_two().trailing_zeros().max(1);
        (0..u64::from(DOUBLINGS) * TRIES).find_map(|attempt| {
            let bits = bits + (attempt / TRIES) as u32;
            let hash = Hash::new(seed(attempt), bits);
            let slots = fill(&own, hash, bits, |at| of(at).0)?;
            Some(FieldSet { mask, best, hash, slots })
        })
    }

    /// The rule about these fields.
    #[inline(always)]
    fn find<'a>(&self, key: &Key, rules: &'a [TableRule]) -> Option<&'a TableRule> {
        let (index, tag) = self.hash.of(key);
        let last = self.slots.len().wrapping_sub(1);
        for at in index..index + REACH {
            let slot = self.slots.get(at & last)?;
            if slot.rule == NONE {
                return None;
            }
            if slot.tag == tag
                && let Some(rule) = rules.get(usize::from(slot.rule)).filter(|rule| rule.key.0 == *key)
            {
                return Some(rule);
            }
        }
        None
    }
}

/// Puts rules into slots, each within reach of its index; `None` when one is not.
fn fill(rules: &[u16], hash: Hash, bits: u32, key: impl Fn(&u16) -> Key) -> Option<Box<[Slot]>> {
    let mut slots = vec![Slot { tag: 0, rule: NONE }; 1 << bits].into_boxed_slice();
    for rule in rules {
        let (index, tag) = hash.of(&key(rule));
        let at = (index..index + REACH).map(|at| at % slots.len()).find(|at| slots[*at].rule == NONE)?;
        slots[at] = Slot { tag, rule: *rule };
    }
    Some(slots)
}

impl FlowRules for FlowTable {
    fn decide(&self, start: &[u8], len: u32, sent: u64, meta: u64) -> (Fate, u64) {
        let (mut fate, mut mark) = (Fate::Default, None);
        if let Some(rule) = self.find(&Key::of_packet(start, len as usize, sent)) {
            rule.hits.count(len);
            (fate, mark) = (rule.fate, rule.mark);
        }
        // A mark that the sender has put there is none.
        let meta = match mark {
            Some(mark) => Meta::from_word(meta).with_mark(mark).word(),
            None if meta & Meta::MARKED == 0 => meta,
            None => Meta::from_word(meta).without_mark().word(),
        };
        (fate, meta)
    }
}
