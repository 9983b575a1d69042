/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Ports and their mbufs: one queue pair each, set up the same way for every driver. Also for ../kv. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* program_invocation_short_name */
#endif
#include "peers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>

/* Enough for both rings of a port that posts receive buffers, the packets in flight, and the caches of two lcores. */
#define MBUFS (4 * DESCRIPTORS + 2 * INFLIGHT_MAX + 1024 - 1)
#define CACHE 256
#define ETHER_HEADER 14

struct rte_mempool *port_pool(const struct options *options, const char *name)
{
	uint32_t room = options->room + RTE_PKTMBUF_HEADROOM;

	if (options->pool_ops != NULL)
		return rte_pktmbuf_pool_create_by_ops(name, MBUFS, CACHE, 0, (uint16_t)room, (int)rte_socket_id(),
						      options->pool_ops);
	return rte_pktmbuf_pool_create(name, MBUFS, CACHE, 0, (uint16_t)room, (int)rte_socket_id());
}

int ports_only(uint16_t *ports, unsigned int number)
{
	unsigned int found = 0;
	uint16_t port;

	RTE_ETH_FOREACH_DEV(port) {
		if (found < number)
			ports[found] = port;
		found++;
	}
	if (found == number)
		return 0;
	fprintf(stderr, "%s: %u ports; give %u --vdev\n", program_invocation_short_name, found, number);
	return -ENODEV;
}

/* Why the driver does not support packets of this size, for a row of a table; NULL if it does. */
static const char *unsupported(const struct options *options, const struct rte_eth_dev_info *info, bool chained)
{
	static char why[128];

	if (options->size > info->max_rx_pktlen) {
		snprintf(why, sizeof(why), "%s takes packets of at most %u bytes", info->driver_name, info->max_rx_pktlen);
		return why;
	}
	if (chained && !(info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS)) {
		snprintf(why, sizeof(why), "%s does not send packets of several segments", info->driver_name);
		return why;
	}
	return NULL;
}

static void choose(const struct options *options, const struct rte_eth_dev_info *info, bool chained,
		   struct rte_eth_conf *conf)
{
	memset(conf, 0, sizeof(*conf));
	if (options->size > RTE_ETHER_MAX_LEN)
		conf->rxmode.mtu = options->size - ETHER_HEADER;
	if (chained) {
		conf->txmode.offloads = RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
		conf->rxmode.offloads = info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER;
	} else {
		/* All mbufs are of one pool and not shared. */
		conf->txmode.offloads = info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	}
}

static int failed(const char *what, int err)
{
	fprintf(stderr, "%s: could not %s: %s\n", program_invocation_short_name, what, rte_strerror(-err));
	return err;
}

int port_start(const struct options *options, uint16_t port, struct rte_mempool *pool)
{
	const bool chained = options->size > options->room;
	struct rte_eth_dev_info info;
	struct rte_eth_conf conf;
	const char *why;
	int err;

	err = rte_eth_dev_info_get(port, &info);
	if (err < 0)
		return failed("ask the port what it can do", err);
	why = unsupported(options, &info, chained);
	if (why != NULL) {
		printf("{\"driver\":\"%s\",\"size\":%u,\"unsupported\":\"%s\"}\n", options->label, options->size, why);
		return -ENOTSUP;
	}
	choose(options, &info, chained, &conf);
	err = rte_eth_dev_configure(port, 1, 1, &conf);
	if (err < 0)
		return failed("configure the port", err);
	err = rte_eth_rx_queue_setup(port, 0, DESCRIPTORS, rte_socket_id(), NULL, pool);
	if (err < 0)
		return failed("set up the receive queue", err);
	err = rte_eth_tx_queue_setup(port, 0, DESCRIPTORS, rte_socket_id(), NULL);
	if (err < 0)
		return failed("set up the transmit queue", err);
	err = rte_eth_dev_start(port);
	if (err < 0)
		return failed("start the port", err);
	/* Packets have no Ethernet header, only payload. Drivers without a filter refuse this. */
	err = rte_eth_promiscuous_enable(port);
	return err < 0 && err != -ENOTSUP ? failed("make the port promiscuous", err) : 0;
}
