//! The paper's key-value service: a get or a set in one datagram, without text.
//!
//! ```text
//! u8   operation: 1 get, 2 set
//! u8   status: 0 in requests; in answers 0 done, 1 not found, 2 too large, 3 malformed, 4 out of memory
//! u16  length of the key
//! u32  length of the value: of a set's, or of the value that a get found
//! u64  number of the request, which its answer repeats
//! key and value of a set; key of a get; value of the answer to a get
//! ```
//! Little endian. The UDP port of a key is the base port plus its shard: the XXH3-64 of the key, modulo the number of server threads. A
//! request that comes to another one's port is answered all the same.

use crate::store::{MAX_KEY, Session, Stored, Update, Value};

/// The header of requests and answers.
pub const HEADER: usize = 16;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "they say it")]
pub enum Operation {
    Get = 1,
    Set = 2,
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "they say it")]
pub enum Status {
    Done = 0,
    NotFound = 1,
    TooLarge = 2,
    Malformed = 3,
    OutOfMemory = 4,
}

/// A request's header as the sender writes it.
pub fn request(operation: Operation, key: usize, value: usize, number: u64) -> [u8; HEADER] {
    header(operation as u8, Status::Done, key as u16, value as u32, number)
}

fn header(operation: u8, status: Status, key: u16, value: u32, number: u64) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    (bytes[0], bytes[1]) = (operation, status as u8);
    bytes[2..4].copy_from_slice(&key.to_le_bytes());
    bytes[4..8].copy_from_slice(&value.to_le_bytes());
    bytes[8..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// An answer: its header, and the value that follows it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// To be sent first.
    pub header: [u8; HEADER],
    value: Option<Value>,
}

impl Answer {
    /// The value that a get found.
    pub fn value(&self) -> &[u8] {
        self.value.as_ref().map_or(&[], |value| &value.bytes()[..value.bytes().len() - 2])
    }
}

/// Executes a datagram. None: it is too short to be answered. `longest`: how many bytes a value may have to fit into the answer's datagram.
pub fn answer(request: &[u8], session: &mut Session<'_>, longest: usize) -> Option<Answer> {
    let (fields, rest) = request.split_first_chunk::<HEADER>()?;
    let number = u64::from_le_bytes(*fields.last_chunk()?);
    let key_len = u16::from_le_bytes([fields[2], fields[3]]);
    let value_len = u32::from_le_bytes([fields[4], fields[5], fields[6], fields[7]]);
    let (status, value) = execute(fields[0], key_len.into(), value_len as usize, rest, session, longest);
    let found = value.as_ref().map_or(0, |value| value.bytes().len() - 2);
    Some(Answer { header: header(fields[0], status, 0, found as u32, number), value })
}

fn execute(
    operation: u8,
    key_len: usize,
    value_len: usize,
    rest: &[u8],
    session: &mut Session<'_>,
    longest: usize,
) -> (Status, Option<Value>) {
    let Some((key, value)) =
        rest.split_at_checked(key_len).filter(|(key, _)| !key.is_empty() && key.len() <= MAX_KEY)
    else {
        return (Status::Malformed, None);
    };
    match operation {
        1 if value_len == 0 => match session.get(key) {
            None => (Status::NotFound, None),
            Some(value) if value.bytes().len() - 2 > longest => (Status::TooLarge, None),
            value => (Status::Done, value),
        },
        2 if !session.fits(key.len(), 0, value_len) => (Status::TooLarge, None),
        2 => match value.get(..value_len).map(|value| session.update(&Update::set(key, value))) {
            None => (Status::Malformed, None),
            Some(Stored::Yes(_)) => (Status::Done, None),
            Some(_) => (Status::OutOfMemory, None),
        },
        _ => (Status::Malformed, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Limits, Store};

    #[test]
    fn a_set_is_got_and_bad_requests_are_told() {
        let store = Store::new(2, &Limits::default(), 100);
        let mut session = store.session(100);
        let mut ask = |header: &[u8], rest: &[u8]| {
            let answer = answer(&[header, rest].concat(), &mut session, 1000).unwrap();
            (answer.header[1], answer.value().to_vec(), answer.header[8])
        };
        assert_eq!(ask(&request(Operation::Get, 3, 0, 1), b"key"), (1, vec![], 1));
        assert_eq!(ask(&request(Operation::Set, 3, 5, 2), b"keyvalue"), (0, vec![], 2));
        assert_eq!(ask(&request(Operation::Get, 3, 0, 3), b"key"), (0, b"value".to_vec(), 3));
        assert_eq!(ask(&request(Operation::Set, 3, 6, 4), b"keyvalue").0, Status::Malformed as u8);
        assert_eq!(ask(&request(Operation::Set, 3, 2 << 20, 4), b"key").0, Status::TooLarge as u8);
        assert_eq!(ask(&request(Operation::Get, 0, 0, 4), b"key").0, Status::Malformed as u8);
        assert_eq!(ask(&request(Operation::Set, 1, 1001, 4), &[b'x'; 1002]).0, 0);
        assert_eq!(ask(&request(Operation::Get, 1, 0, 4), b"x").0, Status::TooLarge as u8);
        assert!(super::answer(&[1; 15], &mut session, 1000).is_none());
    }
}
