/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What both roles share when they receive: mbufs that packets are copied into, and their fields. */
#ifndef CCNIC_RX_H
#define CCNIC_RX_H

#include "ccnic_meta.h"

/* Sets the fields of a received packet except ol_flags, which may mark the buffer of an mbuf from a pool as external. */
static __rte_always_inline void
ccnic_rx_set_packet(struct rte_mbuf *m, uint64_t rearm, uint32_t pkt_len, uint16_t data_len)
{
	RTE_BUILD_BUG_ON(offsetof(struct rte_mbuf, pkt_len) != offsetof(struct rte_mbuf, packet_type) + 4);
	RTE_BUILD_BUG_ON(offsetof(struct rte_mbuf, data_len) != offsetof(struct rte_mbuf, packet_type) + 8);
	RTE_BUILD_BUG_ON(offsetof(struct rte_mbuf, hash) != offsetof(struct rte_mbuf, packet_type) + 12);
	ccnic_word *fields = ccnic_words_at(m, offsetof(struct rte_mbuf, packet_type));

	*ccnic_words_at(m, offsetof(struct rte_mbuf, data_off)) = rearm;
	/* Unknown type and pkt_len; data_len, no VLAN, no hash. */
	fields[0] = CCNIC_SECOND(pkt_len);
	fields[1] = CCNIC_FIRST(data_len);
}

/* ccnic_rx.c: replaces the mbufs of `fresh` that have been used; false if none is left. */
bool ccnic_rx_take_fresh(struct ccnic_rxq *rxq);
/* Returns the mbufs of `fresh` to their pool. */
void ccnic_rx_return_fresh(struct ccnic_rxq *rxq);

/* Sets the fields of n packets that were copied into the next mbufs of `fresh`, and counts them. */
static __rte_always_inline void
ccnic_rx_finish(struct ccnic_rxq *rxq, struct rte_mbuf **pkts, const uint16_t *len, uint16_t n)
{
	const uint64_t rearm = rxq->rearm;
	uint16_t i;

	for (i = 0; i < n; i++) {
		ccnic_rx_set_packet(pkts[i], rearm, len[i], len[i]);
		pkts[i]->ol_flags &= RTE_MBUF_F_EXTERNAL;
	}
	rxq->fresh_used += n;
	rxq->stats.packets += n;
	rxq->stats.bytes += ccnic_count_sizes(rxq->stats.bins, len, n, ccnic_span_of(len, n));
}

#endif /* CCNIC_RX_H */
