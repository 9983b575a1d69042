//! The classic commands that store: `set`, `add`, `replace`, `append`, `prepend`, `cas`.

use super::line::Words;
use super::{BAD_DATA, BAD_FORMAT, Context, NO_MEMORY, Next, TOO_LARGE};
use crate::number::{signed_32, unsigned, unsigned_32};
use crate::store::{MAX_KEY, Mode, Session, Stored, Update, hash};

/// A line `COMMAND key flags exptime bytes [cas] [noreply]`, and its data in `rest`.
pub(super) fn update(words: &Words<'_>, mode: Mode, rest: &[u8], context: &mut Context<'_, '_>) -> Next {
    let (all, quiet) = (words.get(), words.noreply());
    let with_cas = usize::from(mode == Mode::Cas);
    if !(5 + with_cas..=6 + with_cas).contains(&all.len()) {
        return context.error();
    }
    let Some((update, len)) = parse(all, mode, context.session) else {
        return context.answer(quiet, BAD_FORMAT);
    };
    let needed = len + 2;
    if !context.session.fits(update.key.len(), update.flags, len) {
        context.answer(quiet, TOO_LARGE);
        too_large(context.session, update.key, mode == Mode::Set);
        return Next::Skip(needed);
    }
    let Some(data) = rest.get(..needed) else { return Next::Data(needed) };
    let Some(value) = data.strip_suffix(b"\r\n") else {
        context.session.count_set(update.key, update.flags, len);
        context.answer(quiet, BAD_DATA);
        return Next::Took(needed);
    };
    let answer = match context.session.update(&Update { value, ..update }) {
        Stored::Yes(_) => "STORED",
        Stored::No => "NOT_STORED",
        Stored::Exists => "EXISTS",
        Stored::NotFound => "NOT_FOUND",
        Stored::OutOfMemory => NO_MEMORY,
    };
    context.answer(quiet, answer);
    Next::Took(needed)
}

/// What is to be stored, without its value, and the value's length.
fn parse<'a>(all: &[&'a [u8]], mode: Mode, session: &Session<'_>) -> Option<(Update<'a>, usize)> {
    let key = all[1];
    if key.len() > MAX_KEY {
        return None;
    }
    let flags = unsigned_32(all[2])?;
    let expires = session.expiry(signed_32(all[3])?);
    let len = length(all[4])?;
    let compare = if mode == Mode::Cas { unsigned(all[5])? } else { 0 };
    Some((Update { mode, flags, expires, compare, ..Update::set(key, b"") }, len))
}

/// The length of a value.
pub(super) fn length(word: &[u8]) -> Option<usize> {
    signed_32(word).filter(|len| (0..=i32::MAX - 2).contains(len)).map(|len| len as usize)
}

/// A value that cannot be stored outdates the one that is there.
pub(super) fn too_large(session: &mut Session<'_>, key: &[u8], outdates: bool) {
    let (hash, now) = (hash(key), session.now);
    let shard = session.shard(hash);
    shard.counters.store_too_large += 1;
    if outdates && let Some(id) = shard.find(hash, key, now) {
        shard.remove(id);
    }
}
