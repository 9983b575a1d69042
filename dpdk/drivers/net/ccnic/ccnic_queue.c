/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Queues: setup, opening and closing the region's queue pairs, information and fill levels, the dump of a device. */
#include <errno.h>
#include <inttypes.h>

#include <rte_malloc.h>

#include "ccnic_rx.h"

/* Checks that the mempool's data rooms hold a small packet. */
static int
check_room(const struct ccnic_dev *dev, struct rte_mempool *mp)
{
	const uint16_t room = rte_pktmbuf_data_room_size(mp);

	if (room < RTE_PKTMBUF_HEADROOM + CCNIC_SMALL_SIZE) {
		NET_LOG(ERR, "port %u: mempool %s has data rooms of %u bytes; give at least %u", dev->data->port_id, mp->name, room,
			RTE_PKTMBUF_HEADROOM + CCNIC_SMALL_SIZE);
		return -EINVAL;
	}
	return 0;
}

/* Queues of a NIC come and go with its programs: they cannot be started one by one. */
static int
check_deferred(const struct ccnic_dev *dev, bool deferred)
{
	if (deferred && dev->nic_role != NULL) {
		NET_LOG(ERR, "port %u: role=nic has no deferred start of queues", dev->data->port_id);
		return -ENOTSUP;
	}
	return 0;
}

/* True if mbufs of the pool can be bound to buffers: they have data rooms of their own, not larger than a buffer. */
static bool
can_bind(struct rte_mempool *mp)
{
	return (rte_pktmbuf_priv_flags(mp) & RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF) == 0 && rte_pktmbuf_data_room_size(mp) <= CCNIC_LARGE_SIZE;
}

/* role=program: copies the parameters of the region to the queue. */
static void
share_region(struct ccnic_dev *dev, struct ccnic_rxq *rxq)
{
	rxq->base = dev->att->view.base;
	rxq->pair = &dev->pair[rxq->index];
	rxq->own_pool = ccnic_mempool_is(rxq->mp);
	if (dev->zero_copy && rxq->own_pool)
		ccnic_mempool_bind(rxq->mp, dev->att);
	rxq->zero_copy = dev->zero_copy && can_bind(rxq->mp);
}

int
ccnic_rx_queue_setup(struct rte_eth_dev *eth, uint16_t index, uint16_t desc, unsigned int socket,
		     const struct rte_eth_rxconf *conf, struct rte_mempool *mp)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	struct rte_mbuf rearm = { .nb_segs = 1, .data_off = RTE_PKTMBUF_HEADROOM, .port = eth->data->port_id };
	struct ccnic_rxq *rxq;
	int ret = check_room(dev, mp);

	if (ret == 0)
		ret = check_deferred(dev, conf->rx_deferred_start);
	if (ret < 0)
		return ret;
	rxq = rte_zmalloc_socket("ccnic_rxq", sizeof(*rxq), RTE_CACHE_LINE_SIZE, socket);
	if (rxq == NULL)
		return -ENOMEM;
	rte_mbuf_refcnt_set(&rearm, 1);
	rxq->rearm = *ccnic_words_at(&rearm, offsetof(struct rte_mbuf, data_off));
	rxq->index = index;
	rxq->deferred = conf->rx_deferred_start;
	rxq->fresh_used = CCNIC_BURST;
	rxq->notifier = -1;
	rxq->mp = mp;
	rxq->dev = dev;
	rxq->priv_size = rte_pktmbuf_priv_size(mp);
	rxq->room = rte_pktmbuf_data_room_size(mp);
	if (dev->nic_role == NULL)
		share_region(dev, rxq);
	eth->data->rx_queues[index] = rxq;
	return 0;
}

int
ccnic_tx_queue_setup(struct rte_eth_dev *eth, uint16_t index, uint16_t desc, unsigned int socket,
		     const struct rte_eth_txconf *conf)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	struct ccnic_txq *txq;
	int ret = check_deferred(dev, conf->tx_deferred_start);

	if (ret < 0)
		return ret;
	txq = rte_zmalloc_socket("ccnic_txq", sizeof(*txq), RTE_CACHE_LINE_SIZE, socket);

	if (txq == NULL)
		return -ENOMEM;
	txq->index = index;
	txq->deferred = conf->tx_deferred_start;
	txq->dev = dev;
	txq->fast_free = (eth->data->dev_conf.txmode.offloads & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE) != 0;
	if (dev->nic_role == NULL) {
		txq->zero_copy = dev->zero_copy;
		txq->max_len = dev->mtu_frame;
		txq->base = dev->att->view.base;
		txq->view = dev->att->view;
		txq->pair = &dev->pair[index];
		txq->att = dev->att;
	}
	if (ccnic_tx_offloads(eth)) {
		txq->space = rte_malloc_socket("ccnic_workspace", sizeof(*txq->space), RTE_CACHE_LINE_SIZE, socket);
		if (txq->space == NULL) {
			rte_free(txq);
			return -ENOMEM;
		}
	}
	eth->data->tx_queues[index] = txq;
	return 0;
}

