/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The mempool driver "ccnic": a stack of objects; mbufs are bound to large buffers of a NIC's region when they are allocated.
 *
 * Objects and buffers are independent: an mbuf that is allocated is bound to a buffer if there is a free one, and uses its own
 * data room otherwise; an mbuf that is freed returns its buffer to the region, where the NIC and the program allocate. So the pool
 * is never empty because the NIC owns buffers, it works before a device exists and after it has been removed, and the NIC can
 * name buffers, but never objects. Pools of other objects are plain stacks.
 */
#include <errno.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_malloc.h>

#include <ccnic_mbuf.h>

#include "ccnic_mempool.h"

RTE_LOG_REGISTER(ccnic_mempool_logtype, pmd.mempool.ccnic, NOTICE);

#define POOL_LOG(level, ...) \
	rte_log(RTE_LOG_ ## level, ccnic_mempool_logtype, \
		RTE_FMT("mempool ccnic: " RTE_FMT_HEAD(__VA_ARGS__, "") "\n", RTE_FMT_TAIL(__VA_ARGS__, "")))

/* Buffers that one call allocates or frees. */
#define BURST 64

/* rte_mempool.pool_data */
struct ccnic_mempool {
	rte_spinlock_t lock; /* of all fields below */
	uint32_t len;        /* objects in the stack */
	uint32_t size;
	uint32_t seen;       /* ccnic_attach_generation at the last search for an attachment */
	bool closing;        /* the mempool is being freed */
	uint16_t priv_size;  /* of its mbufs */
	uint16_t room;       /* their own data room */
	uint16_t skip;       /* bytes to skip at the start of the next buffer */
	struct ccnic_attach *att; /* NULL: all objects are plain */
	struct rte_mempool *mp;
	void *objs[];
};

/* True for pools of initialised mbufs with data rooms of their own that fit a buffer. */
static bool
holds_packets(struct ccnic_mempool *pool)
{
	struct rte_mempool *mp = pool->mp;
	const struct rte_pktmbuf_pool_private *priv;
	const struct rte_mempool_objhdr *first = STAILQ_FIRST(&mp->elt_list);
	const struct rte_mbuf *m;
	uint32_t before;

	if (first == NULL || mp->private_data_size < sizeof(*priv))
		return false;
	priv = rte_mempool_get_priv(mp);
	before = sizeof(*m) + priv->mbuf_priv_size;
	m = RTE_PTR_ADD(first, sizeof(*first));
	if (mp->elt_size < before + priv->mbuf_data_room_size || m->pool != mp || priv->flags != 0)
		return false;
	if (priv->mbuf_data_room_size < RTE_PKTMBUF_HEADROOM + CCNIC_SMALL_SIZE || priv->mbuf_data_room_size > CCNIC_LARGE_SIZE)
		return false;
	pool->priv_size = priv->mbuf_priv_size;
	pool->room = priv->mbuf_data_room_size;
	return true;
}

/* Takes over the caller's reference to att, or drops it. */
static void
bind_to(struct ccnic_mempool *pool, struct ccnic_attach *att)
{
	bool taken = false;

	rte_spinlock_lock(&pool->lock);
	if (pool->att == NULL && !pool->closing && holds_packets(pool)) {
		pool->att = att;
		taken = true;
	}
	rte_spinlock_unlock(&pool->lock);
	if (taken)
		POOL_LOG(INFO, "%s: its mbufs are bound to the region of %s", pool->mp->name, att->conf.device);
	else
		ccnic_attach_release(att);
}

void
ccnic_mempool_bind(struct rte_mempool *mp, struct ccnic_attach *att)
{
	if (!ccnic_mempool_is(mp))
		return;
	ccnic_attach_ref(att);
	bind_to(mp->pool_data, att);
}

/* A device has attached since the last search: looks for the one that the pool names, or for the only one. */
static __rte_noinline void
look_for_device(struct ccnic_mempool *pool)
{
	const char *device = pool->mp->pool_config;
	struct ccnic_attach *att;

	pool->seen = __atomic_load_n(&ccnic_attach_generation, __ATOMIC_ACQUIRE);
	if (pool->att != NULL || pool->closing || !holds_packets(pool))
		return;
	att = ccnic_attach_hold(device);
	if (att != NULL)
		bind_to(pool, att);
	else if (device != NULL)
		POOL_LOG(WARNING, "%s: there is no device %s with zero-copy=yes; its mbufs are not bound to any region", pool->mp->name, device);
}

/* Makes bound mbufs plain; their buffers return to the region. */
static void
unbind_mbufs(const struct ccnic_mempool *pool, void * const *objs, unsigned int n)
{
	uint32_t buffers[BURST];
	unsigned int i, k = 0;

	for (i = 0; i < n; i++) {
		if (likely(!ccnic_mbuf_is_bound(objs[i], pool->att)))
			continue;
		buffers[k++] = ccnic_mbuf_buffer(objs[i], pool->att);
		ccnic_mbuf_unbind(objs[i], pool->priv_size, pool->room);
		if (k == BURST) {
			ccnic_attach_free(pool->att, buffers, k);
			k = 0;
		}
	}
	ccnic_attach_free(pool->att, buffers, k);
}

/*
 * Binds as many of the mbufs as there are buffers. Buffers are 4 KiB apart, so their first bytes would compete for one set of the
 * first-level cache; therefore each skips a different number of lines (cache colouring). The pool is locked.
 */
