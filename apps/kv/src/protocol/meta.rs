//! The meta commands `mg`, `md` and `me`.

use super::flags::{Flags, OPAQUE_TOO_LONG, check};
use super::line::Words;
use super::{BAD_FORMAT, Context, Next, Output, base64};
use crate::store::MAX_KEY;
use crate::store::shard::Shard;
use crate::store::slot::{BINARY_KEY, FETCHED, STALE, Slot, TOKEN_SENT};

/// A key as a flag of an answer.
pub(super) fn put_key(out: &mut Output, key: &[u8], binary: bool) {
    out.put(b" k");
    if binary {
        base64::encode(key, |part| out.put(part));
        out.put(b" b");
    } else {
        out.put(key);
    }
}

/// What of an answer does not depend on an item: opaque token and key.
pub(super) fn put_echo(out: &mut Output, flags: &Flags<'_>) {
    for word in flags.list() {
        match word[0] {
            b'O' => {
                out.put(b" ");
                out.put(word);
            }
            b'k' => put_key(out, flags.key(), flags.binary_key()),
            _ => {}
        }
    }
}

fn put_flag(out: &mut Output, letter: u8, number: u64) {
    out.put(&[b' ', letter]);
    out.number(number);
}

/// The seconds that an item has left.
pub(super) fn put_ttl(out: &mut Output, slot: &Slot, now: u32) {
    if slot.expires == 0 {
        out.put(b" t-1");
    } else {
        put_flag(out, b't', u64::from(slot.expires.wrapping_sub(now)));
    }
}

/// `mg key flags`
pub(super) fn get(words: &Words<'_>, context: &mut Context<'_, '_>) -> Next {
    if words.get().len() < 2 {
        return context.error();
    }
    let flags = check(words, "CLIENT_ERROR options flags are too long")
        .and_then(|()| Flags::parse(words, 2, context.session));
    let flags = match flags {
        Ok(flags) => flags,
        Err(error) => return context.answer(false, error),
    };
    let (key, now) = (flags.key(), context.session.now);
    let place = context.session.place(key);
    let shard = context.session.shard(place);
    let mut found = shard.find(place.hash, key, now);
    let hit = found.is_some();
    let mut won = false;
    if found.is_none()
        && let Some(expires) = flags.vivify
    {
        found = shard.vivify(place.hash, key, 0, flags.new_cas, now);
        if let Some(id) = found {
            shard.slot_mut(id).expires = expires;
            won = true;
        }
    }
    count_get(&flags, found, shard);
    if flags.opaque_too_long() {
        return context.answer(false, OPAQUE_TOO_LONG);
    }
    let Some(id) = found else {
        if !flags.quiet {
            context.out.put(b"EN");
            put_echo(context.out, &flags);
            context.out.put(b"\r\n");
        }
        return Next::Command;
    };
    let out = &mut *context.out;
    if flags.value {
        out.put(b"VA ");
        out.number(shard.slot(id).value_len() as u64);
    } else {
        out.put(b"HD");
    }
    for word in flags.list() {
        put_get_flag(out, word, &flags, shard.slot_mut(id), now, hit, &mut won);
    }
    let slot = shard.slot_mut(id);
    put_state(out, slot, &mut won);
    if won {
        out.put(b" W");
        slot.bits |= TOKEN_SENT;
    }
    out.put(b"\r\n");
    if flags.value {
        out.value(shard, id);
    }
    if !flags.no_update {
        shard.bump(id, now);
    }
    Next::Command
}

/// As memcached counts: an item that is made counts as found, one that is touched as touched only; a refused token hides what was found.
fn count_get(flags: &Flags<'_>, found: Option<u32>, shard: &mut Shard) {
    match found {
        None => {
            shard.counters.cmd_get += 1;
            shard.counters.get_misses += 1;
        }
        Some(_) if flags.opaque_too_long() => {}
        Some(id) if flags.expires.is_some() => {
            shard.counters.cmd_touch += 1;
            shard.counters_of(id).touch_hits += 1;
        }
        Some(id) => {
            shard.counters.cmd_get += 1;
            shard.counters_of(id).get_hits += 1;
        }
    }
}

