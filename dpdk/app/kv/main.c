/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * ccnic-kv-ethdev: the key-value store of the paper, or its load generator, over the port of a driver; run twice by `ccnic bench apps`.
 *
 *     ccnic-kv-ethdev -l 0 --vdev net_vhost0,iface=/tmp/kv.sock,queues=1 -- load rpc:10.9.0.1:11300 --largest 9500
 *     ccnic-kv-ethdev -l 1 --vdev net_virtio_user0,path=/tmp/kv.sock,queues=1 -- serve -m 4096
 *
 * Before `serve` or `load`: --pool-ops NAME, --frame BYTES of the longest frame (9600). This file opens the port and moves mbufs; the rest is in
 * apps/kv-ethdev, in Rust.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_pause.h>

#include "ccnic_kv.h"
#include "peers.h"
#include "prefetch.h"

_Static_assert(CCNIC_KV_BURST <= BURST, "bursts fit the arrays");

volatile bool stopped;

/* An open port, and the mbufs of the frames that the other side of the interface holds. */
struct port {
	uint16_t id;
	struct rte_mempool *pool;
	struct rte_mbuf *received[BURST], *taken[BURST];
	uint16_t n_received;
};

static void stop(int signal)
{
	(void)signal;
	stopped = true;
}

static uint32_t port_receive(void *self, struct ccnic_kv_frame *frames, uint32_t n)
{
	struct port *port = self;

	port->n_received = rte_eth_rx_burst(port->id, 0, port->received, (uint16_t)n);
	for (uint16_t i = 0; i < port->n_received; i++)
		prefetch_packet(port->received[i]);
	for (uint16_t i = 0; i < port->n_received; i++) {
		const struct rte_mbuf *mbuf = port->received[i];

		frames[i].bytes = rte_pktmbuf_mtod(mbuf, uint8_t *);
		/* A frame in several mbufs does not occur between two programs whose mbufs hold whole ones; it would be malformed. */
		frames[i].len = mbuf->nb_segs == 1 ? mbuf->data_len : 0;
	}
	return port->n_received;
}

static void port_release(void *self)
{
	struct port *port = self;

	rte_pktmbuf_free_bulk(port->received, port->n_received);
	port->n_received = 0;
}

static bool port_take(void *self, struct ccnic_kv_frame *frames, uint32_t n)
{
	struct port *port = self;

	if (take_mbufs(port->pool, port->taken, n) < 0)
		return false;
	for (uint32_t i = 0; i < n; i++)
		frames[i].bytes = rte_pktmbuf_mtod(port->taken[i], uint8_t *);
	return true;
}

static uint32_t port_send(void *self, const struct ccnic_kv_frame *frames, uint32_t n, bool all)
{
	struct port *port = self;
	struct rte_mbuf *mbufs[BURST];
	uint16_t sent, number = 0;
	uint32_t through = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct rte_mbuf *mbuf = port->taken[i];

		mbuf->data_len = (uint16_t)frames[i].len;
		mbuf->pkt_len = frames[i].len;
		if (frames[i].len > 0)
			mbufs[number++] = mbuf;
		else
			rte_pktmbuf_free(mbuf);
	}
	sent = rte_eth_tx_burst(port->id, 0, mbufs, number);
	while (unlikely(all && sent < number) && !stopped) {
		rte_pause();
		sent += rte_eth_tx_burst(port->id, 0, mbufs + sent, number - sent);
	}
	if (likely(sent == number))
		return n;
	rte_pktmbuf_free_bulk(mbufs + sent, number - sent);
	/* Those before the first one that was not sent. */
	for (uint32_t done = 0; through < n && (frames[through].len == 0 || done < sent); through++)
		done += frames[through].len > 0;
	return through;
}

static bool port_stopped(void *self)
{
	(void)self;
	return stopped;
}

static int open_port(struct port *port, const struct options *options)
{
	int err = ports_only(&port->id, 1);

	if (err < 0)
		return err;
	port->pool = port_pool(options, "kv");
	if (port->pool == NULL) {
		fprintf(stderr, "ccnic-kv-ethdev: could not make a pool of mbufs: %s\n", rte_strerror(rte_errno));
		return -rte_errno;
	}
	return port_start(options, port->id, port->pool);
}

static int usage(void)
{
	fputs("usage: ccnic-kv-ethdev [EAL options] -- [--pool-ops NAME] [--frame BYTES] serve|load [options]\n", stderr);
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	struct options options = {.label = "port", .size = 9600};
	struct port port = {.n_received = 0};
	struct ccnic_kv_port functions = {.self = &port, .receive = port_receive, .release = port_release,
					  .take = port_take, .send = port_send, .stopped = port_stopped};
	unsigned long frame = options.size;
	int used = rte_eal_init(argc, argv), status;

	if (used < 0) {
		fprintf(stderr, "ccnic-kv-ethdev: EAL does not start: %s\n", rte_strerror(rte_errno));
		return EXIT_FAILURE;
	}
	argc -= used + 1;
	argv += used + 1;
	for (; argc > 2 && strncmp(argv[0], "--", 2) == 0; argc -= 2, argv += 2) {
		if (strcmp(argv[0], "--pool-ops") == 0)
			options.pool_ops = argv[1];
		else if (strcmp(argv[0], "--frame") == 0)
			frame = strtoul(argv[1], NULL, 10);
		else
			return usage();
	}
	if (argc < 1 || frame < 128 || frame > 9600)
		return usage();
	options.size = (uint32_t)frame;
	/* Every mbuf holds a whole frame, as those of a store with large values would; net_virtio_user asks for more than that. */
	options.room = RTE_ALIGN_CEIL(options.size + RTE_CACHE_LINE_SIZE, RTE_CACHE_LINE_SIZE);
	functions.room = options.size;
	signal(SIGINT, stop);
	signal(SIGTERM, stop);
	signal(SIGPIPE, SIG_IGN); /* a driver's socket whose other end has gone */
	prctl(PR_SET_PDEATHSIG, SIGTERM); /* both sides occupy a core */
	if (open_port(&port, &options) < 0)
		return EXIT_FAILURE;
	if (strcmp(argv[0], "serve") == 0)
		status = ccnic_kv_serve(argc, argv, &functions);
	else if (strcmp(argv[0], "load") == 0)
		status = ccnic_kv_load(argc, argv, &functions);
	else
		status = usage();
	rte_eth_dev_stop(port.id);
	rte_eth_dev_close(port.id);
	/* No rte_eal_cleanup: in DPDK 22.11 it unmaps memory while EAL's interrupt thread still reads a closed device's handle there. */
	return status;
}
