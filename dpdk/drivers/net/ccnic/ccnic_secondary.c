/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The device in a secondary process: statistics, information and capture (dpdk-proc-info, dpdk-pdump) as in the primary process, whose
 * counters are in shared memory. The region is mapped in the primary process only, and its queues belong to that process's threads: a
 * secondary process moves no packets and changes nothing.
 */
#include <errno.h>

#include "ccnic_net.h"

static uint16_t
refuse(void *queue, struct rte_mbuf **pkts, uint16_t n)
{
	static bool told;

	if (!told)
		NET_LOG(ERR, "a secondary process cannot receive or send on a port of net_ccnic: give it a device of its own");
	told = true;
	return 0;
}

static int
keep_link(struct rte_eth_dev *eth, int wait_to_complete)
{
	/* The primary process keeps ethdev's link up to date while the port is started. */
	return 0;
}

static const struct eth_dev_ops secondary_ops = {
	.dev_infos_get = ccnic_infos_get,
	.link_update = keep_link,
	.rxq_info_get = ccnic_rxq_info,
	.txq_info_get = ccnic_txq_info,
	.stats_get = ccnic_stats_get,
	.xstats_get = ccnic_xstats_get,
	.xstats_get_names = ccnic_xstats_get_names,
};

int
ccnic_secondary_probe(struct rte_vdev_device *vdev)
{
	struct rte_eth_dev *eth = rte_eth_dev_attach_secondary(rte_vdev_device_name(vdev));

	if (eth == NULL) {
		NET_LOG(ERR, "%s: the primary process has no such device", rte_vdev_device_name(vdev));
		return -ENODEV;
	}
	eth->device = &vdev->device;
	eth->dev_ops = &secondary_ops;
	eth->rx_pkt_burst = refuse;
	eth->tx_pkt_burst = refuse;
	rte_eth_dev_probing_finish(eth);
	return 0;
}
