/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A DPDK application that asks for the monitor address of a receive queue, for test_applications.py: monitor [EAL options]
 *
 * It does what rte_power_monitor() does, without the instruction: the condition's function says whether a thread may fall asleep. On a
 * processor that has the instruction it waits by it, too. The NIC of its port returns all packets.
 */
#include <stdio.h>
#include <string.h>

#include <rte_cpuflags.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_power_intrinsics.h>

#include "expect.h"

#define PORT 0
/* Several laps of rings of 64 descriptors. */
#define ROUNDS 500
#define LENGTH 60
#define PATIENCE_S 60

static struct rte_mempool *pool;

static void
start(uint16_t rx_queues, uint16_t tx_queues)
{
	const struct rte_eth_conf conf = { 0 };
	uint16_t i;

	EXPECT(rte_eth_dev_configure(PORT, rx_queues, tx_queues, &conf) == 0);
	for (i = 0; i < rx_queues; i++)
		EXPECT(rte_eth_rx_queue_setup(PORT, i, 64, SOCKET_ID_ANY, NULL, pool) == 0);
	for (i = 0; i < tx_queues; i++)
		EXPECT(rte_eth_tx_queue_setup(PORT, i, 64, SOCKET_ID_ANY, NULL) == 0);
	EXPECT(rte_eth_promiscuous_enable(PORT) == 0);
	EXPECT(rte_eth_dev_start(PORT) == 0);
}

/* Sends one to five packets; returns how many. */
static uint16_t
send_some(uint32_t round)
{
	const uint16_t n = 1 + round % 5;
	struct rte_mbuf *pkts[5];
	uint16_t i;

	EXPECT(rte_pktmbuf_alloc_bulk(pool, pkts, n) == 0);
	for (i = 0; i < n; i++)
		memset(rte_pktmbuf_append(pkts[i], LENGTH), 0, LENGTH);
	EXPECT(rte_eth_tx_burst(PORT, 0, pkts, n) == n);
	return n;
}

/* What a processor that waits for the line decides by: true if the thread may sleep. */
static bool
may_sleep(const struct rte_power_monitor_cond *pmc)
{
	EXPECT(pmc->size == sizeof(uint64_t));
	return pmc->fn(*(const volatile uint64_t *)pmc->addr, pmc->opaque) == 0;
}

static void
wait_for_the_word(const struct rte_power_monitor_cond *pmc)
{
	const uint64_t end = rte_get_tsc_cycles() + rte_get_tsc_hz() * PATIENCE_S;

	while (may_sleep(pmc))
		EXPECT(rte_get_tsc_cycles() < end);
}

/* Receives all n packets. While there are any, nobody falls asleep. */
static void
receive(uint16_t n)
{
	const uint64_t end = rte_get_tsc_cycles() + rte_get_tsc_hz() * PATIENCE_S;
	struct rte_power_monitor_cond pmc;
	struct rte_mbuf *pkts[5];
	uint16_t got = 0;

	while (got < n) {
		uint16_t more = rte_eth_rx_burst(PORT, 0, pkts, 1);

		EXPECT(rte_get_tsc_cycles() < end);
		rte_pktmbuf_free_bulk(pkts, more);
		got += more;
		EXPECT(rte_eth_get_monitor_addr(PORT, 0, &pmc) == 0);
		EXPECT(got == n || rte_eth_rx_queue_count(PORT, 0) == 0 || !may_sleep(&pmc));
	}
	EXPECT(rte_eth_rx_burst(PORT, 0, pkts, 1) == 0);
}

int
main(int argc, char **argv)
{
	struct rte_cpu_intrinsics intrinsics = { 0 };
	struct rte_power_monitor_cond pmc;
	uint32_t round;
	uint16_t sent;

	EXPECT(rte_eal_init(argc, argv) >= 0);
	pool = rte_pktmbuf_pool_create("mbufs", 1023, 32, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
	EXPECT(pool != NULL);
	start(1, 1);
	for (round = 0; round < ROUNDS; round++) {
		EXPECT(rte_eth_get_monitor_addr(PORT, 0, &pmc) == 0);
		EXPECT(may_sleep(&pmc));
		sent = send_some(round);
		wait_for_the_word(&pmc);
		/* Packets that are there when the thread asks keep it awake. */
		EXPECT(rte_eth_get_monitor_addr(PORT, 0, &pmc) == 0);
		EXPECT(!may_sleep(&pmc));
		receive(sent);
	}
	rte_cpu_get_intrinsics_support(&intrinsics);
	if (intrinsics.power_monitor) {
		EXPECT(rte_eth_get_monitor_addr(PORT, 0, &pmc) == 0);
		sent = send_some(0);
		while (may_sleep(&pmc))
			EXPECT(rte_power_monitor(&pmc, rte_get_tsc_cycles() + rte_get_tsc_hz()) == 0);
		receive(sent);
		printf("woken\n");
	} else {
		printf("this processor cannot wait for a line\n");
	}
	EXPECT(rte_eth_dev_stop(PORT) == 0);
	/* A queue that polls several pairs waits for several lines. */
	start(1, 2);
	EXPECT(rte_eth_get_monitor_addr(PORT, 0, &pmc) == -ENOTSUP);
	EXPECT(rte_eth_dev_stop(PORT) == 0);
	EXPECT(rte_eth_dev_close(PORT) == 0);
	fflush(stdout);
	return rte_eal_cleanup();
}
