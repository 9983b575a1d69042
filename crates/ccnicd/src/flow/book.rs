//! The rules of one program: by number, within limits, with their counters. Belongs to the control thread, which makes the tables
//! of the workers of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ccnic::rss::Fate;
use ccnic_control::flow::{
    FIRST_OF_CONFIGURATION, FIRST_OF_OPERATOR, FLOW_VERSION, FlowAbility, FlowEntry, FlowPage, FlowRule,
    FlowTarget, NumberedRule,
};

use super::key::Key;
use super::table::{FlowTable, Hits, TableRule};

/// The most rules of a program.
const RULES: usize = 256;
/// The most sets of fields that they name: each costs a look-up for each packet.
const FIELD_SETS: usize = 8;
/// The same of the operator, in the configuration and otherwise, for each program.
const OPERATOR_RULES: usize = 64;
const OPERATOR_FIELD_SETS: usize = 4;
/// Rules in a message.
const PAGE: usize = 128;

/// What this release can do.
pub const ABILITY: FlowAbility =
    FlowAbility { version: FLOW_VERSION, rules: RULES as u32, field_sets: FIELD_SETS as u32 };

/// Bytes that the table of a worker takes at most, roughly: with the tables of the hash beside it.
pub const TABLE_BYTES: usize = (RULES + OPERATOR_RULES) * (size_of::<TableRule>() + size_of::<Hits>() + 32)
    + size_of::<ccnic::rss::Spreader>();

/// A rule and, by worker, its counters.
#[derive(Debug, Clone)]
struct Record {
    rule: FlowRule,
    hits: Vec<Arc<Hits>>,
}

/// The rules of a program. Clones count together.
#[derive(Debug, Clone)]
pub struct FlowBook {
    /// By number.
    rules: BTreeMap<u32, Record>,
    /// That poll queues of the program.
    workers: usize,
}

/// Who has made a rule: its number says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// The program.
    Program,
    /// The operator, while the daemon runs.
    Operator,
    /// The operator, in the configuration.
    Configuration,
}

impl Owner {
    fn of(id: u32) -> Owner {
        match id {
            FIRST_OF_CONFIGURATION.. => Owner::Configuration,
            FIRST_OF_OPERATOR.. => Owner::Operator,
            _ => Owner::Program,
        }
    }

    fn first(self) -> u32 {
        match self {
            Owner::Program => 0,
            Owner::Operator => FIRST_OF_OPERATOR,
            Owner::Configuration => FIRST_OF_CONFIGURATION,
        }
    }
}

/// What errors call a rule.
fn called(id: u32) -> String {
    match Owner::of(id) {
        Owner::Configuration => {
            format!("number {} of the configuration's flow rules", id - FIRST_OF_CONFIGURATION + 1)
        }
        Owner::Operator | Owner::Program => format!("flow rule {id}"),
    }
}

impl FlowBook {
    /// With the rules of a program whose queues so many workers poll.
    ///
    /// # Errors
    /// As [`create`](FlowBook::create).
    pub fn new(workers: usize, rules: &[NumberedRule]) -> Result<FlowBook, String> {
        let mut book = FlowBook::empty(workers);
        for (id, rule) in rules {
            book.create(Some(*id), Owner::Program, *rule)?;
        }
        Ok(book)
    }

    /// Without rules.
    pub fn empty(workers: usize) -> FlowBook {
        FlowBook { rules: BTreeMap::new(), workers }
    }

    /// True when there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Adds a rule, which has been checked; returns its number, the lowest free one of its owner unless `id` says otherwise.
    ///
    /// # Errors
    /// Which limit is in the way, or which rule.
    pub fn create(&mut self, id: Option<u32>, by: Owner, rule: FlowRule) -> Result<u32, String> {
        let first = by.first();
        let id = id.or_else(|| (first..).find(|id| !self.rules.contains_key(id))).unwrap_or(first);
        if Owner::of(id) != by || self.rules.contains_key(&id) {
            return Err(format!(
                "id is {id}, which another flow rule has; choose another one, or leave it out"
            ));
        }
        let operator = by != Owner::Program;
        let same = |other: &FlowRule| (other.priority, other.matches) == (rule.priority, rule.matches);
        if let Some((other, _)) = self.of(operator).find(|(_, record)| same(&record.rule)) {
            return Err(format!(
                "{} has the same match and priority; take it out first, or choose another priority",
                called(*other)
            ));
        }
        let (most, sets) = if operator { (OPERATOR_RULES, OPERATOR_FIELD_SETS) } else { (RULES, FIELD_SETS) };
        if self.of(operator).count() >= most {
            return Err(format!("a program may have {most} flow rules; destroy another one first"));
        }
        let mask = |rule: &FlowRule| Key::of_match(&rule.matches).1;
        let mut masks: BTreeSet<Key> = self.of(operator).map(|(_, record)| mask(&record.rule)).collect();
        masks.insert(mask(&rule));
        if masks.len() > sets {
            return Err(format!(
                "match names a {}th set of fields, and the flow rules of a program may name {sets}; use one that another rule uses",
                sets + 1
            ));
        }
        let hits = (0..self.workers).map(|_| Arc::default()).collect();
        self.rules.insert(id, Record { rule, hits });
        Ok(id)
    }

