//! The flags of a meta command: a letter each, some with a token behind it.

use super::base64::{Decoded, decode};
use super::line::Words;
use super::update::time;
use crate::number::{unsigned, unsigned_32};
use crate::store::{MAX_KEY, Session};

/// As many words as a meta command may have, its name and the end of the line counted.
const MOST_WORDS: usize = 20;
const LONGEST_OPAQUE: usize = 32;

const BAD_TOKEN: &str = "CLIENT_ERROR bad token in command line format";

/// A meta command's key and flags.
#[derive(Clone, Debug)]
pub(super) struct Flags<'a> {
    text: &'a [u8],
    decoded: Option<Decoded>,
    /// Each flag with its token, in the order in which its answer is to be given.
    list: [&'a [u8]; MOST_WORDS],
    count: usize,
    pub(super) no_update: bool,
    pub(super) vivify: Option<u32>,
    pub(super) expires: Option<u32>,
    pub(super) recache: Option<u32>,
    pub(super) value: bool,
    pub(super) quiet: bool,
    pub(super) stale: bool,
    pub(super) compare: Option<u64>,
    pub(super) new_cas: Option<u64>,
    pub(super) client_flags: u32,
    pub(super) mode: u8,
    pub(super) initial: u64,
    pub(super) delta: u64,
}

impl<'a> Flags<'a> {
    /// The flags of a line, which begin at the word `first`. The error is what the client is told.
    pub(super) fn parse(
        words: &Words<'a>,
        first: usize,
        session: &Session<'_>,
    ) -> Result<Flags<'a>, &'static str> {
        let mut flags = Flags {
            text: words.get()[1],
            decoded: None,
            list: [&[]; MOST_WORDS],
            count: 0,
            no_update: false,
            vivify: None,
            expires: None,
            recache: None,
            value: false,
            quiet: false,
            stale: false,
            compare: None,
            new_cas: None,
            client_flags: 0,
            mode: 0,
            initial: 0,
            delta: 1,
        };
        let (mut seen, mut error) = (0u128, None);
        for word in words.get().iter().skip(first) {
            let (letter, token) = (word[0], &word[1..]);
            if letter >= 127 || seen >> letter & 1 != 0 {
                return Err("CLIENT_ERROR duplicate flag");
            }
            seen |= 1 << letter;
            match flags.take(letter, token, session) {
                Take::Taken => {}
                Take::Unknown => return Err("CLIENT_ERROR invalid flag"),
                Take::Bad(text) => error = text.or(error).or(Some(super::BAD_FORMAT)),
            }
            if let Some(place) = flags.list.get_mut(flags.count) {
                *place = word;
                flags.count += 1;
            }
        }
        error.map_or(Ok(flags), Err)
    }

    fn take(&mut self, letter: u8, token: &[u8], session: &Session<'_>) -> Take {
        match letter {
            b'b' => match decode(self.text) {
                Some(key) => self.decoded = Some(key),
                None => return Take::Bad(Some("CLIENT_ERROR error decoding key")),
            },
            b'N' | b'T' | b'R' => {
                let time = time(token, session);
                if time.is_none() {
                    return Take::Bad(Some(BAD_TOKEN));
                }
                match letter {
                    b'N' => self.vivify = time,
                    b'T' => self.expires = time,
                    _ => self.recache = time,
                }
            }
            b'v' => self.value = true,
            b'u' => self.no_update = true,
            b'q' => self.quiet = true,
            b'I' => self.stale = true,
            b'F' => match unsigned_32(token) {
                Some(number) => self.client_flags = number,
                None => return Take::Bad(None),
            },
            b'C' | b'E' => {
                let Some(cas) = unsigned(token) else { return Take::Bad(Some(BAD_TOKEN)) };
                if letter == b'C' {
                    self.compare = Some(cas);
                } else {
                    self.new_cas = Some(cas);
                }
            }
            b'M' => match token {
                [mode] => self.mode = *mode,
                _ => return Take::Bad(Some("CLIENT_ERROR incorrect length for M token")),
            },
            b'J' => match unsigned(token) {
                Some(number) => self.initial = number,
                None => return Take::Bad(Some("CLIENT_ERROR invalid numeric initial value")),
            },
            b'D' => match unsigned(token) {
                Some(number) => self.delta = number,
                None => return Take::Bad(Some("CLIENT_ERROR invalid numeric delta value")),
            },
            // P and L are hints for proxies.
            b'l' | b'h' | b'O' | b'P' | b'L' | b'k' | b's' | b't' | b'c' | b'f' => {}
            _ => return Take::Unknown,
        }
        Take::Taken
    }

    /// The key, decoded.
    pub(super) fn key(&self) -> &[u8] {
        self.decoded.as_ref().map_or(self.text, Decoded::bytes)
    }

    /// True if the key came in base64.
    pub(super) fn binary_key(&self) -> bool {
        self.decoded.is_some()
    }

    /// The flags, each with its token.
    pub(super) fn list(&self) -> &[&'a [u8]] {
        &self.list[..self.count]
    }

    /// True if an opaque token is longer than it may be. It is noticed when the answer is made, if it is to be in it.
    pub(super) fn opaque_too_long(&self) -> bool {
        self.list().iter().any(|word| word[0] == b'O' && word.len() > LONGEST_OPAQUE)
    }
}

pub(super) const OPAQUE_TOO_LONG: &str = "CLIENT_ERROR opaque token too long";

enum Take {
    Taken,
    Unknown,
    /// What the client is told, if it is not what went wrong before.
    Bad(Option<&'static str>),
}

/// True if the first words of a meta command are within its limits; otherwise the error.
pub(super) fn check(words: &Words<'_>, too_many: &'static str) -> Result<(), &'static str> {
    let all = words.get();
    if all[1].len() > MAX_KEY {
        return Err(super::BAD_FORMAT);
    }
    if all.len() >= MOST_WORDS {
        return Err(too_many);
    }
    Ok(())
}
