/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Mbufs that refer to a region. Mbufs are in private memory of the process, because the NIC writes the region: no pointer is ever read
 * from there. An mbuf is *plain* if its data are in its own data room, as in any driver, and *bound* if a large buffer of the
 * region is attached to it as an external buffer. All functions of DPDK work on bound mbufs: clones share the buffer by a
 * reference count in private memory, and freeing the last one returns the buffer to the region.
 */
#ifndef CCNIC_MBUF_H
#define CCNIC_MBUF_H

#include "ccnic_attach.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Binds a plain mbuf to the large buffer at offset `buffer` and skips its first `skip` bytes. Clears the packet flags. */
static __rte_always_inline void
ccnic_mbuf_bind(struct rte_mbuf *m, const struct ccnic_attach *att, uint32_t buffer, uint16_t skip)
{
	m->buf_addr = att->view.base + buffer + skip;
	/* Valid for the CPU and for devices that use the process's page tables: see the guide. */
	rte_mbuf_iova_set(m, (rte_iova_t)(uintptr_t)m->buf_addr);
	m->buf_len = CCNIC_LARGE_SIZE - skip;
	m->ol_flags = RTE_MBUF_F_EXTERNAL;
	/* libccnic has checked that the buffer is in the region. */
	m->shinfo = &att->ext[(buffer - att->view.first) / CCNIC_LARGE_SIZE];
}

/* True if the mbuf is bound to this region. */
static __rte_always_inline bool
ccnic_mbuf_is_bound(const struct rte_mbuf *m, const struct ccnic_attach *att)
{
	return RTE_MBUF_HAS_EXTBUF(m) && (uintptr_t)m->buf_addr - (uintptr_t)(att->view.base + att->view.first) < att->view.span;
}

/* The buffer of a bound mbuf. */
static __rte_always_inline uint32_t
ccnic_mbuf_buffer(const struct rte_mbuf *m, const struct ccnic_attach *att)
{
	return ((uintptr_t)m->buf_addr - (uintptr_t)att->view.base) & ~(uint32_t)(CCNIC_LARGE_SIZE - 1);
}

/* Makes a bound mbuf plain, as rte_pktmbuf_detach() does. The caller owns its buffer. */
static __rte_always_inline void
ccnic_mbuf_unbind(struct rte_mbuf *m, uint16_t priv_size, uint16_t room)
{
	const uint32_t before = sizeof(struct rte_mbuf) + priv_size;

	m->buf_addr = RTE_PTR_ADD(m, before);
	rte_mbuf_iova_set(m, rte_mempool_virt2iova(m) + before);
	m->buf_len = room;
	m->ol_flags = 0;
}

#ifdef __cplusplus
}
#endif

#endif /* CCNIC_MBUF_H */
