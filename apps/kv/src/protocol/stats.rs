//! What `stats` tells, under memcached's names: tools read them.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::conns::conns;
use super::interface_time::InterfaceTime;
use super::line::Words;
use super::settings::settings;
use super::{Context, Next, VERSION};
use crate::store::stats::{SIZE_STEP, Totals};
use crate::store::{SIZES, per_page};

/// What a server counts beside its store.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "memcached's statistics of these names")]
pub struct ServerCounters {
    pub started: AtomicU32,
    pub current_connections: AtomicUsize,
    pub total_connections: AtomicUsize,
    pub rejected_connections: AtomicUsize,
    pub listen_disabled_num: AtomicUsize,
    pub time_in_listen_disabled_us: AtomicUsize,
    pub conn_yields: AtomicUsize,
    pub idle_kicks: AtomicUsize,
    pub bytes_read: AtomicUsize,
    pub bytes_written: AtomicUsize,
    /// Ours: datagrams of replies that were dropped, since there was no room for them. Who uses UDP asks again.
    pub udp_replies_dropped: AtomicUsize,
    /// Ours: where the threads on queue pairs spend their time.
    pub interface: InterfaceTime,
}

impl ServerCounters {
    /// `stats reset`
    fn reset(&self) {
        let all = [
            &self.total_connections,
            &self.rejected_connections,
            &self.listen_disabled_num,
            &self.time_in_listen_disabled_us,
            &self.conn_yields,
            &self.idle_kicks,
            &self.bytes_read,
            &self.bytes_written,
            &self.udp_replies_dropped,
        ];
        all.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
        self.interface.reset();
    }
}

/// Lines of `stats sizes` that are made in one step.
const SIZES_AT_ONCE: usize = 256;

pub(super) fn put(context: &mut Context<'_, '_>, name: &str, value: impl std::fmt::Display) {
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
        Some(b"sizes") => return sizes(0, context),
        // These two answers have no END, as memcached's.
        Some(what @ (b"sizes_enable" | b"sizes_disable")) => {
            let on = what == b"sizes_enable";
            if context.server.settings.no_cas {
                put(context, "sizes_status", "error");
                put(context, "sizes_error", "cas_support_disabled");
                return Next::Command;
            }
            context.session.track_sizes(on);
            put(context, "sizes_status", if on { "enabled" } else { "disabled" });
            return Next::Command;
        }
        Some(b"conns") => return conns(0, context),
        Some(b"reset") => {
            context.session.reset_counters();
            context.server.counters.reset();
            return context.answer(false, "RESET");
        }
        Some(b"detail") => return context.answer(false, "CLIENT_ERROR usage: stats detail on|off|dump"),
        Some(b"cachedump") => return context.answer(false, "CLIENT_ERROR stats cachedump not allowed"),
        Some(_) => return context.error(),
    }
    context.answer(false, "END")
}

/// In memcached's order. What it tells of threads, buffers and segments that there are none of here is left out, as it leaves out what is
/// switched off.
fn general(context: &mut Context<'_, '_>) {
    let totals = context.session.totals();
    let server = context.server;
    let read = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    let now = context.session.now;
    let (store, classes, counters) = (&totals.counters, totals.all_classes(), &server.counters);
    put(context, "pid", std::process::id());
    put(context, "uptime", now.saturating_sub(counters.started.load(Ordering::Relaxed)));
    put(context, "time", now);
    put(context, "version", VERSION);
    put(context, "pointer_size", usize::BITS);
    if let Some([user, system]) = server.settings.processor_time.map(|times| times()) {
        put(context, "rusage_user", format_args!("{}.{:06}", user.as_secs(), user.subsec_micros()));
        put(context, "rusage_system", format_args!("{}.{:06}", system.as_secs(), system.subsec_micros()));
    }
    put(context, "max_connections", server.settings.connections);
    put(context, "curr_connections", read(&counters.current_connections));
    put(context, "total_connections", read(&counters.total_connections));
    put(context, "rejected_connections", read(&counters.rejected_connections));
    put(context, "connection_structures", read(&counters.current_connections));
    // Nobody is disconnected for lack of memory: who does not read is not listened to.
    put(context, "response_obj_oom", 0);
    put(context, "read_buf_oom", 0);
    put(context, "cmd_get", store.cmd_get);
    put(context, "cmd_set", classes.cmd_set);
    put(context, "cmd_flush", store.cmd_flush);
    put(context, "cmd_touch", store.cmd_touch);
    put(context, "cmd_meta", store.cmd_meta);
    put(context, "get_hits", classes.get_hits);
    put(context, "get_misses", store.get_misses);
    put(context, "get_expired", store.get_expired);
    put(context, "get_flushed", store.get_flushed);
    put(context, "delete_misses", store.delete_misses);
    put(context, "delete_hits", classes.delete_hits);
    put(context, "incr_misses", store.incr_misses);
    put(context, "incr_hits", classes.incr_hits);
    put(context, "decr_misses", store.decr_misses);
    put(context, "decr_hits", classes.decr_hits);
    put(context, "cas_misses", store.cas_misses);
    put(context, "cas_hits", classes.cas_hits);
    put(context, "cas_badval", classes.cas_badval);
    put(context, "touch_hits", classes.touch_hits);
    put(context, "touch_misses", store.touch_misses);
    put(context, "store_too_large", store.store_too_large);
    put(context, "store_no_memory", store.store_no_memory);
    // There is no authentication.
    put(context, "auth_cmds", 0);
    put(context, "auth_errors", 0);
    if server.settings.idle_timeout > 0 {
        put(context, "idle_kicks", read(&counters.idle_kicks));
    }
    put(context, "bytes_read", read(&counters.bytes_read));
    put(context, "bytes_written", read(&counters.bytes_written));
    put(context, "udp_replies_dropped", read(&counters.udp_replies_dropped));
    counters.interface.tell(context);
    put(context, "limit_maxbytes", context.session.store().memory());
    put(context, "accepting_conns", 1);
    put(context, "listen_disabled_num", read(&counters.listen_disabled_num));
    put(context, "time_in_listen_disabled_us", read(&counters.time_in_listen_disabled_us));
    put(context, "threads", server.settings.threads);
    put(context, "conn_yields", read(&counters.conn_yields));
    put(context, "hash_power_level", totals.index_items.max(1).ilog2());
    put(context, "hash_bytes", totals.index_bytes);
    // An index grows while its shard is held: nobody can see it grow.
    put(context, "hash_is_expanding", 0);
    // Without memory a Rust program ends.
    put(context, "malloc_fails", 0);
    // There is no `watch`.
    for name in [
        "log_worker_dropped",
        "log_worker_written",
        "log_watcher_skipped",
        "log_watcher_sent",
        "log_watchers",
    ] {
        put(context, name, 0);
    }
    // Connections are dealt to the threads in turn, whatever queue they come by.
    put(context, "unexpected_napi_ids", 0);
    put(context, "round_robin_fallback", 0);
    put(context, "bytes", totals.bytes);
    put(context, "curr_items", totals.items);
    put(context, "total_items", store.total_items);
    put(context, "slab_global_page_pool", 0);
    put(context, "expired_unfetched", classes.expired_unfetched);
    put(context, "evicted_unfetched", classes.evicted_unfetched);
    put(context, "evicted_active", classes.evicted_active);
    put(context, "evictions", classes.evicted);
    put(context, "reclaimed", classes.reclaimed);
    put(context, "crawler_reclaimed", classes.crawler_reclaimed);
    put(context, "crawler_items_checked", classes.crawler_items_checked);
    // Replies that refer to an item keep its bytes, not its place.
    put(context, "lrutail_reflocked", 0);
    put(context, "moves_within_lru", classes.moves_within_lru);
    put(context, "direct_reclaims", classes.direct_reclaims);
}

