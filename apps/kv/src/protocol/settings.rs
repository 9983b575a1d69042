//! How a server was started, as `stats settings` tells it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::Context;
use super::stats::put;
use crate::store::SIZES;

/// The settings.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "memcached's settings of these names")]
pub struct Settings {
    pub port: u16,
    pub udp_port: u16,
    pub address: Option<String>,
    pub socket: Option<String>,
    pub access: u32,
    pub backlog: u16,
    /// None: there is no such limit.
    pub requests_per_event: Option<u32>,
    pub no_cas: bool,
    /// Clients may end the server.
    pub shutdown: bool,
    pub threads: usize,
    pub connections: usize,
    pub no_eviction: bool,
    pub no_flush: bool,
    /// Clients may change the limit on memory.
    pub memory_limit: bool,
    pub idle_timeout: u32,
    pub verbosity: AtomicU32,
    /// The processor time of the process so far, for itself and in the system. None: it is not told.
    pub processor_time: Option<fn() -> [Duration; 2]>,
}

/// `stats settings`: memcached's settings as far as there is such a thing here.
pub(super) fn settings(context: &mut Context<'_, '_>) {
    let settings = &context.server.settings;
    let none = || "NULL".to_string();
    let yes = |is| if is { "yes" } else { "no" };
    let started = context.server.counters.started.load(Ordering::Relaxed);
    let oldest = context.session.totals().flushed_before.saturating_sub(started);
    let sized = context.session.tracks_sizes();
    put(context, "maxbytes", context.session.store().memory());
    put(context, "maxconns", settings.connections);
    put(context, "tcpport", settings.port);
    put(context, "udpport", settings.udp_port);
    put(context, "inter", settings.address.clone().unwrap_or_else(none));
    put(context, "verbosity", settings.verbosity.load(Ordering::Relaxed));
    put(context, "oldest", oldest);
    put(context, "evictions", if settings.no_eviction { "off" } else { "on" });
    put(context, "domain_socket", settings.socket.clone().unwrap_or_else(none));
    put(context, "umask", format_args!("{:o}", settings.access));
    put(context, "shutdown_command", yes(settings.shutdown));
    // Of the classes that are told; memory is not divided among them.
    put(context, "growth_factor", "1.25");
    put(context, "chunk_size", 48);
    put(context, "num_threads", settings.threads);
    put(context, "num_threads_per_udp", settings.threads);
    put(context, "detail_enabled", yes(false));
    put(context, "reqs_per_event", settings.requests_per_event.unwrap_or(0));
    put(context, "cas_enabled", yes(!settings.no_cas));
    put(context, "tcp_backlog", settings.backlog);
    put(context, "binding_protocol", "ascii");
    put(context, "auth_enabled_sasl", yes(false));
    put(context, "auth_enabled_ascii", yes(false));
    put(context, "item_size_max", context.session.store().largest());
    put(context, "maxconns_fast", yes(true));
    put(context, "slab_reassign", yes(false));
    put(context, "slab_automove", 0);
    put(context, "slab_chunk_max", SIZES[SIZES.len() - 1]);
    put(context, "lru_crawler", yes(false));
    put(context, "tail_repair_time", 0);
    put(context, "flush_enabled", yes(!settings.no_flush));
    put(context, "dump_enabled", yes(false));
    put(context, "hash_algorithm", "siphash13");
    put(context, "lru_maintainer_thread", yes(false));
    put(context, "lru_segmented", yes(false));
    put(context, "temp_lru", yes(false));
    put(context, "idle_timeout", settings.idle_timeout);
    put(context, "read_buf_mem_limit", 0);
    put(context, "track_sizes", yes(sized));
    put(context, "inline_ascii_response", yes(false));
    put(context, "ssl_enabled", yes(false));
    put(context, "num_napi_ids", "(null)");
    put(context, "memory_file", "(null)");
}
