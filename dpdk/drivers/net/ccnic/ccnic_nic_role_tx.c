/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * role=nic, transmitting. Packets are copied into the program's ring or buffers, because the program may not read mbufs. With the
 * program's RSS a burst goes to several of its queues: each is entered in turn, and what one has no room for is dropped, so that no queue
 * waits for another.
 */
#include <errno.h>

#include "ccnic_nic_role.h"
#include "ccnic_meta.h"

#define SEGMENTS (2 * CCNIC_SEGMENTS_MAX)

/* What happens to a packet. */
enum verdict {
	SENT,
	TOO_LONG,
	BROKEN
};

/* State of a burst to the program. */
struct xmit {
	struct ccnic_segment segments[SEGMENTS];
	uint16_t count;            /* segments in use */
	uint16_t end[CCNIC_BURST]; /* by packet: where its segments end */
	uint8_t verdict[CCNIC_BURST]; /* enum verdict */
};

static inline enum verdict
verdict_of(const struct rte_mbuf *m, uint32_t longest)
{
	const uint32_t len = ccnic_checked_len(m);

	if (unlikely(len > longest))
		return TOO_LONG;
	return likely(len > 0 && m->nb_segs <= CCNIC_SEGMENTS_MAX) ? SENT : BROKEN;
}

/* Adds packet i; false if the array of segments has no room for it. */
static inline bool
prepare(struct xmit *x, uint16_t i, const struct rte_mbuf *m, uint32_t longest, uint64_t meta)
{
	x->verdict[i] = verdict_of(m, longest);
	x->end[i] = x->count;
	if (unlikely(x->verdict[i] != SENT))
		return true;
	if (unlikely(x->count + m->nb_segs > SEGMENTS))
		return false;
	for (; m != NULL; m = m->next, meta = 0)
		x->segments[x->count++] = (struct ccnic_segment){
			.data = rte_pktmbuf_mtod(m, const void *),
			.meta = meta,
			.len = m->data_len,
			.flags = m->next != NULL ? CCNIC_SEGMENT_MORE : 0,
		};
	x->end[i] = x->count;
	return true;
}

/* libccnic refused the first packet that has segments although prepare() accepted it. Drops it; returns where it ends. */
static int
refused(struct xmit *x)
{
	uint16_t i = 0;

	while (x->verdict[i] != SENT)
		i++;
	x->verdict[i] = BROKEN;
	return x->end[i];
}

/* Counts a packet that was sent or dropped. */
static inline void
account(struct ccnic_txq *txq, enum verdict verdict, uint32_t len)
{
	if (unlikely(verdict != SENT)) {
		txq->stats.too_long += verdict == TOO_LONG;
		txq->stats.broken += verdict == BROKEN;
		return;
	}
	txq->stats.packets++;
	txq->stats.bytes += len;
	txq->stats.bins[ccnic_bin_of(len)]++;
}

/*
 * Sends up to CCNIC_BURST packets of one segment each, with one copy into the program's ring or buffers; returns how many were sent, or
 * -1 if one of them is of another kind. `meta`: their metadata, or NULL for none.
 */
static __rte_always_inline int
xmit_singles(struct ccnic_txq *txq, struct ccnic_pair *pair, struct rte_mbuf **pkts, uint16_t n, const uint64_t *meta)
{
	struct ccnic_segment segments[CCNIC_BURST];
	bool single = true, direct = true;
	uint16_t len[CCNIC_BURST];
	struct ccnic_span span;
	uint16_t i;
	int sent;

	for (i = 0; i < n; i++) {
		const struct rte_mbuf *m = pkts[i];

		segments[i] = (struct ccnic_segment){
			.data = rte_pktmbuf_mtod(m, const void *), .meta = meta != NULL ? meta[i] : 0, .len = m->data_len,
		};
		len[i] = m->data_len;
		single &= (m->nb_segs == 1) & (m->pkt_len == m->data_len) & ((uint32_t)m->data_off + m->data_len <= m->buf_len);
		direct &= RTE_MBUF_DIRECT(m);
	}
	span = ccnic_span_of(len, n);
	if (unlikely(!single || span.longest > txq->dev->nic_role->longest || span.shortest == 0))
		return -1;
	sent = ccnic_nic_tx_copy(pair->nic_queue, segments, n);
	if (unlikely(sent <= 0))
		return sent;
	ccnic_free_sent(pkts, sent, direct, txq->fast_free);
	txq->stats.packets += sent;
	txq->stats.bytes += ccnic_count_sizes(txq->stats.bins, len, sent, span);
	return sent;
}

