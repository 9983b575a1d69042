/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The net driver "net_ccnic": a virtual device that is a program of a CC-NIC, or with role=nic the NIC. Device operations. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "ccnic_meta.h"
#include "ccnic_nic_role.h"

RTE_LOG_REGISTER(ccnic_net_logtype, pmd.net.ccnic, NOTICE);

static int
dev_configure(struct rte_eth_dev *eth)
{
	const struct rte_eth_conf *conf = &eth->data->dev_conf;

	if (conf->rxmode.mq_mode & (RTE_ETH_MQ_RX_DCB_FLAG | RTE_ETH_MQ_RX_VMDQ_FLAG) ||
	    conf->txmode.mq_mode != RTE_ETH_MQ_TX_NONE) {
		NET_LOG(ERR, "port %u: DCB and VMDq are not supported; leave mq_mode at NONE", eth->data->port_id);
		return -ENOTSUP;
	}
	if (conf->lpbk_mode != 0) {
		NET_LOG(ERR, "port %u: lpbk_mode is not supported: ccnicd itself sends packets back", eth->data->port_id);
		return -ENOTSUP;
	}
	if (ccnic_dev_of(eth)->nic_role == NULL)
		return ccnic_rss_configure(eth);
	/* The device offers no hash functions, so ethdev has refused all. */
	if (conf->rxmode.mq_mode & RTE_ETH_MQ_RX_RSS_FLAG && eth->data->nb_rx_queues > 1)
		NET_LOG(WARNING, "port %u: role=nic has no RSS: packets arrive on the queue pair that the program sent them on",
			eth->data->port_id);
	return 0;
}

static int
dev_start(struct rte_eth_dev *eth)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	int ret = ccnic_queues_start(eth);

	if (ret < 0)
		return ret;
	ret = ccnic_offloads_start(eth);
	if (ret == 0)
		ret = ccnic_rss_start(eth);
	if (ret < 0) {
		ccnic_queues_stop(eth);
		return ret;
	}
	eth->data->scattered_rx = ccnic_rx_is_scattered(eth);
	ret = ccnic_intr_start(eth, ccnic_intr_join);
	if (ret < 0) {
		NET_LOG(ERR, "port %u: receive interrupts: %s", eth->data->port_id, strerror(-ret));
		ccnic_queues_stop(eth);
		return ret;
	}
	dev->started = true;
	ret = ccnic_link_watch(eth);
	if (ret < 0) {
		NET_LOG(ERR, "port %u: could not set the alarm that watches the link", eth->data->port_id);
		dev->started = false;
		ccnic_intr_stop(eth);
		ccnic_queues_stop(eth);
	}
	return ret;
}

/* role=nic: starts without a program, too. */
static int
nic_start(struct rte_eth_dev *eth)
{
	int ret;

	ccnic_queues_assign(eth);
	ret = ccnic_intr_start(eth, ccnic_nic_role_intr_join);
	if (ret < 0) {
		NET_LOG(ERR, "port %u: receive interrupts: %s", eth->data->port_id, strerror(-ret));
		ccnic_nic_role_intr_stop(eth);
		return ret;
	}
	eth->tx_pkt_burst = ccnic_tx_offloads(eth) ? ccnic_nic_role_xmit_offloads : ccnic_nic_role_xmit;
	eth->data->scattered_rx = ccnic_rx_is_scattered(eth);
	ccnic_queues_state(eth, RTE_ETH_QUEUE_STATE_STARTED);
	ccnic_nic_role_start(eth);
	return 0;
}

static int
nic_stop(struct rte_eth_dev *eth)
{
	if (!ccnic_dev_of(eth)->started)
		return 0;
	eth->data->dev_started = 0;
	ccnic_nic_role_stop(eth);
	ccnic_nic_role_intr_stop(eth);
	ccnic_queues_state(eth, RTE_ETH_QUEUE_STATE_STOPPED);
	return 0;
}

static int
dev_stop(struct rte_eth_dev *eth)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);

	if (!dev->started)
		return 0;
	dev->started = false;
	eth->data->dev_started = 0;
	ccnic_link_unwatch(eth);
	ccnic_intr_stop(eth);
	ccnic_queues_stop(eth);
	return 0;
}

static void
release_queues(struct rte_eth_dev *eth)
{
	uint16_t i;

	for (i = 0; i < eth->data->nb_rx_queues; i++)
		ccnic_rx_queue_release(eth, i);
	for (i = 0; i < eth->data->nb_tx_queues; i++)
		ccnic_tx_queue_release(eth, i);
	eth->data->nb_rx_queues = 0;
	eth->data->nb_tx_queues = 0;
}

