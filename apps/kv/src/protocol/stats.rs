//! What `stats` tells, under memcached's names: tools read them.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::line::Words;
use super::{Context, Next, VERSION};
use crate::store::{SIZES, per_page};

/// How a server was started, as `stats settings` tells it.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "memcached's settings of these names")]
pub struct Settings {
    pub port: u16,
    pub udp_port: u16,
    pub address: Option<String>,
    pub socket: Option<String>,
    pub threads: usize,
    pub connections: usize,
    pub no_eviction: bool,
    pub no_flush: bool,
    pub idle_timeout: u32,
    pub verbosity: AtomicU32,
}

/// What a server counts beside its store.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "memcached's statistics of these names")]
pub struct ServerCounters {
    pub started: AtomicU32,
    pub current_connections: AtomicUsize,
    pub total_connections: AtomicUsize,
    pub rejected_connections: AtomicUsize,
    pub idle_kicks: AtomicUsize,
    pub bytes_read: AtomicUsize,
    pub bytes_written: AtomicUsize,
    /// Ours: datagrams of replies that were dropped, since there was no room for them. Who uses UDP asks again.
    pub udp_replies_dropped: AtomicUsize,
}

fn put(context: &mut Context<'_, '_>, name: &str, value: impl std::fmt::Display) {
    context.say(&format!("STAT {name} {value}"));
}

/// `stats [what]`
pub(super) fn stats(words: &Words<'_>, context: &mut Context<'_, '_>) -> Next {
    let all = words.get();
    match all.get(1).copied() {
        None => general(context),
        Some(b"settings") => settings(context),
        Some(b"items") => items(context),
        Some(b"slabs") => slabs(context),
        Some(b"sizes") => put(context, "sizes_status", "disabled"),
        Some(b"conns") => {}
        Some(b"reset") => {
            context.session.reset_counters();
            let counters = &context.server.counters;
            for counter in [
                &counters.total_connections,
                &counters.rejected_connections,
                &counters.idle_kicks,
                &counters.udp_replies_dropped,
            ] {
                counter.store(0, Ordering::Relaxed);
            }
            return context.answer(false, "RESET");
        }
        Some(b"detail") => return context.answer(false, "CLIENT_ERROR usage: stats detail on|off|dump"),
        Some(b"cachedump") => return context.answer(false, "CLIENT_ERROR stats cachedump not allowed"),
        Some(_) => return context.error(),
    }
    context.answer(false, "END")
}

fn general(context: &mut Context<'_, '_>) {
    let totals = context.session.totals();
    let server = context.server;
    let read = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    let now = context.session.now;
    put(context, "pid", std::process::id());
    put(context, "uptime", now.saturating_sub(server.counters.started.load(Ordering::Relaxed)));
    put(context, "time", now);
    put(context, "version", VERSION);
    put(context, "pointer_size", usize::BITS);
    put(context, "max_connections", server.settings.connections);
    put(context, "curr_connections", read(&server.counters.current_connections));
    put(context, "total_connections", read(&server.counters.total_connections));
    put(context, "rejected_connections", read(&server.counters.rejected_connections));
    for (name, value) in totals.counters.named() {
        put(context, name, value);
    }
    put(context, "idle_kicks", read(&server.counters.idle_kicks));
    put(context, "bytes_read", read(&server.counters.bytes_read));
    put(context, "bytes_written", read(&server.counters.bytes_written));
    put(context, "udp_replies_dropped", read(&server.counters.udp_replies_dropped));
    put(context, "limit_maxbytes", context.session.store().memory());
    put(context, "threads", server.settings.threads);
    put(context, "hash_bytes", totals.index_bytes);
    put(context, "bytes", totals.bytes);
    put(context, "curr_items", totals.items);
}

fn settings(context: &mut Context<'_, '_>) {
    let settings = &context.server.settings;
    let none = || "NULL".to_string();
    let yes = |is| if is { "yes" } else { "no" };
    put(context, "maxbytes", context.session.store().memory());
    put(context, "maxconns", settings.connections);
    put(context, "tcpport", settings.port);
    put(context, "udpport", settings.udp_port);
    put(context, "inter", settings.address.clone().unwrap_or_else(none));
    put(context, "verbosity", settings.verbosity.load(Ordering::Relaxed));
    put(context, "evictions", if settings.no_eviction { "off" } else { "on" });
    put(context, "domain_socket", settings.socket.clone().unwrap_or_else(none));
    put(context, "num_threads", settings.threads);
    put(context, "cas_enabled", "yes");
    put(context, "auth_enabled_sasl", "no");
    put(context, "auth_enabled_ascii", "no");
    put(context, "binding_protocol", "ascii");
    put(context, "item_size_max", context.session.store().largest());
    put(context, "flush_enabled", yes(!settings.no_flush));
    put(context, "shutdown_command", yes(false));
    put(context, "dump_enabled", yes(false));
    put(context, "hash_algorithm", "xxh3");
    put(context, "idle_timeout", settings.idle_timeout);
}

fn items(context: &mut Context<'_, '_>) {
    let totals = context.session.totals();
    for (class, total) in totals.classes.iter().enumerate().filter(|(_, total)| total.items > 0) {
        put(context, &format!("items:{class}:number"), total.items);
        put(context, &format!("items:{class}:mem_requested"), total.bytes);
        put(context, &format!("items:{class}:evicted"), total.evicted);
    }
}

fn slabs(context: &mut Context<'_, '_>) {
    let totals = context.session.totals();
    let mut active = 0;
    for (class, total) in totals.classes.iter().enumerate().filter(|(_, total)| total.items > 0) {
        active += 1;
        let pages = total.items.div_ceil(u64::from(per_page(class)));
        put(context, &format!("{class}:chunk_size"), SIZES[class]);
        put(context, &format!("{class}:chunks_per_page"), per_page(class));
        put(context, &format!("{class}:total_pages"), pages);
        put(context, &format!("{class}:total_chunks"), pages * u64::from(per_page(class)));
        put(context, &format!("{class}:used_chunks"), total.items);
        put(context, &format!("{class}:mem_requested"), total.bytes);
    }
    put(context, "active_slabs", active);
    put(context, "total_malloced", totals.bytes);
}
