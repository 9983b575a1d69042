/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Mempools with the ops "ccnic", for the net driver. */
#ifndef CCNIC_MEMPOOL_H
#define CCNIC_MEMPOOL_H

#include <rte_mempool.h>

#include <ccnic_attach.h>

#ifdef __cplusplus
extern "C" {
#endif

/* True if the mempool has these ops. */
__rte_internal
bool ccnic_mempool_is(const struct rte_mempool *mp);

/* Has a mempool without an attachment bind its mbufs to this region, if they are mbufs for packets. */
__rte_internal
void ccnic_mempool_bind(struct rte_mempool *mp, struct ccnic_attach *att);

/* Gets n plain mbufs, bypassing the lcore caches. Returns 0, or -ENOBUFS and gets none. */
__rte_internal
int ccnic_mempool_get_plain(struct rte_mempool *mp, struct rte_mbuf **mbufs, unsigned int n);

/* Puts n plain mbufs back, bypassing the lcore caches, so that the next allocation binds them. */
__rte_internal
void ccnic_mempool_put_plain(struct rte_mempool *mp, struct rte_mbuf **mbufs, unsigned int n);

#ifdef __cplusplus
}
#endif

#endif /* CCNIC_MEMPOOL_H */