static int
dev_close(struct rte_eth_dev *eth)
{
	if (rte_eal_process_type() != RTE_PROC_PRIMARY)
		return 0;
	dev_stop(eth);
	ccnic_flow_close(eth);
	ccnic_intr_close(eth);
	release_queues(eth);
	ccnic_attach_close(ccnic_dev_of(eth)->att);
	return 0;
}

static int
nic_close(struct rte_eth_dev *eth)
{
	if (rte_eal_process_type() != RTE_PROC_PRIMARY || ccnic_dev_of(eth)->nic_role == NULL)
		return 0;
	nic_stop(eth);
	ccnic_nic_role_close(eth);
	ccnic_intr_close(eth);
	release_queues(eth);
	return 0;
}

/* The capability that goes with a speed in Mb/s; 0 for one that DPDK has no name for. */
static uint32_t
ccnic_speed_capa(uint32_t speed)
{
	return rte_eth_speed_bitflag(speed, RTE_ETH_LINK_FULL_DUPLEX);
}

int
ccnic_infos_get(struct rte_eth_dev *eth, struct rte_eth_dev_info *info)
{
	const struct ccnic_dev *dev = ccnic_dev_of(eth);
	const uint32_t ring = dev->nic_role != NULL ? CCNIC_NIC_RING : dev->att->conf.options.ring;
	const uint16_t segs = dev->nic_role != NULL ? CCNIC_SEGMENTS_MAX : UINT16_MAX;

	info->max_mac_addrs = CCNIC_MAX_MACS;
	info->max_rx_pktlen = dev->mtu_frame;
	info->min_mtu = RTE_ETHER_MIN_MTU;
	info->max_mtu = dev->mtu_frame - CCNIC_OVERHEAD;
	info->max_rx_queues = dev->queues;
	info->max_tx_queues = dev->queues;
	info->min_rx_bufsize = CCNIC_SMALL_SIZE;
	info->speed_capa = ccnic_speed_capa(dev->speed);
	info->max_lro_pkt_size = dev->mtu_frame;
	info->rx_offload_capa = CCNIC_RX_OFFLOADS;
	info->tx_offload_capa = RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE | CCNIC_TX_OFFLOADS;
	/* Rings have rsize descriptors, whatever a queue requests: any number is accepted. */
	info->rx_desc_lim = (struct rte_eth_desc_lim){ .nb_max = UINT16_MAX, .nb_min = 1, .nb_align = 1 };
	info->tx_desc_lim = (struct rte_eth_desc_lim){
		.nb_max = UINT16_MAX, .nb_min = 1, .nb_align = 1, .nb_seg_max = segs, .nb_mtu_seg_max = segs,
	};
	info->default_rxportconf = (struct rte_eth_dev_portconf){ .burst_size = 32, .ring_size = ring, .nb_queues = 1 };
	info->default_txportconf = info->default_rxportconf;
	if (dev->nic_role == NULL)
		ccnic_rss_info(info);
	return 0;
}

static int
mtu_set(struct rte_eth_dev *eth, uint16_t mtu)
{
	uint16_t i;

	/* ethdev has checked the limits; a running device applies the new value to its next packets. */
	for (i = 0; i < eth->data->nb_rx_queues; i++) {
		struct ccnic_rxq *rxq = eth->data->rx_queues[i];

		if (rxq != NULL)
			rxq->max_len = ccnic_rx_longest(eth, mtu);
	}
	return 0;
}

/* ccnic_filter() reads addresses, promiscuous and all-multicast mode from ethdev's data. The NIC does not need to know them. */
static int
accept_mode(struct rte_eth_dev *eth)
{
	return 0;
}

static int
mac_addr_set(struct rte_eth_dev *eth, struct rte_ether_addr *mac)
{
	return 0;
}

static int
mac_addr_add(struct rte_eth_dev *eth, struct rte_ether_addr *mac, uint32_t index, uint32_t pool)
{
	return 0;
}

static void
mac_addr_remove(struct rte_eth_dev *eth, uint32_t index)
{
}

static int
set_mc_addr_list(struct rte_eth_dev *eth, struct rte_ether_addr *list, uint32_t n)
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

static int
pool_ops_supported(struct rte_eth_dev *eth, const char *ops)
{
	return strcmp(ops, "ccnic") == 0 ? 0 : 1;
}

static int
nic_priv_dump(struct rte_eth_dev *eth, FILE *out)
{
	ccnic_nic_role_dump(ccnic_dev_of(eth), out);
	return 0;
}

