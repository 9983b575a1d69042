/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Receiving. Small packets are in small buffers and are copied into mbufs of the pool: one or two lines, which the application would
 * read anyway, and the buffer is freed at once, while it is in this core's cache. Large packets are not copied: a plain mbuf is
 * bound to the buffer. The driver chooses the mbuf, so a NIC that returns wrong buffers corrupts packets, but no mbuf.
 */
#include "ccnic_rx.h"

/* Frees the next n buffers. */
static void
discard(struct ccnic_rxq *rxq, uint16_t n)
{
	ccnic_buf_free(rxq->pair->queue, &rxq->bufs[rxq->next], n);
	rxq->next += n;
}

/* True if the buffer is small and the last one of its packet. */
static inline bool
is_small(const struct ccnic_buf *buf)
{
	return (buf->flags & (CCNIC_BUF_MORE | CCNIC_BUF_SMALL)) == CCNIC_BUF_SMALL;
}

__rte_noinline bool
ccnic_rx_take_fresh(struct ccnic_rxq *rxq)
{
	uint16_t n = rxq->fresh_used, i;

	while (unlikely(rte_mempool_get_bulk(rxq->mp, (void **)&rxq->fresh[rxq->fresh_used - n], n) < 0)) {
		n /= 2;
		if (n == 0)
			return rxq->fresh_used < CCNIC_BURST;
	}
	for (i = rxq->fresh_used - n; i < rxq->fresh_used; i++)
		rxq->fresh_room[i] = RTE_PTR_ADD(rxq->fresh[i]->buf_addr, RTE_PKTMBUF_HEADROOM);
	rxq->fresh_used -= n;
	return true;
}

void
ccnic_rx_return_fresh(struct ccnic_rxq *rxq)
{
	if (rxq->fresh_used < CCNIC_BURST)
		rte_mempool_put_bulk(rxq->mp, (void **)&rxq->fresh[rxq->fresh_used], CCNIC_BURST - rxq->fresh_used);
	rxq->fresh_used = CCNIC_BURST;
}

/* True if there are mbufs for small packets; counts a packet that must wait for one. */
static inline bool
has_fresh(struct ccnic_rxq *rxq)
{
	if (likely(rxq->fresh_used == 0 || ccnic_rx_take_fresh(rxq)))
		return true;
	rxq->stats.no_mbuf += ccnic_rx_ready(rxq->pair->queue) > 0;
	return false;
}

/* Sets the fields of n small packets whose data have been copied. */
static inline void
finish_small(struct ccnic_rxq *rxq, struct rte_mbuf **pkts, const uint16_t *len, const uint64_t *meta, uint16_t n)
{
	uint16_t i;

	ccnic_rx_finish(rxq, pkts, len, n);
	for (i = 0; unlikely(rxq->told) && i < n; i++)
		ccnic_rx_told(rxq, pkts[i], meta[i]);
	rxq->stats.inlined += n;
}

/* Receives up to n small packets; negative if the next packet is not small. */
static inline int
recv_small(struct ccnic_rxq *rxq, struct rte_mbuf **pkts, uint16_t n)
{
	uint64_t meta[CCNIC_BURST];
	uint16_t len[CCNIC_BURST];
	uint16_t first;
	int got;

	if (unlikely(!has_fresh(rxq)))
		return 0;
	first = rxq->fresh_used;
	n = RTE_MIN(n, CCNIC_BURST - first);
	got = ccnic_rx_small(rxq->pair->queue, &rxq->fresh_room[first], len, rxq->told ? meta : NULL, n);
	if (got <= 0)
		return got;
	memcpy(pkts, &rxq->fresh[first], got * sizeof(pkts[0]));
	finish_small(rxq, pkts, len, meta, got);
	return got;
}

/* Receives at most n of the small packets at the front of `bufs`; fewer if mbufs are short. */
static uint16_t
recv_small_among(struct ccnic_rxq *rxq, struct rte_mbuf **pkts, uint16_t n)
{
	const struct ccnic_buf *bufs = &rxq->bufs[rxq->next];
	uint64_t meta[CCNIC_REFILL];
	uint16_t len[CCNIC_REFILL];
	uint16_t i, first;

	if (unlikely(!has_fresh(rxq)))
		return 0;
	first = rxq->fresh_used;
	n = RTE_MIN(n, RTE_MIN(rxq->len - rxq->next, CCNIC_BURST - first));
	/* libccnic has checked that each lies in one small buffer. */
	for (i = 0; i < n && is_small(&bufs[i]); i++) {
		len[i] = bufs[i].len;
		meta[i] = bufs[i].meta;
		pkts[i] = rxq->fresh[first + i];
		ccnic_copy_small(rxq->fresh_room[first + i], rxq->base + bufs[i].offset, len[i]);
	}
	finish_small(rxq, pkts, len, meta, i);
	discard(rxq, i);
	return i;
}