void
ccnic_rx_queue_release(struct rte_eth_dev *eth, uint16_t index)
{
	rte_free(eth->data->rx_queues[index]);
	eth->data->rx_queues[index] = NULL;
}

void
ccnic_tx_queue_release(struct rte_eth_dev *eth, uint16_t index)
{
	struct ccnic_txq *txq = eth->data->tx_queues[index];

	if (txq != NULL)
		rte_free(txq->space);
	rte_free(txq);
	eth->data->tx_queues[index] = NULL;
}

void
ccnic_queues_state(struct rte_eth_dev *eth, uint8_t state)
{
	uint16_t i;

	for (i = 0; i < eth->data->nb_rx_queues; i++)
		eth->data->rx_queue_state[i] = state;
	for (i = 0; i < eth->data->nb_tx_queues; i++)
		eth->data->tx_queue_state[i] = state;
}

/* Receive queue i of n polls pairs i, i + n and so on, so that packets on pairs without a receive queue are received, too. */
void
ccnic_queues_assign(struct rte_eth_dev *eth)
{
	const uint16_t n = eth->data->nb_rx_queues;
	const uint16_t all = RTE_MAX(n, eth->data->nb_tx_queues);
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	uint16_t i;

	for (i = 0; i < n; i++) {
		struct ccnic_rxq *rxq = eth->data->rx_queues[i];

		rxq->pair = &dev->pair[i];
		rxq->current = 0;
		rxq->stride = n;
		ccnic_rx_look_init(eth, rxq);
		rxq->pairs = (all - i + n - 1) / n;
		rxq->max_len = ccnic_rx_longest(eth, eth->data->mtu);
	}
}

bool
ccnic_rx_is_scattered(const struct rte_eth_dev *eth)
{
	const uint32_t frame = eth->data->mtu + CCNIC_OVERHEAD;
	uint16_t i;

	if (eth->data->dev_conf.rxmode.offloads & (RTE_ETH_RX_OFFLOAD_SCATTER | RTE_ETH_RX_OFFLOAD_TCP_LRO))
		return true;
	/* Not an error: DPDK's own ip_reassembly configures such a port. */
	for (i = 0; i < eth->data->nb_rx_queues; i++) {
		const struct ccnic_rxq *rxq = eth->data->rx_queues[i];
		const uint32_t room = rxq->room - RTE_PKTMBUF_HEADROOM;

		if (frame <= room)
			continue;
		NET_LOG(NOTICE, "port %u: packets of more than %" PRIu32 " bytes arrive in several segments, though RTE_ETH_RX_OFFLOAD_SCATTER is not"
			" configured: the MTU is %u, and mbufs of mempool %s hold no more", eth->data->port_id, room, eth->data->mtu, rxq->mp->name);
		return true;
	}
	return false;
}

uint16_t
ccnic_rx_longest(const struct rte_eth_dev *eth, uint16_t mtu)
{
	if (ccnic_takes_of(eth->data) & CCNIC_TAKES_TCP)
		return CCNIC_MAX_FRAME;
	return RTE_MIN(mtu + CCNIC_OVERHEAD + CCNIC_TAGS, CCNIC_MAX_FRAME);
}

/* Connects receive queue i to the pairs that it polls, or to none. Bursts of a queue without a pair find it paused: nothing to test. */
static void
connect_rx(struct rte_eth_dev *eth, uint16_t i, bool connected)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	struct ccnic_rxq *rxq = eth->data->rx_queues[i];
	const uint16_t n = eth->data->nb_rx_queues;

	rxq->pair = connected ? &dev->pair[rxq->index + rxq->current * n] : &dev->nowhere;
	rxq->pairs = connected ? (RTE_MAX(n, eth->data->nb_tx_queues) - i + n - 1) / n : 1;
	eth->data->rx_queue_state[i] = connected ? RTE_ETH_QUEUE_STATE_STARTED : RTE_ETH_QUEUE_STATE_STOPPED;
}

