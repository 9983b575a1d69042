/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Transmitting. Packets of up to 128 bytes are copied into small buffers and their mbufs freed at once: that moves fewer lines
 * between cores than handing over 4 KiB buffers. Larger ones leave without a copy when their mbufs are bound to this region and nobody
 * else refers to them; otherwise they are copied into large buffers. A burst of small packets takes the shortest way, a burst of
 * packets of one segment the next, whatever their sizes and mbufs; ccnic_tx_any.c sends the rest.
 */
#include <rte_memcpy.h>

#include "ccnic_tx.h"

/* The packets of a burst, as libccnic takes small ones. */
struct small {
	const void *data[CCNIC_BURST];
	uint16_t len[CCNIC_BURST];
	struct ccnic_span span; /* of len */
	bool direct;            /* none has an external buffer */
};

/* Sends n packets that are all inline; returns how many. What most bursts of small packets are. */
static inline uint16_t
xmit_small(struct ccnic_txq *txq, struct rte_mbuf **pkts, uint16_t n, const struct small *small)
{
	int sent;

	sent = ccnic_tx_small(txq->pair->queue, small->data, small->len, n);
	if (unlikely(sent < n)) {
		if (sent == -ENOBUFS)
			txq->stats.no_buffer += n;
		else
			txq->stats.ring_full += n - RTE_MAX(sent, 0);
		if (sent <= 0)
			return 0;
	}
	ccnic_free_sent(pkts, sent, small->direct, txq->fast_free);
	txq->stats.packets += sent;
	txq->stats.bytes += ccnic_count_sizes(txq->stats.bins, small->len, sent, small->span);
	txq->stats.inlined += sent;
	return sent;
}

/*
 * Where a packet begins in a large buffer: where the NIC began when it wrote the last one there (place() of crates/ccnic/src/pool/place.rs,
 * which says why), so that its lines are still in this core's cache. Elsewhere they are not: 40 % fewer packets.
 */
static inline uint16_t
ccnic_skip(uint32_t buffer, uint16_t len)
{
	const uint32_t skip = 2 * RTE_CACHE_LINE_SIZE * (1 + buffer / CCNIC_LARGE % 16);

	return RTE_MIN(skip, (CCNIC_LARGE - (uint32_t)len) & ~(uint32_t)(RTE_CACHE_LINE_SIZE - 1));
}

/* A burst of packets of one segment each, on its way. */
struct singles {
	struct ccnic_buf bufs[CCNIC_BURST];
	uint8_t how[CCNIC_BURST]; /* enum how */
	/* Buffers for copies, and how many of them have been used. */
	struct ccnic_buf small[CCNIC_BURST];
	uint32_t large[CCNIC_BURST];
	uint16_t smalls, small_used;
	uint16_t larges, large_used;
};

/* Chooses how each of n packets travels, and takes buffers for copies: fewer than that when the region has no more. */
static inline void
plan_singles(struct ccnic_txq *txq, struct singles *x, struct rte_mbuf **pkts, uint16_t n)
{
	uint16_t smalls = 0, larges = 0, i;
	int got = 0;

	for (i = 0; i < n; i++) {
		x->how[i] = pkts[i]->data_len <= CCNIC_SMALL ? INLINED : is_ready(txq, pkts[i]) ? ZERO_COPY : COPIED;
		smalls += x->how[i] == INLINED;
		larges += x->how[i] == COPIED;
	}
	if (smalls > 0)
		got = ccnic_buf_alloc(txq->pair->queue, CCNIC_SMALL, x->small, smalls);
	x->smalls = RTE_MAX(got, 0);
	x->larges = larges > 0 ? ccnic_attach_take(txq->att, x->large, larges) : 0;
	x->small_used = x->large_used = 0;
}

/* Has buffer i of the burst hold a packet; false when there is none to copy it into. */
static inline bool
fill_single(const struct ccnic_txq *txq, struct singles *x, uint16_t i, const struct rte_mbuf *m)
{
	const uint8_t *data = rte_pktmbuf_mtod(m, const uint8_t *);
	const uint16_t len = m->data_len;
	struct ccnic_buf *buf = &x->bufs[i];

	if (x->how[i] == ZERO_COPY) {
		*buf = (struct ccnic_buf){ .offset = data - txq->base, .len = len };
	} else if (x->how[i] == COPIED) {
		uint32_t buffer;

		if (unlikely(x->large_used == x->larges))
			return false;
		buffer = x->large[x->large_used++];
		*buf = (struct ccnic_buf){ .offset = buffer + ccnic_skip(buffer, len), .len = len };
		rte_memcpy(txq->base + buf->offset, data, len);
	} else {
		if (unlikely(x->small_used == x->smalls))
			return false;
		*buf = x->small[x->small_used++];
		buf->len = len;
		ccnic_copy_small(txq->base + buf->offset, data, len);
	}
	return true;
}