#define SHARED_OPS \
	.dev_configure = dev_configure, \
	.dev_infos_get = ccnic_infos_get, \
	.dev_set_link_up = ccnic_link_up, \
	.dev_set_link_down = ccnic_link_down, \
	.link_update = ccnic_link_update, \
	.rx_queue_setup = ccnic_rx_queue_setup, \
	.rx_queue_release = ccnic_rx_queue_release, \
	.tx_queue_setup = ccnic_tx_queue_setup, \
	.tx_queue_release = ccnic_tx_queue_release, \
	.rxq_info_get = ccnic_rxq_info, \
	.txq_info_get = ccnic_txq_info, \
	.rx_burst_mode_get = ccnic_rx_burst_mode, \
	.tx_burst_mode_get = ccnic_tx_burst_mode, \
	.stats_get = ccnic_stats_get, \
	.stats_reset = ccnic_stats_reset, \
	.xstats_get = ccnic_xstats_get, \
	.xstats_get_names = ccnic_xstats_get_names, \
	.xstats_reset = ccnic_stats_reset, \
	.mtu_set = mtu_set, \
	.promiscuous_enable = accept_mode, \
	.promiscuous_disable = accept_mode, \
	.allmulticast_enable = accept_mode, \
	.allmulticast_disable = accept_mode, \
	.mac_addr_set = mac_addr_set, \
	.mac_addr_add = mac_addr_add, \
	.mac_addr_remove = mac_addr_remove, \
	.set_mc_addr_list = set_mc_addr_list, \
	.dev_supported_ptypes_get = ccnic_supported_ptypes, \
	.dev_ptypes_set = ccnic_ptypes_set

static const struct eth_dev_ops ops = {
	SHARED_OPS,
	.dev_start = dev_start,
	.dev_stop = dev_stop,
	.dev_close = dev_close,
	.rx_queue_start = ccnic_rx_queue_start,
	.rx_queue_stop = ccnic_rx_queue_stop,
	.tx_queue_start = ccnic_tx_queue_start,
	.tx_queue_stop = ccnic_tx_queue_stop,
	.rx_queue_intr_enable = ccnic_rx_intr_enable,
	.rx_queue_intr_disable = ccnic_rx_intr_disable,
	.get_monitor_addr = ccnic_get_monitor_addr,
	.pool_ops_supported = pool_ops_supported,
	.rss_hash_update = ccnic_rss_hash_update,
	.rss_hash_conf_get = ccnic_rss_hash_conf_get,
	.reta_update = ccnic_rss_reta_update,
	.reta_query = ccnic_rss_reta_query,
	.flow_ops_get = ccnic_flow_ops_get,
	.eth_dev_priv_dump = ccnic_priv_dump,
};

static const struct eth_dev_ops nic_ops = {
	SHARED_OPS,
	.dev_start = nic_start,
	.dev_stop = nic_stop,
	.dev_close = nic_close,
	.rx_queue_intr_enable = ccnic_nic_role_intr_enable,
	.rx_queue_intr_disable = ccnic_nic_role_intr_disable,
	.eth_dev_priv_dump = nic_priv_dump,
};

/* Allocates a device with so many queue pairs; NULL if there is no memory. */
static struct rte_eth_dev *
allocate(struct rte_vdev_device *vdev, uint16_t queues)
{
	const char *name = rte_vdev_device_name(vdev);
	struct rte_eth_dev *eth = rte_eth_vdev_allocate(vdev, sizeof(struct ccnic_dev) + queues * sizeof(struct ccnic_pair));
	struct ccnic_dev *dev;

	if (eth == NULL)
		return NULL;
	eth->data->mac_addrs = rte_calloc("ccnic_macs", CCNIC_MAX_MACS, sizeof(struct rte_ether_addr), 0);
	if (eth->data->mac_addrs == NULL) {
		rte_eth_dev_release_port(eth);
		return NULL;
	}
	dev = ccnic_dev_of(eth);
	dev->data = eth->data;
	dev->queues = queues;
	dev->nowhere.paused = CCNIC_PAUSED_CONTROL;
	if (!ccnic_pair_init(dev->pair, queues))
		NET_LOG(NOTICE, "%s: the kernel has no membarrier: every burst takes a lock", name);
	eth->data->dev_flags = RTE_ETH_DEV_INTR_LSC | RTE_ETH_DEV_AUTOFILL_QUEUE_XSTATS;
	eth->data->dev_link.link_status = RTE_ETH_LINK_DOWN;
	return eth;
}