/* The number of packets of one large buffer each, and not too long, at the front of `bufs`; at most n. */
static inline uint16_t
large_run(const struct ccnic_rxq *rxq, uint16_t n)
{
	const struct ccnic_buf *bufs = &rxq->bufs[rxq->next];
	uint16_t i;

	n = RTE_MIN(n, rxq->len - rxq->next);
	for (i = 0; i < n; i++)
		if ((bufs[i].flags & (CCNIC_BUF_MORE | CCNIC_BUF_SMALL)) != 0 || bufs[i].len > rxq->max_len)
			break;
	return i;
}

/* Takes n plain mbufs, and n buffers from the quota; false if either is short. */
static inline bool
take_plain(struct ccnic_rxq *rxq, struct rte_mbuf **mbufs, uint16_t n)
{
	struct ccnic_attach *att = rxq->dev->att;
	uint16_t got = ccnic_attach_lend(att, n);
	int ret;

	if (likely(got == n)) {
		/* Mbufs in the lcore caches of pools with the ops "ccnic" may be bound already. */
		ret = rxq->own_pool ? ccnic_mempool_get_plain(rxq->mp, mbufs, n) :
				      rte_mempool_get_bulk(rxq->mp, (void **)mbufs, n);
		if (likely(ret == 0))
			return true;
	}
	ccnic_attach_unlend(att, got);
	return false;
}

/* Receives the next n buffers, each a large packet, without a copy. Returns n, or 0 if mbufs or the quota are short. */
static inline uint16_t
recv_large(struct ccnic_rxq *rxq, struct rte_mbuf **pkts, uint16_t n)
{
	const struct ccnic_buf *bufs = &rxq->bufs[rxq->next];
	uint16_t i;

	if (unlikely(!take_plain(rxq, pkts, n)))
		return 0;
	for (i = 0; i < n; i++) {
		const uint32_t within = bufs[i].offset & (CCNIC_LARGE_SIZE - 1);

		ccnic_mbuf_bind(pkts[i], rxq->dev->att, bufs[i].offset - within, 0);
		ccnic_rx_set_packet(pkts[i], rxq->rearm, bufs[i].len, bufs[i].len);
		pkts[i]->data_off = within;
		rxq->stats.bytes += bufs[i].len;
		rxq->stats.bins[ccnic_bin_of(bufs[i].len)]++;
	}
	for (i = 0; unlikely(rxq->told) && i < n; i++)
		ccnic_rx_told(rxq, pkts[i], bufs[i].meta);
	rxq->next += n;
	rxq->stats.packets += n;
	rxq->stats.zero_copy += n;
	return n;
}

/* A chain of mbufs with a copy of the next segs buffers; NULL if mbufs are short. */
static struct rte_mbuf *
copy_packet(struct ccnic_rxq *rxq, uint16_t segs, uint32_t pkt_len)
{
	const struct ccnic_buf *buf = &rxq->bufs[rxq->next];
	struct rte_mbuf *head, *m;
	uint16_t from = 0;

	head = m = rte_pktmbuf_alloc(rxq->mp);
	if (head == NULL)
		return NULL;
	while (segs > 0) {
		uint16_t n = RTE_MIN(rte_pktmbuf_tailroom(m), buf->len - from);

		memcpy(rte_pktmbuf_mtod_offset(m, uint8_t *, m->data_len), rxq->base + buf->offset + from, n);
		m->data_len += n;
		from += n;
		if (from == buf->len) {
			buf++;
			from = 0;
			segs--;
		} else {
			m = m->next = rte_pktmbuf_alloc(rxq->mp);
			if (m == NULL) {
				rte_pktmbuf_free(head);
				return NULL;
			}
			head->nb_segs++;
		}
	}
	head->pkt_len = pkt_len;
	head->port = rxq->dev->data->port_id;
	return head;
}

