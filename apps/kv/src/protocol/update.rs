//! The classic commands that store: `set`, `add`, `replace`, `append`, `prepend`, `cas`.

use super::line::Words;
use super::{BAD_FORMAT, Context, NO_MEMORY, Next, TOO_LARGE};
use crate::number::{is_digits, signed, unsigned, unsigned_32};
use crate::store::{MAX_KEY, Mode, Place, Session, Stored, Update};

/// A line `COMMAND key flags exptime bytes [cas] [noreply]`, and its data in `rest`.
pub(super) fn update(words: &Words<'_>, mode: Mode, rest: &[u8], context: &mut Context<'_, '_>) -> Next {
    let (all, quiet) = (words.get(), words.noreply());
    let with_cas = usize::from(mode == Mode::Cas);
    if all.len() < 5 + with_cas {
        return context.error();
    }
    if all.len() > 6 + with_cas {
        context.error();
        return refused(all.get(4));
    }
    let (Some(update), Some(len)) = (parse(all, mode, context.session), length(all[4])) else {
        context.answer(quiet, BAD_FORMAT);
        return refused(all.get(4));
    };
    if !context.session.fits(update.key.len(), update.flags, len) {
        context.answer(quiet, TOO_LARGE);
        too_large(context.session, update.key, mode == Mode::Set);
        return refused(all.get(4));
    }
    let value = match context.value(&update, rest, len, quiet) {
        Ok(value) => value,
        Err(next) => return next,
    };
    let Some(place) = make_room(&update, len, context) else { return Next::Again };
    let answer = match context.session.update_at(place, &Update { value, ..update }) {
        Stored::Yes(_) => "STORED",
        Stored::No => "NOT_STORED",
        Stored::Exists => "EXISTS",
        Stored::NotFound => "NOT_FOUND",
        Stored::OutOfMemory => NO_MEMORY,
    };
    context.answer(quiet, answer);
    Next::Took(len + 2)
}

/// An item to be stored, without its value.
fn parse<'a>(all: &[&'a [u8]], mode: Mode, session: &Session<'_>) -> Option<Update<'a>> {
    let key = all[1];
    if key.len() > MAX_KEY {
        return None;
    }
    let flags = unsigned_32(all[2])?;
    let expires = time(all[3], session)?;
    let compare = if mode == Mode::Cas { unsigned(all[5])? } else { 0 };
    Some(Update { mode, flags, expires, compare, ..Update::set(key, b"") })
}

/// When an item expires, of an exptime.
pub(super) fn time(word: &[u8], session: &Session<'_>) -> Option<u32> {
    session.expiry(signed(word)?)
}

/// The length of a value, at most memcached's.
pub(super) fn length(word: &[u8]) -> Option<usize> {
    let len = usize::try_from(unsigned(word)?).ok()?;
    (len <= i32::MAX as usize - 2).then_some(len)
}

/// Passes over the data of a set that was refused, which are not to be taken for commands. A word that memcached takes for no length
/// announces no data. A number above 32 bits, which memcached cuts, ends the connection: nobody knows where its data end.
pub(super) fn refused(length_word: Option<&&[u8]>) -> Next {
    let Some(word) = length_word else { return Next::Command };
    match length(word) {
        Some(len) => Next::Skip(len + 2),
        None if is_digits(word) && unsigned_32(word).is_none() => Next::Close,
        None => Next::Command,
    }
}

/// Makes room for a value. Returns its key's place, or nothing when the turn is used up before there is enough.
pub(super) fn make_room(update: &Update<'_>, len: usize, context: &mut Context<'_, '_>) -> Option<Place> {
    let (place, left) = (context.session.place(update.key), context.left());
    context.session.make_room(place, update, len, left).then_some(place)
}

/// A value that cannot be stored outdates the one that is there.
pub(super) fn too_large(session: &mut Session<'_>, key: &[u8], outdates: bool) {
    let (place, now) = (session.place(key), session.now);
    let shard = session.shard(place);
    shard.counters.store_too_large += 1;
    if outdates && let Some(id) = shard.find(place.hash, key, now) {
        shard.remove(id);
    }
}