/// One flag of `mg`: what it changes, or adds to the answer.
fn put_get_flag(
    out: &mut Output,
    word: &[u8],
    flags: &Flags<'_>,
    slot: &mut Slot,
    now: u32,
    hit: bool,
    won: &mut bool,
) {
    match word[0] {
        b'T' => slot.expires = flags.expires.unwrap_or(slot.expires),
        b'R' => {
            let late = slot.expires != 0 && flags.recache.is_some_and(|limit| slot.expires < limit);
            *won |= hit && late && !slot.has(TOKEN_SENT);
        }
        b's' => put_flag(out, b's', slot.value_len() as u64),
        b't' => put_ttl(out, slot, now),
        b'c' => put_flag(out, b'c', slot.cas),
        b'f' => put_flag(out, b'f', u64::from(slot.flags)),
        b'l' => put_flag(out, b'l', u64::from(now.saturating_sub(slot.time))),
        b'h' => put_flag(out, b'h', u64::from(slot.has(FETCHED))),
        b'k' => put_key(out, slot.key(), slot.has(BINARY_KEY)),
        b'O' => {
            out.put(b" ");
            out.put(word);
        }
        _ => {}
    }
}

/// Whether the item is stale, and whether somebody is fetching it anew.
fn put_state(out: &mut Output, slot: &Slot, won: &mut bool) {
    if slot.has(TOKEN_SENT) {
        out.put(b" Z");
    }
    if slot.has(STALE) {
        out.put(b" X");
        *won |= !slot.has(TOKEN_SENT);
    }
}

/// The flags of a command that is a key and flags; otherwise it has been answered.
pub(super) fn flags_of<'w>(words: &Words<'w>, context: &mut Context<'_, '_>) -> Result<Flags<'w>, Next> {
    if words.get().len() < 2 {
        return Err(context.error());
    }
    check(words, "CLIENT_ERROR options flags too long").map_err(|error| context.answer(false, error))?;
    Flags::parse(words, 2, context.session)
        .map_err(|_| context.answer(false, "CLIENT_ERROR invalid or duplicate flag"))
}

/// `md key flags`
pub(super) fn delete(words: &Words<'_>, context: &mut Context<'_, '_>) -> Next {
    let flags = match flags_of(words, context) {
        Ok(flags) => flags,
        Err(next) => return next,
    };
    if flags.opaque_too_long() {
        return context.answer(false, OPAQUE_TOO_LONG);
    }
    let (key, now) = (flags.key(), context.session.now);
    let place = context.session.place(key);
    let shard = context.session.shard(place);
    let found = shard.find(place.hash, key, now);
    let status = match found {
        None => {
            shard.counters.delete_misses += 1;
            "NF"
        }
        Some(id) if flags.compare.is_some_and(|cas| cas != shard.slot(id).cas) => {
            shard.counters.delete_misses += 1;
            "EX"
        }
        Some(id) if flags.stale => {
            let slot = shard.slot_mut(id);
            slot.expires = flags.expires.unwrap_or(slot.expires);
            shard.invalidate(id, flags.new_cas);
            "HD"
        }
        Some(id) => {
            shard.counters_of(id).delete_hits += 1;
            shard.remove(id);
            "HD"
        }
    };
    if !(flags.quiet && status == "HD") {
        context.out.put(status.as_bytes());
        put_echo(context.out, &flags);
        context.out.put(b"\r\n");
    }
    Next::Command
}

/// `me key`: what is known of an item.
pub(super) fn debug(words: &Words<'_>, context: &mut Context<'_, '_>) -> Next {
    let all = words.get();
    if all.len() < 2 || all[1].len() > MAX_KEY {
        return context.answer(false, BAD_FORMAT);
    }
    let decoded = (all.len() > 2 && all[2] == b"b").then(|| base64::decode(all[1]));
    let key = match &decoded {
        None => all[1],
        Some(Some(key)) => key.bytes(),
        Some(None) => return context.answer(false, BAD_FORMAT),
    };
    let (place, now) = (context.session.place(key), context.session.now);
    let shard = context.session.shard(place);
    shard.counters.cmd_meta += 1;
    let has_cas = shard.has_cas;
    let Some(id) = shard.find(place.hash, key, now) else { return context.answer(false, "EN") };
    let slot = shard.slot(id);
    let out = &mut *context.out;
    out.put(b"ME ");
    if slot.has(BINARY_KEY) {
        base64::encode(slot.key(), |part| out.put(part));
    } else {
        out.put(slot.key());
    }
    let expires = if slot.expires == 0 { -1 } else { i64::from(now) - i64::from(slot.expires) };
    let fetched = if slot.has(FETCHED) { "yes" } else { "no" };
    let line = format!(
        " exp={expires} la={} cas={} fetch={fetched} cls={} size={}\r\n",
        now.saturating_sub(slot.time),
        slot.cas,
        slot.class,
        slot.total(has_cas)
    );
    out.put(line.as_bytes());
    Next::Command
}
