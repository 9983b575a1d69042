/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Attachments to NICs: references to them, and reconnecting when the NIC ends and a successor starts. */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_memory.h>

#include "ccnic_attach.h"

RTE_LOG_REGISTER(ccnic_common_logtype, pmd.common.ccnic, NOTICE);

#define ATTACH_LOG(level, ...) \
	rte_log(RTE_LOG_ ## level, ccnic_common_logtype, \
		RTE_FMT("ccnic: " RTE_FMT_HEAD(__VA_ARGS__, "") "\n", RTE_FMT_TAIL(__VA_ARGS__, "")))

/* Buffers that one call of libccnic moves. */
#define BURST 64

TAILQ_HEAD(ccnic_attaches, ccnic_attach);

/* Protects the list. Taken before any lock that a device takes in pause(). */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ccnic_attaches attaches = TAILQ_HEAD_INITIALIZER(attaches);

uint32_t ccnic_attach_generation;

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
	if (n == CCNIC_LCORE_CACHE) {
		__atomic_store_n(&cache->n, 0, __ATOMIC_RELAXED);
		ccnic_attach_free(att, cache->buffers, n);
		n = 0;
	}
	cache->buffers[n] = buffer;
	/* The last access to the attachment: sweep() may destroy it from now on. */
	__atomic_store_n(&cache->n, n + 1, __ATOMIC_RELEASE);
}

static struct ccnic_attach *
find(const char *device)
{
	struct ccnic_attach *att;

	TAILQ_FOREACH(att, &attaches, next)
		if (strcmp(att->conf.device, device) == 0 && att->owned && att->conf.bind)
			return att;
	return NULL;
}

static void *
first_buffer(const struct ccnic_attach *att)
{
	return att->view.base + att->view.first;
}

/*
 * Registers the buffers with EAL as external memory, so that drivers that look up the memory of an mbuf find it, and an application
 * can map it for its devices (rte_dev_dma_map()).
 */
static void
register_buffers(struct ccnic_attach *att)
{
	att->registered = rte_extmem_register(first_buffer(att), att->view.span, NULL, 0, CCNIC_LARGE_SIZE) == 0;
	if (!att->registered)
		ATTACH_LOG(WARNING, "%s: could not register its buffers as external memory (%s): devices that do DMA may not find them;"
			   " choose zero-copy=no to forward to such", att->conf.device, rte_strerror(rte_errno));
}

static void
unregister(struct ccnic_attach *att)
{
	if (att->registered && rte_extmem_unregister(first_buffer(att), att->view.span) < 0)
		ATTACH_LOG(ERR, "%s: EAL keeps its buffers as external memory: %s", att->conf.device, rte_strerror(rte_errno));
}

/* Destroys an attachment without references, from devices, mempools or mbufs. */
static void
destroy(struct ccnic_attach *att)
{
	TAILQ_REMOVE(&attaches, att, next);
	unregister(att);
	ccnic_pool_close(att->pool);
	if (ccnic_close(att->nic) < 0)
		ATTACH_LOG(ERR, "%s: %s", att->conf.device, ccnic_last_error());
	rte_free(att->ext);
	rte_free(att);
}

/* Freed buffers in the caches of lcores. */
static uint32_t
cached_buffers(const struct ccnic_attach *att)
{
	uint32_t i, n = 0;

	for (i = 0; i < RTE_MAX_LCORE; i++)
		n += __atomic_load_n(&att->lcore_cache[i].n, __ATOMIC_ACQUIRE);
	return n;
}

/* Destroys attachments without references. One that mbufs still refer to stays until the next call. */
static void
sweep(void)
{
	struct ccnic_attach *att, *next;

	for (att = TAILQ_FIRST(&attaches); att != NULL; att = next) {
		next = TAILQ_NEXT(att, next);
		if (att->refs == 0 && __atomic_load_n(&att->lent, __ATOMIC_ACQUIRE) == cached_buffers(att))
			destroy(att);
	}
}

static void
init_ext(struct ccnic_attach *att)
{
	uint32_t i;

	for (i = 0; i < att->buffers; i++) {
		att->ext[i].free_cb = on_free;
		att->ext[i].fcb_opaque = att;
		rte_mbuf_ext_refcnt_set(&att->ext[i], 1);
	}
}

