/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Transmitting. Packets of up to 128 bytes are copied into small buffers and their mbufs freed at once: that moves fewer lines
 * between cores than handing over 4 KiB buffers, which all begin in the same sets of the caches. Larger ones leave without a
 * copy when their mbufs are bound to this region and nobody else refers to them; otherwise they are copied into large buffers.
 */
#include <rte_memcpy.h>

#include "ccnic_net.h"

/* How a packet travels. */
enum how {
	INLINED,
	ZERO_COPY,
	COPIED,
	DROPPED
};

/* A burst on its way. */
struct xmit {
	struct ccnic_buf out[CCNIC_BURST * 2 + CCNIC_CHAIN_MAX];
	uint8_t copy[CCNIC_BURST * 2 + CCNIC_CHAIN_MAX]; /* by buffer: it was allocated for a copy */
	uint16_t bufs;             /* in out */
	uint16_t end[CCNIC_BURST]; /* by packet: where its buffers end in out */
	uint8_t how[CCNIC_BURST];  /* enum how */
	uint16_t plains;           /* mbufs whose buffers the NIC has now, of one pool */
	struct rte_mbuf *plain[CCNIC_BURST * 2 + CCNIC_CHAIN_MAX];
};

/* True for an mbuf that nobody else refers to, whose buffer nobody else refers to, and that may go back to its pool as it is. */
static inline bool
is_sole(const struct ccnic_txq *txq, const struct rte_mbuf *m)
{
	if (unlikely(rte_mbuf_refcnt_read(m) != 1))
		return false;
	if (likely(RTE_MBUF_DIRECT(m)))
		return true;
	return ccnic_mbuf_is_bound(m, txq->att) && rte_mbuf_ext_refcnt_read(m->shinfo) == 1;
}

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

/* Sends n packets of one segment, without external buffers, as copies in large buffers; returns how many. */
static __rte_noinline uint16_t
xmit_copies(struct ccnic_txq *txq, struct rte_mbuf **pkts, uint16_t n)
{
	struct ccnic_buf bufs[CCNIC_BURST];
	uint32_t buffers[CCNIC_BURST];
	uint16_t got = ccnic_attach_take(txq->att, buffers, n), i;
	int sent;

	txq->stats.no_buffer += n - got;
	for (i = 0; i < got; i++) {
		const uint16_t len = pkts[i]->data_len;

		bufs[i] = (struct ccnic_buf){ .offset = buffers[i] + ccnic_skip(buffers[i], len), .len = len };
		rte_memcpy(txq->base + bufs[i].offset, rte_pktmbuf_mtod(pkts[i], const uint8_t *), bufs[i].len);
	}
	sent = got > 0 ? RTE_MAX(ccnic_tx_burst(txq->pair->queue, bufs, got), 0) : 0;
	if (unlikely(sent < got)) {
		txq->stats.ring_full += got - sent;
		ccnic_buf_free(txq->pair->queue, &bufs[sent], got - sent);
	}
	if (sent == 0)
		return 0;
	for (i = 0; i < sent; i++) {
		txq->stats.bytes += bufs[i].len;
		txq->stats.bins[ccnic_bin_of(bufs[i].len)]++;
	}
	ccnic_free_sent(pkts, sent, true, txq->fast_free);
	txq->stats.packets += sent;
	txq->stats.copied += sent;
	return sent;
}

/* True for a segment that can be handed to the NIC as it is. */
static inline bool
is_ready(const struct ccnic_txq *txq, const struct rte_mbuf *m)
{
	return txq->zero_copy && ccnic_mbuf_is_bound(m, txq->att) && is_sole(txq, m);
}

/* Adds buffers for len bytes, in one chain; false when the region has none. */
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

/* Adds a segment, as it is or as a copy. */
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

/* Buffers that a packet takes when only those segments are copied that have to be; 0 when a copy of it all is better. */
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

/* Returns the buffers from `begin` on that were allocated for copies. */
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

