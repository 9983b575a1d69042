/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Transmitting. Packets of up to 128 bytes are copied once, into the ring or into small buffers, and their mbufs freed at once: this
 * moves fewer lines between cores than sending 4 KiB buffers. Larger packets are sent without a copy if their mbufs are bound to this
 * region and not shared; otherwise they are copied once, into large buffers. There are three paths: bursts of small packets, bursts of
 * packets of one segment of any size, and ccnic_tx_any.c for the rest.
 */
#include <rte_memcpy.h>

#include "ccnic_tx.h"

/* A burst of small packets, as arguments of ccnic_tx_small(). */
struct small {
	const void *data[CCNIC_BURST];
	uint16_t len[CCNIC_BURST];
	struct ccnic_span span; /* of len */
	bool direct;            /* none has an external buffer */
};

/* Sends n small packets; returns how many were sent. */
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
 * The offset of a packet in a large buffer: the same that the NIC uses (cache colouring, crates/ccnic/src/pool/color.rs), so that the
 * lines of the last packet in this buffer are still in this core's cache. Other offsets cost 40 % of the packet rate.
 */
static inline uint16_t
ccnic_skip(uint32_t buffer, uint16_t len)
{
	const uint32_t skip = 2 * RTE_CACHE_LINE_SIZE * (1 + buffer / CCNIC_LARGE_SIZE % 16);

	return RTE_MIN(skip, (CCNIC_LARGE_SIZE - (uint32_t)len) & ~(uint32_t)(RTE_CACHE_LINE_SIZE - 1));
}

/* State of a burst of packets of one segment each. */
struct singles {
	struct ccnic_buf bufs[CCNIC_BURST];
	const void *data[CCNIC_BURST]; /* of small packets, which libccnic copies; NULL for others */
	uint8_t method[CCNIC_BURST]; /* enum method */
	/* Buffers for copies of large packets, and how many have been used. */
	uint32_t large[CCNIC_BURST];
	uint16_t larges, large_used;
};

/* Chooses a method for each of n packets and allocates buffers for copies of large ones; fewer than needed if the pool is empty. */
static __rte_always_inline void
plan_singles(struct ccnic_txq *txq, struct singles *x, struct rte_mbuf **pkts, uint16_t n)
{
	uint16_t larges = 0, i;

	for (i = 0; i < n; i++) {
		x->method[i] = pkts[i]->data_len <= CCNIC_SMALL_SIZE ? INLINED : is_ready(txq, pkts[i]) ? ZERO_COPY : COPIED;
		larges += x->method[i] == COPIED;
	}
	x->larges = larges > 0 ? ccnic_attach_take(txq->att, x->large, larges) : 0;
	x->large_used = 0;
}

/* Sets buffer i of the burst to a packet; false if there is no buffer for its copy. */
static __rte_always_inline bool
fill_single(const struct ccnic_txq *txq, struct singles *x, uint16_t i, const struct rte_mbuf *m, uint64_t meta)
{
	const uint8_t *data = rte_pktmbuf_mtod(m, const uint8_t *);
	const uint16_t len = m->data_len;
	struct ccnic_buf *buf = &x->bufs[i];

	x->data[i] = NULL;
	if (x->method[i] == ZERO_COPY) {
		*buf = (struct ccnic_buf){ .offset = data - txq->base, .len = len, .meta = meta };
	} else if (x->method[i] == COPIED) {
		uint32_t buffer;

		if (unlikely(x->large_used == x->larges))
			return false;
		buffer = x->large[x->large_used++];
		*buf = (struct ccnic_buf){ .offset = buffer + ccnic_skip(buffer, len), .len = len, .meta = meta };
		rte_memcpy(txq->base + buf->offset, data, len);
	} else {
		*buf = (struct ccnic_buf){ .len = len, .meta = meta };
		x->data[i] = data;
	}
	return true;
}

/* Frees the unused buffers for copies, and those of the packets from `sent` to `ready`, which the application keeps. */
static __rte_noinline void
revoke_singles(struct ccnic_txq *txq, struct singles *x, uint16_t sent, uint16_t ready)
{
	struct ccnic_queue *queue = txq->pair->queue;

	for (; sent < ready; sent++)
		if (x->method[sent] == COPIED)
			ccnic_buf_free(queue, &x->bufs[sent], 1);
	for (; x->large_used < x->larges; x->large_used++)
		ccnic_buf_free(queue, &(struct ccnic_buf){ .offset = x->large[x->large_used] }, 1);
}

