//! Which command a line is; the classic commands that read or delete items.

use super::line::{self, Words};
use super::update::time;
use super::{BAD_FORMAT, BAD_TIME, Context, Next, admin, meta, meta_count, meta_set, stats, update};
use crate::number::unsigned;
use crate::store::{Counted, Delta, MAX_KEY, Mode, Place};

/// Executes a command line. `rest` is what follows it, where the command's data are.
pub(super) fn command(line: &[u8], rest: &[u8], context: &mut Context<'_, '_>) -> Next {
    let words = Words::new(line);
    let all = words.get();
    let Some(name) = all.first().filter(|name| name.len() > 1) else { return context.error() };
    match *name {
        b"get" | b"bget" | b"gets" | b"gat" | b"gats" => get(line, None, context),
        b"mg" => meta::get(&words, context),
        b"ms" => meta_set::set(&words, rest, context),
        b"md" => meta::delete(&words, context),
        b"ma" => meta_count::count(&words, context),
        b"mn" => context.answer(false, "MN"),
        b"me" => meta::debug(&words, context),
        b"set" => update::update(&words, Mode::Set, rest, context),
        b"add" => update::update(&words, Mode::Add, rest, context),
        b"replace" => update::update(&words, Mode::Replace, rest, context),
        b"append" => update::update(&words, Mode::Append, rest, context),
        b"prepend" => update::update(&words, Mode::Prepend, rest, context),
        b"cas" => update::update(&words, Mode::Cas, rest, context),
        b"delete" => delete(&words, context),
        b"incr" => count(&words, false, context),
        b"decr" => count(&words, true, context),
        b"touch" => touch(&words, context),
        b"stats" => stats::stats(&words, context),
        b"quit" => Next::Close,
        _ => admin::command(&words, context),
    }
}

/// The reply to a command whose data there is no memory for.
pub(super) fn no_memory(line: &[u8], context: &mut Context<'_, '_>) {
    let words = Words::new(line);
    let quiet = words.get().first() != Some(&&b"ms"[..]) && words.noreply();
    context.answer(quiet, super::NO_MEMORY);
}

/// Goes on with a command after [`Next::More`].
pub(super) fn go_on(line: &[u8], from: usize, context: &mut Context<'_, '_>) -> Next {
    if line.trim_ascii_start().starts_with(b"stats") {
        return stats::go_on(&Words::new(line), from, context);
    }
    get(line, Some(from), context)
}

/// `get`, `gets`, `gat`, `gats`: any number of keys. `from`: where to go on in the line.
fn get(line: &[u8], from: Option<usize>, context: &mut Context<'_, '_>) -> Next {
    let words = Words::new(line);
    let all = words.get();
    let (cas, touch) = (all[0].ends_with(b"s"), all[0].starts_with(b"gat"));
    if all.len() < 2 {
        return context.error();
    }
    let mut expires = None;
    if touch {
        expires = time(all[1], context.session);
        if expires.is_none() {
            return context.answer(false, BAD_TIME);
        }
    }
    let mark = context.out.mark();
    let (mut words, mut first) = (words, if touch { 2 } else { 1 });
    if let Some(from) = from {
        (words, first) = (Words::new(&line[from..]), 0);
    }
    loop {
        let keys = &words.get()[first..];
        let places = places(keys, context);
        for (key, place) in keys.iter().zip(places) {
            if key.len() > MAX_KEY {
                context.out.back_to(mark);
                return context.answer(false, BAD_FORMAT);
            }
            get_one(key, place, cas, expires, context);
        }
        if words.rest().is_empty() {
            break;
        }
        if context.is_enough() {
            context.session.release();
            if from.is_none() && has_long_key(words.rest()) {
                // Now it can still be taken back.
                context.out.back_to(mark);
                return context.answer(false, BAD_FORMAT);
            }
            return Next::More(line.len() - words.rest().len());
        }
        (words, first) = (Words::new(words.rest()), 0);
    }
    context.say("END");
    Next::Command
}

/// The places of these keys, of which several are looked up: then the cache misses of all overlap. A secret hash takes so long that the
/// processor does not overlap them by itself. A key that is too long has none.
fn places(keys: &[&[u8]], context: &mut Context<'_, '_>) -> [Place; line::MOST] {
    let mut places = [Place::default(); line::MOST];
    let known = keys.iter().zip(&mut places).take_while(|(key, _)| key.len() <= MAX_KEY);
    let count = known.map(|(key, place)| *place = context.session.place(key)).count();
    if count > 1 {
        let mut ahead = places;
        context.session.fetch_ahead(&mut ahead[..count]);
    }
    places
}

