/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Which thread may use a queue pair. Almost always one thread receives and transmits on it, so the lock is biased towards the thread
 * that entered first: that thread sets `busy` and checks that it is still the owner, with plain loads and stores. A locked
 * instruction, twice a burst, would wait until all its stores to lines that the NIC has are complete.
 *
 * Any other thread takes the lock, revokes the ownership, has the kernel order the owner's store and load (membarrier), and waits until
 * the owner is not busy. A second thread of the data path makes the pair shared: then both take the lock, until one of them has been
 * the only user for a long time.
 */
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_cycles.h>

#include "ccnic_pair.h"

/* A burst takes microseconds; a thread that is preempted within a burst may take this many. */
#define PATIENCE_US 20000
/* Bursts in a row after which a thread becomes the owner again; doubled after each contention. */
#define STREAK 1024u

static long
membarrier(int command)
{
	return syscall(SYS_membarrier, command, 0, 0);
}

bool
ccnic_pair_init(struct ccnic_pair *pair, uint16_t n)
{
	bool biased = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
	uint16_t i;

	for (i = 0; i < n; i++) {
		rte_spinlock_init(&pair[i].lock);
		pair[i].biased = biased;
		pair[i].owner = biased ? CCNIC_OWNER_NONE : CCNIC_OWNER_SHARED;
	}
	return biased;
}

/* Waits until cond() is true, for at most PATIENCE_US. */
static bool
wait_for(bool (*cond)(struct ccnic_pair *), struct ccnic_pair *pair)
{
	const uint64_t end = rte_get_timer_cycles() + rte_get_timer_hz() / US_PER_S * PATIENCE_US;
	uint32_t polls = 0;

	while (!cond(pair)) {
		if (rte_get_timer_cycles() > end)
			return false;
		/* The other thread may be waiting for this CPU. */
		if (++polls % 256 == 0)
			sched_yield();
		rte_pause();
	}
	return true;
}

static bool
got_lock(struct ccnic_pair *pair)
{
	return rte_spinlock_trylock(&pair->lock);
}

static bool
not_busy(struct ccnic_pair *pair)
{
	return __atomic_load_n(&pair->busy, __ATOMIC_ACQUIRE) == 0;
}

/* Revokes the ownership; the owner is not in a burst afterwards. The caller holds the lock. */
static bool
revoke_owner(struct ccnic_pair *pair, uintptr_t successor)
{
	const uintptr_t owner = __atomic_exchange_n(&pair->owner, successor, __ATOMIC_SEQ_CST);

	if (owner == CCNIC_OWNER_NONE || owner == CCNIC_OWNER_SHARED)
		return true;
	if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0 && wait_for(not_busy, pair))
		return true;
	__atomic_store_n(&pair->owner, owner, __ATOMIC_RELEASE);
	return false;
}

bool
ccnic_pair_lock(struct ccnic_pair *pair)
{
	if (!wait_for(got_lock, pair))
		return false;
	pair->biased_to = __atomic_load_n(&pair->owner, __ATOMIC_RELAXED);
	if (pair->biased_to == CCNIC_OWNER_SHARED || revoke_owner(pair, CCNIC_OWNER_CONTROL))
		return true;
	rte_spinlock_unlock(&pair->lock);
	return false;
}

void
ccnic_pair_unlock(struct ccnic_pair *pair)
{
	__atomic_store_n(&pair->owner, pair->biased_to, __ATOMIC_RELEASE);
	rte_spinlock_unlock(&pair->lock);
}

bool
ccnic_pair_pause(struct ccnic_pair *pair)
{
	__atomic_fetch_or(&pair->paused, CCNIC_PAUSED_CONTROL, __ATOMIC_RELAXED);
	if (ccnic_pair_lock(pair))
		return true;
	__atomic_fetch_and(&pair->paused, ~CCNIC_PAUSED_CONTROL, __ATOMIC_RELAXED);
	return false;
}

void
ccnic_pair_resume(struct ccnic_pair *pair)
{
	__atomic_fetch_and(&pair->paused, ~CCNIC_PAUSED_CONTROL, __ATOMIC_RELAXED);
	ccnic_pair_unlock(pair);
}

/* Counts a burst on a shared pair. The caller holds the lock. */
static void
note_sharing(struct ccnic_pair *pair, uintptr_t self)
{
	if (pair->last != self) {
		pair->last = self;
		pair->streak = 0;
	} else if (pair->biased && ++pair->streak >= STREAK << RTE_MIN(pair->contended, 12u)) {
		__atomic_store_n(&pair->owner, self, __ATOMIC_RELEASE);
	}
}

bool
ccnic_pair_enter_slowly(struct ccnic_pair *pair, uintptr_t self, bool wait)
{
	uintptr_t owner = CCNIC_OWNER_NONE;

	if (__atomic_compare_exchange_n(&pair->owner, &owner, self, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		__atomic_store_n(&pair->busy, 1, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&pair->owner, __ATOMIC_SEQ_CST) == self)
			return true;
		__atomic_store_n(&pair->busy, 0, __ATOMIC_RELEASE);
	}
	if (!wait && !rte_spinlock_trylock(&pair->lock))
		return false;
	if (wait)
		rte_spinlock_lock(&pair->lock);
	/* With the lock held no other thread can revoke our ownership; that of another thread must be revoked. */
	owner = __atomic_load_n(&pair->owner, __ATOMIC_ACQUIRE);
	if (owner != CCNIC_OWNER_SHARED && owner != self) {
		if (!revoke_owner(pair, CCNIC_OWNER_SHARED)) {
			rte_spinlock_unlock(&pair->lock);
			return false;
		}
		pair->contended++;
		pair->streak = 0;
	}
	note_sharing(pair, self);
	return true;
}
