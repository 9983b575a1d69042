/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What both ways of transmitting share: which segments leave without a copy, and what becomes of their mbufs. */
#ifndef CCNIC_TX_H
#define CCNIC_TX_H

#include "ccnic_net.h"

/* How a packet travels. */
enum how {
	INLINED,
	ZERO_COPY,
	COPIED,
	DROPPED
};

/* Mbufs that have lost their buffers to the NIC, of one pool. */
struct plains {
	uint16_t n;
	struct rte_mbuf *mbufs[CCNIC_BURST * 2 + CCNIC_CHAIN_MAX];
};

/* True for a segment that can be handed to the NIC as it is: bound to its region, and nobody else's. */
static inline bool
is_ready(const struct ccnic_txq *txq, const struct rte_mbuf *m)
{
	return txq->zero_copy && ccnic_mbuf_is_bound(m, txq->att) && rte_mbuf_refcnt_read(m) == 1 &&
	       rte_mbuf_ext_refcnt_read(m->shinfo) == 1;
}

/* Returns plain mbufs to their pool; to ours past this core's cache, so that whoever allocates them gets them bound. */
static inline void
give_plains(struct ccnic_txq *txq, struct plains *plains)
{
	struct rte_mempool *mp;

	if (plains->n == 0)
		return;
	mp = plains->mbufs[0]->pool;
	if (ccnic_mempool_is(mp))
		ccnic_mempool_give(mp, plains->mbufs, plains->n);
	else
		rte_mempool_put_bulk(mp, (void **)plains->mbufs, plains->n);
	ccnic_attach_unlend(txq->att, plains->n);
	plains->n = 0;
}

/* The NIC has the buffer of this bound segment: it becomes plain. */
static inline void
unbind(struct ccnic_txq *txq, struct plains *plains, struct rte_mbuf *m)
{
	ccnic_mbuf_unbind(m, rte_pktmbuf_priv_size(m->pool), rte_pktmbuf_data_room_size(m->pool));
	if (unlikely(plains->n > 0 && m->pool != plains->mbufs[0]->pool))
		give_plains(txq, plains);
	plains->mbufs[plains->n++] = m;
}

/* ccnic_tx_any.c: sends up to CCNIC_BURST packets of any kind; returns how many are done with. */
uint16_t ccnic_xmit_any(struct ccnic_txq *txq, struct rte_mbuf **pkts, uint16_t n);

#endif /* CCNIC_TX_H */
