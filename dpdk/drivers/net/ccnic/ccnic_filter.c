/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Which packets are for this station: its addresses, promiscuous and all-multicast mode. The NIC knows nothing of them. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <rte_ether.h>

#include "ccnic_net.h"

/* The filter reads what ethdev keeps: addresses, promiscuous and all-multicast mode. There is nothing to tell the NIC. */
int
ccnic_accept_mode(struct rte_eth_dev *eth)
{
	return 0;
}

int
ccnic_mac_addr_set(struct rte_eth_dev *eth, struct rte_ether_addr *mac)
{
	return 0;
}

int
ccnic_mac_addr_add(struct rte_eth_dev *eth, struct rte_ether_addr *mac, uint32_t index, uint32_t pool)
{
	return 0;
}

void
ccnic_mac_addr_remove(struct rte_eth_dev *eth, uint32_t index)
{
}

int
ccnic_mc_addr_list(struct rte_eth_dev *eth, struct rte_ether_addr *list, uint32_t n)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);

	if (n > CCNIC_MAX_MCAST) {
		NET_LOG(ERR, "port %u: %" PRIu32 " multicast addresses; set at most %u, or receive all multicast", eth->data->port_id, n,
			CCNIC_MAX_MCAST);
		return -ENOSPC;
	}
	__atomic_store_n(&dev->mcasts, 0, __ATOMIC_RELEASE);
	memcpy(dev->mcast, list, n * sizeof(*list));
	__atomic_store_n(&dev->mcasts, n, __ATOMIC_RELEASE);
	return 0;
}

/* True when the packet is for this station. */
static bool
is_for_us(const struct rte_eth_dev_data *data, const struct ccnic_dev *dev, struct rte_mbuf *m)
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
		if (is_for_us(dev->data, dev, pkts[i])) {
			pkts[kept++] = pkts[i];
			continue;
		}
		rxq->stats.bins[ccnic_bin_of(pkts[i]->pkt_len)]--;
		rxq->stats.packets--;
		rxq->stats.bytes -= pkts[i]->pkt_len;
		rxq->stats.filtered++;
		rte_pktmbuf_free(pkts[i]);
	}
	return kept;
}
