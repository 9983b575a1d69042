/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * role=nic, receive interrupts: an application waits in epoll until the program wakes it. Programs come and go, so the epoll instance of
 * a receive queue (ccnic_intr.c) has an eventfd of the driver's and the descriptors of the program's queue pairs, which leave it when the
 * program is released, which closes them.
 *
 * A program may not wake the NIC: it has attached to another one before, or is defective. Therefore the alarm looks for packets of
 * applications that wait, every ten milliseconds, which is also when they notice another program.
 *
 * The alarm uses eventfds and epoll instances under the lock, only while the port is started; so they are made before the port is started and
 * closed when it has been stopped, without the lock.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_interrupts.h>

#include "ccnic_nic_role.h"

static void
ring(struct ccnic_rxq *rxq)
{
	eventfd_write(rxq->notifier, 1); /* it fails after 2^64 notifications */
}

static void
silence(struct ccnic_rxq *rxq)
{
	eventfd_t rung;

	eventfd_read(rxq->notifier, &rung); /* it fails when there was no notification */
}

/* Has the program wake the application with its next packet. True if there is one already, or the application must poll for another reason. */
static bool
arm(struct ccnic_pair *pair)
{
	return pair->waiting > 0 || (pair->nic_queue != NULL && ccnic_nic_rx_arm(pair->nic_queue) > 0);
}

/* The pairs of a queue: as arm(). `burst`: the caller is the thread that receives. */
static bool
arm_all(struct ccnic_rxq *rxq, bool burst)
{
	const uint16_t serving = __atomic_load_n(&rxq->dev->nic_role->serving, __ATOMIC_ACQUIRE);
	bool ready = false;
	uint32_t i;

	for (i = rxq->index; i < serving; i += rxq->stride) {
		struct ccnic_pair *pair = &rxq->dev->pair[i];

		/* A pair that is not available: the alarm looks again. */
		if (burst && ccnic_pair_enter(pair, true)) {
			ready |= arm(pair);
			ccnic_pair_leave(pair);
		} else if (!burst && ccnic_pair_lock(pair)) {
			ready |= arm(pair);
			ccnic_pair_unlock(pair);
		}
	}
	return ready;
}

int
ccnic_nic_role_intr_enable(struct rte_eth_dev *eth, uint16_t index)
{
	struct ccnic_rxq *rxq = eth->data->rx_queues[index];

	if (!ccnic_dev_of(eth)->started || ccnic_dev_of(eth)->intr == NULL)
		return -ENODEV;
	silence(rxq);
	__atomic_store_n(&rxq->asleep, true, __ATOMIC_RELAXED);
	if (arm_all(rxq, true))
		ring(rxq);
	return 0;
}

int
ccnic_nic_role_intr_disable(struct rte_eth_dev *eth, uint16_t index)
{
	struct ccnic_rxq *rxq = eth->data->rx_queues[index];
	const uint16_t serving = __atomic_load_n(&rxq->dev->nic_role->serving, __ATOMIC_ACQUIRE);
	uint32_t i;

	__atomic_store_n(&rxq->asleep, false, __ATOMIC_RELAXED);
	for (i = index; i < serving; i += rxq->stride) {
		struct ccnic_pair *pair = &rxq->dev->pair[i];

		if (!ccnic_pair_enter(pair, true))
			continue;
		if (pair->nic_queue != NULL)
			ccnic_nic_rx_disarm(pair->nic_queue);
		ccnic_pair_leave(pair);
	}
	return 0;
}

void
ccnic_nic_role_intr_look(struct ccnic_dev *dev)
{
	uint16_t i;

	/* While the link is down bursts receive nothing. */
	for (i = 0; dev->intr != NULL && dev->started && !dev->link_down && i < dev->data->nb_rx_queues; i++) {
		struct ccnic_rxq *rxq = dev->data->rx_queues[i];

		if (__atomic_load_n(&rxq->asleep, __ATOMIC_RELAXED) && arm_all(rxq, false))
			ring(rxq);
	}
}

/* The epoll instance of the queue that polls pair i; negative if there is none. */
static int
epoll_of(const struct ccnic_dev *dev, uint16_t i)
{
	const uint16_t n = dev->data->nb_rx_queues;

	return dev->intr == NULL || n == 0 || rte_intr_nb_efd_get(dev->intr) < n ? -1 : rte_intr_efds_index_get(dev->intr, i % n);
}

void
ccnic_nic_role_intr_opened(struct ccnic_dev *dev, uint16_t i)
{
	const int epoll = epoll_of(dev, i);
	int ret = epoll < 0 ? 0 : ccnic_intr_add(epoll, ccnic_nic_rx_fd(dev->pair[i].nic_queue));

	if (ret < 0)
		NET_LOG(WARNING, "port %u: receive interrupts of queue %u come up to ten milliseconds late: %s", dev->data->port_id, i,
			strerror(-ret));
}

int
ccnic_nic_role_intr_join(struct ccnic_rxq *rxq, int epoll)
{
	int ret;

	rxq->asleep = false;
	rxq->notifier = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (rxq->notifier < 0)
		return -errno;
	ret = ccnic_intr_add(epoll, rxq->notifier);
	if (ret < 0) {
		close(rxq->notifier);
		rxq->notifier = -1;
	}
	return ret;
}

void
ccnic_nic_role_intr_stop(struct rte_eth_dev *eth)
{
	uint16_t i;

	for (i = 0; ccnic_dev_of(eth)->intr != NULL && i < eth->data->nb_rx_queues; i++) {
		struct ccnic_rxq *rxq = eth->data->rx_queues[i];

		__atomic_store_n(&rxq->asleep, false, __ATOMIC_RELAXED);
		if (rxq->notifier >= 0)
			close(rxq->notifier);
		rxq->notifier = -1;
	}
	ccnic_intr_stop(eth);
}