    /// Adds a rule of the configuration under its number. One that was there before, under any, counts on: see
    /// [`configured`](FlowBook::configured).
    ///
    /// # Errors
    /// As [`create`](FlowBook::create).
    pub fn configure(&mut self, id: u32, rule: FlowRule) -> Result<(), String> {
        self.create(Some(id), Owner::Configuration, rule).map(drop)
    }

    /// The same with these rules of the configuration in place of those there are. Those that stay count on.
    ///
    /// # Errors
    /// As [`create`](FlowBook::create).
    pub fn configured(&self, rules: &[NumberedRule]) -> Result<FlowBook, String> {
        let mut book = self.clone();
        let mut before: Vec<Record> = book.rules.split_off(&FIRST_OF_CONFIGURATION).into_values().collect();
        for (id, rule) in rules {
            book.configure(*id, *rule)?;
            let old = before.iter().position(|old| old.rule == *rule).map(|at| before.swap_remove(at));
            old.into_iter().for_each(|old| _ = book.rules.insert(*id, old));
        }
        Ok(book)
    }

    /// True when these are the rules of the configuration that it has.
    pub fn is_configured(&self, rules: &[NumberedRule]) -> bool {
        let there = self.rules.range(FIRST_OF_CONFIGURATION..).map(|(id, record)| (*id, record.rule));
        there.eq(rules.iter().copied())
    }

    /// Those that count together against a limit: the program's, or both kinds of the operator's.
    fn of(&self, operator: bool) -> impl Iterator<Item = (&u32, &Record)> {
        self.rules.iter().filter(move |(id, _)| (Owner::of(**id) != Owner::Program) == operator)
    }

    /// Removes a rule of the operator, or of the program.
    ///
    /// # Errors
    /// When there is no such rule.
    pub fn destroy(&mut self, id: u32, operator: bool) -> Result<(), String> {
        match (self.rules.contains_key(&id), Owner::of(id)) {
            (false, _) => Err(format!("there is no flow rule {id}; list those that there are")),
            (true, Owner::Operator | Owner::Configuration) if !operator => {
                Err(format!("flow rule {id} is the operator's, who alone may destroy it"))
            }
            (true, Owner::Program) if operator => {
                Err(format!("flow rule {id} is the program's own; add one that comes before it instead"))
            }
            (true, Owner::Configuration) => {
                Err(format!("flow rule {id} is {}; take it out there, and have that applied", called(id)))
            }
            (true, Owner::Operator | Owner::Program) => {
                self.rules.remove(&id);
                Ok(())
            }
        }
    }

    /// Removes all rules of the program, or those of the operator that do not stand in the configuration.
    pub fn flush(&mut self, operator: bool) {
        let owner = if operator { Owner::Operator } else { Owner::Program };
        self.rules.retain(|id, _| Owner::of(*id) != owner);
    }

    /// A rule with its counters.
    ///
    /// # Errors
    /// When there is no such rule.
    pub fn query(&self, id: u32) -> Result<FlowPage, String> {
        let record = self.rules.get(&id);
        let record =
            record.ok_or_else(|| format!("there is no flow rule {id}; list those that there are"))?;
        Ok(FlowPage { rules: vec![entry(id, record)], next: None })
    }

    /// Rules from a number on, as many as go into a message.
    pub fn page(&self, from: u32) -> FlowPage {
        let mut rest = self.rules.range(from..);
        let rules = rest.by_ref().take(PAGE).map(|(id, record)| entry(*id, record)).collect();
        FlowPage { rules, next: rest.next().map(|(id, _)| *id) }
    }

    /// What the worker with this place among those of the program looks up; `None` when there are no rules.
    ///
    /// # Errors
    /// As [`FlowTable::new`].
    pub fn table(&self, worker: usize) -> Result<Option<FlowTable>, String> {
        if self.is_empty() {
            return Ok(None);
        }
        // By the operator's first, by priority, by number.
        let mut records: Vec<_> = self.rules.iter().collect();
        records.sort_by_key(|(id, record)| (Owner::of(**id) == Owner::Program, record.rule.priority, **id));
        let compile = |(rank, (_, record)): (u64, &(&u32, &Record))| TableRule {
            key: Key::of_match(&record.rule.matches),
            rank,
            fate: match record.rule.to {
                FlowTarget::Rss => Fate::Default,
                FlowTarget::Queue(queue) => Fate::Queue(queue),
                FlowTarget::Drop => Fate::Drop,
            },
            mark: record.rule.mark,
            hits: record.hits.get(worker).cloned().unwrap_or_default(),
        };
        FlowTable::new((0..).zip(&records).map(compile).collect()).map(Some)
    }
}

fn entry(id: u32, record: &Record) -> FlowEntry {
    let sum = |(packets, bytes): (u64, u64), hits: &Arc<Hits>| {
        let (more, larger) = hits.get();
        (packets.wrapping_add(more), bytes.wrapping_add(larger))
    };
    let (packets, bytes) = record.hits.iter().fold((0, 0), sum);
    FlowEntry { id, rule: record.rule, packets, bytes }
}