/* Prepares packet i; false when it has to wait. */
static bool
prepare(struct ccnic_txq *txq, struct xmit *x, uint16_t i, const struct rte_mbuf *m)
{
	uint32_t len = ccnic_checked_len(m);
	bool sent = true;

	if (unlikely(len == 0 || len > txq->max_len)) {
		if (len == 0)
			txq->stats.broken++;
		else
			txq->stats.too_long++;
		x->how[i] = DROPPED;
	} else if (len > CCNIC_SMALL && count_buffers(txq, m) > 0) {
		x->how[i] = ZERO_COPY;
		sent = add_segments(txq, x, m);
	} else {
		x->how[i] = len > CCNIC_SMALL ? COPIED : INLINED;
		sent = add_copy(txq, x, m);
	}
	if (unlikely(!sent)) {
		txq->stats.no_buffer++;
		return false;
	}
	x->end[i] = x->bufs;
	return true;
}

/* Returns plain mbufs to their pool; to ours past this core's cache, so that whoever allocates them gets them bound. */
static inline void
give_plain(struct ccnic_txq *txq, struct xmit *x)
{
	if (x->plains == 0)
		return;
	if (ccnic_mempool_is(x->plain[0]->pool))
		ccnic_mempool_give(x->plain[0]->pool, x->plain, x->plains);
	else
		rte_mempool_put_bulk(x->plain[0]->pool, (void **)x->plain, x->plains);
	ccnic_attach_unlend(txq->att, x->plains);
	x->plains = 0;
}

/* The packet's buffers are the NIC's: mbufs that were bound to them become plain, the others are free. */
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
		ccnic_mbuf_unbind(m, rte_pktmbuf_priv_size(m->pool), rte_pktmbuf_data_room_size(m->pool));
		m->next = NULL;
		m->nb_segs = 1;
		if (unlikely(x->plains > 0 && m->pool != x->plain[0]->pool))
			give_plain(txq, x);
		x->plain[x->plains++] = m;
		m = next;
	}
}

/* Packet i has been sent, or dropped. */
static void
complete(struct ccnic_txq *txq, struct xmit *x, uint16_t i, struct rte_mbuf *m)
{
	uint32_t len = m->pkt_len;

	if (x->how[i] == DROPPED) {
		rte_pktmbuf_free(m);
		return;
	}
	txq->stats.packets++;
	txq->stats.bytes += len;
	txq->stats.bins[ccnic_bin_of(len)]++;
	if (x->how[i] == ZERO_COPY) {
		txq->stats.zero_copy++;
		unbind_packet(txq, x, m);
		return;
	}
	if (x->how[i] == COPIED)
		txq->stats.copied++;
	else
		txq->stats.inlined++;
	rte_pktmbuf_free(m);
}

/*
 * libccnic refuses the first packet that has buffers, which prepare() should have prevented: an mbuf was damaged. Drops it.
 * Returns the buffers that are done with.
 */
static int
refused(struct ccnic_txq *txq, struct xmit *x)
{
	uint16_t i = 0;

	while (x->end[i] == 0)
		i++;
	revoke(txq, x, 0, x->end[i]);
	x->how[i] = DROPPED;
	txq->stats.broken++;
	return x->end[i];
}

/* Sends up to CCNIC_BURST packets of any kind; returns how many are done with. */
static __rte_noinline uint16_t
xmit_any(struct ccnic_txq *txq, struct rte_mbuf **pkts, uint16_t n)
{
	struct xmit x;
	uint16_t ready = 0, done = 0;
	int sent = 0;

	x.bufs = 0;
	x.plains = 0;
	while (ready < n && x.bufs <= CCNIC_BURST * 2 && prepare(txq, &x, ready, pkts[ready]))
		ready++;
	if (x.bufs > 0)
		sent = ccnic_tx_burst(txq->pair->queue, x.out, x.bufs);
	if (unlikely(sent < 0))
		sent = refused(txq, &x);
	/* libccnic takes whole packets, in order; dropped ones have no buffers. */
	while (done < ready && x.end[done] <= sent) {
		complete(txq, &x, done, pkts[done]);
		done++;
	}
	give_plain(txq, &x);
	/* The others stay the application's. */
	revoke(txq, &x, done > 0 ? x.end[done - 1] : 0, x.bufs);
	txq->stats.ring_full += ready - done;
	return done;
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
	if (single && small.direct && small.span.shortest > CCNIC_SMALL && small.span.longest <= RTE_MIN(CCNIC_LARGE, txq->max_len))
		return xmit_copies(txq, pkts, n);
	return xmit_any(txq, pkts, n);
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
		/* xmit_any() stops early when it has many buffers in hand; only no progress is the end. */
		if (got == 0)
			break;
	}
	ccnic_pair_leave(pair);
	return done;
}
