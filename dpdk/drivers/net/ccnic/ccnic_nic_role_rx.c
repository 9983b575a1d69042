/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * role=nic, receiving. Packets are copied, because the application may not keep pointers into the program's memory. libccnic has checked
 * the buffers that it returns; their handles are private copies.
 */
#include <errno.h>

#include <rte_memcpy.h>

#include "ccnic_nic_role.h"
#include "ccnic_rx.h"

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
		ccnic_rx_told(rxq, pkts[i], bufs[i].meta & CCNIC_META_REQUESTS);
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
		ccnic_rx_told(rxq, *pkt, meta & CCNIC_META_REQUESTS);
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
		ccnic_rx_told(rxq, pkts[i], meta[i] & CCNIC_META_REQUESTS);
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
