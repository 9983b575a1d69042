/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The load generator: sends packets through a port whose other side returns them, and measures rate and round trips. The whole payload
 * of a packet is written before it is sent, and read and checked when it has come back; then its round trip ends. The loop is
 * that of crates/ccnic-load/src/lib.rs, on the ethdev API.
 */
#include "peers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_pause.h>

#include "stats.h"
#include "payload.h"
#include "prefetch.h"

/* With at most so many packets in flight, round trips are measured precisely: see examine(). */
#define PRECISE 16
/* Seconds to wait for the first answer, and for the last packets. */
#define PATIENCE 10.0
#define DRAIN 1.0
/* Of frames: local experimental (IEEE 802). */
#define ETHER_TYPE 0x88b5
/* Packets that are prefetched ahead of the check: a core has a dozen fill buffers. */
#define AHEAD 4

/* The addresses of the two programs. */
static const struct rte_ether_addr there = {{2, 0, 0, 0, 0, 1}}, back = {{2, 0, 0, 0, 0, 2}};

/* The second program. */
struct returner {
	uint16_t port;
	/* A burst that has not been returned completely. */
	uint16_t next, len;
	struct rte_mbuf *mbufs[BURST];
};

struct generator {
	uint16_t port;
	struct rte_mempool *pool;
	uint32_t size;
	uint32_t header; /* bytes before the payload */
	struct returner *returner; /* the second program, if there is one */
	uint32_t segments; /* mbufs of a packet */
	uint32_t room;	   /* bytes of data per mbuf */
	uint32_t inflight;
	uint32_t burst;
	double hz;
	/* A burst that has not been sent completely. */
	struct rte_mbuf *tx[BURST];
	uint16_t tx_next, tx_len;
	struct rte_mbuf *rx[BURST];
	uint16_t rx_len;
	/* The time when the clock was last read, and the packets received since. */
	uint64_t now, since;
	bool pool_empty; /* the pool had no mbuf at least once */
	struct stats stats;
};

/* The time, read after all earlier loads are complete. */
static inline uint64_t settled_clock(void)
{
	rte_rmb();
	return rte_rdtsc_precise();
}

/*
 * The time, after a receive burst of `received` packets. Reading the clock costs as much as a small packet, so it is read once for
 * several small bursts: for so few of the packets in flight that the error of a round trip is at most 3 %.
 */
static inline uint64_t tick(struct generator *g, uint16_t received)
{
	uint64_t outstanding = stats_outstanding(&g->stats);

	g->since += received;
	if (outstanding > PRECISE && received > 0 && g->since * 32 < outstanding)
		return g->now;
	g->since = 0;
	g->now = rte_rdtsc();
	return g->now;
}

/* The Ethernet header of a frame to the other program. */
static inline void write_header(const struct generator *g, struct rte_mbuf *mbuf)
{
	struct rte_ether_hdr *header = rte_pktmbuf_mtod(mbuf, struct rte_ether_hdr *);

	if (g->header == 0)
		return;
	header->dst_addr = back;
	header->src_addr = there;
	header->ether_type = rte_cpu_to_be_16(ETHER_TYPE);
}

/* Fills a packet of one mbuf. */
static inline void fill_one(const struct generator *g, struct rte_mbuf *mbuf, uint64_t seq, uint64_t now)
{
	mbuf->data_len = (uint16_t)g->size;
	mbuf->pkt_len = g->size;
	write_header(g, mbuf);
	payload_fill(rte_pktmbuf_mtod_offset(mbuf, void *, g->header), g->size - g->header, 0, seq, now);
}

