/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The mempool driver "ccnic": a stack of objects, and for mbufs the large buffers of a NIC's region beside it.
 *
 * Objects and buffers are not tied to each other: an mbuf that leaves the pool gets a buffer if there is one, and works with its
 * own data room otherwise. So a pool never runs dry because the NIC holds buffers, works before a device is there and after
 * it has gone, and an object that the NIC names does not exist: it names buffers only. Pools of other objects are plain stacks.
 */
#include <errno.h>
#include <string.h>

#include <rte_errno.h>
#include <rte_malloc.h>
#include <rte_spinlock.h>

#include "ccnic_mempool.h"

RTE_LOG_REGISTER(ccnic_mempool_logtype, pmd.mempool.ccnic, NOTICE);

#define POOL_LOG(level, ...) \
	rte_log(RTE_LOG_ ## level, ccnic_mempool_logtype, \
		RTE_FMT("mempool ccnic: " RTE_FMT_HEAD(__VA_ARGS__, "") "\n", RTE_FMT_TAIL(__VA_ARGS__, "")))

/* Buffers that one call of libccnic moves. */
#define BURST 64

/* rte_mempool.pool_data */
struct ccnic_mempool {
	rte_spinlock_t lock; /* of all below */
	uint32_t len;        /* objects in the stack */
	uint32_t size;
	uint32_t seen;       /* ccnic_attach_generation when an attachment was last looked for */
	bool records;        /* object headers have a place for records */
	bool closing;        /* the mempool is being freed */
	uint16_t priv_size;  /* of its mbufs */
	uint16_t room;       /* their own data room */
	uint16_t skip;       /* bytes that the next buffer begins with unused */
	struct ccnic_attach *att;  /* NULL: all objects are plain */
	struct ccnic_pool *handle; /* on att's buffers */
	struct ccnic_user user;
	struct rte_mempool *mp;
	void *objs[];
};

static bool
pool_pause(struct ccnic_user *user)
{
	rte_spinlock_lock(&container_of(user, struct ccnic_mempool, user)->lock);
	return true;
}

static void
pool_resume(struct ccnic_user *user)
{
	rte_spinlock_unlock(&container_of(user, struct ccnic_mempool, user)->lock);
}

/* True for pools of initialised mbufs whose data rooms are their own and fit a buffer. */
static bool
holds_packets(struct ccnic_mempool *pool)
{
	const struct rte_mempool *mp = pool->mp;
	const struct rte_pktmbuf_pool_private *priv;
	const struct rte_mempool_objhdr *first = STAILQ_FIRST(&mp->elt_list);
	const struct rte_mbuf *m;
	uint32_t before;

	if (!pool->records || first == NULL || mp->private_data_size < sizeof(*priv))
		return false;
	priv = rte_mempool_get_priv((struct rte_mempool *)(uintptr_t)mp);
	before = sizeof(*m) + priv->mbuf_priv_size;
	m = RTE_PTR_ADD(first, sizeof(*first));
	if (mp->elt_size < before + priv->mbuf_data_room_size || m->pool != mp || m->buf_addr != RTE_PTR_ADD(m, before) ||
	    m->buf_len != priv->mbuf_data_room_size)
		return false;
	if (m->buf_len < RTE_PKTMBUF_HEADROOM + CCNIC_SMALL || m->buf_len > CCNIC_LARGE)
		return false;
	pool->priv_size = priv->mbuf_priv_size;
	pool->room = m->buf_len;
	return true;
}

/* Holds att for the pool, which is not locked. Takes over the caller's hold, or lets go of it. */
static bool
bind_to(struct ccnic_mempool *pool, struct ccnic_attach *att)
{
	struct ccnic_pool *handle = NULL;
	bool taken = false;

	if (ccnic_pool_open(att->nic, &handle) < 0) {
		POOL_LOG(ERR, "%s: %s", pool->mp->name, ccnic_last_error());
		ccnic_attach_release(att);
		return false;
	}
	rte_spinlock_lock(&pool->lock);
	if (pool->att == NULL && !pool->closing && holds_packets(pool)) {
		pool->handle = handle;
		pool->att = att;
		taken = true;
	}
	rte_spinlock_unlock(&pool->lock);
	if (taken) {
		/* A NIC that goes before this is waited for in vain at most once: reconnecting counts closed handles too. */
		ccnic_attach_use(att, &pool->user, false);
		POOL_LOG(INFO, "%s: its mbufs lie in the region of %s", pool->mp->name, att->conf.device);
	} else {
		ccnic_pool_close(handle);
		ccnic_attach_release(att);
	}
	return taken;
}

