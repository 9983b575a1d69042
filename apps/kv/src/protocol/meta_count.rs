//! The meta command `ma`.

use super::flags::{Flags, OPAQUE_TOO_LONG};
use super::line::Words;
use super::{Context, Next, meta};
use crate::store::{Counted, Decimal, Delta, Update};

/// `ma key flags`
pub(super) fn count(words: &Words<'_>, context: &mut Context<'_, '_>) -> Next {
    let flags = match meta::flags_of(words, context) {
        Ok(flags) => flags,
        Err(next) => return next,
    };
    let down = match flags.mode {
        0 | b'I' | b'+' => false,
        b'D' | b'-' => true,
        _ => return context.answer(false, "CLIENT_ERROR invalid mode for ma M token"),
    };
    match add(&flags, down, context) {
        Ok(added) => answer(&flags, &added, context),
        Err(error) if error.len() > 2 => return context.answer(false, error),
        Err(status) => {
            if flags.opaque_too_long() {
                return context.answer(false, OPAQUE_TOO_LONG);
            }
            context.out.put(status.as_bytes());
            meta::put_echo(context.out, &flags);
            context.out.put(b"\r\n");
        }
    }
    Next::Command
}

/// The number that an item is now.
struct Added {
    number: u64,
    id: u32,
    /// There was none before.
    created: bool,
}

/// The new number; otherwise the status or the error.
fn add(flags: &Flags<'_>, down: bool, context: &mut Context<'_, '_>) -> Result<Added, &'static str> {
    let (key, now) = (flags.key(), context.session.now);
    let (place, largest) = (context.session.place(key), context.session.store().largest());
    let shard = context.session.shard(place);
    let delta = Delta { down, by: flags.delta, compare: flags.compare.unwrap_or(0), new_cas: flags.new_cas };
    match shard.count(place.hash, key, delta, now) {
        Counted::Number(number, id) => Ok(Added { number, id, created: false }),
        Counted::NotNumeric => Err("CLIENT_ERROR cannot increment or decrement non-numeric value"),
        Counted::OutOfMemory => Err("SERVER_ERROR out of memory"),
        Counted::Exists => Err("EX"),
        Counted::NotFound => {
            if flags.vivify.is_none() {
                shard.count_miss(down);
                return Err("NF");
            }
            let text = Decimal::new(flags.initial);
            let new = Update { new_cas: flags.new_cas, ..Update::set(key, text.as_bytes()) };
            shard.store(place.hash, &new, largest, now);
            let id = shard.find(place.hash, key, now);
            id.map(|id| Added { number: flags.initial, id, created: true })
                .ok_or("SERVER_ERROR Out of memory allocating new item")
        }
    }
}

fn answer(flags: &Flags<'_>, added: &Added, context: &mut Context<'_, '_>) {
    let now = context.session.now;
    let shard = context.session.shard(context.session.place(flags.key()));
    let (out, slot) = (&mut *context.out, shard.slot_mut(added.id));
    let mark = out.mark();
    let text = Decimal::new(added.number);
    if flags.value {
        out.put(b"VA ");
        out.number(text.as_bytes().len() as u64);
    } else {
        out.put(b"HD");
    }
    for word in flags.list() {
        match word[0] {
            b'c' => {
                out.put(b" c");
                out.number(slot.cas);
            }
            b't' => meta::put_ttl(out, slot, now),
            b'N' if added.created => slot.expires = flags.vivify.unwrap_or(0),
            b'T' => slot.expires = flags.expires.unwrap_or(slot.expires),
            b'O' => {
                out.put(b" ");
                out.put(word);
            }
            b'k' => meta::put_key(out, flags.key(), flags.binary_key()),
            _ => {}
        }
    }
    if flags.value {
        out.put(b"\r\n");
        out.put(text.as_bytes());
    }
    out.put(b"\r\n");
    if flags.opaque_too_long() {
        out.back_to(mark);
        context.say(OPAQUE_TOO_LONG);
    } else if flags.quiet && !added.created {
        out.back_to(mark);
    }
}