/* Sends up to CCNIC_BURST packets of any kind; returns how many were sent or dropped. */
static __rte_noinline uint16_t
xmit_any(struct ccnic_txq *txq, struct ccnic_pair *pair, struct rte_mbuf **pkts, uint16_t n, const uint64_t *meta)
{
	const uint32_t longest = txq->dev->nic_role->longest;
	uint16_t ready = 0, done;
	bool plain = true;
	struct xmit x;
	int sent = 0;

	x.count = 0;
	while (ready < n && prepare(&x, ready, pkts[ready], longest, meta != NULL ? meta[ready] : 0))
		ready++;
	if (x.count > 0)
		sent = ccnic_nic_tx_copy(pair->nic_queue, x.segments, x.count);
	if (unlikely(sent < 0))
		sent = refused(&x);
	/* libccnic sends whole packets in order; dropped ones have no segments. */
	for (done = 0; done < ready && x.end[done] <= sent; done++) {
		account(txq, x.verdict[done], pkts[done]->pkt_len);
		plain &= RTE_MBUF_DIRECT(pkts[done]) & (pkts[done]->nb_segs == 1);
	}
	ccnic_free_sent(pkts, done, plain, txq->fast_free);
	return done;
}

/* Enters the pair that a queue sends to; NULL when there is none or it cannot be entered. */
static inline struct ccnic_pair *
enter_pair_of(const struct ccnic_txq *txq)
{
	const uint16_t sending = __atomic_load_n(&txq->dev->nic_role->sending, __ATOMIC_RELAXED);
	struct ccnic_pair *pair;

	if (unlikely(sending == 0))
		return NULL;
	/* If the program has fewer queue pairs than the port has queues, some queues share a pair. */
	pair = &txq->dev->pair[likely(txq->index < sending) ? txq->index : txq->index % sending];
	return likely(ccnic_pair_enter(pair, true)) ? pair : NULL;
}

/* Makes and sends the parts of a packet that the program does not take as it is. Returns false, and nothing was sent, without room. */
static bool
xmit_parts(struct ccnic_txq *txq, struct ccnic_pair *pair, struct rte_mbuf *m, uint64_t meta, uint32_t takes)
{
	const uint32_t longest = txq->dev->nic_role->longest;
	const void *frame = ccnic_tx_flatten(txq->space, m);
	struct ccnic_segment part = { .data = txq->space->part };
	uint32_t i = 0;
	bool room = true;
	int len = -EBADMSG;

	for (; frame != NULL; i++) {
		part.meta = meta;
		len = ccnic_frame_part(frame, m->pkt_len, &part.meta, takes, longest, i, txq->space->part, sizeof(txq->space->part));
		part.len = len;
		if (len <= 0)
			break;
		room = room && ccnic_nic_tx_copy(pair->nic_queue, &part, 1) == 1;
		if (!room && i == 0)
			return false;
		txq->stats.parts_lost += !room;
	}
	if (i > 0) {
		account(txq, SENT, m->pkt_len);
		txq->stats.computed++;
	} else {
		txq->stats.broken += frame == NULL;
		txq->stats.too_long += frame != NULL && len == -EMSGSIZE;
		txq->stats.bad_offload += frame != NULL && len != -EMSGSIZE;
	}
	rte_pktmbuf_free(m);
	return true;
}