bool
ccnic_mempool_bind(struct rte_mempool *mp, struct ccnic_attach *att)
{
	struct ccnic_mempool *pool = mp->pool_data;

	if (!ccnic_mempool_is(mp))
		return false;
	if (pool->att == NULL && holds_packets(pool)) {
		ccnic_attach_hold_again(att);
		bind_to(pool, att);
	}
	return pool->att == att;
}

/* A device has come since the pool looked last: the one that the pool was made for, or the only one there is. */
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
		POOL_LOG(WARNING, "%s: there is no device %s; its mbufs stay outside any region", pool->mp->name, device);
}

static void
return_buffers(struct ccnic_mempool *pool, struct ccnic_buf *bufs, unsigned int n)
{
	if (n > 0 && ccnic_pool_free(pool->handle, bufs, n) < 0)
		POOL_LOG(ERR, "%s: %s", pool->mp->name, ccnic_last_error());
}

/* Makes objects plain that are bound; their buffers go back to the region. The pool is locked. */
static void
undress(struct ccnic_mempool *pool, void * const *objs, unsigned int n)
{
	struct ccnic_buf bufs[BURST];
	unsigned int i, k = 0, all = 0;

	for (i = 0; i < n; i++) {
		uint32_t buffer = *ccnic_mbuf_record(objs[i]);

		if (buffer == 0)
			continue;
		ccnic_mbuf_unbind(objs[i], pool->priv_size, pool->room);
		bufs[k++] = (struct ccnic_buf){ .offset = buffer };
		if (k == BURST) {
			return_buffers(pool, bufs, k);
			all += k;
			k = 0;
		}
	}
	return_buffers(pool, bufs, k);
	if (all + k > 0)
		ccnic_attach_unlend(pool->att, all + k);
}

/*
 * Binds as many of the objects as there are buffers for. Buffers lie 4 KiB apart, so equal bytes of them would meet in one set
 * of the first-level cache; each skips another number of lines. The pool is locked.
 */
static void
dress(struct ccnic_mempool *pool, void **objs, unsigned int n)
{
	const uint16_t spare = CCNIC_LARGE - pool->room;
	struct ccnic_buf bufs[BURST];
	uint32_t may = ccnic_attach_lend(pool->att, n);
	uint32_t done = 0;

	while (done < may) {
		int want = RTE_MIN(may - done, (uint32_t)BURST);
		int got = ccnic_pool_alloc(pool->handle, bufs, want);
		int i;

		for (i = 0; i < got; i++) {
			ccnic_mbuf_bind(objs[done + i], &pool->att->view, bufs[i].offset, pool->skip);
			pool->skip += RTE_CACHE_LINE_SIZE;
			if (pool->skip > spare)
				pool->skip = 0;
		}
		if (got > 0)
			done += got;
		if (got < want)
			break;
	}
	if (done < may)
		ccnic_attach_unlend(pool->att, may - done);
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
	pool->records = mp->header_size >= RTE_MEMPOOL_ALIGN;
	pool->user.pause = pool_pause;
	pool->user.resume = pool_resume;
	pool->mp = mp;
	mp->pool_data = pool;
	return 0;
}

static void
pool_free(struct rte_mempool *mp)
{
	struct ccnic_mempool *pool = mp->pool_data;

	if (pool->att != NULL) {
		ccnic_attach_unuse(pool->att, &pool->user);
		ccnic_pool_close(pool->handle);
		ccnic_attach_release(pool->att);
	}
	rte_free(pool);
}

