//! A client's writes to the store, and the store's promises, in a file: the client's next life knows them. The client writes
//! a line before it sends a command and one after the answer; the killer writes lines about the store.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

/// The versions of a key's value. Version 0 is none; a version that is a multiple of eight is a deletion.
#[derive(Debug, Clone, Copy, Default)]
pub struct Key {
    /// The newest that was sent, and the newest that was seen to be stored in any life of the store.
    pub sent: u64,
    answered: u64,
    /// The version in the store, or one after it.
    pub least: u64,
    /// The version in the last whole snapshot, or one after it.
    saved: u64,
    /// The version in a snapshot that is being written, or one after it.
    saving: u64,
    /// A command has had no answer: it may be carried out late, so nothing more is written to this key.
    pub doubtful: bool,
}

#[derive(Debug)]
pub struct Journal {
    file: File,
    /// Behind the last line that was read. Lines are taken in the order of the file, those of this process as well.
    read: File,
    pub keys: BTreeMap<String, Key>,
    /// Lives of the store.
    pub lives: u64,
}

/// Orders of the killer.
#[derive(Debug, Clone, Copy)]
pub enum Note {
    /// A snapshot is asked for: it will have all that was acknowledged before.
    Asked,
    /// It is there, whole.
    Saved,
    /// The store was killed: the next one has what the last snapshot has.
    Killed,
    /// The store has ended as it was told to: the next one has everything.
    Ended,
}

impl Journal {
    pub fn open(path: &Path) -> Journal {
        let file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        let mut this = Journal { file, read: File::open(path).unwrap(), keys: BTreeMap::new(), lives: 0 };
        this.catch_up();
        this.keys.values_mut().for_each(|key| key.doubtful |= key.sent > key.answered);
        this
    }

    /// One line, at the end.
    fn add(&mut self, line: &str) {
        self.file.write_all(line.as_bytes()).unwrap();
        self.catch_up();
    }

    pub fn note(path: &Path, note: Note) {
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(format!("{note:?}\n").as_bytes()).unwrap();
    }

    /// Reads what the killer has added since: after a connection to the store has been made, which may be another one.
    pub fn catch_up(&mut self) {
        let mut text = String::new();
        self.read.read_to_string(&mut text).unwrap();
        text.lines().for_each(|line| self.apply(line));
    }

    fn apply(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        match words[0] {
            "sent" => {
                let key = self.keys.entry(words[1].to_owned()).or_default();
                key.sent = key.sent.max(number(2));
            }
            "has" => {
                let lives = self.lives;
                let key = self.keys.entry(words[1].to_owned()).or_default();
                key.answered = key.answered.max(number(2));
                // An answer of a store that has died since is no promise of this one.
                if number(3) == lives {
                    key.least = key.least.max(number(2));
                }
            }
            "Asked" => self.keys.values_mut().for_each(|key| key.saving = key.least),
            "Saved" => self.keys.values_mut().for_each(|key| key.saved = key.saving),
            "Killed" => {
                self.lives += 1;
                self.keys.values_mut().for_each(|key| key.least = key.saved);
            }
            "Ended" => {
                self.lives += 1;
                self.keys.values_mut().for_each(|key| key.saved = key.least);
            }
            other => panic!("{other}"),
        }
    }

    /// Before version `version` of a key is sent.
    pub fn sends(&mut self, name: &str, version: u64) {
        self.add(&format!("sent {name} {version}\n"));
    }

    /// The store, in this life of its, has this version.
    pub fn has(&mut self, name: &str, version: u64, life: u64) {
        self.add(&format!("has {name} {version} {life}\n"));
    }
}
