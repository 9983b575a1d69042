/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The link: up while the NIC is running and the application has not set it down. An alarm checks it, reports changes to the
 * application, and attaches to the NIC's successor. While no NIC is running, packets that were delivered can still be received, and
 * packets can be transmitted until the ring is full.
 */
#include <errno.h>

#include <rte_alarm.h>

#include "ccnic_meta.h"

#define WATCH_US 50000

bool
ccnic_link_pause(struct ccnic_user *user)
{
	struct ccnic_dev *dev = container_of(user, struct ccnic_dev, user);
	uint16_t i;

	for (i = 0; i < dev->queues; i++) {
		if (ccnic_pair_pause(&dev->pair[i]))
			continue;
		while (i-- > 0)
			ccnic_pair_resume(&dev->pair[i]);
		return false;
	}
	return true;
}

void
ccnic_link_resume(struct ccnic_user *user)
{
	struct ccnic_dev *dev = container_of(user, struct ccnic_dev, user);
	uint16_t i;

	/* The NIC may be another one. */
	if (dev->started)
		ccnic_offloads_learn(dev->data, ccnic_offloads(dev->att->nic));
	for (i = 0; i < dev->queues; i++)
		ccnic_pair_resume(&dev->pair[i]);
}

/* Sets ethdev's link state; 0 if it has changed. */
static int
set_link(struct rte_eth_dev *eth, bool up)
{
	struct rte_eth_link link = {
		.link_speed = up ? ccnic_dev_of(eth)->speed : RTE_ETH_SPEED_NUM_NONE,
		.link_duplex = RTE_ETH_LINK_FULL_DUPLEX,
		.link_autoneg = RTE_ETH_LINK_FIXED,
		.link_status = up ? RTE_ETH_LINK_UP : RTE_ETH_LINK_DOWN,
	};

	return rte_eth_linkstatus_set(eth, &link);
}

static bool
is_up(const struct ccnic_dev *dev)
{
	return dev->started && !dev->link_down && __atomic_load_n(&dev->peer_up, __ATOMIC_RELAXED);
}

void
ccnic_link_report(struct rte_eth_dev *eth)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	const char *peer = dev->nic_role != NULL ? "program" : "NIC";
	bool up = is_up(dev);

	set_link(eth, up);
	if (dev->reported_up == up)
		return;
	dev->reported_up = up;
	dev->link_downs += !up;
	if (up || dev->link_down)
		NET_LOG(NOTICE, "port %u: link %s", eth->data->port_id, up ? "up" : "down");
	else
		NET_LOG(NOTICE, "port %u: link down: the %s has ended", eth->data->port_id, peer);
	if (eth->data->dev_conf.intr_conf.lsc)
		rte_eth_dev_callback_process(eth, RTE_ETH_EVENT_INTR_LSC, NULL);
}

static void
watch(void *arg)
{
	struct rte_eth_dev *eth = arg;
	struct ccnic_dev *dev = ccnic_dev_of(eth);

	__atomic_store_n(&dev->peer_up, ccnic_attach_check(dev->att), __ATOMIC_RELAXED);
	/* Before the callback, because the application may stop the device in it. */
	if (rte_eal_alarm_set(WATCH_US, watch, eth) < 0)
		NET_LOG(ERR, "port %u: the link is no longer checked: the alarm could not be set", eth->data->port_id);
	ccnic_link_report(eth);
}

int
ccnic_link_watch(struct rte_eth_dev *eth)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);

	dev->peer_up = ccnic_attach_check(dev->att);
	dev->reported_up = is_up(dev);
	set_link(eth, dev->reported_up);
	return rte_eal_alarm_set(WATCH_US, watch, eth);
}

void
ccnic_link_unwatch(struct rte_eth_dev *eth)
{
	rte_eal_alarm_cancel(watch, eth);
	set_link(eth, false);
}

int
ccnic_link_update(struct rte_eth_dev *eth, int wait_to_complete)
{
	return set_link(eth, is_up(ccnic_dev_of(eth)));
}

static void
pause_bursts(struct ccnic_dev *dev, bool pause)
{
	uint16_t i;

	for (i = 0; i < dev->queues; i++) {
		uint32_t *paused = &dev->pair[i].paused;

		if (pause)
			__atomic_fetch_or(paused, CCNIC_PAUSED_LINK_DOWN, __ATOMIC_RELAXED);
		else
			__atomic_fetch_and(paused, ~CCNIC_PAUSED_LINK_DOWN, __ATOMIC_RELAXED);
	}
	dev->link_down = pause;
}

int
ccnic_link_up(struct rte_eth_dev *eth)
{
	pause_bursts(ccnic_dev_of(eth), false);
	ccnic_intr_notify(eth);
	ccnic_link_update(eth, 0);
	return 0;
}

int
ccnic_link_down(struct rte_eth_dev *eth)
{
	pause_bursts(ccnic_dev_of(eth), true);
	ccnic_link_update(eth, 0);
	return 0;
}
