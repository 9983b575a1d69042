/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * ccnic-peers: one load generator on the ethdev API, for the drivers that `ccnic bench peers` compares, and the NIC side of those
 * that bring none of their own. This file is what its parts know of each other.
 */
#ifndef PEERS_H
#define PEERS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>

/** Packets per burst, on both sides. */
#define BURST 32
/** Descriptors per queue, for drivers that leave the choice to the program. */
#define DESCRIPTORS 1024
/** Packets under way at once, at most. */
#define INFLIGHT_MAX 1024
/** Runs of one process, at most. */
#define RUNS_MAX 16

/** What this process does. */
enum role {
	GENERATE, /**< sends, receives, checks, measures */
	REFLECT,  /**< the NIC side: everything goes back */
	BOTH      /**< both, on two lcores, over a pair of rings */
};

/** The command line behind `--`. */
struct options {
	enum role role;
	const char *label;    /**< what the driver is called in the output */
	const char *pool_ops; /**< how buffers are allocated, NULL: what DPDK or the driver likes best */
	uint32_t size;	      /**< bytes of each packet */
	uint32_t room;	      /**< bytes of data per mbuf */
	uint32_t inflight[RUNS_MAX];
	unsigned int runs;
	double seconds; /**< to measure, each run */
	double warmup;	/**< to run before that */
};

/** Set by a signal: come to an end. */
extern volatile bool stopped;

/** Reads the command line; says what is wrong with it and returns -EINVAL. */
int options_read(struct options *options, int argc, char **argv);

/**
 * Takes `n` mbufs from a pool, as drivers do: in a pool, mbufs are of one segment and have one reference. Not resetting them leaves
 * their second line alone, which the other side may have. The caller sets their lengths.
 *
 * @return 0, or -ENOENT: there are not so many
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

/** Mbufs for `options`, enough for what is under way and in rings and caches. NULL with rte_errno. */
struct rte_mempool *port_pool(const struct options *options);

/**
 * Configures and starts a port with one queue pair.
 *
 * @return 0; -ENOTSUP: the driver does not carry packets of that size, which has been printed; other negative errno values
 */
int port_start(const struct options *options, uint16_t port, struct rte_mempool *pool);

/** The only port there is. -ENODEV: none, or several. */
int port_only(void);

/** Runs every load of `options` over a port whose other side returns what it gets; prints a line of JSON each. */
int generate(const struct options *options, uint16_t port, struct rte_mempool *pool);

/** The NIC side over a driver that copies by itself: forwards bursts until stopped. */
int reflect_forward(uint16_t port);

/** The NIC side over a driver that hands over pointers: returns a copy of each packet in a fresh mbuf, until stopped. */
int reflect_copies(uint16_t port, struct rte_mempool *pool);

/** Both sides over a pair of rings, on two lcores. */
int ring_run(const struct options *options);

#endif /* PEERS_H */
