/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Transmitting packets of any kind: of several segments, longer than a buffer, or invalid ones. */
#include "ccnic_tx.h"

/* State of a burst. */
struct xmit {
	struct ccnic_buf out[CCNIC_BURST * 2 + CCNIC_CHAIN_MAX];
	uint8_t copy[CCNIC_BURST * 2 + CCNIC_CHAIN_MAX]; /* by buffer: 1 if it was allocated for a copy */
	uint16_t bufs;             /* in out */
	uint16_t end[CCNIC_BURST]; /* by packet: where its buffers end in out */
	uint8_t method[CCNIC_BURST];  /* enum method */
	struct plain_mbufs plain;
};

/* Adds buffers for len bytes, as one chain; false if the pool is empty. */
static bool
add_buffers(struct ccnic_txq *txq, struct xmit *x, uint16_t len)
{
	struct ccnic_buf *buf = &x->out[x->bufs];
	int want = CCNIC_SEGMENTS(len);
	int got = ccnic_buf_alloc(txq->pair->queue, len, buf, want);

	if (unlikely(got < want)) {
		if (got > 0)
			ccnic_buf_free(txq->pair->queue, buf, got);
		return false;
	}
	memset(&x->copy[x->bufs], 1, want);
	x->bufs += want;
	return true;
}

/* Copies a packet's segments, or one of them, into the buffers from buf on. */
static void
copy_segments(const struct ccnic_txq *txq, const struct ccnic_buf *buf, const struct rte_mbuf *m, bool all)
{
	uint16_t to = 0;

	for (; m != NULL; m = all ? m->next : NULL) {
		const uint8_t *from = rte_pktmbuf_mtod(m, const uint8_t *);
		uint16_t left = m->data_len;

		while (left > 0) {
			uint16_t n = RTE_MIN(left, buf->len - to);

			memcpy(txq->base + buf->offset + to, from, n);
			from += n;
			left -= n;
			to += n;
			if (to == buf->len) {
				buf++;
				to = 0;
			}
		}
	}
}

/* Adds a copy of a whole packet. */
static bool
add_copy(struct ccnic_txq *txq, struct xmit *x, const struct rte_mbuf *m)
{
	const struct ccnic_buf *buf = &x->out[x->bufs];

	if (!add_buffers(txq, x, m->pkt_len))
		return false;
	copy_segments(txq, buf, m, true);
	return true;
}

/* Adds a segment, without a copy if possible. */
static bool
add_segment(struct ccnic_txq *txq, struct xmit *x, const struct rte_mbuf *m)
{
	struct ccnic_buf *buf = &x->out[x->bufs];

	if (m->data_len == 0)
		return true;
	if (!is_ready(txq, m)) {
		if (!add_buffers(txq, x, m->data_len))
			return false;
		copy_segments(txq, buf, m, false);
		return true;
	}
	*buf = (struct ccnic_buf){ .offset = rte_pktmbuf_mtod(m, const uint8_t *) - txq->base, .len = m->data_len };
	x->copy[x->bufs++] = 0;
	return true;
}

/* The buffers of a packet if only the segments are copied that must be; 0 if the whole packet should be copied. */
static inline uint16_t
count_buffers(const struct ccnic_txq *txq, const struct rte_mbuf *m)
{
	uint16_t n = 0, ready = 0;

	for (; m != NULL; m = m->next) {
		const bool as_it_is = is_ready(txq, m);

		ready += as_it_is;
		n += as_it_is ? 1 : CCNIC_SEGMENTS(m->data_len);
	}
	return ready > 0 && n <= CCNIC_CHAIN_MAX ? n : 0;
}

/* Frees the buffers from `begin` to `end` that were allocated for copies. */
static void
revoke(struct ccnic_txq *txq, const struct xmit *x, uint16_t begin, uint16_t end)
{
	for (; begin < end; begin++)
		if (x->copy[begin])
			ccnic_buf_free(txq->pair->queue, &x->out[begin], 1);
}

/* Adds a packet segment by segment. */
static bool
add_segments(struct ccnic_txq *txq, struct xmit *x, const struct rte_mbuf *m)
{
	const uint16_t begin = x->bufs;
	uint16_t i;

	for (; m != NULL; m = m->next) {
		if (add_segment(txq, x, m))
			continue;
		revoke(txq, x, begin, x->bufs);
		x->bufs = begin;
		return false;
	}
	for (i = begin; i < x->bufs; i++)
		ccnic_buf_set_more(&x->out[i], i + 1 < x->bufs);
	return true;
}