/* Copies a segment from a small buffer, which cannot be bound to an mbuf, into a plain mbuf. */
static void
copy_segment(struct ccnic_rxq *rxq, struct rte_mbuf *m, const struct ccnic_buf *buf)
{
	m->ol_flags = 0;
	ccnic_copy_small(RTE_PTR_ADD(m->buf_addr, RTE_PKTMBUF_HEADROOM), rxq->base + buf->offset, buf->len);
	ccnic_buf_free(rxq->pair->queue, buf, 1);
	ccnic_attach_unlend(rxq->dev->att, 1);
}

/* A chain of mbufs bound to the next segs buffers; NULL if mbufs or the quota are short. */
static struct rte_mbuf *
bind_packet(struct ccnic_rxq *rxq, uint16_t segs, uint32_t pkt_len)
{
	const struct ccnic_buf *bufs = &rxq->bufs[rxq->next];
	struct rte_mbuf *mbufs[CCNIC_CHAIN_MAX];
	uint16_t i;

	if (!take_plain(rxq, mbufs, segs))
		return NULL;
	for (i = 0; i < segs; i++) {
		const uint32_t within = bufs[i].offset & (CCNIC_LARGE_SIZE - 1);

		ccnic_rx_set_packet(mbufs[i], rxq->rearm, pkt_len, bufs[i].len);
		mbufs[i]->next = i + 1 < segs ? mbufs[i + 1] : NULL;
		if (bufs[i].flags & CCNIC_BUF_SMALL) {
			copy_segment(rxq, mbufs[i], &bufs[i]);
		} else {
			ccnic_mbuf_bind(mbufs[i], rxq->dev->att, bufs[i].offset - within, 0);
			mbufs[i]->data_off = within;
		}
	}
	mbufs[0]->nb_segs = segs;
	return mbufs[0];
}

/* Receives the next packet, of any kind. False if mbufs are short; *pkt is NULL if the packet was dropped. */
static __rte_noinline bool
recv_one(struct ccnic_rxq *rxq, struct rte_mbuf **pkt)
{
	const struct ccnic_buf *bufs = &rxq->bufs[rxq->next];
	const uint64_t meta = bufs->meta;
	struct rte_mbuf *m = NULL;
	uint32_t pkt_len = bufs->len;
	uint16_t segs = 1;

	/* libccnic returns whole packets of at most CCNIC_CHAIN_MAX buffers. */
	while (ccnic_buf_more(&bufs[segs - 1]))
		pkt_len += bufs[segs++].len;
	*pkt = NULL;
	if (unlikely(pkt_len > rxq->max_len)) {
		rxq->stats.oversize++;
		discard(rxq, segs);
		return true;
	}
	if (rxq->zero_copy)
		m = bind_packet(rxq, segs, pkt_len);
	if (m != NULL) {
		rxq->next += segs;
		rxq->stats.zero_copy++;
	} else {
		m = copy_packet(rxq, segs, pkt_len);
		if (unlikely(m == NULL)) {
			rxq->stats.no_mbuf++;
			return false;
		}
		discard(rxq, segs);
		rxq->stats.copied++;
	}
	if (unlikely(rxq->told))
		ccnic_rx_told(rxq, m, meta);
	rxq->stats.packets++;
	rxq->stats.bytes += pkt_len;
	rxq->stats.bins[ccnic_bin_of(pkt_len)]++;
	*pkt = m;
	return true;
}

static bool
is_to_group(const struct rte_mbuf *m)
{
	return m->data_len >= RTE_ETHER_HDR_LEN && rte_is_multicast_ether_addr(rte_pktmbuf_mtod(m, const struct rte_ether_addr *));
}

/* True if the packet's destination address is one that the port accepts. */
static bool
is_accepted(const struct rte_eth_dev_data *data, const struct ccnic_dev *dev, struct rte_mbuf *m)
{
	const struct rte_ether_addr *to = rte_pktmbuf_mtod(m, const struct rte_ether_addr *);
	uint32_t i;

	if (m->data_len < RTE_ETHER_HDR_LEN)
		return false;
	if (rte_is_multicast_ether_addr(to)) {
		if (data->all_multicast || rte_is_broadcast_ether_addr(to))
			return true;
		for (i = 0; i < dev->mcasts; i++)
			if (rte_is_same_ether_addr(to, &dev->mcast[i]))
				return true;
		return false;
	}
	for (i = 0; i < CCNIC_MAX_MACS; i++)
		if (rte_is_same_ether_addr(to, &data->mac_addrs[i]))
			return true;
	return false;
}