/* Chains `g->segments` mbufs to one packet and fills it. */
static void fill_chain(const struct generator *g, struct rte_mbuf **mbufs, uint64_t seq, uint64_t now)
{
	struct rte_mbuf *head = mbufs[0];
	uint32_t at = 0, header = g->header; /* of the payload; of this mbuf */

	write_header(g, head);
	for (uint32_t i = 0; i < g->segments; i++) {
		uint32_t len = RTE_MIN(g->room - header, g->size - g->header - at);

		mbufs[i]->data_len = (uint16_t)(header + len);
		mbufs[i]->next = i + 1 < g->segments ? mbufs[i + 1] : NULL;
		payload_fill(rte_pktmbuf_mtod_offset(mbufs[i], void *, header), len, at, seq, now);
		at += len;
		header = 0;
	}
	head->pkt_len = g->size;
	head->nb_segs = (uint16_t)g->segments;
}

/* Makes `n` packets for the next bursts. */
static inline void make(struct generator *g, uint16_t n, uint64_t now)
{
	if (take_mbufs(g->pool, g->tx, n) < 0) {
		g->pool_empty = true;
		return;
	}
	for (uint16_t i = 0; i < n; i++)
		prefetch_own(rte_pktmbuf_mtod(g->tx[i], void *));
	for (uint16_t i = 0; i < n; i++)
		fill_one(g, g->tx[i], g->stats.next + i, now);
	g->tx_next = 0;
	g->tx_len = n;
	g->stats.next += n;
}

/* As make(), of packets that take several mbufs. */
static void make_chains(struct generator *g, uint16_t n, uint64_t now)
{
	struct rte_mbuf *chain[RTE_MBUF_MAX_NB_SEGS < 256 ? RTE_MBUF_MAX_NB_SEGS : 256];

	g->tx_next = g->tx_len = 0;
	for (uint16_t i = 0; i < n; i++) {
		if (take_mbufs(g->pool, chain, g->segments) < 0) {
			g->pool_empty = true;
			return;
		}
		fill_chain(g, chain, g->stats.next++, now);
		g->tx[g->tx_len++] = chain[0];
	}
}

/* Sends one burst if the window has room for a whole one. Returns the number of packets sent. */
static inline uint16_t send_burst(struct generator *g, uint64_t now)
{
	uint16_t sent;

	if (g->tx_next == g->tx_len) {
		if (g->inflight - stats_outstanding(&g->stats) < g->burst)
			return 0;
		if (likely(g->segments == 1))
			make(g, (uint16_t)g->burst, now);
		else
			make_chains(g, (uint16_t)g->burst, now);
	}
	sent = rte_eth_tx_burst(g->port, 0, g->tx + g->tx_next, g->tx_len - g->tx_next);
	g->tx_next += sent;
	return sent;
}

/* The addresses of a frame are those of one that the other program has returned. */
static inline bool returned(const struct generator *g, const struct rte_mbuf *mbuf)
{
	const struct rte_ether_hdr *header = rte_pktmbuf_mtod(mbuf, const struct rte_ether_hdr *);

	return g->header == 0 || (rte_is_same_ether_addr(&header->dst_addr, &there) && rte_is_same_ether_addr(&header->src_addr, &back));
}

/* Reads and checks every byte of a packet; returns its sequence number and time of sending. */
static inline bool intact(const struct generator *g, const struct rte_mbuf *mbuf, uint64_t *seq, uint64_t *time)
{
	const uint64_t *words = rte_pktmbuf_mtod_offset(mbuf, const uint64_t *, g->header);
	uint32_t at, size = g->size - g->header;
	bool good;

	*seq = UINT64_MAX;
	*time = 0;
	if (unlikely(mbuf->pkt_len != g->size || mbuf->data_len < g->header + PAYLOAD_MIN))
		return false;
	*time = words[0];
	*seq = words[1];
	at = mbuf->data_len - g->header;
	good = payload_intact(words, at, 0, *seq) & returned(g, mbuf);
	for (mbuf = mbuf->next; unlikely(at < size && mbuf != NULL); mbuf = mbuf->next) {
		/* The check works on words: drivers that split a packet between words are not supported. */
		good &= at % 8 == 0 && payload_intact(rte_pktmbuf_mtod(mbuf, void *), mbuf->data_len, at, *seq);
		at += mbuf->data_len;
	}
	return good & (at == size);
}

