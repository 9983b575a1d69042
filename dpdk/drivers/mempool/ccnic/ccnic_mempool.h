/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the net driver may do with mempools that have the ops "ccnic". */
#ifndef CCNIC_MEMPOOL_H
#define CCNIC_MEMPOOL_H

#include <rte_mempool.h>

#include <ccnic_attach.h>

#ifdef __cplusplus
extern "C" {
#endif

/* True for mempools with these ops. */
__rte_internal
bool ccnic_mempool_is(const struct rte_mempool *mp);

/* Lets a mempool without an attachment bind its mbufs to this one's region, if it is made for packets. */
__rte_internal
void ccnic_mempool_bind(struct rte_mempool *mp, struct ccnic_attach *att);

/* Takes n plain mbufs out of the pool, past its caches; 0, or -ENOBUFS and none. */
__rte_internal
int ccnic_mempool_take(struct rte_mempool *mp, struct rte_mbuf **mbufs, unsigned int n);

/* Puts n plain mbufs back, past the caches: whoever allocates them next gets them bound. */
__rte_internal
void ccnic_mempool_give(struct rte_mempool *mp, struct rte_mbuf **mbufs, unsigned int n);

#ifdef __cplusplus
}
#endif

#endif /* CCNIC_MEMPOOL_H */
