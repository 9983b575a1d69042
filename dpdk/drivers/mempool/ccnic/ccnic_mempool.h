/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Mempools whose mbufs can point into a NIC's region; for the net driver.
 *
 * An mbuf lives in memory of this process alone: the NIC writes the region, and no pointer is ever read from there. It is
 * *plain* when its data is in its own data room, as every driver has it, and *bound* when buf_addr points to a large buffer
 * of the region instead. Objects that are in the pool are plain. Whoever takes them out binds them: the mempool when an
 * application allocates, the net driver when it receives. Whoever puts them back makes them plain: the mempool frees the buffer
 * to the region, the net driver hands it to the NIC.
 *
 * A bound mbuf carries a record of its buffer in the object header, where no application writes: attaching an mbuf to another
 * one, and detaching it, overwrites all that the mbuf itself says.
 */
#ifndef CCNIC_MEMPOOL_H
#define CCNIC_MEMPOOL_H

#include <rte_mbuf.h>
#include <rte_mempool.h>

#include "ccnic_attach.h"

#ifdef __cplusplus
extern "C" {
#endif

/* True for mempools with these ops. */
__rte_internal
bool ccnic_mempool_is(const struct rte_mempool *mp);

/*
 * Lets the mbufs of a mempool point into the region of an attachment. True when they may: those of a mempool made for packets
 * with data rooms that fit a buffer, and that belongs to no other attachment.
 */
__rte_internal
bool ccnic_mempool_bind(struct rte_mempool *mp, struct ccnic_attach *att);

/* Takes n plain mbufs out of the pool, not initialised, past all caches; 0, or -ENOBUFS and none. */
__rte_internal
int ccnic_mempool_take(struct rte_mempool *mp, struct rte_mbuf **mbufs, unsigned int n);

/* Puts n plain mbufs back, past all caches. */
__rte_internal
void ccnic_mempool_give(struct rte_mempool *mp, struct rte_mbuf **mbufs, unsigned int n);

/* The place of an object's record: the first word of its header, which is padded to a cache line. */
static inline uint32_t *
ccnic_mbuf_record(void *obj)
{
	RTE_BUILD_BUG_ON(sizeof(struct rte_mempool_objhdr) + sizeof(uint32_t) > RTE_MEMPOOL_ALIGN);
	return (uint32_t *)RTE_PTR_SUB(obj, RTE_MEMPOOL_ALIGN);
}

/* Binds a plain mbuf to the large buffer that begins at `buffer`; the first `skip` bytes of it are not used. */
static inline void
ccnic_mbuf_bind(struct rte_mbuf *m, const struct ccnic_view *view, uint32_t buffer, uint16_t skip)
{
	*ccnic_mbuf_record(m) = buffer;
	m->buf_addr = view->base + buffer + skip;
	/* Good for programs and for devices that translate by the process's page tables; the guide says so. */
	rte_mbuf_iova_set(m, (rte_iova_t)(uintptr_t)m->buf_addr);
	m->buf_len = CCNIC_LARGE - skip;
}

/* Makes a bound mbuf plain; its buffer is somebody else's now. */
static inline void
ccnic_mbuf_unbind(struct rte_mbuf *m, uint16_t priv_size, uint16_t room)
{
	const uint32_t before = sizeof(struct rte_mbuf) + priv_size;

	*ccnic_mbuf_record(m) = 0;
	m->buf_addr = RTE_PTR_ADD(m, before);
	rte_mbuf_iova_set(m, rte_mempool_virt2iova(m) + before);
	m->buf_len = room;
}

#ifdef __cplusplus
}
#endif

#endif /* CCNIC_MEMPOOL_H */