/// True if one of these keys is longer than a key can be.
fn has_long_key(keys: &[u8]) -> bool {
    let mut start = 0;
    let spaces = memchr::memchr_iter(b' ', keys).chain([keys.len()]);
    spaces.map(|end| end - std::mem::replace(&mut start, end + 1)).any(|len| len > MAX_KEY)
}

fn get_one(key: &[u8], place: Place, cas: bool, expires: Option<u32>, context: &mut Context<'_, '_>) {
    let now = context.session.now;
    let shard = context.session.shard(place);
    let found = if let Some(expires) = expires {
        let found = shard.find(place.hash, key, now);
        shard.counters.cmd_touch += 1;
        if let Some(id) = found {
            shard.counters_of(id).touch_hits += 1;
            shard.slot_mut(id).expires = expires;
            shard.bump(id, now);
        } else {
            shard.counters.touch_misses += 1;
        }
        found
    } else {
        shard.read(place.hash, key, now)
    };
    let Some(id) = found else { return };
    let slot = shard.slot(id);
    let out = &mut *context.out;
    out.put(b"VALUE ");
    out.put(key);
    out.put(b" ");
    out.number(u64::from(slot.flags));
    out.put(b" ");
    out.number(slot.value_len() as u64);
    if cas {
        out.put(b" ");
        out.number(slot.cas);
    }
    out.put(b"\r\n");
    out.value(shard, id);
}

fn delete(words: &Words<'_>, context: &mut Context<'_, '_>) -> Next {
    let all = words.get();
    if !(2..=4).contains(&all.len()) {
        return context.error();
    }
    let mut quiet = false;
    if all.len() > 2 {
        // Once there was a time until which the key stayed deleted.
        quiet = words.noreply();
        let zero = all[2] == b"0";
        if !(all.len() == 3 && (zero || quiet) || all.len() == 4 && zero && quiet) {
            return context
                .answer(quiet, "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]");
        }
    }
    if all[1].len() > MAX_KEY {
        return context.answer(quiet, BAD_FORMAT);
    }
    let found = context.session.delete(all[1]);
    context.answer(quiet, if found { "DELETED" } else { "NOT_FOUND" })
}

/// `command key number [noreply]`
struct Keyed<'w> {
    key: &'w [u8],
    number: &'w [u8],
    quiet: bool,
}

/// The words of such a command; otherwise it has been answered.
fn keyed<'w>(words: &Words<'w>, context: &mut Context<'_, '_>) -> Result<Keyed<'w>, Next> {
    let all = words.get();
    if !(3..=4).contains(&all.len()) {
        return Err(context.error());
    }
    let (key, quiet) = (all[1], words.noreply());
    if key.len() > MAX_KEY {
        return Err(context.answer(quiet, BAD_FORMAT));
    }
    Ok(Keyed { key, number: all[2], quiet })
}

fn touch(words: &Words<'_>, context: &mut Context<'_, '_>) -> Next {
    let Keyed { key, number, quiet } = match keyed(words, context) {
        Ok(keyed) => keyed,
        Err(next) => return next,
    };
    let Some(expires) = time(number, context.session) else { return context.answer(quiet, BAD_TIME) };
    let (place, now) = (context.session.place(key), context.session.now);
    let shard = context.session.shard(place);
    shard.counters.cmd_touch += 1;
    let found = shard.find(place.hash, key, now);
    if let Some(id) = found {
        shard.counters_of(id).touch_hits += 1;
        shard.slot_mut(id).expires = expires;
        shard.bump(id, now);
    } else {
        shard.counters.touch_misses += 1;
    }
    context.answer(quiet, if found.is_some() { "TOUCHED" } else { "NOT_FOUND" })
}

fn count(words: &Words<'_>, down: bool, context: &mut Context<'_, '_>) -> Next {
    let Keyed { key, number, quiet } = match keyed(words, context) {
        Ok(keyed) => keyed,
        Err(next) => return next,
    };
    let Some(by) = unsigned(number) else {
        return context.answer(quiet, "CLIENT_ERROR invalid numeric delta argument");
    };
    let (place, now) = (context.session.place(key), context.session.now);
    let shard = context.session.shard(place);
    let answer = match shard.count(place.hash, key, Delta { down, by, compare: 0, new_cas: None }, now) {
        Counted::Number(number, _) => {
            if !quiet {
                context.out.number(number);
                context.out.put(b"\r\n");
            }
            return Next::Command;
        }
        Counted::NotNumeric => "CLIENT_ERROR cannot increment or decrement non-numeric value",
        Counted::OutOfMemory => "SERVER_ERROR out of memory",
        Counted::NotFound | Counted::Exists => {
            shard.count_miss(down);
            "NOT_FOUND"
        }
    };
    context.answer(quiet, answer)
}
