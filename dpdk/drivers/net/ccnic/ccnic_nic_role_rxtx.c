/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * role=nic, data path. Packets are copied in both directions, because neither may the application keep pointers into the program's
 * memory nor the program read mbufs. libccnic has checked the buffers that it returns; their handles are private copies.
 */
#include <errno.h>

#include <rte_memcpy.h>

#include "ccnic_nic_role.h"
#include "ccnic_rx.h"

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

static inline const void *
data_of(const struct ccnic_pair *pair, const struct ccnic_buf *buf)
{
	return ccnic_nic_buf_data(pair->nic_queue, buf);
}

/* Frees the next n buffers. */
static inline void
done_with(struct ccnic_pair *pair, uint16_t n)
{
	ccnic_nic_buf_free(pair->nic_queue, &pair->bufs[pair->next], n);
	pair->next += n;
	pair->waiting -= n;
}

static inline void
count_packet(struct ccnic_rxq *rxq, uint32_t len)
{
	rxq->stats.packets++;
	rxq->stats.bytes += len;
	rxq->stats.bins[ccnic_bin_of(len)]++;
}

/* The number of packets that fit one mbuf each at the front of the waiting buffers; at most n. */
static inline uint16_t
single_run(const struct ccnic_rxq *rxq, const struct ccnic_pair *pair, uint16_t n)
{
	const uint16_t longest = RTE_MIN(rxq->max_len, rxq->room - RTE_PKTMBUF_HEADROOM);
	const struct ccnic_buf *bufs = &pair->bufs[pair->next];
	uint16_t i;

	n = RTE_MIN(n, pair->waiting);
	for (i = 0; i < n; i++)
		if (unlikely(ccnic_buf_more(&bufs[i]) || bufs[i].len > longest))
			break;
	return i;
}

/* Receives the next n buffers, each a packet for one mbuf; none if mbufs are short. */
static inline uint16_t
recv_singles(struct ccnic_rxq *rxq, struct ccnic_pair *pair, struct rte_mbuf **pkts, uint16_t n)
{
	const struct ccnic_buf *bufs = &pair->bufs[pair->next];
	uint16_t i;

	if (unlikely(rte_pktmbuf_alloc_bulk(rxq->mp, pkts, n) < 0)) {
		rxq->stats.no_mbuf++;
		return 0;
	}
	for (i = 0; i < n; i++) {
		struct rte_mbuf *m = pkts[i];
		const uint16_t len = bufs[i].len;

		m->port = rxq->dev->data->port_id;
		m->data_len = len;
		m->pkt_len = len;
		if (len <= CCNIC_SMALL_SIZE)
			ccnic_copy_small(rte_pktmbuf_mtod(m, uint8_t *), data_of(pair, &bufs[i]), len);
		else
			rte_memcpy(rte_pktmbuf_mtod(m, void *), data_of(pair, &bufs[i]), len);
		count_packet(rxq, len);
	}
	for (i = 0; unlikely(rxq->told) && i < n; i++)
		ccnic_rx_told(rxq, pkts[i], bufs[i].meta);
	done_with(pair, n);
	return n;
}

/* Appends len bytes to a packet whose last mbuf is *last; false if mbufs are short. */
static bool
append(struct ccnic_rxq *rxq, struct rte_mbuf *head, struct rte_mbuf **last, const uint8_t *from, uint16_t len)
{
	while (len > 0) {
		const uint16_t n = RTE_MIN(rte_pktmbuf_tailroom(*last), len);

		rte_memcpy(rte_pktmbuf_mtod_offset(*last, uint8_t *, (*last)->data_len), from, n);
		(*last)->data_len += n;
		head->pkt_len += n;
		from += n;
		len -= n;
		if (len == 0)
			break;
		(*last)->next = rte_pktmbuf_alloc(rxq->mp);
		if ((*last)->next == NULL)
			return false;
		*last = (*last)->next;
		head->nb_segs++;
	}
	return true;
}

