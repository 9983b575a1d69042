//! The coherence protocol, as tables: MESIF with a directory at each line's home (the protocol of Intel's UPI; CXL.cache has
//! the same answers).
//!
//! Two tables say everything. [`DIRECTORY`] tells what the home does with a request: whom it asks, where the data comes
//! from, what the requester and the line become. [`CACHE`] tells what a core's private cache does when it is asked. Their
//! rows are data, so that a test can go through them and a reader can check them against the protocol's own.

/// What a private cache may do with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub enum State {
    /// Not here.
    #[default]
    Invalid,
    /// Read; others may have it.
    Shared,
    /// Read, and answer for it; others may have it.
    Forward,
    /// Read and write; nobody else has it, memory is up to date.
    Exclusive,
    /// Read and write; nobody else has it, memory is out of date.
    Modified,
}

impl State {
    /// The line may be read.
    #[inline]
    pub fn readable(self) -> bool {
        self != State::Invalid
    }

    /// The line may be written.
    #[inline]
    pub fn owned(self) -> bool {
        self >= State::Exclusive
    }
}

impl crate::machine::caches::Packed for State {
    #[inline]
    fn pack(self) -> u16 {
        self as u16
    }

    #[inline]
    fn unpack(bits: u16) -> State {
        match bits {
            1 => State::Shared,
            2 => State::Forward,
            3 => State::Exclusive,
            4 => State::Modified,
            _ => State::Invalid,
        }
    }
}

/// What a core, or a device, wants of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Request {
    /// To read it.
    Read,
    /// To write part of it: data and ownership, or ownership alone when it has the data.
    Own,
    /// To write all of it: ownership without data.
    OwnWhole,
    /// To read it once, uncached (DMA).
    Peek,
    /// To write all of it from outside the caches (DMA, non-temporal stores).
    Put,
    /// To have it out of all caches (CLFLUSHOPT).
    Flush,
}

/// What the directory knows of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Known {
    /// In no private cache. A last-level cache may have it.
    Uncached,
    /// In one private cache or more, to be read.
    Shared,
    /// In one private cache, which may have changed it.
    Owned,
}

/// Whom the home asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Nobody.
    Nobody,
    /// The owner.
    Owner(Snoop),
    /// Everyone who shares it.
    Sharers(Snoop),
}

/// What a cache is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Snoop {
    /// Give the data; another wants to read.
    Share,
    /// Give the data; another wants to write.
    Take,
    /// Forget the line, without giving data.
    Drop,
    /// Give the data, keep the line.
    Look,
}

/// Where the data comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Data {
    /// None moves.
    None,
    /// The nearest copy: a last-level cache, a sharer in the same socket, memory. None when the requester has it.
    Nearest,
    /// The owner's answer.
    Owner,
}

/// What the requester gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Grant {
    /// This state.
    Is(State),
    /// Exclusive; Modified where the copy that it gets is newer than memory.
    Sole,
    /// What the owner's answer says: see [`Answer`].
    Answered,
    /// Nothing that stays.
    Nothing,
}

/// One row of the directory's table.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// What is known of the line.
    pub known: Known,
    /// What is wanted.
    pub request: Request,
    /// Whom the home asks.
    pub ask: Ask,
    /// Where the data comes from.
    pub data: Data,
    /// What the requester gets.
    pub grant: Grant,
}

const fn row(known: Known, request: Request, ask: Ask, data: Data, grant: Grant) -> Row {
    Row { known, request, ask, data, grant }
}

/// What the home does: one row for each thing it may know and be asked.
pub const DIRECTORY: [Row; 18] = {
    use Ask::{Nobody, Owner, Sharers};
    use Known::{Owned, Shared, Uncached};
    use Request::{Flush, Own, OwnWhole, Peek, Put, Read};
    use Snoop::{Drop, Look, Share, Take};
    use State::{Forward, Modified};
    [
        row(Uncached, Read, Nobody, Data::Nearest, Grant::Sole),
        row(Uncached, Own, Nobody, Data::Nearest, Grant::Is(Modified)),
        row(Uncached, OwnWhole, Nobody, Data::None, Grant::Is(Modified)),
        row(Uncached, Peek, Nobody, Data::Nearest, Grant::Nothing),
        row(Uncached, Put, Nobody, Data::None, Grant::Nothing),
        row(Uncached, Flush, Nobody, Data::None, Grant::Nothing),
        row(Shared, Read, Nobody, Data::Nearest, Grant::Is(Forward)),
        row(Shared, Own, Sharers(Drop), Data::Nearest, Grant::Is(Modified)),
        row(Shared, OwnWhole, Sharers(Drop), Data::None, Grant::Is(Modified)),
        row(Shared, Peek, Nobody, Data::Nearest, Grant::Nothing),
        row(Shared, Put, Sharers(Drop), Data::None, Grant::Nothing),
        row(Shared, Flush, Sharers(Drop), Data::None, Grant::Nothing),
        row(Owned, Read, Owner(Share), Data::Owner, Grant::Answered),
        row(Owned, Own, Owner(Take), Data::Owner, Grant::Is(Modified)),
        row(Owned, OwnWhole, Owner(Drop), Data::None, Grant::Is(Modified)),
        row(Owned, Peek, Owner(Look), Data::Owner, Grant::Nothing),
        row(Owned, Put, Owner(Drop), Data::None, Grant::Nothing),
        row(Owned, Flush, Owner(Take), Data::None, Grant::Nothing),
    ]
};

