/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Prefetches lines that another core has written, with ownership, because the buffers are written when they are reused. */
#ifndef PREFETCH_H
#define PREFETCH_H

#include <rte_mbuf.h>
#include <rte_prefetch.h>

/** Lines of a packet that are prefetched; the hardware prefetcher fetches the rest. */
#define PREFETCH_LINES 4

/** __builtin_prefetch(.., 1) becomes a read prefetch for targets without PRFCHW; this does not. */
static inline void prefetch_own(const void *at)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)at));
#else
	__builtin_prefetch(at, 1);
#endif
}

/** The first lines of a packet's data. Reads the mbuf. */
static inline void prefetch_packet(const struct rte_mbuf *mbuf)
{
	const char *data = rte_pktmbuf_mtod(mbuf, const char *);
	uint32_t len = RTE_MIN(mbuf->data_len, PREFETCH_LINES * RTE_CACHE_LINE_SIZE);

	for (uint32_t at = 0; at < len; at += RTE_CACHE_LINE_SIZE)
		prefetch_own(data + at);
}

#endif /* PREFETCH_H */