/* Frees the buffers for copies that were not used, and those of the packets from `sent` to `ready`, which stay the application's. */
static __rte_noinline void
revoke_singles(struct ccnic_txq *txq, struct singles *x, uint16_t sent, uint16_t ready)
{
	struct ccnic_queue *queue = txq->pair->queue;

	for (; sent < ready; sent++)
		if (x->how[sent] != ZERO_COPY)
			ccnic_buf_free(queue, &x->bufs[sent], 1);
	ccnic_buf_free(queue, &x->small[x->small_used], x->smalls - x->small_used);
	for (; x->large_used < x->larges; x->large_used++)
		ccnic_buf_free(queue, &(struct ccnic_buf){ .offset = x->large[x->large_used] }, 1);
}

/* The first n packets are the NIC's. */
static inline void
complete_singles(struct ccnic_txq *txq, const struct singles *x, struct rte_mbuf **pkts, uint16_t n)
{
	struct rte_mbuf *copied[CCNIC_BURST];
	struct plains plains;
	uint16_t copies = 0, inlined = 0, i;
	bool direct = true;

	plains.n = 0;
	for (i = 0; i < n; i++) {
		txq->stats.bytes += x->bufs[i].len;
		txq->stats.bins[ccnic_bin_of(x->bufs[i].len)]++;
		if (x->how[i] == ZERO_COPY) {
			unbind(txq, &plains, pkts[i]);
			continue;
		}
		direct &= RTE_MBUF_DIRECT(pkts[i]);
		inlined += x->how[i] == INLINED;
		copied[copies++] = pkts[i];
	}
	give_plains(txq, &plains);
	ccnic_free_sent(copied, copies, direct, txq->fast_free);
	txq->stats.packets += n;
	txq->stats.inlined += inlined;
	txq->stats.copied += copies - inlined;
	txq->stats.zero_copy += n - copies;
}

/* Sends n packets of one segment, of up to 4 KiB, whatever their mbufs are; returns how many are done with. */
static __rte_noinline uint16_t
xmit_singles(struct ccnic_txq *txq, struct rte_mbuf **pkts, uint16_t n)
{
	struct singles x;
	uint16_t ready = 0;
	int sent = 0;

	plan_singles(txq, &x, pkts, n);
	while (ready < n && likely(fill_single(txq, &x, ready, pkts[ready])))
		ready++;
	if (ready > 0)
		sent = ccnic_tx_burst(txq->pair->queue, x.bufs, ready);
	if (unlikely(sent < n))
		revoke_singles(txq, &x, RTE_MAX(sent, 0), ready);
	/* libccnic refuses the first packet: its mbuf was damaged. */
	if (unlikely(sent < 0))
		return ccnic_xmit_any(txq, pkts, n);
	txq->stats.no_buffer += n - ready;
	txq->stats.ring_full += ready - sent;
	complete_singles(txq, &x, pkts, sent);
	return sent;
}

/* Sends up to CCNIC_BURST packets; returns how many are done with. */
static inline uint16_t
xmit_chunk(struct ccnic_txq *txq, struct rte_mbuf **pkts, uint16_t n)
{
	struct small small;
	bool single = true;
	uint16_t i;

	small.direct = true;
	for (i = 0; i < n; i++) {
		const struct rte_mbuf *m = pkts[i];

		small.data[i] = rte_pktmbuf_mtod(m, const void *);
		small.len[i] = m->data_len;
		single &= m->nb_segs == 1;
		small.direct &= RTE_MBUF_DIRECT(m);
	}
	small.span = ccnic_span_of(small.len, n);
	if (likely(single && small.span.longest <= CCNIC_SMALL && small.span.shortest > 0))
		return xmit_small(txq, pkts, n, &small);
	if (likely(single && small.span.longest <= RTE_MIN(CCNIC_LARGE, txq->max_len) && small.span.shortest > 0))
		return xmit_singles(txq, pkts, n);
	return ccnic_xmit_any(txq, pkts, n);
}

uint16_t
ccnic_xmit(void *queue, struct rte_mbuf **pkts, uint16_t n)
{
	struct ccnic_txq *txq = queue;
	struct ccnic_pair *pair = txq->pair;
	uint16_t done = 0;

	if (unlikely(!ccnic_pair_enter(pair, true)))
		return 0;
	while (done < n && likely(pair->queue != NULL)) {
		uint16_t chunk = RTE_MIN(n - done, CCNIC_BURST);
		uint16_t got = xmit_chunk(txq, &pkts[done], chunk);

		done += got;
		/* ccnic_xmit_any() stops early when it has many buffers in hand; only no progress is the end. */
		if (got == 0)
			break;
	}
	ccnic_pair_leave(pair);
	return done;
}