/* Creates the device of an attachment and takes the attachment over. */
static int
create(struct rte_vdev_device *vdev, const struct ccnic_args *args, struct ccnic_attach *att)
{
	struct rte_eth_dev *eth = allocate(vdev, args->attach.options.queues);
	struct ccnic_dev *dev;

	if (eth == NULL)
		return -ENOMEM;
	ccnic_mac(att->nic, eth->data->mac_addrs[0].addr_bytes);
	dev = ccnic_dev_of(eth);
	dev->att = att;
	dev->mtu_frame = args->attach.options.mtu;
	dev->speed = args->speed;
	dev->partial = args->partial;
	dev->zero_copy = args->attach.bind;
	dev->user.pause = ccnic_link_pause;
	dev->user.resume = ccnic_link_resume;
	att->user = &dev->user;

	eth->dev_ops = &ops;
	eth->rx_pkt_burst = ccnic_recv;
	eth->tx_pkt_burst = ccnic_xmit;
	eth->rx_queue_count = ccnic_rx_queue_count;
	eth->rx_descriptor_status = ccnic_rx_descriptor_status;
	eth->tx_descriptor_status = ccnic_tx_descriptor_status;
	rte_eth_dev_probing_finish(eth);
	return 0;
}

/* Creates the device of a NIC and takes the NIC over. */
static int
create_nic(struct rte_vdev_device *vdev, const struct ccnic_args *args, struct ccnic_nic_role *role)
{
	const struct rte_ether_addr *mac = (const struct rte_ether_addr *)args->attach.options.mac;
	struct rte_eth_dev *eth = allocate(vdev, CCNIC_MAX_QUEUES);
	struct ccnic_dev *dev;
	int ret;

	if (eth == NULL)
		return -ENOMEM;
	if (rte_is_zero_ether_addr(mac))
		rte_eth_random_addr(eth->data->mac_addrs[0].addr_bytes);
	else
		rte_ether_addr_copy(mac, &eth->data->mac_addrs[0]);
	dev = ccnic_dev_of(eth);
	dev->nic_role = role;
	dev->mtu_frame = CCNIC_MAX_FRAME;
	dev->speed = args->speed;
	dev->partial = args->partial;

	eth->dev_ops = &nic_ops;
	eth->rx_pkt_burst = ccnic_nic_role_recv;
	eth->tx_pkt_burst = ccnic_nic_role_xmit;
	ret = ccnic_nic_role_watch(eth);
	if (ret < 0) {
		rte_eth_dev_release_port(eth);
		return ret;
	}
	rte_eth_dev_probing_finish(eth);
	return 0;
}

static int
probe_nic(struct rte_vdev_device *vdev, const struct ccnic_args *args)
{
	struct ccnic_nic_role *role;
	int ret = ccnic_nic_role_open(args, &role);

	if (ret < 0)
		return ret;
	ret = create_nic(vdev, args, role);
	if (ret < 0) {
		NET_LOG(ERR, "%s: no memory for the device", rte_vdev_device_name(vdev));
		ccnic_nic_role_free(role);
	}
	return ret;
}

static int
probe(struct rte_vdev_device *vdev)
{
	const char *name = rte_vdev_device_name(vdev);
	struct ccnic_attach *att;
	struct ccnic_args args;
	int ret;

	if (rte_eal_process_type() != RTE_PROC_PRIMARY)
		return ccnic_secondary_probe(vdev);
	ret = ccnic_args_parse(vdev, &args);
	if (ret < 0)
		return ret;
	if (args.nic)
		return probe_nic(vdev, &args);
	ret = ccnic_attach_open(&args.attach, &att);
	if (ret < 0) {
		ccnic_args_log_error(name, &args, ret);
		return ret;
	}
	ret = create(vdev, &args, att);
	if (ret < 0) {
		NET_LOG(ERR, "%s: no memory for the device", name);
		ccnic_attach_close(att);
	}
	return ret;
}

static int
remove_device(struct rte_vdev_device *vdev)
{
	struct rte_eth_dev *eth = rte_eth_dev_allocated(rte_vdev_device_name(vdev));

	if (eth == NULL)
		return 0;
	if (rte_eal_process_type() != RTE_PROC_PRIMARY)
		return rte_eth_dev_release_port(eth);
	eth->dev_ops->dev_close(eth);
	return rte_eth_dev_release_port(eth);
}

static struct rte_vdev_driver driver = {
	.probe = probe,
	.remove = remove_device,
};

RTE_PMD_REGISTER_VDEV(net_ccnic, driver);
RTE_PMD_REGISTER_ALIAS(net_ccnic, eth_ccnic);
RTE_PMD_REGISTER_PARAM_STRING(net_ccnic,
	"socket=<path> "
	"id=<string> "
	"role=<program|nic> "
	"mac=<xx:xx:xx:xx:xx:xx> "
	"queues=<1-256> "
	"rsize=<64-32768> "
	"buffers=<16-262144> "
	"mtu=<64-9600> "
	"zero-copy=<yes|no> "
	"design=<ccnic|paper|packed|padded|e810> "
	"demote=<auto|on|off> "
	"pages=<auto|small|huge> "
	"wait=<no|yes> "
	"speed=<10-400000> "
	"partial=<no|yes>");
