/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Statistics. Queues count for themselves and never forget; a reset is remembered as what to subtract. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "ccnic_net.h"

#define WORDS(type) (sizeof(type) / sizeof(uint64_t))

/* Everything that is counted, of one device. */
struct totals {
	struct ccnic_rx_stats rx;
	struct ccnic_tx_stats tx;
	struct ccnic_drops drops;
	uint64_t reconnects;
	uint64_t reclaimed;
	uint64_t link_downs;
	uint64_t lent;
};

#define RX(name, field) { "rx_" name, offsetof(struct totals, rx.field) }
#define TX(name, field) { "tx_" name, offsetof(struct totals, tx.field) }

static const struct {
	const char *name;
	size_t at;
} xstat_table[] = {
	RX("undersize_packets", bins[CCNIC_BIN_UNDERSIZE]),
	RX("size_64_packets", bins[CCNIC_BIN_64]),
	RX("size_65_127_packets", bins[CCNIC_BIN_65_127]),
	RX("size_128_255_packets", bins[CCNIC_BIN_128_255]),
	RX("size_256_511_packets", bins[CCNIC_BIN_256_511]),
	RX("size_512_1023_packets", bins[CCNIC_BIN_512_1023]),
	RX("size_1024_1518_packets", bins[CCNIC_BIN_1024_1518]),
	RX("size_1519_max_packets", bins[CCNIC_BIN_1519_MAX]),
	RX("inlined_packets", inlined),
	RX("zero_copy_packets", zero_copy),
	RX("copied_packets", copied),
	RX("dropped_oversize_packets", oversize),
	RX("dropped_filtered_packets", filtered),
	{ "rx_dropped_bad_descriptors", offsetof(struct totals, drops.descriptors) },
	{ "rx_dropped_bad_chains", offsetof(struct totals, drops.chains) },
	TX("undersize_packets", bins[CCNIC_BIN_UNDERSIZE]),
	TX("size_64_packets", bins[CCNIC_BIN_64]),
	TX("size_65_127_packets", bins[CCNIC_BIN_65_127]),
	TX("size_128_255_packets", bins[CCNIC_BIN_128_255]),
	TX("size_256_511_packets", bins[CCNIC_BIN_256_511]),
	TX("size_512_1023_packets", bins[CCNIC_BIN_512_1023]),
	TX("size_1024_1518_packets", bins[CCNIC_BIN_1024_1518]),
	TX("size_1519_max_packets", bins[CCNIC_BIN_1519_MAX]),
	TX("inlined_packets", inlined),
	TX("zero_copy_packets", zero_copy),
	TX("copied_packets", copied),
	TX("left_ring_full_packets", ring_full),
	TX("left_no_buffer_packets", no_buffer),
	TX("dropped_too_long_packets", too_long),
	TX("dropped_broken_packets", broken),
	{ "nic_reconnects", offsetof(struct totals, reconnects) },
	{ "nic_reclaimed_buffers", offsetof(struct totals, reclaimed) },
	{ "link_downs", offsetof(struct totals, link_downs) },
	{ "buffers_held", offsetof(struct totals, lent) },
};

/* Adds one queue's counters since the last reset, read while its thread writes them. */
static void
add(void *sum, const void *counters, const void *base, size_t words)
{
	size_t i;

	for (i = 0; i < words; i++)
		((uint64_t *)sum)[i] += __atomic_load_n((const uint64_t *)counters + i, __ATOMIC_RELAXED) -
					((const uint64_t *)base)[i];
}

static void
sum_rx(const struct rte_eth_dev *eth, uint16_t i, struct ccnic_rx_stats *sum)
{
	const struct ccnic_rxq *rxq = eth->data->rx_queues[i];

	if (rxq != NULL)
		add(sum, &rxq->stats, &rxq->base_stats, WORDS(*sum));
}

static void
sum_tx(const struct rte_eth_dev *eth, uint16_t i, struct ccnic_tx_stats *sum)
{
	const struct ccnic_txq *txq = eth->data->tx_queues[i];

	if (txq != NULL)
		add(sum, &txq->stats, &txq->base_stats, WORDS(*sum));
}

/* What libccnic dropped on a pair since it was first opened; what was last seen of one that cannot be asked now. */
static void
look_at_drops(struct ccnic_pair *pair)
{
	struct ccnic_stats stats;

	if (pair->queue == NULL || !ccnic_pair_lock(pair))
		return;
	if (ccnic_queue_stats(pair->queue, &stats, sizeof(stats)) == 0) {
		pair->drops.descriptors = stats.rx_bad_descriptor;
		pair->drops.chains = stats.rx_bad_chain;
	}
	ccnic_pair_unlock(pair);
}

