/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Transmitting with offloads. What the NIC takes travels as metadata. What it does not take is done here: checksums are computed,
 * super-packets cut or made as short as the region's packets, tags inserted; each part is made in memory of the queue, and then copied
 * into buffers of the region.
 */
#include <errno.h>

#include "ccnic_tx.h"

/* What became of a part of a packet. */
enum fate {
	GONE,     /* it was sent */
	NO_ROOM,  /* the ring is full, or the pool is empty */
	NO_PART,  /* there are no more */
	HOPELESS, /* it can never be sent */
};

/* Sends the part in the workspace. */
static enum fate
send_part(struct ccnic_txq *txq, uint16_t len, uint64_t meta)
{
	struct ccnic_queue *queue = txq->pair->queue;
	struct ccnic_buf bufs[CCNIC_CHAIN_MAX];
	const int want = CCNIC_SEGMENTS(len);
	const uint8_t *from = txq->space->part;
	int got = ccnic_buf_alloc(queue, len, bufs, want), i, sent = 0;

	if (likely(got == want)) {
		bufs[0].meta = meta;
		for (i = 0; i < want; i++) {
			memcpy(txq->base + bufs[i].offset, from, bufs[i].len);
			from += bufs[i].len;
		}
		sent = ccnic_tx_burst(queue, bufs, want);
	}
	if (likely(sent == want))
		return GONE;
	if (got > 0)
		ccnic_buf_free(queue, bufs, got);
	if (got < want)
		txq->stats.no_buffer++;
	else
		txq->stats.ring_full++;
	return NO_ROOM;
}

/* Makes and sends part `index` of a frame; counts why it cannot. */
static enum fate
xmit_part(struct ccnic_txq *txq, const void *frame, const struct rte_mbuf *m, uint64_t meta, uint32_t index)
{
	const uint32_t takes = txq->takes & CCNIC_TAKES_ALL;
	const int len = ccnic_frame_part(frame, m->pkt_len, &meta, takes, txq->max_len, index, txq->space->part,
					 sizeof(txq->space->part));

	if (len == 0)
		return NO_PART;
	if (unlikely(len == -EMSGSIZE))
		txq->stats.too_long++;
	else if (unlikely(len < 0))
		txq->stats.bad_offload++;
	if (unlikely(len < 0))
		return HOPELESS;
	return send_part(txq, len, meta);
}

/* The parts that are left of a packet are lost. */
static void
lose_parts(struct ccnic_txq *txq, const void *frame, const struct rte_mbuf *m, uint64_t meta, uint32_t index)
{
	const uint32_t takes = txq->takes & CCNIC_TAKES_ALL;
	uint64_t rest = meta;

	for (; ccnic_frame_part(frame, m->pkt_len, &rest, takes, txq->max_len, index, txq->space->part,
				sizeof(txq->space->part)) > 0; index++) {
		txq->stats.parts_lost++;
		rest = meta;
	}
}

/* Sends a packet that the NIC does not take as it is. Returns false, and nothing was sent, if there is no room. */
static bool
xmit_parts(struct ccnic_txq *txq, struct rte_mbuf *m, uint64_t meta)
{
	const void *frame = ccnic_tx_flatten(txq->space, m);
	enum fate fate = GONE;
	uint32_t i = 0;

	if (unlikely(frame == NULL)) {
		txq->stats.broken++;
		rte_pktmbuf_free(m);
		return true;
	}
	while ((fate = xmit_part(txq, frame, m, meta, i)) == GONE)
		i++;
	if (i == 0 && fate == NO_ROOM)
		return false;
	if (fate == NO_ROOM)
		lose_parts(txq, frame, m, meta, i);
	if (i > 0) {
		txq->stats.packets++;
		txq->stats.computed++;
		txq->stats.copied += m->pkt_len > CCNIC_SMALL_SIZE;
		txq->stats.inlined += m->pkt_len <= CCNIC_SMALL_SIZE;
		txq->stats.bytes += m->pkt_len;
		txq->stats.bins[ccnic_bin_of(m->pkt_len)]++;
	}
	rte_pktmbuf_free(m);
	return true;
}

/* Sends, or drops, the packet at the front, which the NIC does not take as it is; returns how many: 0 if there is no room. */
static __rte_noinline uint16_t
xmit_completed(struct ccnic_txq *txq, struct rte_mbuf **pkts)
{
	struct ccnic_request request;
	const int inner = ccnic_tx_inner(txq, *pkts, &request);

	if (inner < 0)
		return 1;
	if (inner > 0 && (request.needs & ~txq->takes) == 0)
		return ccnic_xmit_with(txq, pkts, 1, &request.meta);
	return xmit_parts(txq, *pkts, request.meta);
}

/* Sends up to CCNIC_BURST packets; returns how many were sent or dropped. */
static inline uint16_t
xmit_chunk(struct ccnic_txq *txq, struct rte_mbuf **pkts, uint16_t n)
{
	uint64_t meta[CCNIC_BURST];
	bool said;
	const uint16_t run = ccnic_tx_passable(txq->takes, txq->max_len, pkts, n, meta, &said);

	if (unlikely(run == 0))
		return xmit_completed(txq, pkts);
	return said ? ccnic_xmit_with(txq, pkts, run, meta) : ccnic_xmit_without(txq, pkts, run);
}

uint16_t
ccnic_xmit_offloads(void *queue, struct rte_mbuf **pkts, uint16_t n)
{
	return ccnic_xmit_chunks(queue, pkts, n, xmit_chunk);
}