/* Prepares packet i; false if the pool is empty. */
static bool
prepare(struct ccnic_txq *txq, struct xmit *x, uint16_t i, const struct rte_mbuf *m, uint64_t meta)
{
	const uint16_t begin = x->bufs;
	uint32_t len = ccnic_checked_len(m);
	bool sent = true;

	if (unlikely(len == 0 || len > txq->max_len)) {
		if (len == 0)
			txq->stats.broken++;
		else
			txq->stats.too_long++;
		x->method[i] = DROPPED;
	} else if (len > CCNIC_SMALL_SIZE && count_buffers(txq, m) > 0) {
		x->method[i] = ZERO_COPY;
		sent = add_segments(txq, x, m);
	} else {
		x->method[i] = len > CCNIC_SMALL_SIZE ? COPIED : INLINED;
		sent = add_copy(txq, x, m);
	}
	if (unlikely(!sent)) {
		txq->stats.no_buffer++;
		return false;
	}
	if (x->bufs > begin)
		x->out[begin].meta = meta;
	x->end[i] = x->bufs;
	return true;
}

/* The buffers of a packet were sent: makes the mbufs that were bound to them plain, and frees the others. */
static inline void
unbind_packet(struct ccnic_txq *txq, struct xmit *x, struct rte_mbuf *m)
{
	while (m != NULL) {
		struct rte_mbuf *next = m->next;

		if (m->data_len == 0 || !is_ready(txq, m)) {
			rte_pktmbuf_free_seg(m);
			m = next;
			continue;
		}
		m->next = NULL;
		m->nb_segs = 1;
		unbind(txq, &x->plain, m);
		m = next;
	}
}

/* Packet i was sent or dropped: frees and counts it. */
static void
complete(struct ccnic_txq *txq, struct xmit *x, uint16_t i, struct rte_mbuf *m)
{
	uint32_t len = m->pkt_len;

	if (x->method[i] == DROPPED) {
		rte_pktmbuf_free(m);
		return;
	}
	txq->stats.packets++;
	txq->stats.bytes += len;
	txq->stats.bins[ccnic_bin_of(len)]++;
	if (x->method[i] == ZERO_COPY) {
		txq->stats.zero_copy++;
		unbind_packet(txq, x, m);
		return;
	}
	if (x->method[i] == COPIED)
		txq->stats.copied++;
	else
		txq->stats.inlined++;
	rte_pktmbuf_free(m);
}

/*
 * libccnic refused the first packet that has buffers although prepare() accepted it: an mbuf is corrupt. Drops the packet; returns
 * the number of its buffers.
 */
static int
refused(struct ccnic_txq *txq, struct xmit *x)
{
	uint16_t i = 0;

	while (x->end[i] == 0)
		i++;
	revoke(txq, x, 0, x->end[i]);
	x->method[i] = DROPPED;
	txq->stats.broken++;
	return x->end[i];
}

uint16_t
ccnic_xmit_any(struct ccnic_txq *txq, struct rte_mbuf **pkts, uint16_t n, const uint64_t *meta)
{
	struct xmit x;
	uint16_t ready = 0, done = 0;
	int sent = 0;

	x.bufs = 0;
	x.plain.n = 0;
	while (ready < n && x.bufs <= CCNIC_BURST * 2 && prepare(txq, &x, ready, pkts[ready], meta != NULL ? meta[ready] : 0))
		ready++;
	if (x.bufs > 0)
		sent = ccnic_tx_burst(txq->pair->queue, x.out, x.bufs);
	if (unlikely(sent < 0))
		sent = refused(txq, &x);
	/* libccnic sends whole packets in order; dropped ones have no buffers. */
	while (done < ready && x.end[done] <= sent) {
		complete(txq, &x, done, pkts[done]);
		done++;
	}
	return_plain(txq, &x.plain);
	/* The application keeps the others. */
	revoke(txq, &x, done > 0 ? x.end[done - 1] : 0, x.bufs);
	txq->stats.ring_full += ready - done;
	return done;
}
