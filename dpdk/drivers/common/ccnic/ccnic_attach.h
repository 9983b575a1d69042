/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Attachments: what the mempool and the net driver share. An attachment is a region of memory handed to a NIC, made by a
 * device. Mempools hold on to it, and mbufs that point into it; so it may outlive the device, and a device that is plugged in
 * again with the same arguments takes it up again.
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

/* Buffers that a core collects before it takes a lock to free them. */
#define CCNIC_STASH 63

/* What an attachment is made with. Compared byte by byte: zero it first. */
struct ccnic_attach_conf {
	char device[CCNIC_NAME_MAX]; /* the device that makes it */
	char socket[CCNIC_PATH_MAX]; /* where the NIC listens */
	char id[CCNIC_NAME_MAX];     /* what the NIC's status calls it */
	bool bind;                    /* mbufs may be bound to its region */
	struct ccnic_options options; /* its name is set from id */
};

/*
 * The device's queues, which nobody may use while the attachment is handed to another NIC. pause() returns false when that takes
 * too long; then they are not paused.
 */
struct ccnic_user {
	bool (*pause)(struct ccnic_user *user);
	void (*resume)(struct ccnic_user *user);
};

/* Buffers that a core has freed, on their way to the region. */
struct ccnic_stash {
	uint32_t n;
	uint32_t buffers[CCNIC_STASH];
} __rte_cache_aligned;

struct ccnic_attach {
	TAILQ_ENTRY(ccnic_attach) next;
	struct ccnic_attach_conf conf;
	struct ccnic *nic;
	struct ccnic_view view;  /* where its buffers lie */
	uint32_t buffers;        /* large buffers */
	unsigned int refs;
	bool owned;              /* by a device */
	bool spread;             /* RSS is wanted */
	bool registered;         /* the buffers, with EAL */
	struct ccnic_user *user; /* its queues, or NULL */
	uint64_t reconnects;
	uint64_t reclaimed;      /* buffers that came back from dead NICs */

	rte_spinlock_t lock;     /* of the pool; nobody who holds it waits for anything */
	struct ccnic_pool *pool; /* for threads without a queue */
	uint32_t lent __rte_cache_aligned; /* large buffers that mbufs point to; atomic */
	/* By large buffer: who frees it, and how many mbufs point to it. In private memory, as the mbufs themselves. */
	struct rte_mbuf_ext_shared_info *ext;
	struct ccnic_stash stash[RTE_MAX_LCORE];
};

/* Buffers that mbufs may take at most, so that the NIC always finds some to deliver into. */
static inline uint32_t
ccnic_attach_quota(const struct ccnic_attach *att)
{
	return att->buffers / 2;
}

/* Takes up to n buffers out of the quota for mbufs; returns how many. Thread-safe. */
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

/* Gives n buffers back to the quota. Thread-safe. */
static inline void
ccnic_attach_unlend(struct ccnic_attach *att, uint32_t n)
{
	__atomic_fetch_sub(&att->lent, n, __ATOMIC_RELAXED);
}

/* Allocates up to n large buffers for mbufs, within the quota; returns how many. Thread-safe. */
__rte_internal
uint32_t ccnic_attach_alloc(struct ccnic_attach *att, uint32_t *buffers, uint32_t n);

/*
 * Takes up to n large buffers that go to the NIC at once and are bound to no mbuf; returns how many. First those that mbufs of
 * this core have given up last, whose lines are still in its cache. A device's data path.
 */
__rte_internal
uint32_t ccnic_attach_take(struct ccnic_attach *att, uint32_t *buffers, uint32_t n);

/* Frees buffers of mbufs. Thread-safe. */
__rte_internal
void ccnic_attach_free(struct ccnic_attach *att, const uint32_t *buffers, uint32_t n);

/*
 * A device attaches: to the NIC, or to an attachment of the same conf that mempools or mbufs have kept. 0 or a negative errno.
 * Before it opens a queue it sets att->user.
 */
__rte_internal
int ccnic_attach_open(const struct ccnic_attach_conf *conf, struct ccnic_attach **att);

/* The device lets go. The region stays as long as mbufs point into it. */
__rte_internal
void ccnic_attach_close(struct ccnic_attach *att);

/*
 * Holds the attachment, with a region that mbufs may be bound to, of the device with this name; without a name, of the only such
 * device. NULL when there is none.
 */
__rte_internal
struct ccnic_attach *ccnic_attach_hold(const char *device);

/* Holds this attachment once more. */
__rte_internal
void ccnic_attach_hold_again(struct ccnic_attach *att);

/* Lets go of an attachment held. */
__rte_internal
void ccnic_attach_release(struct ccnic_attach *att);

/* True when the NIC lives. When it has gone, tries to attach to its successor. Not for bursts. */
__rte_internal
bool ccnic_attach_check(struct ccnic_attach *att);

/* As ccnic_rss_set(); not while the attachment is handed to another NIC. Not for bursts. */
__rte_internal
int ccnic_attach_rss(struct ccnic_attach *att, const struct ccnic_rss *rss);

/* Changes whenever a device attaches: mempools without an attachment look again then. */
extern uint32_t ccnic_attach_generation;

#ifdef __cplusplus
}
#endif

#endif /* CCNIC_ATTACH_H */