__rte_noinline uint16_t
ccnic_filter(struct ccnic_rxq *rxq, struct rte_mbuf **pkts, uint16_t n)
{
	const struct ccnic_dev *dev = rxq->dev;
	uint16_t i, kept = 0;

	for (i = 0; i < n; i++) {
		if (is_accepted(dev->data, dev, pkts[i])) {
			pkts[kept++] = pkts[i];
			continue;
		}
		rxq->stats.bins[ccnic_bin_of(pkts[i]->pkt_len)]--;
		rxq->stats.packets--;
		rxq->stats.bytes -= pkts[i]->pkt_len;
		rxq->stats.filtered++;
		rxq->stats.foreign += !is_to_group(pkts[i]);
		rte_pktmbuf_free(pkts[i]);
	}
	return kept;
}

/* Receives up to n of the packets in `bufs`. */
static inline uint16_t
recv_waiting(struct ccnic_rxq *rxq, struct rte_mbuf **pkts, uint16_t n)
{
	uint16_t done = 0;

	while (done < n && rxq->next < rxq->len) {
		uint16_t run;

		if (is_small(&rxq->bufs[rxq->next])) {
			run = recv_small_among(rxq, &pkts[done], n - done);
			if (unlikely(run == 0))
				break;
			done += run;
			continue;
		}
		run = rxq->zero_copy ? large_run(rxq, n - done) : 0;
		if (run > 0) {
			run = recv_large(rxq, &pkts[done], run);
			done += run;
			if (likely(run > 0))
				continue;
		}
		if (!recv_one(rxq, &pkts[done]))
			break;
		if (likely(pkts[done] != NULL))
			done++;
	}
	return done;
}

/* Fetches packets of any kind, and predicts that the next ones are large if the last of them is. */
static inline bool
refill(struct ccnic_rxq *rxq)
{
	int got;

	/* Every packet fits: libccnic drops those that do not. */
	RTE_BUILD_BUG_ON(CCNIC_REFILL < CCNIC_CHAIN_MAX);
	got = ccnic_rx_burst(rxq->pair->queue, rxq->bufs, CCNIC_REFILL);

	rxq->next = 0;
	rxq->len = got > 0 ? got : 0;
	rxq->large = got > 0 && !is_small(&rxq->bufs[got - 1]);
	return got > 0;
}

/* Receives up to n packets from the current pair, which is open. */
static inline uint16_t
recv_queue(struct ccnic_rxq *rxq, struct rte_mbuf **pkts, uint16_t n)
{
	uint16_t done = 0;

	while (done < n) {
		if (rxq->next == rxq->len) {
			if (likely(!rxq->large)) {
				int want = RTE_MIN(n - done, CCNIC_BURST);
				int got = recv_small(rxq, &pkts[done], want);

				if (likely(got >= 0)) {
					done += got;
					/* Fewer than requested: the ring is empty, mbufs are short, or a large packet follows. */
					if (got < want)
						break;
					continue;
				}
			}
			if (!refill(rxq))
				break;
		}
		done += recv_waiting(rxq, &pkts[done], n - done);
		if (rxq->len < CCNIC_REFILL || rxq->next < rxq->len)
			break;
	}
	return done;
}

/* Receives up to n packets from the current pair. */
static inline uint16_t
recv_pair(struct ccnic_rxq *rxq, struct rte_mbuf **pkts, uint16_t n)
{
	struct ccnic_pair *pair = rxq->pair;
	uint16_t done = 0;

	/* Does not wait for the transmitting thread or for a control operation. */
	if (unlikely(!ccnic_pair_enter(pair, false)))
		return 0;
	if (likely(pair->queue != NULL))
		done = recv_queue(rxq, pkts, n);
	ccnic_pair_leave(pair);
	return done;
}

uint16_t
ccnic_recv(void *queue, struct rte_mbuf **pkts, uint16_t n)
{
	struct ccnic_rxq *rxq = queue;
	uint16_t done = recv_pair(rxq, pkts, n);

	/* With fewer receive than transmit queues, a queue polls several pairs in turn, one per burst. */
	if (rxq->pairs > 1 && rxq->next == rxq->len) {
		rxq->current = rxq->current + 1 == rxq->pairs ? 0 : rxq->current + 1;
		rxq->pair = &rxq->dev->pair[rxq->index + rxq->current * rxq->stride];
	}
	if (unlikely(!rxq->dev->data->promiscuous))
		done = ccnic_filter(rxq, pkts, done);
	if (unlikely(rxq->headers))
		ccnic_rx_headers(rxq, pkts, done);
	return done;
}
