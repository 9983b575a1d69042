/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Both sides in one process: a pair of rte_rings passes mbufs between them, behind the ethdev API (net_ring). Rings pass pointers, so
 * the NIC side copies each packet into a new mbuf: the work that every other NIC side does.
 */
#include "peers.h"

#include <errno.h>
#include <stdio.h>

#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_launch.h>
#include <rte_ring.h>

/* The NIC side's lcore. */
struct nic {
	uint16_t port;
	struct rte_mempool *pool;
};

static int nic_main(void *arg)
{
	struct nic *nic = arg;

	return reflect_copies(nic->port, nic->pool);
}

/* A port that receives from one ring and sends to the other; or a negative errno. */
static int make_port(const char *name, struct rte_ring *rx, struct rte_ring *tx)
{
	int port = rte_eth_from_rings(name, &rx, 1, &tx, 1, rte_socket_id());

	return port >= 0 ? port : -rte_errno;
}

static int start(const struct options *options, struct nic *nic)
{
	struct rte_ring *to_nic = rte_ring_create("to_nic", DESCRIPTORS, (int)rte_socket_id(), RING_F_SP_ENQ | RING_F_SC_DEQ);
	struct rte_ring *to_host = rte_ring_create("to_host", DESCRIPTORS, (int)rte_socket_id(), RING_F_SP_ENQ | RING_F_SC_DEQ);
	int host, other, err;

	if (to_nic == NULL || to_host == NULL)
		return -rte_errno;
	host = make_port("host", to_host, to_nic);
	other = make_port("nic", to_nic, to_host);
	if (host < 0 || other < 0)
		return host < 0 ? host : other;
	nic->port = (uint16_t)other;
	nic->pool = port_pool(options, "peers");
	if (nic->pool == NULL)
		return -rte_errno;
	err = port_start(options, (uint16_t)host, nic->pool);
	if (err == 0)
		err = port_start(options, nic->port, nic->pool);
	return err < 0 ? err : host;
}

int ring_run(const struct options *options)
{
	unsigned int lcore = rte_get_next_lcore(-1, 1, 0);
	struct nic nic;
	int host, err;

	if (lcore == RTE_MAX_LCORE) {
		fprintf(stderr, "ccnic-peers: --ring needs two lcores (-l)\n");
		return -EINVAL;
	}
	host = start(options, &nic);
	if (host < 0)
		return host;
	err = rte_eal_remote_launch(nic_main, &nic, lcore);
	if (err < 0)
		return err;
	err = generate(options, (uint16_t)host, nic.pool);
	stopped = true;
	rte_eal_wait_lcore(lcore);
	return err;
}
