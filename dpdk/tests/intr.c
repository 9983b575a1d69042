/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A DPDK application that waits for receive interrupts, for test_applications.py: intr [EAL options] -- RXQ TXQ [nic]
 *
 * It prints a line for each step and continues when it reads a line. The NIC of its port returns all packets; with `nic` the port has
 * role=nic, and a program returns them, which may come later.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_epoll.h>
#include <rte_ethdev.h>

#include "expect.h"

#define PORT 0
#define PACKETS 200
#define LENGTH 60
/* A lost notification ends the test after this time; no machine takes so long. */
#define PATIENCE_MS 60000
#define IDLE_MS 500

static struct rte_mempool *pool;
static uint16_t rx_queues, tx_queues;
static pid_t sleeper;

static void
say(const char *what)
{
	printf("%s\n", what);
	fflush(stdout);
}

static void
wait_for_line(void)
{
	int c;

	while ((c = getchar()) != '\n')
		EXPECT(c != EOF);
}

static void
start(void)
{
	const struct rte_eth_conf conf = { .intr_conf = { .rxq = 1 } };
	uint16_t i;

	pool = rte_pktmbuf_pool_create("mbufs", 1023, 32, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
	EXPECT(pool != NULL);
	EXPECT(rte_eth_dev_configure(PORT, rx_queues, tx_queues, &conf) == 0);
	for (i = 0; i < rx_queues; i++)
		EXPECT(rte_eth_rx_queue_setup(PORT, i, 64, SOCKET_ID_ANY, NULL, pool) == 0);
	for (i = 0; i < tx_queues; i++)
		EXPECT(rte_eth_tx_queue_setup(PORT, i, 64, SOCKET_ID_ANY, NULL) == 0);
	EXPECT(rte_eth_promiscuous_enable(PORT) == 0);
	EXPECT(rte_eth_dev_start(PORT) == 0);
	for (i = 0; i < rx_queues; i++)
		EXPECT(rte_eth_dev_rx_intr_ctl_q(PORT, i, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_ADD, (void *)(uintptr_t)i) == 0);
}

static void
send_one(uint16_t queue, uint32_t number)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	uint32_t tries;
	char *data;

	EXPECT(m != NULL);
	data = rte_pktmbuf_append(m, LENGTH);
	EXPECT(data != NULL);
	memset(data, 0, LENGTH);
	memcpy(data + 20, &number, sizeof(number));
	/* With role=nic until there is a program. */
	for (tries = 0; rte_eth_tx_burst(PORT, queue, &m, 1) == 0; tries++) {
		EXPECT(tries < PATIENCE_MS);
		usleep(1000);
	}
}

/* Receives a packet from any queue; false if there is none. */
static bool
receive_one(uint32_t number)
{
	struct rte_mbuf *m;
	uint16_t i;

	for (i = 0; i < rx_queues; i++) {
		if (rte_eth_rx_burst(PORT, i, &m, 1) == 0)
			continue;
		EXPECT(m->pkt_len == LENGTH);
		EXPECT(memcmp(rte_pktmbuf_mtod_offset(m, char *, 20), &number, sizeof(number)) == 0);
		rte_pktmbuf_free(m);
		return true;
	}
	return false;
}

static void
enable(void)
{
	uint16_t i;

	for (i = 0; i < rx_queues; i++)
		EXPECT(rte_eth_dev_rx_intr_enable(PORT, i) == 0);
}

static void
disable(void)
{
	uint16_t i;

	for (i = 0; i < rx_queues; i++)
		EXPECT(rte_eth_dev_rx_intr_disable(PORT, i) == 0);
}

/* Waits until packet `number` has been received. */
static void
sleep_until(uint32_t number)
{
	struct rte_epoll_event events[8];

	do {
		enable();
		EXPECT(rte_epoll_wait(RTE_EPOLL_PER_THREAD, events, RTE_DIM(events), PATIENCE_MS) > 0);
		disable();
	} while (!receive_one(number));
}