static void
bind_mbufs(struct ccnic_mempool *pool, void **objs, unsigned int n)
{
	const uint16_t spare = CCNIC_LARGE_SIZE - pool->room;
	uint32_t buffers[BURST];
	uint32_t i, want, got;

	for (; n > 0; n -= got, objs += got) {
		want = RTE_MIN(n, (uint32_t)BURST);
		got = ccnic_attach_alloc(pool->att, buffers, want);
		for (i = 0; i < got; i++) {
			ccnic_mbuf_bind(objs[i], pool->att, buffers[i], pool->skip);
			pool->skip += RTE_CACHE_LINE_SIZE;
			if (pool->skip > spare)
				pool->skip = 0;
		}
		if (got < want)
			break;
	}
}

static int
pool_alloc(struct rte_mempool *mp)
{
	struct ccnic_mempool *pool;

	pool = rte_zmalloc_socket("ccnic_mempool", sizeof(*pool) + mp->size * sizeof(pool->objs[0]), RTE_CACHE_LINE_SIZE,
				  mp->socket_id);
	if (pool == NULL) {
		POOL_LOG(ERR, "%s: no memory for a stack of %u objects", mp->name, mp->size);
		return -ENOMEM;
	}
	rte_spinlock_init(&pool->lock);
	pool->size = mp->size;
	pool->mp = mp;
	mp->pool_data = pool;
	return 0;
}

static void
pool_free(struct rte_mempool *mp)
{
	struct ccnic_mempool *pool = mp->pool_data;

	if (pool->att != NULL)
		ccnic_attach_release(pool->att);
	rte_free(pool);
}

static int
push(struct ccnic_mempool *pool, void * const *objs, unsigned int n)
{
	int ret = -ENOBUFS;

	rte_spinlock_lock(&pool->lock);
	if (likely(pool->len + n <= pool->size)) {
		memcpy(&pool->objs[pool->len], objs, n * sizeof(objs[0]));
		pool->len += n;
		ret = 0;
	}
	rte_spinlock_unlock(&pool->lock);
	return ret;
}

static int
pool_enqueue(struct rte_mempool *mp, void * const *objs, unsigned int n)
{
	struct ccnic_mempool *pool = mp->pool_data;

	if (pool->att != NULL)
		unbind_mbufs(pool, objs, n);
	return push(pool, objs, n);
}

/* Pops the objects that were put back last, in reverse order. The pool is locked. */
static int
pop(struct ccnic_mempool *pool, void **objs, unsigned int n)
{
	unsigned int i;

	if (unlikely(pool->len < n))
		return -ENOBUFS;
	for (i = 0; i < n; i++)
		objs[i] = pool->objs[pool->len - 1 - i];
	pool->len -= n;
	return 0;
}

static int
pool_dequeue(struct rte_mempool *mp, void **objs, unsigned int n)
{
	struct ccnic_mempool *pool = mp->pool_data;
	int ret;

	if (unlikely(pool->seen != __atomic_load_n(&ccnic_attach_generation, __ATOMIC_RELAXED)))
		look_for_device(pool);
	rte_spinlock_lock(&pool->lock);
	ret = pop(pool, objs, n);
	if (ret == 0 && pool->att != NULL && !pool->closing)
		bind_mbufs(pool, objs, n);
	rte_spinlock_unlock(&pool->lock);
	return ret;
}

static unsigned int
pool_count(const struct rte_mempool *mp)
{
	const struct ccnic_mempool *pool = mp->pool_data;

	return __atomic_load_n(&pool->len, __ATOMIC_RELAXED);
}

int
ccnic_mempool_get_plain(struct rte_mempool *mp, struct rte_mbuf **mbufs, unsigned int n)
{
	struct ccnic_mempool *pool = mp->pool_data;
	int ret;

	rte_spinlock_lock(&pool->lock);
	ret = pop(pool, (void **)mbufs, n);
	rte_spinlock_unlock(&pool->lock);
	return ret;
}

void
ccnic_mempool_put_plain(struct rte_mempool *mp, struct rte_mbuf **mbufs, unsigned int n)
{
	if (push(mp->pool_data, (void **)mbufs, n) < 0)
		POOL_LOG(ERR, "%s: %u mbufs too many were put back; they are lost", mp->name, n);
}

static const struct rte_mempool_ops ops_ccnic = {
	.name = "ccnic",
	.alloc = pool_alloc,
	.free = pool_free,
	.enqueue = pool_enqueue,
	.dequeue = pool_dequeue,
	.get_count = pool_count,
};

RTE_MEMPOOL_REGISTER_OPS(ops_ccnic);

bool
ccnic_mempool_is(const struct rte_mempool *mp)
{
	return strcmp(rte_mempool_get_ops(mp->ops_index)->name, ops_ccnic.name) == 0;
}

static void
unbind_object(struct rte_mempool *mp, void *opaque, void *obj, unsigned int index)
{
	unbind_mbufs(mp->pool_data, &obj, 1);
}

/* Before a mempool is freed: mbufs in lcore caches may be bound and return their buffers. */
static void
on_event(enum rte_mempool_event event, struct rte_mempool *mp, void *arg)
{
	struct ccnic_mempool *pool = mp->pool_data;

	if (event != RTE_MEMPOOL_EVENT_DESTROY || pool == NULL || !ccnic_mempool_is(mp))
		return;
	rte_spinlock_lock(&pool->lock);
	pool->closing = true;
	rte_spinlock_unlock(&pool->lock);
	if (pool->att != NULL)
		rte_mempool_obj_iter(mp, unbind_object, NULL);
}

RTE_INIT(ccnic_mempool_watch)
{
	if (rte_mempool_event_callback_register(on_event, NULL) < 0)
		POOL_LOG(ERR, "freed mempools will not return their buffers: %s", rte_strerror(rte_errno));
}
