/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * ccnic-peers: a load generator on the ethdev API for the drivers that `ccnic bench peers` compares, and a NIC side for drivers
 * without one. This file declares what its source files share.
 */
#ifndef PEERS_H
#define PEERS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>

/** Packets per burst, on both sides. */
#define BURST 32
/** Descriptors per queue, if the driver lets the program choose. */
#define DESCRIPTORS 1024
/** The most packets in flight. */
#define INFLIGHT_MAX 1024
/** What begins a packet that a switch is to pass on: an Ethernet header, and two bytes that align the payload. */
#define FRAME_HEADER 16
/** The most runs of one process. */
#define RUNS_MAX 16

/** What this process does. */
enum role {
	GENERATE, /**< sends, receives, checks, measures */
	REFLECT,  /**< the NIC side: returns all packets */
	BOTH,     /**< both, on two lcores, over a pair of rings */
	PAIR      /**< two programs on one lcore, with a switch between their ports: one generates, the other returns */
};

/** The command line behind `--`. */
struct options {
	enum role role;
	const char *label;    /**< name of the driver in the output */
	const char *pool_ops; /**< mempool ops, NULL: the default of DPDK or the driver */
	uint32_t size;	      /**< bytes of each packet */
	uint32_t room;	      /**< bytes of data per mbuf */
	uint32_t inflight[RUNS_MAX];
	unsigned int runs;
	double seconds; /**< measured time of each run */
	double warmup;	/**< time before the measurement */
};

/** Set by a signal: the program ends. */
extern volatile bool stopped;

/** Reads the command line; prints an error and returns -EINVAL if it is invalid. */
int options_read(struct options *options, int argc, char **argv);

/**
 * Takes `n` mbufs from a pool without resetting them, as drivers do: mbufs in a pool have one segment and one reference. So their
 * second cache line, which the other side may have, is not touched. The caller sets their lengths.
 *
 * @return 0, or -ENOENT if there are fewer
 */
static inline int take_mbufs(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned int n)
{
	if (unlikely(rte_mempool_get_bulk(pool, (void **)mbufs, n) < 0))
		return -ENOENT;
	for (unsigned int i = 0; i < n; i++) {
		mbufs[i]->data_off = RTE_PKTMBUF_HEADROOM;
		mbufs[i]->ol_flags &= RTE_MBUF_F_EXTERNAL; /* as rte_pktmbuf_reset(): some pools attach buffers */
	}
	return 0;
}

/** A pool of that name with enough mbufs for the packets in flight, rings and caches. NULL: see rte_errno. */
struct rte_mempool *port_pool(const struct options *options, const char *name);

/**
 * Configures and starts a port with one queue pair.
 *
 * @return 0; -ENOTSUP: the driver does not support packets of that size (printed); other negative errno values
 */
int port_start(const struct options *options, uint16_t port, struct rte_mempool *pool);

/** Finds the only port, or the only two. -ENODEV: there are fewer, or more. */
int ports_only(uint16_t *ports, unsigned int number);

/** Runs every load of `options` over a port whose other side returns all packets; prints a line of JSON for each. */
int generate(const struct options *options, uint16_t port, struct rte_mempool *pool);

/** As generate(), of frames to a second program, which has the port `back_port` and returns them; both take turns on this lcore. */
int generate_pair(const struct options *options, uint16_t port, struct rte_mempool *pool, uint16_t back_port);

/** The NIC side of a driver that copies packets: forwards bursts until stopped. */
int reflect_forward(uint16_t port);

/** The NIC side of a driver that passes pointers: returns a copy of each packet in a new mbuf, until stopped. */
int reflect_copies(uint16_t port, struct rte_mempool *pool);

/** Both sides over a pair of rings, on two lcores. */
int ring_run(const struct options *options);

#endif /* PEERS_H */