/// How a private cache answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Its state before.
    pub state: State,
    /// What it is asked.
    pub snoop: Snoop,
    /// Whether a modified line that is read changes its owner.
    pub migratory: Option<bool>,
    /// Its state after.
    pub next: State,
    /// What a requester that wants to read gets.
    pub gives: State,
    /// The data is newer than memory, and nobody owns the line afterwards: the last-level cache takes it.
    pub writes_back: bool,
}

const fn answer(state: State, snoop: Snoop, migratory: Option<bool>, next: State, gives: State) -> Answer {
    let writes_back = matches!((state, snoop, migratory), (State::Modified, Snoop::Share, Some(false)));
    Answer { state, snoop, migratory, next, gives, writes_back }
}

/// What a private cache does when it is asked. A cache that is asked has the line: whoever gives up a line tells the directory.
pub const CACHE: [Answer; 11] = {
    use Snoop::{Drop, Look, Share, Take};
    use State::{Exclusive, Forward, Invalid, Modified, Shared};
    [
        // UPI has RdDataMig and SnpDataMig for this; CXL.cache allows RspIFwdM as an answer to SnpData.
        answer(Modified, Share, Some(true), Invalid, Modified),
        answer(Modified, Share, Some(false), Shared, Forward),
        answer(Exclusive, Share, None, Shared, Forward),
        answer(Modified, Take, None, Invalid, Modified),
        answer(Exclusive, Take, None, Invalid, Modified),
        answer(Modified, Drop, None, Invalid, Modified),
        answer(Exclusive, Drop, None, Invalid, Modified),
        answer(Shared, Drop, None, Invalid, Modified),
        answer(Forward, Drop, None, Invalid, Modified),
        answer(Modified, Look, None, Modified, Invalid),
        answer(Exclusive, Look, None, Exclusive, Invalid),
    ]
};

impl Row {
    /// Its place in [`DIRECTORY`].
    pub fn number(&self) -> usize {
        place(self.known, self.request)
    }
}

impl Answer {
    /// Its place in [`CACHE`].
    pub fn number(&self) -> usize {
        CACHE.iter().position(|a| a == self).unwrap_or_default()
    }
}

fn place(known: Known, request: Request) -> usize {
    known as usize * 6 + request as usize // in the order of the enums: see the test
}

/// The directory's row.
pub fn directory(known: Known, request: Request) -> &'static Row {
    &DIRECTORY[place(known, request)]
}

/// The cache's row, if there is one.
pub fn cache(state: State, snoop: Snoop, migratory: bool) -> Option<&'static Answer> {
    CACHE.iter().find(|a| a.state == state && a.snoop == snoop && a.migratory.is_none_or(|m| m == migratory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_finds_its_row() {
        for known in [Known::Uncached, Known::Shared, Known::Owned] {
            for request in
                [Request::Read, Request::Own, Request::OwnWhole, Request::Peek, Request::Put, Request::Flush]
            {
                let row = directory(known, request);
                assert_eq!((row.known, row.request), (known, request));
            }
        }
    }

    #[test]
    fn after_a_grant_of_ownership_nobody_else_may_read() {
        for row in DIRECTORY.iter().filter(|r| r.grant == Grant::Is(State::Modified)) {
            let Some(snoop) = (match row.ask {
                Ask::Nobody => None,
                Ask::Owner(s) | Ask::Sharers(s) => Some(s),
            }) else {
                assert_eq!(row.known, Known::Uncached);
                continue;
            };
            for answer in CACHE.iter().filter(|a| a.snoop == snoop) {
                assert_eq!(answer.next, State::Invalid);
            }
        }
    }

    #[test]
    fn a_reader_never_gets_more_than_the_owner_leaves() {
        for answer in CACHE.iter().filter(|a| a.snoop == Snoop::Share) {
            assert!(!answer.gives.owned() || answer.next == State::Invalid, "{answer:?}");
            assert!(answer.writes_back == (answer.state == State::Modified && !answer.gives.owned()));
        }
    }
}
