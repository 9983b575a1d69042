//! The meta command `ms`.

use super::flags::{Flags, OPAQUE_TOO_LONG, check};
use super::line::Words;
use super::update::{length, make_room, refused, too_large};
use super::{BAD_FORMAT, Context, NO_MEMORY, Next, TOO_LARGE, meta};
use crate::store::{Mode, Stored, Update};

/// `ms key length flags`, and its data in `rest`.
pub(super) fn set(words: &Words<'_>, rest: &[u8], context: &mut Context<'_, '_>) -> Next {
    let all = words.get();
    if all.len() < 2 {
        return context.error();
    }
    let parsed = check(words, "CLIENT_ERROR options flags too long").and_then(|()| {
        let len = all.get(2).and_then(|word| length(word)).ok_or(BAD_FORMAT)?;
        Ok((parse(words, context)?, len))
    });
    let (flags, len) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            context.answer(false, error);
            return refused(all.get(2));
        }
    };
    let update = update(&flags);
    if !context.session.fits(update.key.len(), update.flags, len) {
        too_large(context.session, update.key, true);
        context.answer(false, TOO_LARGE);
        return refused(all.get(2));
    }
    let value = match context.value(&update, rest, len, false) {
        Ok(value) => value,
        Err(next) => return next,
    };
    let Some(place) = make_room(&update, len, context) else { return Next::Again };
    let stored = context.session.update_at(place, &Update { value, ..update });
    answer(&flags, stored, context);
    Next::Took(len + 2)
}

fn parse<'a>(words: &Words<'a>, context: &Context<'_, '_>) -> Result<Flags<'a>, &'static str> {
    let flags = Flags::parse(words, 3, context.session)?;
    if !matches!(flags.mode, 0 | b'E' | b'A' | b'P' | b'R' | b'S') {
        return Err("CLIENT_ERROR invalid mode for ms M token");
    }
    if flags.opaque_too_long() {
        return Err(OPAQUE_TOO_LONG);
    }
    Ok(flags)
}

/// An item to be stored, without its value.
fn update<'a>(flags: &'a Flags<'_>) -> Update<'a> {
    let mode = match flags.mode {
        b'E' => Mode::Add,
        b'A' => Mode::Append,
        b'P' => Mode::Prepend,
        // Compared is what there is, so these two are the same then.
        _ if flags.compare.is_some() => Mode::Cas,
        b'R' => Mode::Replace,
        _ => Mode::Set,
    };
    Update {
        mode,
        flags: flags.client_flags,
        expires: flags.expires.unwrap_or(0),
        compare: flags.compare.unwrap_or(0),
        or_stale: flags.stale,
        new_cas: flags.new_cas,
        binary_key: flags.binary_key(),
        ..Update::set(flags.key(), b"")
    }
}

fn answer(flags: &Flags<'_>, stored: Stored, context: &mut Context<'_, '_>) {
    let (status, cas) = match stored {
        Stored::Yes(_) if flags.quiet => return,
        Stored::Yes(cas) => ("HD", cas),
        Stored::Exists => ("EX", 0),
        Stored::NotFound => ("NF", 0),
        Stored::No => ("NS", 0),
        Stored::OutOfMemory => return context.say(NO_MEMORY),
    };
    let out = &mut *context.out;
    out.put(status.as_bytes());
    for word in flags.list() {
        match word[0] {
            b'O' => {
                out.put(b" ");
                out.put(word);
            }
            b'k' => meta::put_key(out, flags.key(), flags.binary_key()),
            b'c' => {
                out.put(b" c");
                out.number(cas);
            }
            _ => {}
        }
    }
    out.put(b"\r\n");
}
