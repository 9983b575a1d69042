/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Mbufs that point into a region. An mbuf lives in memory of this process alone: the NIC writes the region, and no pointer is
 * ever read from there. It is *plain* when its data is in its own data room, as every driver has it, and *bound* when a large
 * buffer of the region is attached to it as an external buffer. Then all that DPDK does with mbufs works: clones share the buffer
 * by a count in private memory, and whoever frees the last one sends it back to the region.
 */
#ifndef CCNIC_MBUF_H
#define CCNIC_MBUF_H

#include "ccnic_attach.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Binds a plain mbuf to the large buffer at `buffer`, whose first `skip` bytes stay unused. Flags of the packet are cleared. */
static __rte_always_inline void
ccnic_mbuf_bind(struct rte_mbuf *m, const struct ccnic_attach *att, uint32_t buffer, uint16_t skip)
{
	m->buf_addr = att->view.base + buffer + skip;
	/* Good for programs and for devices that translate by the process's page tables; the guide says so. */
	rte_mbuf_iova_set(m, (rte_iova_t)(uintptr_t)m->buf_addr);
	m->buf_len = CCNIC_LARGE - skip;
	m->ol_flags = RTE_MBUF_F_EXTERNAL;
	/* libccnic has checked that the buffer is one of the region's. */
	m->shinfo = &att->ext[(buffer - att->view.first) / CCNIC_LARGE];
}

/* True for an mbuf that is bound to this region. */
static __rte_always_inline bool
ccnic_mbuf_is_bound(const struct rte_mbuf *m, const struct ccnic_attach *att)
{
	return RTE_MBUF_HAS_EXTBUF(m) && (uintptr_t)m->buf_addr - (uintptr_t)(att->view.base + att->view.first) < att->view.span;
}

/* The buffer of a bound mbuf. */
static __rte_always_inline uint32_t
ccnic_mbuf_buffer(const struct rte_mbuf *m, const struct ccnic_attach *att)
{
	return ((uintptr_t)m->buf_addr - (uintptr_t)att->view.base) & ~(uint32_t)(CCNIC_LARGE - 1);
}

/* Makes a bound mbuf plain, as rte_pktmbuf_detach() does; its buffer is the caller's now. */
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