/* With few packets in flight: reads the clock after all of them have been read. */
static void examine_few(struct generator *g)
{
	uint64_t seqs[BURST], times[BURST], now;

	for (uint16_t i = 0; i < g->rx_len; i++)
		g->stats.corrupt += !intact(g, g->rx[i], &seqs[i], &times[i]);
	now = settled_clock();
	for (uint16_t i = 0; i < g->rx_len; i++)
		stats_arrived(&g->stats, seqs[i], now - times[i]);
}

/* With many: uses the time of the receive burst. A fence in every burst would distort the measurement. */
static inline void examine_many(struct generator *g, uint64_t now)
{
	uint64_t seq, time;

	for (uint16_t i = 0; i < g->rx_len; i++) {
		if (i + AHEAD < g->rx_len)
			prefetch_packet(g->rx[i + AHEAD]);
		g->stats.corrupt += !intact(g, g->rx[i], &seq, &time);
		stats_arrived(&g->stats, seq, now > time ? now - time : 0);
	}
}

/* Reads, checks and frees received packets. The round trip of a packet ends when it has been read. */
static inline void examine(struct generator *g, uint64_t now)
{
	if (g->rx_len == 0)
		return;
	if (g->inflight <= PRECISE)
		examine_few(g);
	else
		examine_many(g, now);
	rte_pktmbuf_free_bulk(g->rx, g->rx_len);
}

/* Prefetches the packets of a receive burst, whose lines arrive while the next burst is written. */
static inline void ask(struct generator *g)
{
	for (uint16_t i = 0; i < g->rx_len; i++)
		prefetch_own(g->rx[i]);
}

/* A turn of the second program: returns what it has received with the addresses exchanged, in the buffers that it came in. */
static inline void give_back(struct returner *r)
{
	if (r->next == r->len) {
		r->next = 0;
		r->len = rte_eth_rx_burst(r->port, 0, r->mbufs, BURST);
		for (uint16_t i = 0; i < r->len; i++)
			prefetch_own(rte_pktmbuf_mtod(r->mbufs[i], void *));
		for (uint16_t i = 0; i < r->len; i++) {
			struct rte_ether_hdr *header = rte_pktmbuf_mtod(r->mbufs[i], struct rte_ether_hdr *);

			header->dst_addr = there;
			header->src_addr = back;
		}
	}
	if (r->next < r->len)
		r->next += rte_eth_tx_burst(r->port, 0, r->mbufs + r->next, r->len - r->next);
}

/* Lets the second program have its turn, if there is one. */
static inline void others(struct generator *g)
{
	if (g->returner != NULL)
		give_back(g->returner);
}

/* Sends and receives for some seconds; returns the exact time. */
static __attribute__((noinline)) double phase(struct generator *g, double seconds)
{
	const uint64_t start = rte_rdtsc(), end = start + (uint64_t)(seconds * g->hz);
	uint64_t now;

	do {
		g->rx_len = rte_eth_rx_burst(g->port, 0, g->rx, BURST);
		ask(g);
		now = tick(g, g->rx_len);
		if (send_burst(g, now) == 0 && g->rx_len == 0)
			rte_pause();
		examine(g, now);
		others(g);
	} while (now < end && !stopped);
	return (double)(now - start) / g->hz;
}

/* Waits for the packets in flight. Packets that have not come back after a time without progress are lost. */
static void drain(struct generator *g)
{
	const uint64_t patience = (uint64_t)(DRAIN * g->hz);
	uint64_t last = rte_rdtsc();
	uint16_t unsent = g->tx_len - g->tx_next;

	g->stats.next -= unsent; /* the ring was full: not sent, so not lost */
	rte_pktmbuf_free_bulk(g->tx + g->tx_next, unsent);
	g->tx_next = g->tx_len = 0;
	while (stats_outstanding(&g->stats) > 0 && rte_rdtsc() - last < patience && !stopped) {
		g->rx_len = rte_eth_rx_burst(g->port, 0, g->rx, BURST);
		if (g->rx_len > 0)
			last = rte_rdtsc();
		examine(g, last);
		others(g);
	}
	g->stats.lost += stats_outstanding(&g->stats);
}

