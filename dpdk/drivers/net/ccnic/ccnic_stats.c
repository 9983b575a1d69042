/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Statistics. Counters of queues are never reset; a reset stores the values that are subtracted from then on. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "ccnic_nic_role.h"

#define WORDS(type) (sizeof(type) / sizeof(uint64_t))

/* All counters of one device. */
struct totals {
	struct ccnic_rx_stats rx;
	struct ccnic_tx_stats tx;
	struct ccnic_drops drops;      /* role=program */
	struct ccnic_nic_stats nic;    /* role=nic */
	uint64_t programs;
	uint64_t reconnects;
	uint64_t reclaimed;
	uint64_t link_downs;
	uint64_t lent;
};

#define RX(name, field) { "rx_" name, offsetof(struct totals, rx.field) }
#define TX(name, field) { "tx_" name, offsetof(struct totals, tx.field) }

#define NIC(name, field) { name, offsetof(struct totals, nic.field) }

#define SIZES(WAY) \
	WAY("undersize_packets", bins[CCNIC_BIN_UNDERSIZE]), \
	WAY("size_64_packets", bins[CCNIC_BIN_64]), \
	WAY("size_65_127_packets", bins[CCNIC_BIN_65_127]), \
	WAY("size_128_255_packets", bins[CCNIC_BIN_128_255]), \
	WAY("size_256_511_packets", bins[CCNIC_BIN_256_511]), \
	WAY("size_512_1023_packets", bins[CCNIC_BIN_512_1023]), \
	WAY("size_1024_1518_packets", bins[CCNIC_BIN_1024_1518]), \
	WAY("size_1519_max_packets", bins[CCNIC_BIN_1519_MAX])

struct xstat {
	const char *name;
	size_t at;
};

static const struct xstat program_xstats[] = {
	SIZES(RX),
	RX("inlined_packets", inlined),
	RX("zero_copy_packets", zero_copy),
	RX("copied_packets", copied),
	RX("dropped_oversize_packets", oversize),
	RX("dropped_filtered_packets", filtered),
	{ "rx_dropped_bad_descriptors", offsetof(struct totals, drops.descriptors) },
	{ "rx_dropped_bad_chains", offsetof(struct totals, drops.chains) },
	{ "rx_dropped_too_long_packets", offsetof(struct totals, drops.too_long) },
	{ "rx_dropped_no_buffer_packets", offsetof(struct totals, drops.no_buffer) },
	SIZES(TX),
	TX("inlined_packets", inlined),
	TX("zero_copy_packets", zero_copy),
	TX("copied_packets", copied),
	TX("left_ring_full_packets", ring_full),
	TX("left_no_buffer_packets", no_buffer),
	TX("dropped_too_long_packets", too_long),
	TX("dropped_broken_packets", broken),
	TX("dropped_bad_offload_packets", bad_offload),
	TX("computed_packets", computed),
	TX("lost_parts", parts_lost),
	{ "nic_reconnects", offsetof(struct totals, reconnects) },
	{ "nic_reclaimed_buffers", offsetof(struct totals, reclaimed) },
	{ "link_downs", offsetof(struct totals, link_downs) },
	{ "buffers_held", offsetof(struct totals, lent) },
};

static const struct xstat nic_xstats[] = {
	SIZES(RX),
	RX("dropped_oversize_packets", oversize),
	RX("dropped_filtered_packets", filtered),
	NIC("rx_dropped_bad_descriptors", rx_bad_descriptor),
	NIC("rx_dropped_bad_chains", rx_bad_chain),
	NIC("rx_dropped_too_long_packets", rx_too_long),
	NIC("rx_dropped_close_packets", rx_dropped_close),
	SIZES(TX),
	NIC("tx_left_ring_full", tx_ring_full),
	NIC("tx_left_no_buffer", tx_no_buffer),
	TX("dropped_too_long_packets", too_long),
	TX("dropped_broken_packets", broken),
	TX("dropped_bad_offload_packets", bad_offload),
	TX("computed_packets", computed),
	TX("lost_parts", parts_lost),
	TX("dropped_no_room_packets", no_room),
	{ "programs_served", offsetof(struct totals, programs) },
	{ "link_downs", offsetof(struct totals, link_downs) },
};

static const struct xstat *
xstats_of(const struct rte_eth_dev *eth, unsigned int *n)
{
	if (ccnic_dev_of(eth)->nic_role != NULL) {
		*n = RTE_DIM(nic_xstats);
		return nic_xstats;
	}
	*n = RTE_DIM(program_xstats);
	return program_xstats;
}

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