static void
connect_tx(struct rte_eth_dev *eth, uint16_t i, bool connected)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	struct ccnic_txq *txq = eth->data->tx_queues[i];

	txq->pair = connected ? &dev->pair[i] : &dev->nowhere;
	eth->data->tx_queue_state[i] = connected ? RTE_ETH_QUEUE_STATE_STARTED : RTE_ETH_QUEUE_STATE_STOPPED;
}

int
ccnic_rx_queue_start(struct rte_eth_dev *eth, uint16_t index)
{
	connect_rx(eth, index, true);
	return 0;
}

/* Packets stay in the ring. A burst that has begun ends before this returns. */
int
ccnic_rx_queue_stop(struct rte_eth_dev *eth, uint16_t index)
{
	struct ccnic_rxq *rxq = eth->data->rx_queues[index];
	struct ccnic_pair *pair = rxq->pair;

	connect_rx(eth, index, false);
	if (!ccnic_pair_lock(pair))
		return -EBUSY;
	ccnic_pair_unlock(pair);
	return 0;
}

int
ccnic_tx_queue_start(struct rte_eth_dev *eth, uint16_t index)
{
	connect_tx(eth, index, true);
	return 0;
}

int
ccnic_tx_queue_stop(struct rte_eth_dev *eth, uint16_t index)
{
	connect_tx(eth, index, false);
	if (!ccnic_pair_lock(&ccnic_dev_of(eth)->pair[index]))
		return -EBUSY;
	ccnic_pair_unlock(&ccnic_dev_of(eth)->pair[index]);
	return 0;
}

/* All queues are connected to their pairs; with `deferred` but those that the application starts itself. */
static void
connect_all(struct rte_eth_dev *eth, bool deferred)
{
	uint16_t i;

	for (i = 0; i < eth->data->nb_rx_queues; i++)
		connect_rx(eth, i, !deferred || !((struct ccnic_rxq *)eth->data->rx_queues[i])->deferred);
	for (i = 0; i < eth->data->nb_tx_queues; i++)
		connect_tx(eth, i, !deferred || !((struct ccnic_txq *)eth->data->tx_queues[i])->deferred);
}

int
ccnic_queues_start(struct rte_eth_dev *eth)
{
	const uint16_t n = RTE_MAX(eth->data->nb_rx_queues, eth->data->nb_tx_queues);
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	uint16_t i;
	int ret;

	ccnic_queues_assign(eth);
	for (i = 0; i < n; i++) {
		ret = ccnic_queue_open(dev->att->nic, i, &dev->pair[i].queue);
		if (ret < 0) {
			NET_LOG(ERR, "port %u: queue %u: %s", eth->data->port_id, i, ccnic_last_error());
			ccnic_queues_stop(eth);
			return ret;
		}
	}
	connect_all(eth, true);
	return 0;
}

void
ccnic_queues_stop(struct rte_eth_dev *eth)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	uint16_t i;

	connect_all(eth, false);

	for (i = 0; i < eth->data->nb_rx_queues; i++) {
		struct ccnic_rxq *rxq = eth->data->rx_queues[i];

		if (rxq->next < rxq->len)
			ccnic_buf_free(rxq->pair->queue, &rxq->bufs[rxq->next], rxq->len - rxq->next);
		rxq->next = rxq->len = 0;
		ccnic_rx_return_fresh(rxq);
	}
	ccnic_queues_state(eth, RTE_ETH_QUEUE_STATE_STOPPED);
	for (i = 0; i < dev->queues; i++) {
		struct ccnic_pair *pair = &dev->pair[i];

		if (pair->queue == NULL)
			continue;
		ccnic_queue_close(pair->queue);
		pair->queue = NULL;
	}
}

/* The ring size. With role=nic the program chooses it, and may not have attached yet. */
static uint16_t
ring_of(const struct ccnic_dev *dev)
{
	return dev->nic_role != NULL ? CCNIC_NIC_RING : dev->att->conf.options.ring;
}

void
ccnic_rxq_info(struct rte_eth_dev *eth, uint16_t index, struct rte_eth_rxq_info *info)
{
	const struct ccnic_rxq *rxq = eth->data->rx_queues[index];

	info->mp = rxq->mp;
	info->scattered_rx = eth->data->scattered_rx;
	info->conf.rx_deferred_start = rxq->deferred;
	info->conf.offloads = eth->data->dev_conf.rxmode.offloads;
	info->nb_desc = ring_of(rxq->dev);
	info->rx_buf_size = rxq->zero_copy ? CCNIC_LARGE_SIZE : rxq->room - RTE_PKTMBUF_HEADROOM;
}