/* Sends single packets until one comes back: the other side may not have started yet. */
static int greet(struct generator *g)
{
	const uint64_t end = rte_rdtsc() + (uint64_t)(PATIENCE * g->hz);

	g->inflight = g->burst = 1;
	while (g->stats.received == 0 && rte_rdtsc() < end && !stopped) {
		memset(&g->stats, 0, sizeof(g->stats));
		send_burst(g, rte_rdtsc());
		drain(g);
	}
	return g->stats.received > 0 ? 0 : -ETIMEDOUT;
}

static uint64_t nanoseconds(const struct generator *g, uint64_t ticks)
{
	return (uint64_t)((double)ticks * 1e9 / g->hz + 0.5);
}

/* CPU seconds of this thread: less than the time elapsed if other processes ran on its CPU. */
static double thread_seconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* One load: warms up, measures, waits for the last packets, prints. */
static int run(struct generator *g, const struct options *options, uint32_t inflight)
{
	uint64_t packets, p50, p99;
	double seconds, busy;

	g->inflight = inflight;
	g->burst = RTE_MIN(inflight, (uint32_t)BURST);
	memset(&g->stats, 0, sizeof(g->stats));
	phase(g, options->warmup);
	stats_forget(&g->stats);
	packets = g->stats.received;
	busy = thread_seconds();
	seconds = phase(g, options->seconds);
	busy = thread_seconds() - busy;
	packets = g->stats.received - packets;
	p50 = nanoseconds(g, stats_quantile(&g->stats, 0.5));
	p99 = nanoseconds(g, stats_quantile(&g->stats, 0.99));
	drain(g);
	if (stopped)
		return -EINTR;
	if (g->pool_empty) {
		fprintf(stderr, "ccnic-peers: the pool was empty: %s keeps more mbufs than there are\n", options->label);
		return -ENOBUFS;
	}
	printf("{\"driver\":\"%s\",\"size\":%u,\"inflight\":%u,\"packets\":%lu,\"seconds\":%.6f,\"mpps\":%.6f,"
	       "\"rtt_p50_ns\":%lu,\"rtt_p99_ns\":%lu,\"lost\":%lu,\"corrupt\":%lu,\"cpu_share\":%.3f}\n",
	       options->label, g->size, inflight, packets, seconds, (double)packets / seconds / 1e6, p50, p99, g->stats.lost,
	       g->stats.corrupt, busy / seconds);
	fflush(stdout);
	return 0;
}

static int run_all(const struct options *options, uint16_t port, struct rte_mempool *pool, struct returner *returner)
{
	struct generator *g = rte_zmalloc(NULL, sizeof(*g), RTE_CACHE_LINE_SIZE);
	int err;

	if (g == NULL)
		return -ENOMEM;
	g->port = port;
	g->pool = pool;
	g->returner = returner;
	g->header = returner != NULL ? FRAME_HEADER : 0;
	g->size = options->size;
	g->room = options->room;
	g->segments = (options->size + options->room - 1) / options->room;
	g->hz = (double)rte_get_tsc_hz();
	err = greet(g);
	if (err < 0)
		fprintf(stderr, "ccnic-peers: the other side of %s returned no packet in %.0f s\n", options->label, PATIENCE);
	for (unsigned int i = 0; err == 0 && i < options->runs; i++)
		err = run(g, options, options->inflight[i]);
	rte_free(g);
	return err;
}

int generate(const struct options *options, uint16_t port, struct rte_mempool *pool)
{
	return run_all(options, port, pool, NULL);
}

int generate_pair(const struct options *options, uint16_t port, struct rte_mempool *pool, uint16_t back_port)
{
	struct returner returner = {.port = back_port};
	int err = run_all(options, port, pool, &returner);

	rte_pktmbuf_free_bulk(returner.mbufs + returner.next, returner.len - returner.next);
	return err;
}
