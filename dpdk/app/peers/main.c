/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * ccnic-peers: run by `ccnic bench peers`, twice for a driver with two sides.
 *
 *     ccnic-peers -l 1 --vdev net_memif0,role=server,... -- --reflect
 *     ccnic-peers -l 0 --vdev net_memif0,role=client,... -- --size 64 --inflight 1,512
 *     ccnic-peers -l 0,1 -- --ring
 *
 * Prints a line of JSON for each run, or one with the reason if the driver does not support it. The NIC side prints {"ready":true}
 * when it polls. Exit status 0 unless something failed.
 */
#include "peers.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

volatile bool stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = true;
}

/* Ends on signals and with the parent process, because the NIC side occupies a core. */
static void watch_signals(void)
{
	signal(SIGINT, stop);
	signal(SIGTERM, stop);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
}

static int reflect(uint16_t port)
{
	printf("{\"ready\":true}\n");
	fflush(stdout);
	return reflect_forward(port);
}

/* One side of a driver. */
static int run_port(const struct options *options)
{
	struct rte_mempool *pool;
	int port = port_only(), err;

	if (port < 0)
		return port;
	pool = port_pool(options);
	if (pool == NULL) {
		fprintf(stderr, "ccnic-peers: could not make a pool of mbufs: %s\n", rte_strerror(rte_errno));
		return -rte_errno;
	}
	err = port_start(options, (uint16_t)port, pool);
	if (err < 0)
		return err;
	err = options->role == REFLECT ? reflect((uint16_t)port) : generate(options, (uint16_t)port, pool);
	rte_eth_dev_stop((uint16_t)port);
	rte_eth_dev_close((uint16_t)port);
	return err;
}

int main(int argc, char **argv)
{
	struct options options;
	int used = rte_eal_init(argc, argv), err;

	if (used < 0) {
		fprintf(stderr, "ccnic-peers: EAL does not start: %s\n", rte_strerror(rte_errno));
		return EXIT_FAILURE;
	}
	watch_signals();
	err = options_read(&options, argc - used, argv + used);
	if (err == 0)
		err = options.role == BOTH ? ring_run(&options) : run_port(&options);
	rte_eal_cleanup();
	return err == 0 || err == -ENOTSUP || (err == -EINTR && options.role != REFLECT) ? EXIT_SUCCESS : EXIT_FAILURE;
}