/* A chain of mbufs with a copy of a packet of segs buffers; NULL if mbufs are short. */
static struct rte_mbuf *
copy_chain(struct ccnic_rxq *rxq, const struct ccnic_pair *pair, uint16_t segs)
{
	const struct ccnic_buf *bufs = &pair->bufs[pair->next];
	struct rte_mbuf *head = rte_pktmbuf_alloc(rxq->mp), *last = head;
	uint16_t i;

	if (head == NULL)
		return NULL;
	for (i = 0; i < segs; i++) {
		if (append(rxq, head, &last, data_of(pair, &bufs[i]), bufs[i].len))
			continue;
		rte_pktmbuf_free(head);
		return NULL;
	}
	head->port = rxq->dev->data->port_id;
	return head;
}

/* Receives the next packet, of any kind. Returns 1, 0 if it was dropped, or -1 if mbufs are short. */
static __rte_noinline int
recv_one(struct ccnic_rxq *rxq, struct ccnic_pair *pair, struct rte_mbuf **pkt)
{
	const struct ccnic_buf *bufs = &pair->bufs[pair->next];
	const uint64_t meta = bufs->meta;
	uint32_t len = bufs->len;
	uint16_t segs = 1;

	/* libccnic returns whole packets. */
	while (ccnic_buf_more(&bufs[segs - 1]))
		len += bufs[segs++].len;
	if (len > rxq->max_len) {
		rxq->stats.oversize++;
		done_with(pair, segs);
		return 0;
	}
	*pkt = copy_chain(rxq, pair, segs);
	if (*pkt == NULL) {
		rxq->stats.no_mbuf++;
		return -1;
	}
	done_with(pair, segs);
	count_packet(rxq, len);
	if (unlikely(rxq->told))
		ccnic_rx_told(rxq, *pkt, meta);
	return 1;
}

/* Receives up to n of the waiting packets. */
static inline uint16_t
recv_waiting(struct ccnic_rxq *rxq, struct ccnic_pair *pair, struct rte_mbuf **pkts, uint16_t n)
{
	uint16_t done = 0;

	while (done < n && pair->waiting > 0) {
		const uint16_t run = single_run(rxq, pair, n - done);
		const int got = run > 0 ? recv_singles(rxq, pair, &pkts[done], run) : recv_one(rxq, pair, &pkts[done]);

		if (unlikely(got < 0 || (run > 0 && got == 0)))
			break;
		done += got;
	}
	return done;
}

static inline bool
fetch(struct ccnic_pair *pair)
{
	const int got = ccnic_nic_rx_burst(pair->nic_queue, pair->bufs, CCNIC_BURST);

	pair->next = 0;
	pair->waiting = RTE_MAX(got, 0);
	if (got <= 0)
		__atomic_store_n(&pair->empty_polls, pair->empty_polls + 1, __ATOMIC_RELAXED);
	return got > 0;
}

/*
 * Receives up to n packets that fit one mbuf each, with one copy from the program's ring or buffers into the mbuf. Negative if the next
 * packet does not fit, or mbufs are short.
 */
static inline int
recv_copies(struct ccnic_rxq *rxq, struct ccnic_pair *pair, struct rte_mbuf **pkts, uint16_t n)
{
	const uint16_t longest = RTE_MIN(rxq->max_len, rxq->room - RTE_PKTMBUF_HEADROOM);
	uint64_t meta[CCNIC_BURST];
	uint16_t len[CCNIC_BURST];
	uint16_t first, i;
	int got;

	if (rxq->fresh_used > 0 && unlikely(!ccnic_rx_take_fresh(rxq)))
		return -ENOMEM;
	first = rxq->fresh_used;
	n = RTE_MIN(n, CCNIC_BURST - first);
	got = ccnic_nic_rx_copy(pair->nic_queue, &rxq->fresh_room[first], longest, len, rxq->told ? meta : NULL, n);
	if (got <= 0)
		return got;
	memcpy(pkts, &rxq->fresh[first], got * sizeof(pkts[0]));
	ccnic_rx_finish(rxq, pkts, len, got);
	for (i = 0; unlikely(rxq->told) && i < got; i++)
		ccnic_rx_told(rxq, pkts[i], meta[i]);
	return got;
}

