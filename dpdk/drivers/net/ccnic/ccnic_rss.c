/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Receive-side scaling: translates ethdev's settings to libccnic's. The NIC computes the hash and chooses the queue. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "ccnic_net.h"

static const struct {
	uint64_t hf;
	uint32_t type;
} types[] = {
	{ RTE_ETH_RSS_IPV4, CCNIC_RSS_IPV4 },
	{ RTE_ETH_RSS_NONFRAG_IPV4_TCP, CCNIC_RSS_IPV4_TCP },
	{ RTE_ETH_RSS_NONFRAG_IPV4_UDP, CCNIC_RSS_IPV4_UDP },
	{ RTE_ETH_RSS_NONFRAG_IPV4_SCTP, CCNIC_RSS_IPV4_SCTP },
	{ RTE_ETH_RSS_IPV6, CCNIC_RSS_IPV6 },
	{ RTE_ETH_RSS_NONFRAG_IPV6_TCP, CCNIC_RSS_IPV6_TCP },
	{ RTE_ETH_RSS_NONFRAG_IPV6_UDP, CCNIC_RSS_IPV6_UDP },
	{ RTE_ETH_RSS_NONFRAG_IPV6_SCTP, CCNIC_RSS_IPV6_SCTP },
};

/* Sets functions and key; with a key of NULL the old one stays. ethdev has refused functions that the device does not offer. */
static int
take_conf(const struct rte_eth_dev *eth, const struct rte_eth_rss_conf *conf, struct ccnic_rss *rss)
{
	unsigned int i;

	if (conf->rss_key != NULL && conf->rss_key_len != CCNIC_RSS_KEY) {
		NET_LOG(ERR, "port %u: the RSS key has %u bytes; give %u", eth->data->port_id, conf->rss_key_len, CCNIC_RSS_KEY);
		return -EINVAL;
	}
	if (conf->rss_key != NULL)
		memcpy(rss->key, conf->rss_key, CCNIC_RSS_KEY);
	rss->types = 0;
	for (i = 0; i < RTE_DIM(types); i++)
		if (conf->rss_hf & types[i].hf)
			rss->types |= types[i].type;
	return 0;
}

int
ccnic_rss_configure(struct rte_eth_dev *eth)
{
	const struct rte_eth_conf *conf = &eth->data->dev_conf;
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	struct ccnic_rss *rss = &dev->rss;

	/* The application's table stays valid as long as the number of queues does not change. */
	if (dev->rss_queues != eth->data->nb_rx_queues) {
		struct ccnic_rss even;

		ccnic_rss_init(&even, eth->data->nb_rx_queues);
		if (dev->rss_queues == 0)
			*rss = even;
		memcpy(rss->table, even.table, sizeof(even.table));
		dev->rss_queues = eth->data->nb_rx_queues;
	}
	rss->flags = conf->rxmode.offloads & RTE_ETH_RX_OFFLOAD_RSS_HASH ? CCNIC_RSS_META : 0;
	return take_conf(eth, &conf->rx_adv_conf.rss_conf, rss);
}

/* With a single queue pair RSS is needed only for the hash. */
static bool
is_wanted(const struct rte_eth_dev *eth)
{
	const struct rte_eth_rxmode *mode = &eth->data->dev_conf.rxmode;

	return mode->mq_mode & RTE_ETH_MQ_RX_RSS_FLAG &&
	       (RTE_MAX(eth->data->nb_rx_queues, eth->data->nb_tx_queues) > 1 || mode->offloads & RTE_ETH_RX_OFFLOAD_RSS_HASH);
}

int
ccnic_rss_start(struct rte_eth_dev *eth)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	/* Also without RSS: the attachment may come from another device, whose setting the NIC would keep. */
	int ret = ccnic_attach_rss(dev->att, is_wanted(eth) ? &dev->rss : NULL);

	switch (ret) {
	case -ENOTCONN: /* libccnic passes it to the next NIC */
		return 0;
	case -EOPNOTSUPP:
		/* Not an error: most applications request RSS from every device. */
		NET_LOG(WARNING, "port %u: this NIC does not support RSS: packets arrive on the queue that it chooses", eth->data->port_id);
		return 0;
	case 0:
		return 0;
	}
	NET_LOG(ERR, "port %u: RSS: %s", eth->data->port_id, ccnic_last_error());
	return ret;
}