/* Sends, or drops, the packet at the front, which the program does not take as it is; returns how many: 0 if there is no room. */
static __rte_noinline uint16_t
xmit_completed(struct ccnic_txq *txq, struct ccnic_pair *pair, struct rte_mbuf **pkts, uint32_t takes)
{
	struct ccnic_request request;
	const int inner = ccnic_tx_inner(txq, *pkts, &request);

	if (inner < 0)
		return 1;
	if (inner > 0 && (request.needs & ~takes) == 0)
		return xmit_any(txq, pair, pkts, 1, &request.meta);
	return xmit_parts(txq, pair, *pkts, request.meta, takes);
}

/*
 * Sends up to CCNIC_BURST packets to a pair, which the caller has entered; returns how many were sent or dropped. `offloads`: they may
 * request something.
 */
static __rte_always_inline uint16_t
xmit_chunk(struct ccnic_txq *txq, struct ccnic_pair *pair, struct rte_mbuf **pkts, uint16_t n, bool offloads)
{
	const uint32_t takes = __atomic_load_n(&txq->dev->nic_role->takes, __ATOMIC_RELAXED);
	uint64_t meta[CCNIC_BURST];
	bool said;
	int got;

	if (offloads) {
		n = ccnic_tx_passable(takes, txq->dev->nic_role->longest, pkts, n, meta, &said);
		if (unlikely(n == 0))
			return xmit_completed(txq, pair, pkts, takes);
	}
	got = xmit_singles(txq, pair, pkts, n, offloads ? meta : NULL);
	return likely(got >= 0) ? got : xmit_any(txq, pair, pkts, n, offloads ? meta : NULL);
}

/* Packets of a burst for one of the program's queues. */
struct share {
	struct rte_mbuf *pkts[CCNIC_BURST];
	uint64_t meta[CCNIC_BURST];
	uint16_t n;
};

/* Drops what a queue has no room for, as NICs do with RSS. */
static void
miss(struct ccnic_txq *txq, struct ccnic_pair *pair, struct rte_mbuf **pkts, uint16_t n)
{
	if (pair != NULL && pair->nic_queue != NULL)
		ccnic_nic_missed(pair->nic_queue, n);
	txq->stats.no_room += n;
	rte_pktmbuf_free_bulk(pkts, n);
}

/* Sends packets to queue `to` of the program, or drops them. `complete`: it is one packet, which the program does not take as it is. */
static void
xmit_share(struct ccnic_txq *txq, uint16_t to, struct share *share, bool complete, uint32_t takes)
{
	const uint16_t sending = __atomic_load_n(&txq->dev->nic_role->sending, __ATOMIC_RELAXED);
	struct ccnic_pair *pair = to < sending ? &txq->dev->pair[to] : NULL;
	uint16_t done = 0;
	int got = 0;

	if (unlikely(pair == NULL || !ccnic_pair_enter(pair, true))) {
		miss(txq, NULL, share->pkts, share->n);
		return;
	}
	while (done < share->n && likely(pair->nic_queue != NULL)) {
		struct rte_mbuf **pkts = &share->pkts[done];

		got = complete ? xmit_completed(txq, pair, pkts, takes) : xmit_singles(txq, pair, pkts, share->n - done, &share->meta[done]);
		if (unlikely(got < 0))
			got = xmit_any(txq, pair, pkts, share->n - done, &share->meta[done]);
		done += got;
		if (got == 0)
			break;
	}
	if (unlikely(done < share->n))
		miss(txq, pair, &share->pkts[done], share->n - done);
	ccnic_pair_leave(pair);
}

