/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A queue pair, and which thread may use it: ccnic_pair.c. */
#ifndef CCNIC_PAIR_H
#define CCNIC_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_branch_prediction.h>
#include <rte_lcore.h>
#include <rte_spinlock.h>

#include <ccnic.h>

/* Packets or buffers that one loop of the data path processes. */
#define CCNIC_BURST 32

/*
 * A queue pair of the region. With libccnic one thread at a time may use it; with DPDK one thread may receive, another transmit, and
 * any thread may call control operations. ccnic_pair.c decides which thread may enter. Bursts do nothing while `paused` is set.
 */
struct ccnic_pair {
	uintptr_t owner; /* CCNIC_OWNER_..., or the thread that the pair is biased to */
	uint32_t busy;   /* that thread is in a burst */
	uint32_t paused; /* CCNIC_PAUSED_... */
	union {
		struct ccnic_queue *queue;
		struct ccnic_nic_queue *nic_queue; /* role=nic: NULL while no program is served */
	};
	/* For control operations: packets that libccnic dropped, at the last reading and at the last reset. */
	struct ccnic_drops {
		uint64_t descriptors;
		uint64_t chains;
		uint64_t too_long;
		uint64_t no_buffer;
		uint64_t no_room; /* dropped by the NIC: ring full or pool empty */
	} drops, drops_base;
	uintptr_t biased_to; /* the owner, while a control operation has the pair */
	bool biased;         /* the kernel has membarrier */
	uint32_t contended;  /* times that a second thread entered */
	uint32_t streak;     /* bursts of the same thread in a row, while the pair is shared */
	uintptr_t last;      /* that thread */
	/* role=nic: buffers that were fetched from the program and wait for mbufs, from `next` on. */
	uint16_t waiting;
	uint16_t next;
	uint32_t empty_polls;  /* polls that found no packet of the program */
	uint32_t empty_at_end; /* the same when the end of the program was detected */
	struct ccnic_buf bufs[CCNIC_BURST];
	rte_spinlock_t lock;
} __rte_cache_aligned;

#define CCNIC_OWNER_NONE ((uintptr_t)0)
#define CCNIC_OWNER_SHARED ((uintptr_t)1)
#define CCNIC_OWNER_CONTROL ((uintptr_t)2)

#define CCNIC_PAUSED_CONTROL 1u
#define CCNIC_PAUSED_LINK_DOWN 2u

bool ccnic_pair_init(struct ccnic_pair *pairs, uint16_t n);
/* Takes a pair for less than the time of a burst; transmit bursts wait. False if the data path keeps it for too long. */
bool ccnic_pair_lock(struct ccnic_pair *pair);
void ccnic_pair_unlock(struct ccnic_pair *pair);
/* The same for longer; bursts return 0 meanwhile. */
bool ccnic_pair_pause(struct ccnic_pair *pair);
void ccnic_pair_resume(struct ccnic_pair *pair);
bool ccnic_pair_enter_slowly(struct ccnic_pair *pair, uintptr_t self, bool wait);

/* Begins a burst; false if the pair is not available. */
static __rte_always_inline bool
ccnic_pair_enter(struct ccnic_pair *pair, bool wait)
{
	/* An address that no other thread has. */
	const uintptr_t self = (uintptr_t)&RTE_PER_LCORE(_lcore_id);

	if (unlikely(__atomic_load_n(&pair->paused, __ATOMIC_RELAXED) != 0))
		return false;
	if (likely(__atomic_load_n(&pair->owner, __ATOMIC_RELAXED) == self)) {
		__atomic_store_n(&pair->busy, 1, __ATOMIC_RELAXED);
		/* The other side calls membarrier(), which makes this a full barrier. */
		rte_compiler_barrier();
		if (likely(__atomic_load_n(&pair->owner, __ATOMIC_ACQUIRE) == self))
			return true;
		__atomic_store_n(&pair->busy, 0, __ATOMIC_RELEASE);
	}
	return ccnic_pair_enter_slowly(pair, self, wait);
}

/* Ends a burst. */
static __rte_always_inline void
ccnic_pair_leave(struct ccnic_pair *pair)
{
	if (likely(pair->busy != 0))
		__atomic_store_n(&pair->busy, 0, __ATOMIC_RELEASE);
	else
		rte_spinlock_unlock(&pair->lock);
}

#endif /* CCNIC_PAIR_H */
