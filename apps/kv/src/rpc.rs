//! The paper's key-value service: a get or a set in one datagram, without text.
//!
//! ```text
//! u8   operation: 1 get, 2 set
//! u8   status: 0 in requests; in answers 0 done, 1 not found, 2 too large, 3 malformed, 4 out of memory
//! u16  length of the key; 0 in answers
//! u32  length of the value: of a set's, or of the value that a get found
//! u64  number of the request, which its answer repeats
//! key and value of a set; key of a get; value of the answer to a get
//! ```
//! Little endian. The UDP port of a key is the base port plus its shard: the XXH3-64 of the key, modulo the number of server threads. A
//! request that comes to another one's port is answered all the same. A datagram without a key is not: it may be an answer, and two servers to
//! which somebody has sent one in the other's name would answer each other for ever.

use crate::store::{Content, MAX_KEY, Place, Session, Stored, Update};

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

/// A request's header as the sender writes it. A length that its field does not hold is written as the largest, which is refused.
pub fn request(operation: Operation, key: usize, value: usize, number: u64) -> [u8; HEADER] {
    let (key, value) = (key.try_into().unwrap_or(u16::MAX), value.try_into().unwrap_or(u32::MAX));
    header(operation as u8, Status::Done, key, value, number)
}

fn header(operation: u8, status: Status, key: u16, value: u32, number: u64) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    (bytes[0], bytes[1]) = (operation, status as u8);
    bytes[2..4].copy_from_slice(&key.to_le_bytes());
    bytes[4..8].copy_from_slice(&value.to_le_bytes());
    bytes[8..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The key that a datagram asks about.
pub fn key(request: &[u8]) -> Option<&[u8]> {
    let (fields, rest) = request.split_first_chunk::<HEADER>()?;
    Some(key_and_value(fields, rest)?.0)
}

fn key_and_value<'a>(fields: &[u8; HEADER], rest: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let both = rest.split_at_checked(usize::from(u16::from_le_bytes([fields[2], fields[3]])))?;
    (1..=MAX_KEY).contains(&both.0.len()).then_some(both)
}

/// Executes a datagram and hands over the answer: its header, and the value that follows it. A datagram that is too short, or has no key, has
/// none. `place`: of its key, where it is known already. `longest`: how many bytes a value may have to fit into the answer's datagram. The value is lent while the shard is held: it is to be
/// copied, or handed to a NIC that reads it where it is kept. `send` is told, too, whether the value was asked for before.
pub fn answer<R>(
    request: &[u8],
    place: Option<Place>,
    session: &mut Session<'_>,
    longest: usize,
    send: impl FnOnce(&[u8; HEADER], Content<'_>, bool) -> R,
) -> Option<R> {
    let (fields, rest) =
        request.split_first_chunk::<HEADER>().filter(|(fields, _)| fields[2..4] != [0; 2])?;
    let number = u64::from_le_bytes(*fields.last_chunk()?);
    let value_len = u32::from_le_bytes([fields[4], fields[5], fields[6], fields[7]]) as usize;
    let operation = fields[0];
    let place = |key| place.unwrap_or_else(|| session.place(key));
    let found = match (operation, key_and_value(fields, rest)) {
        (1, Some((key, _))) if value_len == 0 => get(key, place(key), session, longest),
        (2, Some((key, value))) => Found::none(set(key, place(key), value_len, value, session)),
        _ => Found::none(Status::Malformed),
    };
    let Found { status, value, len, again } = found;
    Some(send(&header(operation, status, 0, len as u32, number), value, again))
}

/// What a request has led to.
struct Found<'a> {
    status: Status,
    value: Content<'a>,
    len: usize,
    again: bool,
}

impl Found<'_> {
    fn none(status: Status) -> Self {
        Found { status, value: Content::Heap(&[]), len: 0, again: false }
    }
}

fn get<'a>(key: &[u8], place: Place, session: &'a mut Session<'_>, longest: usize) -> Found<'a> {
    let now = session.now;
    let shard = session.shard(place);
    let Some((id, again)) = shard.read_again(place.hash, key, now) else {
        return Found::none(Status::NotFound);
    };
    let len = shard.slot(id).value_len();
    if len > longest {
        return Found::none(Status::TooLarge);
    }
    Found { status: Status::Done, value: shard.content_to_send(id), len, again }
}

fn set(key: &[u8], place: Place, value_len: usize, value: &[u8], session: &mut Session<'_>) -> Status {
    if !session.fits(key.len(), 0, value_len) {
        return Status::TooLarge;
    }
    match value.get(..value_len).map(|value| session.update_at(place, &Update::set(key, value))) {
        None => Status::Malformed,
        Some(Stored::Yes(_)) => Status::Done,
        Some(_) => Status::OutOfMemory,
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
            let request = [header, rest].concat();
            let sent = |header: &[u8; HEADER], value: Content<'_>, _| {
                let mut bytes = Vec::new();
                value.lend(|part| bytes.extend_from_slice(part));
                (header[1], bytes, header[8])
            };
            answer(&request, None, &mut session, 1000, sent).unwrap()
        };
        assert_eq!(ask(&request(Operation::Get, 3, 0, 1), b"key"), (1, vec![], 1));
        assert_eq!(ask(&request(Operation::Set, 3, 5, 2), b"keyvalue"), (0, vec![], 2));
        assert_eq!(ask(&request(Operation::Get, 3, 0, 3), b"key"), (0, b"value".to_vec(), 3));
        assert_eq!(ask(&request(Operation::Set, 3, 6, 4), b"keyvalue").0, Status::Malformed as u8);
        assert_eq!(ask(&request(Operation::Set, 3, 2 << 20, 4), b"key").0, Status::TooLarge as u8);
        assert_eq!(ask(&request(Operation::Set, 1, 1001, 4), &[b'x'; 1002]).0, 0);
        assert_eq!(ask(&request(Operation::Get, 1, 0, 4), b"x").0, Status::TooLarge as u8);
        assert!(answer(&[1; 15], None, &mut session, 1000, |_, _, _| ()).is_none());
    }

    /// A datagram that somebody has sent in another server's name would go to and fro.
    #[test]
    fn answers_are_not_answered() {
        let store = Store::new(1, &Limits::default(), 100);
        let mut session = store.session(100);
        let requests: [&[u8]; 4] = [
            &[&request(Operation::Set, 3, 5, 1)[..], b"keyvalue"].concat(),
            &[&request(Operation::Get, 3, 0, 2)[..], b"key"].concat(),
            &[&request(Operation::Get, 3, 0, 3)[..], b"yek"].concat(),
            &[&request(Operation::Set, 3, 6, 4)[..], b"keyvalue"].concat(),
        ];
        for (request, status) in requests.iter().zip([0, 0, 1, 3]) {
            let answered = answer(request, None, &mut session, 1000, |header, value, _| {
                let mut bytes = header.to_vec();
                value.lend(|part| bytes.extend_from_slice(part));
                bytes
            });
            let answered = answered.unwrap_or_default();
            assert_eq!(answered.get(1), Some(&status));
            assert!(answer(&answered, None, &mut session, 1000, |_, _, _| ()).is_none(), "{answered:?}");
        }
    }
}