/* Takes the packets for the queue of the first one that is left out of a burst; returns that queue. */
static uint16_t
pick(struct rte_mbuf **pkts, const struct ccnic_segment *start, const uint16_t *to, uint16_t n, uint32_t *left, struct share *share)
{
	const uint16_t first = to[rte_bsf32(*left)];
	uint16_t i;

	share->n = 0;
	for (i = 0; i < n; i++) {
		if ((*left >> i & 1) == 0 || to[i] != first)
			continue;
		share->pkts[share->n] = pkts[i];
		share->meta[share->n++] = start[i].meta;
		*left &= ~(UINT32_C(1) << i);
	}
	return first;
}

/* Sends, or drops, up to CCNIC_BURST packets by the program's RSS; returns how many: 0 if it has none any more. `own`: any pair of it. */
static __rte_noinline uint16_t
xmit_spread_chunk(struct ccnic_txq *txq, struct ccnic_pair *own, struct rte_mbuf **pkts, uint16_t n, bool offloads)
{
	const uint32_t takes = __atomic_load_n(&txq->dev->nic_role->takes, __ATOMIC_RELAXED);
	struct ccnic_segment start[CCNIC_BURST];
	uint64_t meta[CCNIC_BURST] = { 0 };
	uint16_t to[CCNIC_BURST];
	bool complete = false, said;
	struct share share;
	uint32_t left;
	uint16_t i;
	int spread = 0;

	if (offloads) {
		n = ccnic_tx_passable(takes, txq->dev->nic_role->longest, pkts, n, meta, &said);
		complete = n == 0;
		n = RTE_MAX(n, 1);
	}
	for (i = 0; i < n; i++)
		start[i] = (struct ccnic_segment){ .data = rte_pktmbuf_mtod(pkts[i], const void *), .meta = meta[i], .len = pkts[i]->data_len };
	if (likely(ccnic_pair_enter(own, true))) {
		spread = own->nic_queue != NULL ? ccnic_nic_steer(own->nic_queue, start, to, n) : 0;
		ccnic_pair_leave(own);
	}
	if (unlikely(spread <= 0))
		return 0;
	for (left = n == 32 ? UINT32_MAX : (UINT32_C(1) << n) - 1; left != 0;) {
		const uint16_t queue = pick(pkts, start, to, n, &left, &share);

		xmit_share(txq, queue, &share, complete, takes);
	}
	return n;
}

static __rte_noinline uint16_t
xmit_spread(struct ccnic_txq *txq, struct ccnic_pair *own, struct rte_mbuf **pkts, uint16_t n, bool offloads)
{
	uint16_t done = 0, got;

	RTE_BUILD_BUG_ON(CCNIC_BURST != 32); /* the bits of `left` */
	while (done < n) {
		got = xmit_spread_chunk(txq, own, &pkts[done], RTE_MIN(n - done, CCNIC_BURST), offloads);
		done += got;
		if (got == 0)
			break;
	}
	return done;
}

static __rte_always_inline uint16_t
xmit(struct ccnic_txq *txq, struct rte_mbuf **pkts, uint16_t n, bool offloads)
{
	struct ccnic_pair *pair = enter_pair_of(txq);
	uint16_t done = 0;

	if (unlikely(pair == NULL))
		return 0;
	if (unlikely(pair->nic_queue != NULL && ccnic_nic_steer(pair->nic_queue, NULL, NULL, 0) > 0)) {
		ccnic_pair_leave(pair);
		return xmit_spread(txq, pair, pkts, n, offloads);
	}
	while (done < n && likely(pair->nic_queue != NULL)) {
		const uint16_t got = xmit_chunk(txq, pair, &pkts[done], RTE_MIN(n - done, CCNIC_BURST), offloads);

		done += got;
		if (got == 0)
			break;
	}
	ccnic_pair_leave(pair);
	return done;
}

uint16_t
ccnic_nic_role_xmit(void *queue, struct rte_mbuf **pkts, uint16_t n)
{
	return xmit(queue, pkts, n, false);
}

uint16_t
ccnic_nic_role_xmit_offloads(void *queue, struct rte_mbuf **pkts, uint16_t n)
{
	return xmit(queue, pkts, n, true);
}
