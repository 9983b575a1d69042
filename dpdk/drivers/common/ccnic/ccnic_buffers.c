/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The buffers of an attachment: allocated, lent to mbufs, and freed, on any thread; and the caches of lcores. */
#include <string.h>

#include <rte_lcore.h>

#include "ccnic_buffers.h"

/* Buffers that one call of libccnic moves. */
#define BURST 64

static void
return_buffers(struct ccnic_attach *att, const uint32_t *buffers, uint32_t n)
{
	struct ccnic_buf bufs[BURST];
	uint32_t i, k;

	rte_spinlock_lock(&att->lock);
	for (i = 0; i < n; i += k) {
		for (k = 0; k < BURST && i + k < n; k++)
			bufs[k] = (struct ccnic_buf){ .offset = buffers[i + k] };
		if (ccnic_pool_free(att->pool, bufs, k) < 0)
			ATTACH_LOG(ERR, "%s: %s", att->conf.device, ccnic_last_error());
	}
	rte_spinlock_unlock(&att->lock);
}

void
ccnic_attach_free(struct ccnic_attach *att, const uint32_t *buffers, uint32_t n)
{
	if (n == 0)
		return;
	return_buffers(att, buffers, n);
	ccnic_attach_unlend(att, n);
}

/* Allocates up to n buffers; returns the number. */
static uint32_t
take_from_pool(struct ccnic_attach *att, uint32_t *buffers, uint32_t n)
{
	struct ccnic_buf bufs[BURST];
	uint32_t done = 0;

	rte_spinlock_lock(&att->lock);
	while (done < n) {
		int want = RTE_MIN(n - done, (uint32_t)BURST);
		int got = ccnic_pool_alloc(att->pool, bufs, want);
		int i;

		for (i = 0; i < got; i++)
			buffers[done++] = bufs[i].offset;
		if (got < want)
			break;
	}
	rte_spinlock_unlock(&att->lock);
	return done;
}

uint32_t
ccnic_attach_alloc(struct ccnic_attach *att, uint32_t *buffers, uint32_t n)
{
	uint32_t may = ccnic_attach_lend(att, n);
	uint32_t got = take_from_pool(att, buffers, may);

	if (got < may)
		ccnic_attach_unlend(att, may - got);
	return got;
}

uint32_t
ccnic_attach_take(struct ccnic_attach *att, uint32_t *buffers, uint32_t n)
{
	const unsigned int lcore = rte_lcore_id();
	uint32_t kept = 0;

	if (likely(lcore < RTE_MAX_LCORE)) {
		struct ccnic_lcore_cache *cache = &att->lcore_cache[lcore];

		kept = RTE_MIN(n, cache->n);
		memcpy(buffers, &cache->buffers[cache->n - kept], kept * sizeof(*buffers));
		/* sweep() skips attachments that a device uses. */
		__atomic_store_n(&cache->n, cache->n - kept, __ATOMIC_RELAXED);
		ccnic_attach_unlend(att, kept);
	}
	return kept < n ? kept + take_from_pool(att, &buffers[kept], n - kept) : kept;
}

/* The last mbuf that referred to the buffer at addr was freed. Called by rte_pktmbuf_free() and similar, on any thread. */
static void
on_free(void *addr, void *opaque)
{
	struct ccnic_attach *att = opaque;
	const uint32_t offset = (uint8_t *)addr - att->view.base;
	const uint32_t buffer = offset & ~(uint32_t)(CCNIC_LARGE_SIZE - 1);
	const unsigned int lcore = rte_lcore_id();
	struct ccnic_lcore_cache *cache;
	uint32_t n;

	/* The value before the first mbuf was bound. */
	rte_mbuf_ext_refcnt_set(&att->ext[(buffer - att->view.first) / CCNIC_LARGE_SIZE], 1);
	if (unlikely(lcore >= RTE_MAX_LCORE)) {
		ccnic_attach_free(att, &buffer, 1);
		return;
	}
	cache = &att->lcore_cache[lcore];
	n = cache->n;
	if (n >= att->lcore_cache_size) {
		__atomic_store_n(&cache->n, 0, __ATOMIC_RELAXED);
		ccnic_attach_free(att, cache->buffers, n);
		n = 0;
	}
	cache->buffers[n] = buffer;
	/* The last access to the attachment: sweep() may destroy it from now on. */
	__atomic_store_n(&cache->n, n + 1, __ATOMIC_RELEASE);
}

uint32_t
ccnic_buffers_cached(const struct ccnic_attach *att)
{
	uint32_t i, n = 0;

	for (i = 0; i < RTE_MAX_LCORE; i++)
		n += __atomic_load_n(&att->lcore_cache[i].n, __ATOMIC_ACQUIRE);
	return n;
}

void
ccnic_buffers_init(struct ccnic_attach *att)
{
	uint32_t i;

	/* A sixteenth of the buffers: the other lcores, the queues and the NIC find some in a small region, too. */
	att->lcore_cache_size = RTE_MIN(RTE_MAX(att->buffers / 16, 1u), (uint32_t)CCNIC_LCORE_CACHE);
	for (i = 0; i < att->buffers; i++) {
		att->ext[i].free_cb = on_free;
		att->ext[i].fcb_opaque = att;
		rte_mbuf_ext_refcnt_set(&att->ext[i], 1);
	}
}
