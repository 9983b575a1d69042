/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Power management (librte_power): the word that the NIC writes with the next packet, for processors that can wait for a write to a line
 * (UMWAIT). A ring whose consumer writes nothing into it is what such a wait needs: the line stays shared until the packet is there.
 */
#include <errno.h>

#include <rte_power_intrinsics.h>

#include "ccnic_net.h"

/* -1: the word has changed, so the thread must not fall asleep. */
static int
compare(const uint64_t holds, const uint64_t opaque[RTE_POWER_MONITOR_OPAQUE_SZ])
{
	return holds != opaque[0] ? -1 : 0;
}

/* A condition with which no thread falls asleep: there are packets already. */
static void
stay_awake(struct ccnic_rxq *rxq, struct rte_power_monitor_cond *pmc)
{
	pmc->addr = &rxq->stats.packets;
	pmc->opaque[0] = ~rxq->stats.packets;
}

/* The thread that receives on the queue calls this, so that the pair is its own. */
int
ccnic_get_monitor_addr(void *queue, struct rte_power_monitor_cond *pmc)
{
	struct ccnic_rxq *rxq = queue;
	struct ccnic_pair *pair = rxq->pair;
	const uint64_t *word = NULL;
	int ready = 0;

	if (rxq->pairs > 1) /* a processor waits for one line */
		return -ENOTSUP;
	pmc->size = sizeof(uint64_t);
	pmc->fn = compare;
	if (!ccnic_pair_enter(pair, true))
		return -EBUSY;
	if (pair->queue == NULL)
		ready = -ENODEV;
	else if (rxq->next < rxq->len)
		ready = 1;
	else
		ready = ccnic_rx_monitor(pair->queue, &word, &pmc->opaque[0]);
	ccnic_pair_leave(pair);
	if (ready > 0)
		stay_awake(rxq, pmc);
	else
		pmc->addr = (void *)(uintptr_t)word;
	return RTE_MIN(ready, 0);
}