static int
attach(struct ccnic_attach *att)
{
	int ret;

	att->conf.options.name = att->conf.id;
	ret = ccnic_open(att->conf.socket, &att->conf.options, &att->nic);
	/* Only compared from now on. */
	att->conf.options.name = NULL;
	if (ret < 0)
		return ret;
	ret = ccnic_memory(att->nic, &att->view);
	if (ret == 0)
		ret = ccnic_pool_open(att->nic, &att->pool);
	if (ret < 0) {
		ccnic_close(att->nic);
		return ret;
	}
	att->buffers = att->view.span / CCNIC_LARGE_SIZE;
	att->ext = rte_malloc("ccnic_ext", att->buffers * sizeof(att->ext[0]), 0);
	if (att->ext == NULL) {
		ccnic_pool_close(att->pool);
		ccnic_close(att->nic);
		return -ENOMEM;
	}
	init_ext(att);
	if (att->conf.bind)
		register_buffers(att);
	return 0;
}

static int
create(const struct ccnic_attach_conf *conf, struct ccnic_attach **out)
{
	struct ccnic_attach *att = rte_zmalloc("ccnic_attach", sizeof(*att), RTE_CACHE_LINE_SIZE);
	int ret;

	if (att == NULL)
		return -ENOMEM;
	att->conf = *conf;
	rte_spinlock_init(&att->lock);
	ret = attach(att);
	if (ret < 0) {
		ATTACH_LOG(ERR, "%s: %s", conf->device, ccnic_last_error());
		rte_free(att);
		return ret;
	}
	TAILQ_INSERT_TAIL(&attaches, att, next);
	*out = att;
	return 0;
}

int
ccnic_attach_open(const struct ccnic_attach_conf *conf, struct ccnic_attach **out)
{
	struct ccnic_attach *att;
	int ret = 0;

	pthread_mutex_lock(&list_lock);
	TAILQ_FOREACH(att, &attaches, next)
		if (!att->owned && memcmp(&att->conf, conf, sizeof(*conf)) == 0)
			break;
	if (att == NULL)
		ret = create(conf, &att);
	if (ret == 0) {
		att->owned = true;
		att->refs++;
		__atomic_fetch_add(&ccnic_attach_generation, 1, __ATOMIC_RELEASE);
		*out = att;
	}
	sweep();
	pthread_mutex_unlock(&list_lock);
	return ret;
}

void
ccnic_attach_close(struct ccnic_attach *att)
{
	pthread_mutex_lock(&list_lock);
	att->user = NULL;
	att->owned = false;
	att->refs--;
	sweep();
	pthread_mutex_unlock(&list_lock);
}

struct ccnic_attach *
ccnic_attach_hold(const char *device)
{
	struct ccnic_attach *att, *only = NULL;
	unsigned int devices = 0;

	pthread_mutex_lock(&list_lock);
	TAILQ_FOREACH(att, &attaches, next) {
		if (!att->owned || !att->conf.bind)
			continue;
		only = att;
		devices++;
	}
	if (device != NULL)
		att = find(device);
	else
		att = devices == 1 ? only : NULL;
	if (att != NULL)
		att->refs++;
	pthread_mutex_unlock(&list_lock);
	return att;
}

void
ccnic_attach_ref(struct ccnic_attach *att)
{
	pthread_mutex_lock(&list_lock);
	att->refs++;
	pthread_mutex_unlock(&list_lock);
}

void
ccnic_attach_release(struct ccnic_attach *att)
{
	pthread_mutex_lock(&list_lock);
	att->refs--;
	sweep();
	pthread_mutex_unlock(&list_lock);
}

static void
reconnect(struct ccnic_attach *att)
{
	int ret;

	if (att->user != NULL && !att->user->pause(att->user))
		return;
	rte_spinlock_lock(&att->lock);
	ret = ccnic_reconnect(att->nic);
	rte_spinlock_unlock(&att->lock);
	if (att->user != NULL)
		att->user->resume(att->user);
	if (ret < 0) {
		ATTACH_LOG(DEBUG, "%s: %s", att->conf.device, ccnic_last_error());
		return;
	}
	att->reconnects++;
	att->reclaimed += ret;
	ATTACH_LOG(NOTICE, "%s: attached to the NIC that now listens at %s; %d buffers returned", att->conf.device,
		   att->conf.socket, ret);
	if (att->spread && ccnic_rss_active(att->nic) != 1)
		ATTACH_LOG(WARNING, "%s: this NIC does not support RSS: packets arrive on the queue that it chooses", att->conf.device);
}

int
ccnic_attach_rss(struct ccnic_attach *att, const struct ccnic_rss *rss)
{
	int ret;

	pthread_mutex_lock(&list_lock);
	ret = ccnic_rss_set(att->nic, rss);
	att->spread = rss != NULL;
	pthread_mutex_unlock(&list_lock);
	return ret;
}

bool
ccnic_attach_check(struct ccnic_attach *att)
{
	bool up;

	pthread_mutex_lock(&list_lock);
	if (ccnic_link_state(att->nic) == 0)
		reconnect(att);
	up = ccnic_link_state(att->nic) == 1;
	pthread_mutex_unlock(&list_lock);
	return up;
}
