/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Attachments, which the mempool driver and the net driver share. An attachment is a region of memory that a device has created and
 * attached to a NIC. Mempools and mbufs refer to it, so it may outlive the device; a device that is plugged in again with the same
 * arguments reuses it.
 */
#ifndef CCNIC_ATTACH_H
#define CCNIC_ATTACH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <rte_common.h>
#include <rte_compat.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_spinlock.h>

#include <ccnic.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CCNIC_NAME_MAX 256
#define CCNIC_PATH_MAX 108 /* what a Unix socket's address holds */

/* Freed buffers that an lcore keeps, at the most, before it takes the lock to return them. */
#define CCNIC_LCORE_CACHE 63

/* Buffers that a magazine of libccnic keeps, at the most (pool/magazine.rs). */
#define CCNIC_MAGAZINE 448

/* Parameters of an attachment. Compared byte by byte: zero it first. */
struct ccnic_attach_conf {
	char device[CCNIC_NAME_MAX]; /* the device that creates it */
	char socket[CCNIC_PATH_MAX]; /* where the NIC listens */
	char id[CCNIC_NAME_MAX];     /* its name in `ccnic status` */
	bool bind;                    /* mbufs may be bound to its region */
	struct ccnic_options options; /* its name is set from id */
};

/*
 * Callbacks of the device. Between pause() and resume() no thread uses its queues, so that the attachment can move to another NIC.
 * pause() returns false on a timeout; then the queues are not paused.
 */
struct ccnic_user {
	bool (*pause)(struct ccnic_user *user);
	void (*resume)(struct ccnic_user *user);
};

/* Buffers that an lcore has freed and not yet returned to the region. */
struct ccnic_lcore_cache {
	uint32_t n;
	uint32_t buffers[CCNIC_LCORE_CACHE];
} __rte_cache_aligned;

struct ccnic_attach {
	TAILQ_ENTRY(ccnic_attach) next;
	struct ccnic_attach_conf conf;
	struct ccnic *nic;
	struct ccnic_view view;  /* where the buffers lie */
	uint32_t buffers;        /* large buffers */
	unsigned int refs;
	bool owned;              /* a device uses it */
	bool spread;             /* RSS is set */
	bool registered;         /* the buffers are registered with EAL */
	struct ccnic_user *user; /* the device, or NULL */
	uint64_t reconnects;
	uint64_t reclaimed;      /* buffers that returned from NICs that had ended */

	rte_spinlock_t lock;     /* of the pool; its holder never waits */
	struct ccnic_pool *pool; /* for threads without a queue */
	uint32_t lent __rte_cache_aligned; /* large buffers that mbufs point to; atomic */
	/* By large buffer: free callback and number of mbufs that refer to it. In private memory, like the mbufs. */
	struct rte_mbuf_ext_shared_info *ext;
	uint32_t lcore_cache_size; /* what an lcore keeps of a region of this size */
	struct ccnic_lcore_cache lcore_cache[RTE_MAX_LCORE];
};

/*
 * The most buffers that mbufs may refer to: half of them, since the NIC needs the others to deliver packets. Less in a small region,
 * where the magazines of a queue and of its NIC may keep a quarter each, that of att->pool a sixteenth, and a quarter may be
 * subdivided: some must be left for a packet of several buffers.
 */
static inline uint32_t
ccnic_attach_quota(const struct ccnic_attach *att)
{
	const uint32_t magazine = RTE_MIN(att->buffers / 4, (uint32_t)CCNIC_MAGAZINE);

	return RTE_MIN(att->buffers / 2, att->buffers - 2 * magazine - magazine / 4 - att->buffers / 4);
}

/* Takes up to n buffers from the quota for mbufs; returns the number. Thread-safe. */
static inline uint32_t
ccnic_attach_lend(struct ccnic_attach *att, uint32_t n)
{
	uint32_t lent = __atomic_fetch_add(&att->lent, n, __ATOMIC_RELAXED);
	uint32_t quota = ccnic_attach_quota(att);
	uint32_t got;

	if (likely(lent + n <= quota))
		return n;
	got = lent < quota ? quota - lent : 0;
	__atomic_fetch_sub(&att->lent, n - got, __ATOMIC_RELAXED);
	return got;
}

/* Returns n buffers to the quota. Thread-safe. */
static inline void
ccnic_attach_unlend(struct ccnic_attach *att, uint32_t n)
{
	__atomic_fetch_sub(&att->lent, n, __ATOMIC_RELAXED);
}

/* Allocates up to n large buffers for mbufs, within the quota; returns the number. Thread-safe. */
__rte_internal
uint32_t ccnic_attach_alloc(struct ccnic_attach *att, uint32_t *buffers, uint32_t n);

/*
 * Allocates up to n large buffers that are sent at once, without an mbuf; returns the number. Prefers the buffers that mbufs on this
 * lcore freed last, whose lines are still in its cache. For the data path of a device.
 */
__rte_internal
uint32_t ccnic_attach_take(struct ccnic_attach *att, uint32_t *buffers, uint32_t n);

/* Frees buffers of mbufs. Thread-safe. */
__rte_internal
void ccnic_attach_free(struct ccnic_attach *att, const uint32_t *buffers, uint32_t n);

/*
 * Attaches a device to the NIC, or reuses an attachment with the same conf that mempools or mbufs still refer to. Returns 0 or a
 * negative errno. The device sets att->user before it opens a queue.
 */
__rte_internal
int ccnic_attach_open(const struct ccnic_attach_conf *conf, struct ccnic_attach **att);

/* Detaches the device. The region stays mapped as long as mbufs refer to it. */
__rte_internal
void ccnic_attach_close(struct ccnic_attach *att);

/*
 * Takes a reference to the attachment of the device with this name, or of the only device if the name is NULL, provided that mbufs
 * may be bound to its region. NULL if there is none.
 */
__rte_internal
struct ccnic_attach *ccnic_attach_hold(const char *device);

/* Takes another reference. */
__rte_internal
void ccnic_attach_ref(struct ccnic_attach *att);

/* Drops a reference. */
__rte_internal
void ccnic_attach_release(struct ccnic_attach *att);

/* True if the NIC is running. If it has ended, tries to attach to its successor. Not for bursts. */
__rte_internal
bool ccnic_attach_check(struct ccnic_attach *att);

/* As ccnic_rss_set(), but never while the attachment moves to another NIC. Not for bursts. */
__rte_internal
int ccnic_attach_rss(struct ccnic_attach *att, const struct ccnic_rss *rss);

/* As ccnic_takes_set(), and as ccnic_offloads(), but never while the attachment moves to another NIC. Not for bursts. */
__rte_internal
int ccnic_attach_takes(struct ccnic_attach *att, uint32_t takes);
__rte_internal
int ccnic_attach_offloads(struct ccnic_attach *att);

/* Incremented when a device attaches; mempools without an attachment then look for one again. */
extern uint32_t ccnic_attach_generation;

#ifdef __cplusplus
}
#endif

#endif /* CCNIC_ATTACH_H */
