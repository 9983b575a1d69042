/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Receive interrupts: an application waits in epoll until the NIC notifies it. The descriptor of a receive queue is an epoll instance
 * over the descriptors of the pairs that it polls, so that a queue has one descriptor. The descriptors stay the same when another NIC
 * takes over, which sends the notifications that were requested from its predecessor.
 *
 * EAL's epoll is edge-triggered and reads nothing: libccnic empties a pair's descriptor when it is armed.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <rte_interrupts.h>

#include "ccnic_net.h"

/* While another NIC takes over, a pair is locked until the new NIC has answered: wait this many times as long as ccnic_pair_lock(). */
#define TRIES 50

/* Requests a notification from a pair; if packets are ready, makes the descriptor readable at once. */
static int
arm(struct ccnic_queue *queue)
{
	const int ready = ccnic_rx_arm(queue);

	return ready > 0 ? ccnic_rx_notify(queue) : ready;
}

/* Calls libccnic for a pair: as a burst, or as a control operation while the pair is paused. */
static int
call(struct ccnic_pair *pair, int (*of)(struct ccnic_queue *))
{
	int ret = -EAGAIN, i;

	if (ccnic_pair_enter(pair, true)) {
		ret = pair->queue != NULL ? of(pair->queue) : -ENODEV;
		ccnic_pair_leave(pair);
		return ret;
	}
	for (i = 0; i < TRIES; i++) {
		if (!ccnic_pair_lock(pair))
			continue;
		ret = pair->queue != NULL ? of(pair->queue) : -ENODEV;
		ccnic_pair_unlock(pair);
		break;
	}
	return ret;
}

static int
call_all(struct ccnic_rxq *rxq, int (*of)(struct ccnic_queue *))
{
	int ret = 0, one;
	uint16_t i;

	for (i = 0; i < rxq->pairs; i++) {
		one = call(&rxq->dev->pair[rxq->index + i * rxq->stride], of);
		if (one < 0)
			ret = one;
	}
	return ret;
}

int
ccnic_rx_intr_enable(struct rte_eth_dev *eth, uint16_t index)
{
	struct ccnic_rxq *rxq = eth->data->rx_queues[index];
	/* While the link is down bursts receive nothing, so packets in the rings must not notify. */
	int ret = call_all(rxq, ccnic_dev_of(eth)->link_down ? ccnic_rx_arm : arm);

	/* Buffers that were taken from the ring and not received for want of mbufs. */
	if (ret >= 0 && rxq->next < rxq->len)
		ret = call(rxq->pair, ccnic_rx_notify);
	return RTE_MIN(ret, 0);
}

int
ccnic_rx_intr_disable(struct rte_eth_dev *eth, uint16_t index)
{
	return call_all(eth->data->rx_queues[index], ccnic_rx_disarm);
}

void
ccnic_intr_notify(struct rte_eth_dev *eth)
{
	uint16_t i;

	if (ccnic_dev_of(eth)->intr == NULL || !ccnic_dev_of(eth)->started || ccnic_dev_of(eth)->nic_role != NULL)
		return;
	for (i = 0; i < eth->data->nb_rx_queues; i++)
		call_all(eth->data->rx_queues[i], ccnic_rx_notify);
}

int
ccnic_intr_add(int epoll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (fd < 0)
		return fd;
	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int
ccnic_intr_join(struct ccnic_rxq *rxq, int epoll)
{
	uint16_t i;
	int ret = 0;

	for (i = 0; ret == 0 && i < rxq->pairs; i++)
		ret = ccnic_intr_add(epoll, ccnic_rx_fd(rxq->dev->pair[rxq->index + i * rxq->stride].queue));
	return ret;
}

/* An epoll instance over what notifies a queue, or a negative errno. */
static int
make_descriptor(struct ccnic_rxq *rxq, ccnic_intr_joins join)
{
	const int epoll = epoll_create1(EPOLL_CLOEXEC);
	int ret;

	if (epoll < 0)
		return -errno;
	ret = join(rxq, epoll);
	if (ret < 0)
		close(epoll);
	return ret < 0 ? ret : epoll;
}

static int
make_descriptors(struct rte_eth_dev *eth, ccnic_intr_joins join)
{
	struct rte_intr_handle *handle = ccnic_dev_of(eth)->intr;
	uint16_t i;
	int fd;

	for (i = 0; i < eth->data->nb_rx_queues; i++) {
		fd = make_descriptor(eth->data->rx_queues[i], join);
		if (fd < 0)
			return fd;
		if (rte_intr_efds_index_set(handle, i, fd) < 0 ||
		    rte_intr_vec_list_index_set(handle, i, RTE_INTR_VEC_RXTX_OFFSET + i) < 0) {
			close(fd);
			return -rte_errno;
		}
		rte_intr_nb_efd_set(handle, i + 1);
	}
	return 0;
}

int
ccnic_intr_start(struct rte_eth_dev *eth, ccnic_intr_joins join)
{
	const uint16_t n = eth->data->nb_rx_queues;
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	int ret;

	if (!eth->data->dev_conf.intr_conf.rxq)
		return 0;
	/* Kept until the device is closed: threads may still use the handle. */
	if (dev->intr == NULL)
		dev->intr = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	if (dev->intr == NULL)
		return -ENOMEM;
	eth->intr_handle = dev->intr;
	rte_intr_type_set(dev->intr, RTE_INTR_HANDLE_VDEV);
	rte_intr_efd_counter_size_set(dev->intr, 0);
	rte_intr_max_intr_set(dev->intr, n + RTE_INTR_VEC_RXTX_OFFSET);
	ret = rte_intr_vec_list_alloc(dev->intr, "ccnic_intr", n);
	if (ret == 0)
		ret = make_descriptors(eth, join);
	if (ret < 0)
		ccnic_intr_stop(eth);
	return ret;
}

void
ccnic_intr_stop(struct rte_eth_dev *eth)
{
	struct rte_intr_handle *handle = ccnic_dev_of(eth)->intr;
	int i;

	if (handle == NULL)
		return;
	rte_intr_free_epoll_fd(handle);
	for (i = 0; i < rte_intr_nb_efd_get(handle); i++)
		close(rte_intr_efds_index_get(handle, i));
	rte_intr_nb_efd_set(handle, 0);
	rte_intr_vec_list_free(handle);
}

void
ccnic_intr_close(struct rte_eth_dev *eth)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);

	eth->intr_handle = NULL;
	rte_intr_instance_free(dev->intr);
	dev->intr = NULL;
}