void
ccnic_txq_info(struct rte_eth_dev *eth, uint16_t index, struct rte_eth_txq_info *info)
{
	const struct ccnic_txq *txq = eth->data->tx_queues[index];

	info->conf.tx_deferred_start = txq->deferred;
	info->conf.offloads = eth->data->dev_conf.txmode.offloads;
	info->nb_desc = ring_of(ccnic_dev_of(eth));
}

int
ccnic_rx_burst_mode(struct rte_eth_dev *eth, uint16_t index, struct rte_eth_burst_mode *mode)
{
	const struct ccnic_rxq *rxq = eth->data->rx_queues[index];

	snprintf(mode->info, sizeof(mode->info), rxq->zero_copy ? "Copy to %u bytes, zero-copy above" : "Copy", CCNIC_SMALL_SIZE);
	return 0;
}

int
ccnic_tx_burst_mode(struct rte_eth_dev *eth, uint16_t index, struct rte_eth_burst_mode *mode)
{
	const struct ccnic_txq *txq = eth->data->tx_queues[index];

	snprintf(mode->info, sizeof(mode->info), txq->zero_copy ? "Copy to %u bytes, zero-copy of mbufs in the region above" : "Copy",
		 CCNIC_SMALL_SIZE);
	return 0;
}

/* Calls of() for the pair; 0 if the pair is not available. */
static uint32_t
count(struct ccnic_pair *pair, int (*of)(const struct ccnic_queue *))
{
	int n = 0;

	if (!ccnic_pair_lock(pair))
		return 0;
	if (pair->queue != NULL)
		n = of(pair->queue);
	ccnic_pair_unlock(pair);
	return RTE_MAX(n, 0);
}

ccnic_queue_count
ccnic_rx_queue_count(void *queue)
{
	struct ccnic_rxq *rxq = queue;
	uint32_t n = rxq->len - rxq->next;
	uint16_t i;

	for (i = 0; i < rxq->pairs; i++)
		n += count(&rxq->dev->pair[rxq->index + i * rxq->stride], ccnic_rx_ready);
	return n;
}

int
ccnic_rx_descriptor_status(void *queue, uint16_t offset)
{
	const struct ccnic_rxq *rxq = queue;

	if (offset >= rxq->dev->att->conf.options.ring)
		return -EINVAL;
	return offset < (uint32_t)ccnic_rx_queue_count(queue) ? RTE_ETH_RX_DESC_DONE : RTE_ETH_RX_DESC_AVAIL;
}

int
ccnic_tx_descriptor_status(void *queue, uint16_t offset)
{
	struct ccnic_txq *txq = queue;
	const uint32_t ring = txq->att->conf.options.ring;

	if (offset >= ring)
		return -EINVAL;
	/* Descriptor 0 is the next one to be written, so pending ones are the last ones of the ring. */
	return offset >= ring - RTE_MIN(ring, count(txq->pair, ccnic_tx_waiting)) ? RTE_ETH_TX_DESC_FULL : RTE_ETH_TX_DESC_DONE;
}

int
ccnic_priv_dump(struct rte_eth_dev *eth, FILE *out)
{
	const struct ccnic_dev *dev = ccnic_dev_of(eth);
	const struct ccnic_attach *att = dev->att;
	const struct ccnic_options *options = &att->conf.options;
	uint16_t i;

	fprintf(out, "socket: %s, id: %s, NIC: %s\n", att->conf.socket, att->conf.id,
		ccnic_link_state(att->nic) == 1 ? "running" : "ended");
	fprintf(out, "region: %u queues of %u descriptors, design %u, flags %#x, packets up to %u bytes\n", options->queues,
		options->ring, options->design, options->flags, dev->mtu_frame);
	fprintf(out, "buffers: %u at %p, mbufs refer to %u, at most %u\n", att->buffers, att->view.base + att->view.first, att->lent,
		ccnic_attach_quota(att));
	fprintf(out, "RSS: types %#x, %s\n", dev->rss.types, ccnic_rss_active(att->nic) == 1 ? "by the NIC" : "off");
	fprintf(out, "reconnects: %" PRIu64 ", buffers that returned: %" PRIu64 "\n", att->reconnects, att->reclaimed);
	for (i = 0; i < eth->data->nb_rx_queues; i++) {
		const struct ccnic_rxq *rxq = eth->data->rx_queues[i];

		fprintf(out, "rx queue %u: mempool %s, %s, polls %u pairs\n", i, rxq->mp->name,
			rxq->zero_copy ? "zero-copy above 128 bytes" : "copies", rxq->pairs);
	}
	return 0;
}