/* Reads how many packets of a pair libccnic has dropped; keeps the last values if the pair is not available. */
static void
read_drops(struct ccnic_pair *pair)
{
	struct ccnic_stats stats;

	/* A secondary process has the values of the primary's last reading. */
	if (rte_eal_process_type() != RTE_PROC_PRIMARY || pair->queue == NULL || !ccnic_pair_lock(pair))
		return;
	if (ccnic_queue_stats(pair->queue, &stats, sizeof(stats)) == 0) {
		pair->drops.descriptors = stats.rx_bad_descriptor;
		pair->drops.chains = stats.rx_bad_chain;
		pair->drops.too_long = stats.rx_too_long;
		pair->drops.no_buffer = stats.rx_no_buffer;
		pair->drops.no_room = stats.rx_dropped;
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
	totals->link_downs = dev->link_downs;
	if (dev->nic_role != NULL) {
		if (rte_eal_process_type() == RTE_PROC_PRIMARY)
			ccnic_nic_role_sum(dev, &totals->nic, &totals->programs);
		return;
	}
	for (i = 0; i < dev->queues; i++) {
		read_drops(&dev->pair[i]);
		add(&totals->drops, &dev->pair[i].drops, &dev->pair[i].drops_base, WORDS(totals->drops));
	}
	totals->reconnects = dev->att->reconnects;
	totals->reclaimed = dev->att->reclaimed;
	totals->lent = __atomic_load_n(&dev->att->lent, __ATOMIC_RELAXED);
}

static void
read_queues(const struct rte_eth_dev *eth, ccnic_per_queue_stats *queues)
{
	uint16_t i;

	for (i = 0; i < RTE_MIN(eth->data->nb_rx_queues, RTE_ETHDEV_QUEUE_STAT_CNTRS); i++) {
		struct ccnic_rx_stats rx = { 0 };

		sum_rx(eth, i, &rx);
		queues->q_ipackets[i] = rx.packets;
		queues->q_ibytes[i] = rx.bytes;
		queues->q_errors[i] = rx.oversize + rx.foreign;
	}
	for (i = 0; i < RTE_MIN(eth->data->nb_tx_queues, RTE_ETHDEV_QUEUE_STAT_CNTRS); i++) {
		struct ccnic_tx_stats tx = { 0 };

		sum_tx(eth, i, &tx);
		queues->q_opackets[i] = tx.packets;
		queues->q_obytes[i] = tx.bytes;
	}
}

int
ccnic_stats_read(struct rte_eth_dev *eth, struct rte_eth_stats *stats, ccnic_per_queue_stats *queues)
{
	struct totals totals;

	sum_all(eth, &totals);
	if (queues != NULL)
		read_queues(eth, queues);
	stats->ipackets = totals.rx.packets;
	stats->ibytes = totals.rx.bytes;
	/* Frames to other stations are no errors, but an application that never received them from a port without a filter must see why. */
	stats->ierrors = totals.rx.oversize + totals.rx.foreign + totals.drops.descriptors + totals.drops.chains + totals.drops.too_long +
			 totals.nic.rx_bad_descriptor + totals.nic.rx_bad_chain + totals.nic.rx_too_long;
	stats->imissed = totals.drops.no_room + totals.drops.no_buffer;
	stats->rx_nombuf = totals.rx.no_mbuf;
	stats->opackets = totals.tx.packets;
	stats->obytes = totals.tx.bytes;
	stats->oerrors = totals.tx.too_long + totals.tx.broken + totals.tx.bad_offload + totals.tx.no_room;
	return 0;
}

/* Stores the current counters of the queues as the base. */
static void
reset_queues(struct rte_eth_dev *eth)
{
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
}

int
ccnic_stats_reset(struct rte_eth_dev *eth)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	uint16_t i;

	reset_queues(eth);
	if (dev->nic_role != NULL) {
		ccnic_nic_role_reset(dev);
		return 0;
	}
	for (i = 0; i < dev->queues; i++) {
		read_drops(&dev->pair[i]);
		dev->pair[i].drops_base = dev->pair[i].drops;
	}
	return 0;
}

int
ccnic_xstats_get(struct rte_eth_dev *eth, struct rte_eth_xstat *xstats, unsigned int n)
{
	struct totals totals;
	unsigned int i, all;
	const struct xstat *table = xstats_of(eth, &all);

	if (n < all || xstats == NULL)
		return all;
	sum_all(eth, &totals);
	for (i = 0; i < all; i++) {
		xstats[i].id = i;
		xstats[i].value = *(const uint64_t *)RTE_PTR_ADD(&totals, table[i].at);
	}
	return all;
}

int
ccnic_xstats_get_names(struct rte_eth_dev *eth, struct rte_eth_xstat_name *names, unsigned int n)
{
	unsigned int i, all;
	const struct xstat *table = xstats_of(eth, &all);

	if (n < all || names == NULL)
		return all;
	for (i = 0; i < all; i++)
		snprintf(names[i].name, sizeof(names[i].name), "%s", table[i].name);
	return all;
}