fn items(context: &mut Context<'_, '_>) {
    let Totals { classes, age, .. } = context.session.totals();
    for (number, class) in classes.iter().enumerate().filter(|(_, class)| class.items > 0) {
        let counters = &class.counters;
        let all = [
            ("number", class.items),
            // The classes share a list.
            ("age", age.into()),
            ("mem_requested", class.bytes),
            ("evicted", counters.evicted),
            ("evicted_nonzero", counters.evicted_nonzero),
            ("evicted_time", class.evicted_time.into()),
            ("outofmemory", counters.outofmemory),
            ("tailrepairs", 0),
            ("reclaimed", counters.reclaimed),
            ("expired_unfetched", counters.expired_unfetched),
            ("evicted_unfetched", counters.evicted_unfetched),
            ("evicted_active", counters.evicted_active),
            ("crawler_reclaimed", counters.crawler_reclaimed),
            ("crawler_items_checked", counters.crawler_items_checked),
            ("lrutail_reflocked", 0),
            ("moves_within_lru", counters.moves_within_lru),
            ("direct_reclaims", counters.direct_reclaims),
        ];
        for (name, value) in all {
            put(context, &format!("items:{number}:{name}"), value);
        }
    }
}

/// A class stays once it has had an item, as its counters do. Its pages are those that memcached would need.
fn slabs(context: &mut Context<'_, '_>) {
    let totals = context.session.totals();
    let mut active = 0;
    for (number, class) in totals.classes.iter().enumerate() {
        let counters = &class.counters;
        if !class.used && counters.cmd_set == 0 {
            continue;
        }
        active += 1;
        let per_page = u64::from(per_page(number));
        let pages = class.items.div_ceil(per_page);
        let all = [
            ("chunk_size", SIZES[number].into()),
            ("chunks_per_page", per_page),
            ("total_pages", pages),
            ("total_chunks", pages * per_page),
            ("used_chunks", class.items),
            ("free_chunks", pages * per_page - class.items),
            ("free_chunks_end", 0),
            ("get_hits", counters.get_hits),
            ("cmd_set", counters.cmd_set),
            ("delete_hits", counters.delete_hits),
            ("incr_hits", counters.incr_hits),
            ("decr_hits", counters.decr_hits),
            ("cas_hits", counters.cas_hits),
            ("cas_badval", counters.cas_badval),
            ("touch_hits", counters.touch_hits),
        ];
        for (name, value) in all {
            put(context, &format!("{number}:{name}"), value);
        }
    }
    put(context, "active_slabs", active);
    put(context, "total_malloced", totals.bytes);
}

/// Goes on after [`Next::More`].
pub(super) fn go_on(words: &Words<'_>, from: usize, context: &mut Context<'_, '_>) -> Next {
    if words.get().get(1) == Some(&&b"conns"[..]) { conns(from, context) } else { sizes(from, context) }
}

/// `stats sizes`, from this step on.
fn sizes(mut from: usize, context: &mut Context<'_, '_>) -> Next {
    loop {
        let Some(sizes) = context.session.sizes(from, SIZES_AT_ONCE) else {
            put(context, "sizes_status", "disabled");
            return context.answer(false, "END");
        };
        let Some((last, _)) = sizes.last_key_value() else { return context.answer(false, "END") };
        from = last + 1;
        for (step, count) in &sizes {
            put(context, &(step * SIZE_STEP).to_string(), count);
        }
        if context.is_enough() {
            return Next::More(from);
        }
    }
}