/* Without packets: the first notifications may confirm that the NIC has taken its ends; no others follow. Returns this thread's CPU time in us. */
static uint64_t
idle(void)
{
	struct rte_epoll_event events[8];
	struct timespec before, after;
	int n;

	do {
		enable();
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
		n = rte_epoll_wait(RTE_EPOLL_PER_THREAD, events, RTE_DIM(events), IDLE_MS);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
		disable();
	} while (n > 0);
	EXPECT(n == 0);
	return (after.tv_sec - before.tv_sec) * 1000000 + (after.tv_nsec - before.tv_nsec) / 1000;
}

/* True while the receiving thread waits. */
static bool
asleep(void)
{
	char path[64], line[128];
	bool found = false;
	FILE *status;

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", (int)sleeper);
	status = fopen(path, "r");
	EXPECT(status != NULL);
	while (!found && fgets(line, sizeof(line), status) != NULL)
		found = strncmp(line, "State:\tS", 8) == 0;
	fclose(status);
	return found;
}

/* The other thread: sends a packet whenever the first one waits. */
static uint32_t received;

static void *
send_to_sleeper(void *arg __rte_unused)
{
	uint32_t i;

	for (i = 0; i < PACKETS; i++) {
		while (__atomic_load_n(&received, __ATOMIC_ACQUIRE) < i || !asleep())
			usleep(50);
		send_one(i % tx_queues, i);
	}
	return NULL;
}

/* With role=nic: packets are for the next program. */
static void
await_the_end_of_the_program(void)
{
	struct rte_eth_link link;
	uint32_t tries;

	for (tries = 0; rte_eth_link_get_nowait(PORT, &link) == 0 && link.link_status == RTE_ETH_LINK_UP; tries++) {
		EXPECT(tries < PATIENCE_MS);
		usleep(1000);
	}
	say("alone");
}

static void
exchange(void)
{
	pthread_t sender;
	uint32_t i;

	/* Reset what the sender waits for. */
	__atomic_store_n(&received, 0, __ATOMIC_RELEASE);
	EXPECT(pthread_create(&sender, NULL, send_to_sleeper, NULL) == 0);
	for (i = 0; i < PACKETS; i++) {
		sleep_until(i);
		__atomic_store_n(&received, i + 1, __ATOMIC_RELEASE);
	}
	EXPECT(pthread_join(sender, NULL) == 0);
}

int
main(int argc, char **argv)
{
	const int eal = rte_eal_init(argc, argv);
	uint16_t i;

	EXPECT(eal >= 0 && argc - eal >= 3);
	rx_queues = atoi(argv[eal + 1]);
	tx_queues = atoi(argv[eal + 2]);
	sleeper = syscall(SYS_gettid);
	start();
	say("ready");
	/* Packets that arrive before the thread waits. */
	for (i = 0; i < tx_queues; i++) {
		send_one(i, i);
		sleep_until(i);
	}
	exchange();
	printf("idle %" PRIu64 "\n", idle());
	fflush(stdout);

	/* The other side is killed here. Its successor processes the packet and notifies us. */
	wait_for_line();
	if (argc - eal > 3)
		await_the_end_of_the_program();
	send_one(0, 4711);
	say("asleep");
	sleep_until(4711);
	exchange();
	say("woken by the successor");

	/* While the link is down nothing is received, and packets in the ring send no notification. */
	EXPECT(rte_eth_dev_set_link_down(PORT) == 0);
	printf("idle %" PRIu64 "\n", idle());
	EXPECT(rte_eth_dev_set_link_up(PORT) == 0);
	exchange();
	EXPECT(rte_eth_dev_stop(PORT) == 0);
	EXPECT(rte_eth_dev_rx_intr_enable(PORT, 0) != 0);
	EXPECT(rte_eth_dev_start(PORT) == 0);
	for (i = 0; i < rx_queues; i++)
		EXPECT(rte_eth_dev_rx_intr_ctl_q(PORT, i, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_ADD, NULL) == 0);
	exchange();
	EXPECT(rte_eth_dev_stop(PORT) == 0);
	EXPECT(rte_eth_dev_close(PORT) == 0);
	say("done");
	return rte_eal_cleanup();
}