/* Receives up to n packets from a pair. */
static inline uint16_t
recv_pair(struct ccnic_rxq *rxq, struct ccnic_pair *pair, struct rte_mbuf **pkts, uint16_t n)
{
	/* Bounds the loop for a program that sends only packets that are dropped. */
	uint16_t fetches = n / CCNIC_BURST + 1, done = 0;

	if (unlikely(!ccnic_pair_enter(pair, false)))
		return 0;
	while (likely(pair->nic_queue != NULL) && done < n) {
		if (likely(pair->waiting == 0)) {
			const uint16_t want = RTE_MIN(n - done, CCNIC_BURST);
			const int got = recv_copies(rxq, pair, &pkts[done], want);

			if (likely(got >= 0)) {
				done += got;
				if (got == want)
					continue;
				/* The ring is empty, mbufs are short, or a packet follows that does not fit one. */
				if (got == 0)
					__atomic_store_n(&pair->empty_polls, pair->empty_polls + 1, __ATOMIC_RELAXED);
				break;
			}
			if (fetches-- == 0 || !fetch(pair))
				break;
		}
		done += recv_waiting(rxq, pair, &pkts[done], n - done);
		/* Mbufs are short. */
		if (unlikely(pair->waiting > 0))
			break;
	}
	ccnic_pair_leave(pair);
	return done;
}

uint16_t
ccnic_nic_role_recv(void *queue, struct rte_mbuf **pkts, uint16_t n)
{
	struct ccnic_rxq *rxq = queue;
	const uint16_t serving = __atomic_load_n(&rxq->dev->nic_role->serving, __ATOMIC_RELAXED);
	uint16_t done, i = rxq->index + rxq->current * rxq->stride;

	/* If the program has more queue pairs than the port has queues, a queue polls several in turn. */
	if (i >= serving) {
		rxq->current = 0;
		i = rxq->index;
		if (i >= serving)
			return 0;
	}
	done = recv_pair(rxq, &rxq->dev->pair[i], pkts, n);
	rxq->current++;
	if (unlikely(!rxq->dev->data->promiscuous))
		done = ccnic_filter(rxq, pkts, done);
	if (unlikely(rxq->headers))
		ccnic_rx_headers(rxq, pkts, done);
	return done;
}

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

uint16_t
ccnic_nic_role_xmit(void *queue, struct rte_mbuf **pkts, uint16_t n)
{
	struct ccnic_txq *txq = queue;
	struct ccnic_pair *pair = enter_pair_of(txq);
	uint16_t done = 0;

	if (unlikely(pair == NULL))
		return 0;
	while (done < n && likely(pair->nic_queue != NULL)) {
		const uint16_t chunk = RTE_MIN(n - done, CCNIC_BURST);
		int got = xmit_singles(txq, pair, &pkts[done], chunk, NULL);

		if (unlikely(got < 0))
			got = xmit_any(txq, pair, &pkts[done], chunk, NULL);
		done += got;
		if (got == 0)
			break;
	}
	ccnic_pair_leave(pair);
	return done;
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

/* Sends up to CCNIC_BURST packets, some of which may request something; returns how many were sent or dropped. */
static inline int
xmit_requests(struct ccnic_txq *txq, struct ccnic_pair *pair, struct rte_mbuf **pkts, uint16_t n)
{
	const uint32_t takes = __atomic_load_n(&txq->dev->nic_role->takes, __ATOMIC_RELAXED);
	uint64_t meta[CCNIC_BURST];
	bool said;
	const uint16_t run = ccnic_tx_passable(takes, txq->dev->nic_role->longest, pkts, n, meta, &said);
	int got;

	if (unlikely(run == 0))
		return xmit_completed(txq, pair, pkts, takes);
	got = xmit_singles(txq, pair, pkts, run, meta);
	return likely(got >= 0) ? got : xmit_any(txq, pair, pkts, run, meta);
}

uint16_t
ccnic_nic_role_xmit_offloads(void *queue, struct rte_mbuf **pkts, uint16_t n)
{
	struct ccnic_txq *txq = queue;
	struct ccnic_pair *pair = enter_pair_of(txq);
	uint16_t done = 0;

	if (unlikely(pair == NULL))
		return 0;
	while (done < n && likely(pair->nic_queue != NULL)) {
		const int got = xmit_requests(txq, pair, &pkts[done], RTE_MIN(n - done, CCNIC_BURST));

		done += got;
		if (got == 0)
			break;
	}
	ccnic_pair_leave(pair);
	return done;
}
