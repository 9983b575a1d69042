/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Attachments: what the mempool and the net driver share. An attachment is a region of memory handed to a NIC, made by a
 * device. Mempools hold on to it, since their mbufs lie in it; so it may outlive the device, and a device that is plugged
 * in again with the same arguments takes it up again.
 */
#ifndef CCNIC_ATTACH_H
#define CCNIC_ATTACH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <rte_common.h>
#include <rte_compat.h>
#include <rte_log.h>

#include <ccnic.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CCNIC_NAME_MAX 256
#define CCNIC_PATH_MAX 108 /* what a Unix socket's address holds */

/* What an attachment is made with. Compared byte by byte: zero it first. */
struct ccnic_attach_conf {
	char device[CCNIC_NAME_MAX]; /* the device that makes it */
	char socket[CCNIC_PATH_MAX]; /* where the NIC listens */
	char id[CCNIC_NAME_MAX];     /* what the NIC's status calls it */
	struct ccnic_options options; /* its name is set from id */
};

/*
 * Someone who uses queues or pools of an attachment, and must let go of them while it is handed to another NIC.
 * pause() returns false when that takes too long; then the user is not paused.
 */
struct ccnic_user {
	TAILQ_ENTRY(ccnic_user) next;
	bool (*pause)(struct ccnic_user *user);
	void (*resume)(struct ccnic_user *user);
};

TAILQ_HEAD(ccnic_users, ccnic_user);

struct ccnic_attach {
	TAILQ_ENTRY(ccnic_attach) next;
	struct ccnic_attach_conf conf;
	struct ccnic *nic;
	struct ccnic_view view; /* where its buffers lie */
	struct ccnic_users users;
	unsigned int refs;
	bool owned;         /* a device uses it */
	uint32_t buffers;   /* large buffers */
	uint32_t lent;      /* large buffers that mbufs point to; atomic */
	uint64_t reconnects;
	uint64_t reclaimed; /* buffers that came back from dead NICs */
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

/* A device attaches: to the NIC, or to an attachment of the same conf that mempools have kept. 0 or a negative errno. */
__rte_internal
int ccnic_attach_open(const struct ccnic_attach_conf *conf, struct ccnic_attach **att);

/* The device lets go. */
__rte_internal
void ccnic_attach_close(struct ccnic_attach *att);

/* Holds the attachment of the device with this name; without a name, of the only device. NULL when there is none. */
__rte_internal
struct ccnic_attach *ccnic_attach_hold(const char *device);

/* Holds this attachment once more. */
__rte_internal
void ccnic_attach_hold_again(struct ccnic_attach *att);

/* Lets go of an attachment held. */
__rte_internal
void ccnic_attach_release(struct ccnic_attach *att);

/*
 * Adds and removes a user, who is not paused. Devices come first, before mempools: a thread that holds a queue may wait for a
 * mempool, never the other way round.
 */
__rte_internal
void ccnic_attach_use(struct ccnic_attach *att, struct ccnic_user *user, bool device);
__rte_internal
void ccnic_attach_unuse(struct ccnic_attach *att, struct ccnic_user *user);

/* True when the NIC lives. When it has gone, tries to attach to its successor. Not for bursts. */
__rte_internal
bool ccnic_attach_check(struct ccnic_attach *att);

/* Changes whenever a device attaches: mempools without an attachment look again then. */
extern uint32_t ccnic_attach_generation;

#ifdef __cplusplus
}
#endif

#endif /* CCNIC_ATTACH_H */
