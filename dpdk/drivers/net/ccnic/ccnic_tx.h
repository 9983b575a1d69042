/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What both transmit paths share: which segments are sent without a copy, and what happens to their mbufs. */
#ifndef CCNIC_TX_H
#define CCNIC_TX_H

#include "ccnic_meta.h"

/* How a packet is sent. */
enum method {
	INLINED,
	ZERO_COPY,
	COPIED,
	DROPPED
};

/* Mbufs of one pool whose buffers were sent. */
struct plain_mbufs {
	uint16_t n;
	struct rte_mbuf *mbufs[CCNIC_BURST * 2 + CCNIC_CHAIN_MAX];
};

/* True if a segment can be sent without a copy: it is bound to the region and not shared. */
static inline bool
is_ready(const struct ccnic_txq *txq, const struct rte_mbuf *m)
{
	return txq->zero_copy && ccnic_mbuf_is_bound(m, txq->att) && rte_mbuf_refcnt_read(m) == 1 &&
	       rte_mbuf_ext_refcnt_read(m->shinfo) == 1;
}

/* Returns plain mbufs to their pool. Pools with the ops "ccnic" get them past the lcore cache, so that they are bound again. */
static inline void
return_plain(struct ccnic_txq *txq, struct plain_mbufs *plain)
{
	struct rte_mempool *mp;

	if (plain->n == 0)
		return;
	mp = plain->mbufs[0]->pool;
	if (ccnic_mempool_is(mp))
		ccnic_mempool_put_plain(mp, plain->mbufs, plain->n);
	else
		rte_mempool_put_bulk(mp, (void **)plain->mbufs, plain->n);
	ccnic_attach_unlend(txq->att, plain->n);
	plain->n = 0;
}

/* The buffer of this bound segment was sent: makes the mbuf plain. */
static inline void
unbind(struct ccnic_txq *txq, struct plain_mbufs *plain, struct rte_mbuf *m)
{
	ccnic_mbuf_unbind(m, rte_pktmbuf_priv_size(m->pool), rte_pktmbuf_data_room_size(m->pool));
	if (unlikely(plain->n > 0 && m->pool != plain->mbufs[0]->pool))
		return_plain(txq, plain);
	plain->mbufs[plain->n++] = m;
}

/*
 * ccnic_tx_any.c: sends up to CCNIC_BURST packets of any kind, with these metadata, or with none if `meta` is NULL; returns how many
 * were sent or dropped.
 */
uint16_t ccnic_xmit_any(struct ccnic_txq *txq, struct rte_mbuf **pkts, uint16_t n, const uint64_t *meta);

/* ccnic_tx.c: sends up to CCNIC_BURST packets with these metadata, and without any; returns how many were sent or dropped. */
uint16_t ccnic_xmit_with(struct ccnic_txq *txq, struct rte_mbuf **pkts, uint16_t n, const uint64_t *meta);
uint16_t ccnic_xmit_without(struct ccnic_txq *txq, struct rte_mbuf **pkts, uint16_t n);

/* Sends a burst in chunks of up to CCNIC_BURST packets. A chunk returns how many of its packets it has sent or dropped; 0 ends the burst. */
static __rte_always_inline uint16_t
ccnic_xmit_chunks(struct ccnic_txq *txq, struct rte_mbuf **pkts, uint16_t n,
		  uint16_t (*chunk)(struct ccnic_txq *txq, struct rte_mbuf **pkts, uint16_t n))
{
	struct ccnic_pair *pair = txq->pair;
	uint16_t done = 0;

	if (unlikely(!ccnic_pair_enter(pair, true)))
		return 0;
	while (done < n && likely(pair->queue != NULL)) {
		const uint16_t got = chunk(txq, &pkts[done], RTE_MIN(n - done, CCNIC_BURST));

		done += got;
		if (got == 0)
			break;
	}
	ccnic_pair_leave(pair);
	return done;
}

#endif /* CCNIC_TX_H */
