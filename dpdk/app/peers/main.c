/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * ccnic-peers: run by `ccnic bench peers`, twice for a driver with two sides.
 *
 *     ccnic-peers -l 1 --vdev net_memif0,role=server,... -- --reflect
 *     ccnic-peers -l 0 --vdev net_memif0,role=client,... -- --size 64 --inflight 1,512
 *     ccnic-peers -l 0,1 -- --ring
 *     ccnic-peers -l 0 --vdev net_virtio_user0,... --vdev net_virtio_user1,... -- --pair
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

/* A pool of that name, and the port started with it; or a negative errno. */
static int start(const struct options *options, uint16_t port, const char *name, struct rte_mempool **pool)
{
	*pool = port_pool(options, name);
	if (*pool == NULL) {
		fprintf(stderr, "ccnic-peers: could not make a pool of mbufs: %s\n", rte_strerror(rte_errno));
		return -rte_errno;
	}
	return port_start(options, port, *pool);
}

static void end(uint16_t port)
{
	rte_eth_dev_stop(port);
	rte_eth_dev_close(port);
}

/* One side of a driver. */
static int run_port(const struct options *options)
{
	struct rte_mempool *pool;
	uint16_t port;
	int err;

	err = ports_only(&port, 1);
	if (err == 0)
		err = start(options, port, "peers", &pool);
	if (err < 0)
		return err;
	err = options->role == REFLECT ? reflect(port) : generate(options, port, pool);
	end(port);
	return err;
}

/* Two programs: each has a pool of its own, as if they were processes. */
static int run_pair(const struct options *options)
{
	struct rte_mempool *pools[2];
	uint16_t ports[2];
	int err;

	err = ports_only(ports, 2);
	if (err == 0)
		err = start(options, ports[0], "there", &pools[0]);
	if (err == 0)
		err = start(options, ports[1], "back", &pools[1]);
	if (err < 0)
		return err;
	err = generate_pair(options, ports[0], pools[0], ports[1]);
	end(ports[0]);
	end(ports[1]);
	return err;
}

static int run(const struct options *options)
{
	switch (options->role) {
	case BOTH:
		return ring_run(options);
	case PAIR:
		return run_pair(options);
	default:
		return run_port(options);
	}
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
		err = run(&options);
	/* No rte_eal_cleanup: in DPDK 22.11 it unmaps memory while EAL's interrupt thread still reads a closed device's handle there. */
	return err == 0 || err == -ENOTSUP || (err == -EINTR && options.role != REFLECT) ? EXIT_SUCCESS : EXIT_FAILURE;
}
