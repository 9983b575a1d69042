//! The classic commands that are about the server, and what is no command.

use super::line::Words;
use super::update::time;
use super::{BAD_FORMAT, BAD_TIME, Context, Next, VERSION};
use crate::number::{signed, unsigned_32};
use std::sync::atomic::Ordering;

/// Executes a command that is not about an item.
pub(super) fn command(words: &Words<'_>, context: &mut Context<'_, '_>) -> Next {
    let all = words.get();
    let quiet = words.noreply();
    match (all[0], all.len()) {
        (b"flush_all", 1..=3) => flush(words, context),
        (b"version", _) => context.answer(false, &format!("VERSION {VERSION}")),
        (b"verbosity", 2..=3) => match unsigned_32(all[1]) {
            Some(level) => {
                context.server.settings.verbosity.store(level.min(2), Ordering::Relaxed);
                context.answer(quiet, "OK")
            }
            None => context.answer(quiet, BAD_FORMAT),
        },
        (b"cache_memlimit", 2..=3) => memory_limit(all[1], quiet, context),
        (b"shutdown", _) => shutdown(words, context),
        (b"watch", _) => context.answer(quiet, "CLIENT_ERROR watch commands not allowed"),
        (b"slabs", 4) if all[1] == b"reassign" => {
            context.answer(false, "CLIENT_ERROR slab reassignment disabled")
        }
        (b"slabs", 3) if all[1] == b"automove" && unsigned_32(all[2]).is_none() => {
            context.answer(false, BAD_FORMAT)
        }
        (b"lru_crawler", 3) if matches!(all[1], b"crawl" | b"metadump") => {
            context.answer(false, "CLIENT_ERROR lru crawler disabled")
        }
        _ if is_known(all[0]) => context.error(),
        _ if all.last().is_some_and(|word| word.starts_with(b"HTTP/")) => Next::Close,
        _ => context.error(),
    }
}

/// True for a name that memcached looks up before it takes the line for HTTP. It finds names by their first letter.
fn is_known(name: &[u8]) -> bool {
    matches!(name[0], b'm' if name.len() == 2)
        || matches!(name[0], b'g' | b's' | b'a' | b'c' | b'i' | b'd' | b't')
        || matches!(name, b"flush_all" | b"verbosity" | b"lru_crawler")
}

/// `shutdown [graceful]`: both write a snapshot, where one is asked for.
fn shutdown(words: &Words<'_>, context: &mut Context<'_, '_>) -> Next {
    if !context.server.settings.shutdown {
        return context.answer(false, "ERROR: shutdown not enabled");
    }
    if !matches!(words.get(), [_] | [_, b"graceful"]) {
        return context.answer(false, "CLIENT_ERROR invalid shutdown mode");
    }
    context.server.ended.store(true, Ordering::Relaxed);
    Next::Close
}

/// `flush_all [delay] [noreply]`
fn flush(words: &Words<'_>, context: &mut Context<'_, '_>) -> Next {
    let (all, quiet) = (words.get(), words.noreply());
    // Also one that is refused, as memcached does.
    context.session.count_flush();
    if context.server.settings.no_flush {
        return context.answer(quiet, "CLIENT_ERROR flush_all not allowed");
    }
    let mut at = context.session.now;
    if all.len() != if quiet { 2 } else { 1 } {
        let Some(then) = time(all[1], context.session) else { return context.answer(quiet, BAD_TIME) };
        if signed(all[1]).is_some_and(|delay| delay > 0) {
            at = then;
        }
    }
    context.session.flush(at);
    context.answer(quiet, "OK")
}

fn memory_limit(word: &[u8], quiet: bool, context: &mut Context<'_, '_>) -> Next {
    if !context.server.settings.memory_limit {
        return context.answer(quiet, "CLIENT_ERROR cache_memlimit not allowed");
    }
    let answer = match unsigned_32(word) {
        None => "ERROR",
        Some(..8) => "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m",
        Some(1_000_000_001..) => "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes",
        Some(megabytes) => {
            let left = context.left();
            if !context.session.set_memory((megabytes as usize) << 20, left) {
                return Next::Again;
            }
            "OK"
        }
    };
    context.answer(quiet, answer)
}