/* Changes the setting of a device that may be running. */
static int
change(struct rte_eth_dev *eth, const struct ccnic_rss *rss)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	int ret = dev->started && is_wanted(eth) ? ccnic_attach_rss(dev->att, rss) : 0;

	if (ret < 0 && ret != -ENOTCONN) {
		NET_LOG(ERR, "port %u: RSS: %s", eth->data->port_id, ccnic_last_error());
		/* Withdraw it, or the next NIC would get a setting that the application was told has failed. */
		if (ret == -EOPNOTSUPP)
			ccnic_attach_rss(dev->att, &dev->rss);
		return ret == -EOPNOTSUPP ? -ENOTSUP : ret;
	}
	dev->rss = *rss;
	return 0;
}

int
ccnic_rss_hash_update(struct rte_eth_dev *eth, struct rte_eth_rss_conf *conf)
{
	struct ccnic_rss rss = ccnic_dev_of(eth)->rss;
	int ret = take_conf(eth, conf, &rss);

	return ret < 0 ? ret : change(eth, &rss);
}

int
ccnic_rss_hash_conf_get(struct rte_eth_dev *eth, struct rte_eth_rss_conf *conf)
{
	const struct ccnic_rss *rss = &ccnic_dev_of(eth)->rss;
	unsigned int i;

	conf->rss_hf = 0;
	for (i = 0; i < RTE_DIM(types); i++)
		if (rss->types & types[i].type)
			conf->rss_hf |= types[i].hf;
	if (conf->rss_key != NULL && conf->rss_key_len >= CCNIC_RSS_KEY)
		memcpy(conf->rss_key, rss->key, CCNIC_RSS_KEY);
	conf->rss_key_len = CCNIC_RSS_KEY;
	return 0;
}

static int
check_size(const struct rte_eth_dev *eth, uint16_t size)
{
	if (size == CCNIC_RSS_TABLE)
		return 0;
	NET_LOG(ERR, "port %u: a redirection table of %u entries; give %u", eth->data->port_id, size, CCNIC_RSS_TABLE);
	return -EINVAL;
}

int
ccnic_rss_reta_update(struct rte_eth_dev *eth, struct rte_eth_rss_reta_entry64 *reta, uint16_t size)
{
	struct ccnic_rss rss = ccnic_dev_of(eth)->rss;
	int ret = check_size(eth, size);
	uint16_t i;

	if (ret < 0)
		return ret;
	/* ethdev has checked the queues. */
	for (i = 0; i < size; i++) {
		const struct rte_eth_rss_reta_entry64 *group = &reta[i / RTE_ETH_RETA_GROUP_SIZE];

		if (group->mask >> (i % RTE_ETH_RETA_GROUP_SIZE) & 1)
			rss.table[i] = group->reta[i % RTE_ETH_RETA_GROUP_SIZE];
	}
	return change(eth, &rss);
}

int
ccnic_rss_reta_query(struct rte_eth_dev *eth, struct rte_eth_rss_reta_entry64 *reta, uint16_t size)
{
	const struct ccnic_rss *rss = &ccnic_dev_of(eth)->rss;
	int ret = check_size(eth, size);
	uint16_t i;

	if (ret < 0)
		return ret;
	for (i = 0; i < size; i++) {
		struct rte_eth_rss_reta_entry64 *group = &reta[i / RTE_ETH_RETA_GROUP_SIZE];

		if (group->mask >> (i % RTE_ETH_RETA_GROUP_SIZE) & 1)
			group->reta[i % RTE_ETH_RETA_GROUP_SIZE] = rss->table[i];
	}
	return 0;
}

void
ccnic_rss_info(struct rte_eth_dev_info *info)
{
	unsigned int i;

	info->rx_offload_capa |= RTE_ETH_RX_OFFLOAD_RSS_HASH;
	info->reta_size = CCNIC_RSS_TABLE;
	info->hash_key_size = CCNIC_RSS_KEY;
	ccnic_set_rss_algorithms(info);
	for (i = 0; i < RTE_DIM(types); i++)
		info->flow_type_rss_offloads |= types[i].hf;
}