static int
pool_enqueue(struct rte_mempool *mp, void * const *objs, unsigned int n)
{
	struct ccnic_mempool *pool = mp->pool_data;
	int ret = -ENOBUFS;

	rte_spinlock_lock(&pool->lock);
	if (likely(pool->len + n <= pool->size)) {
		if (pool->att != NULL)
			undress(pool, objs, n);
		memcpy(&pool->objs[pool->len], objs, n * sizeof(objs[0]));
		pool->len += n;
		ret = 0;
	}
	rte_spinlock_unlock(&pool->lock);
	return ret;
}

/* Takes the objects that were put back last, the latest first. The pool is locked. */
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
		dress(pool, objs, n);
	rte_spinlock_unlock(&pool->lock);
	return ret;
}

static unsigned int
pool_count(const struct rte_mempool *mp)
{
	const struct ccnic_mempool *pool = mp->pool_data;

	return __atomic_load_n(&pool->len, __ATOMIC_RELAXED);
}

/* Clears the record of a new object, whose memory may hold anything, and goes on. */
struct populate {
	rte_mempool_populate_obj_cb_t *then;
	void *arg;
	bool records;
};

static void
clear_record(struct rte_mempool *mp, void *opaque, void *vaddr, rte_iova_t iova)
{
	struct populate *populate = opaque;

	if (populate->records)
		*ccnic_mbuf_record(vaddr) = 0;
	populate->then(mp, populate->arg, vaddr, iova);
}

static int
pool_populate(struct rte_mempool *mp, unsigned int max_objs, void *vaddr, rte_iova_t iova, size_t len,
	      rte_mempool_populate_obj_cb_t *obj_cb, void *obj_cb_arg)
{
	struct ccnic_mempool *pool = mp->pool_data;
	struct populate populate = { .then = obj_cb, .arg = obj_cb_arg, .records = pool->records };

	return rte_mempool_op_populate_default(mp, max_objs, vaddr, iova, len, clear_record, &populate);
}

int
ccnic_mempool_take(struct rte_mempool *mp, struct rte_mbuf **mbufs, unsigned int n)
{
	struct ccnic_mempool *pool = mp->pool_data;
	int ret;

	rte_spinlock_lock(&pool->lock);
	ret = pop(pool, (void **)mbufs, n);
	rte_spinlock_unlock(&pool->lock);
	return ret;
}

void
ccnic_mempool_give(struct rte_mempool *mp, struct rte_mbuf **mbufs, unsigned int n)
{
	struct ccnic_mempool *pool = mp->pool_data;

	rte_spinlock_lock(&pool->lock);
	if (likely(pool->len + n <= pool->size)) {
		memcpy(&pool->objs[pool->len], mbufs, n * sizeof(mbufs[0]));
		pool->len += n;
	}
	rte_spinlock_unlock(&pool->lock);
}

static const struct rte_mempool_ops ops_ccnic = {
	.name = "ccnic",
	.alloc = pool_alloc,
	.free = pool_free,
	.enqueue = pool_enqueue,
	.dequeue = pool_dequeue,
	.get_count = pool_count,
	.populate = pool_populate,
};

RTE_MEMPOOL_REGISTER_OPS(ops_ccnic);

bool
ccnic_mempool_is(const struct rte_mempool *mp)
{
	return strcmp(rte_mempool_get_ops(mp->ops_index)->name, ops_ccnic.name) == 0;
}

static void
undress_object(struct rte_mempool *mp, void *opaque, void *obj, unsigned int index)
{
	undress(mp->pool_data, &obj, 1);
}

/* Before a mempool is freed its objects can still be seen: those in caches and in use are bound to buffers. */
static void
on_event(enum rte_mempool_event event, struct rte_mempool *mp, void *arg)
{
	struct ccnic_mempool *pool = mp->pool_data;

	if (event != RTE_MEMPOOL_EVENT_DESTROY || pool == NULL || !ccnic_mempool_is(mp))
		return;
	rte_spinlock_lock(&pool->lock);
	pool->closing = true;
	if (pool->att != NULL)
		rte_mempool_obj_iter(mp, undress_object, NULL);
	rte_spinlock_unlock(&pool->lock);
}

RTE_INIT(ccnic_mempool_watch)
{
	if (rte_mempool_event_callback_register(on_event, NULL) < 0)
		POOL_LOG(ERR, "freed mempools will not give their buffers back: %s", rte_strerror(rte_errno));
}