/* The first n packets were sent: frees their mbufs and counts them. */
static __rte_always_inline void
complete_singles(struct ccnic_txq *txq, const struct singles *x, struct rte_mbuf **pkts, uint16_t n)
{
	struct rte_mbuf *copied[CCNIC_BURST];
	struct plain_mbufs plain;
	uint16_t copies = 0, inlined = 0, i;
	bool direct = true;

	plain.n = 0;
	for (i = 0; i < n; i++) {
		txq->stats.bytes += x->bufs[i].len;
		txq->stats.bins[ccnic_bin_of(x->bufs[i].len)]++;
		if (x->method[i] == ZERO_COPY) {
			unbind(txq, &plain, pkts[i]);
			continue;
		}
		direct &= RTE_MBUF_DIRECT(pkts[i]);
		inlined += x->method[i] == INLINED;
		copied[copies++] = pkts[i];
	}
	return_plain(txq, &plain);
	ccnic_free_sent(copied, copies, direct, txq->fast_free);
	txq->stats.packets += n;
	txq->stats.inlined += inlined;
	txq->stats.copied += copies - inlined;
	txq->stats.zero_copy += n - copies;
}

/*
 * Sends n packets of one segment of up to 4 KiB, in any kind of mbuf, with these metadata, or with none if `meta` is NULL; returns how many
 * were sent or dropped. Inlined, because packets without metadata are not to pay for it.
 */
static __rte_always_inline uint16_t
send_singles(struct ccnic_txq *txq, struct rte_mbuf **pkts, uint16_t n, const uint64_t *meta)
{
	struct singles x;
	uint16_t ready = 0;
	int sent = 0;

	plan_singles(txq, &x, pkts, n);
	while (ready < n && likely(fill_single(txq, &x, ready, pkts[ready], meta != NULL ? meta[ready] : 0)))
		ready++;
	if (ready > 0)
		sent = ccnic_tx_mixed(txq->pair->queue, x.bufs, x.data, ready);
	if (unlikely(sent < n))
		revoke_singles(txq, &x, RTE_MAX(sent, 0), ready);
	if (unlikely(sent == -ENOBUFS)) {
		txq->stats.no_buffer += n;
		return 0;
	}
	/* libccnic refused the first packet: its mbuf is corrupt. */
	if (unlikely(sent < 0))
		return ccnic_xmit_any(txq, pkts, n, meta);
	txq->stats.no_buffer += n - ready;
	txq->stats.ring_full += ready - sent;
	complete_singles(txq, &x, pkts, sent);
	return sent;
}

static __rte_noinline uint16_t
xmit_singles(struct ccnic_txq *txq, struct rte_mbuf **pkts, uint16_t n)
{
	return send_singles(txq, pkts, n, NULL);
}

static __rte_noinline uint16_t
xmit_singles_with(struct ccnic_txq *txq, struct rte_mbuf **pkts, uint16_t n, const uint64_t *meta)
{
	return send_singles(txq, pkts, n, meta);
}

uint16_t
ccnic_xmit_with(struct ccnic_txq *txq, struct rte_mbuf **pkts, uint16_t n, const uint64_t *meta)
{
	const uint32_t longest = RTE_MIN(CCNIC_LARGE_SIZE, txq->max_len);
	uint16_t i;

	for (i = 0; i < n; i++)
		if (pkts[i]->nb_segs != 1 || pkts[i]->data_len > longest || pkts[i]->data_len == 0)
			return ccnic_xmit_any(txq, pkts, n, meta);
	return xmit_singles_with(txq, pkts, n, meta);
}

/* Sends up to CCNIC_BURST packets; returns how many were sent or dropped. */
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
	if (likely(single && small.span.longest <= CCNIC_SMALL_SIZE && small.span.shortest > 0))
		return xmit_small(txq, pkts, n, &small);
	if (likely(single && small.span.longest <= RTE_MIN(CCNIC_LARGE_SIZE, txq->max_len) && small.span.shortest > 0))
		return xmit_singles(txq, pkts, n);
	return ccnic_xmit_any(txq, pkts, n, NULL);
}

uint16_t
ccnic_xmit_without(struct ccnic_txq *txq, struct rte_mbuf **pkts, uint16_t n)
{
	return xmit_chunk(txq, pkts, n);
}

uint16_t
ccnic_xmit(void *queue, struct rte_mbuf **pkts, uint16_t n)
{
	return ccnic_xmit_chunks(queue, pkts, n, xmit_chunk);
}
