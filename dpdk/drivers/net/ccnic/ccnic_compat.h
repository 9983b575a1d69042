/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What differs among the versions of DPDK that the driver is built with, 22.11 and later. Nothing else asks for the version. */
#ifndef CCNIC_COMPAT_H
#define CCNIC_COMPAT_H

#include <ethdev_driver.h>
#include <rte_version.h>

#if RTE_VERSION >= RTE_VERSION_NUM(25, 11, 0, 0)
/* Counters of queues are apart from those of the port, and may be unwanted: then the pointer is NULL. */
typedef struct eth_queue_stats ccnic_per_queue_stats;
typedef int ccnic_queue_count;
#else
typedef struct rte_eth_stats ccnic_per_queue_stats;
typedef uint32_t ccnic_queue_count;
#endif

/* ccnic_stats.c */
int ccnic_stats_read(struct rte_eth_dev *dev, struct rte_eth_stats *stats, ccnic_per_queue_stats *queues);

static inline int
#if RTE_VERSION >= RTE_VERSION_NUM(25, 11, 0, 0)
ccnic_stats_get(struct rte_eth_dev *dev, struct rte_eth_stats *stats, ccnic_per_queue_stats *queues)
{
	return ccnic_stats_read(dev, stats, queues);
}
#else
ccnic_stats_get(struct rte_eth_dev *dev, struct rte_eth_stats *stats)
{
	return ccnic_stats_read(dev, stats, stats);
}
#endif

/* ccnic_meta.c: n packet types */
const uint32_t *ccnic_ptypes(struct rte_eth_dev *dev, size_t *n);

static inline const uint32_t *
#if RTE_VERSION >= RTE_VERSION_NUM(24, 3, 0, 0)
ccnic_supported_ptypes(struct rte_eth_dev *dev, size_t *n)
{
	return ccnic_ptypes(dev, n);
}
#else
ccnic_supported_ptypes(struct rte_eth_dev *dev)
{
	size_t n;

	/* They end with RTE_PTYPE_UNKNOWN. */
	return ccnic_ptypes(dev, &n);
}
#endif

/* The NIC hashes by Toeplitz's function. */
static inline void
ccnic_set_rss_algorithms(struct rte_eth_dev_info *info)
{
#if RTE_VERSION >= RTE_VERSION_NUM(23, 11, 0, 0)
	info->rss_algo_capa = RTE_ETH_HASH_ALGO_TO_CAPA(RTE_ETH_HASH_FUNCTION_DEFAULT) |
			      RTE_ETH_HASH_ALGO_TO_CAPA(RTE_ETH_HASH_FUNCTION_TOEPLITZ);
#endif
}

#endif /* CCNIC_COMPAT_H */