static void
sum_all(const struct rte_eth_dev *eth, struct totals *totals)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	uint16_t i;

	memset(totals, 0, sizeof(*totals));
	for (i = 0; i < eth->data->nb_rx_queues; i++)
		sum_rx(eth, i, &totals->rx);
	for (i = 0; i < eth->data->nb_tx_queues; i++)
		sum_tx(eth, i, &totals->tx);
	for (i = 0; i < dev->queues; i++) {
		look_at_drops(&dev->pair[i]);
		add(&totals->drops, &dev->pair[i].drops, &dev->pair[i].drops_base, WORDS(totals->drops));
	}
	totals->reconnects = dev->att->reconnects;
	totals->reclaimed = dev->att->reclaimed;
	totals->link_downs = dev->link_downs;
	totals->lent = __atomic_load_n(&dev->att->lent, __ATOMIC_RELAXED);
}

int
ccnic_stats_get(struct rte_eth_dev *eth, struct rte_eth_stats *stats)
{
	struct totals totals;
	uint16_t i;

	sum_all(eth, &totals);
	for (i = 0; i < RTE_MIN(eth->data->nb_rx_queues, RTE_ETHDEV_QUEUE_STAT_CNTRS); i++) {
		struct ccnic_rx_stats rx = { 0 };

		sum_rx(eth, i, &rx);
		stats->q_ipackets[i] = rx.packets;
		stats->q_ibytes[i] = rx.bytes;
		stats->q_errors[i] = rx.oversize;
	}
	for (i = 0; i < RTE_MIN(eth->data->nb_tx_queues, RTE_ETHDEV_QUEUE_STAT_CNTRS); i++) {
		struct ccnic_tx_stats tx = { 0 };

		sum_tx(eth, i, &tx);
		stats->q_opackets[i] = tx.packets;
		stats->q_obytes[i] = tx.bytes;
	}
	stats->ipackets = totals.rx.packets;
	stats->ibytes = totals.rx.bytes;
	stats->ierrors = totals.rx.oversize + totals.drops.descriptors + totals.drops.chains;
	stats->rx_nombuf = totals.rx.no_mbuf;
	stats->opackets = totals.tx.packets;
	stats->obytes = totals.tx.bytes;
	stats->oerrors = totals.tx.too_long + totals.tx.broken;
	return 0;
}

int
ccnic_stats_reset(struct rte_eth_dev *eth)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	uint16_t i;

	for (i = 0; i < eth->data->nb_rx_queues; i++) {
		struct ccnic_rxq *rxq = eth->data->rx_queues[i];

		memset(&rxq->base_stats, 0, sizeof(rxq->base_stats));
		add(&rxq->base_stats, &rxq->stats, &(struct ccnic_rx_stats){ 0 }, WORDS(rxq->stats));
	}
	for (i = 0; i < eth->data->nb_tx_queues; i++) {
		struct ccnic_txq *txq = eth->data->tx_queues[i];

		memset(&txq->base_stats, 0, sizeof(txq->base_stats));
		add(&txq->base_stats, &txq->stats, &(struct ccnic_tx_stats){ 0 }, WORDS(txq->stats));
	}
	for (i = 0; i < dev->queues; i++) {
		look_at_drops(&dev->pair[i]);
		dev->pair[i].drops_base = dev->pair[i].drops;
	}
	return 0;
}

int
ccnic_xstats_get(struct rte_eth_dev *eth, struct rte_eth_xstat *xstats, unsigned int n)
{
	struct totals totals;
	unsigned int i;

	if (n < RTE_DIM(xstat_table) || xstats == NULL)
		return RTE_DIM(xstat_table);
	sum_all(eth, &totals);
	for (i = 0; i < RTE_DIM(xstat_table); i++) {
		xstats[i].id = i;
		xstats[i].value = *(const uint64_t *)RTE_PTR_ADD(&totals, xstat_table[i].at);
	}
	return i;
}

int
ccnic_xstats_get_names(struct rte_eth_dev *eth, struct rte_eth_xstat_name *names, unsigned int n)
{
	unsigned int i;

	if (n < RTE_DIM(xstat_table) || names == NULL)
		return RTE_DIM(xstat_table);
	for (i = 0; i < RTE_DIM(xstat_table); i++)
		snprintf(names[i].name, sizeof(names[i].name), "%s", xstat_table[i].name);
	return i;
}
