/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* role=nic: the device is the NIC that one program after the other attaches to. */
#ifndef CCNIC_SIDE_H
#define CCNIC_SIDE_H

#include <pthread.h>

#include <ccnic_nic.h>

#include "ccnic_net.h"

/* What a device knows of its programs. The lock is of control operations; bursts never take it. */
struct ccnic_side {
	/* Read by bursts, which then look into the pair: stale values do no harm. */
	uint16_t serving; /* the program's queue pairs while all of them are open, or 0 */
	uint16_t sending; /* the same while the program lives */
	/* Changes while no pair is open. */
	uint32_t longest; /* the program's longest packet */

	struct ccnic_nic *nic;
	char socket[CCNIC_PATH_MAX];
	pthread_mutex_t lock __rte_cache_aligned;
	struct ccnic_program *program; /* whom the device serves, or NULL */
	struct ccnic_program_info info; /* of it */
	uint16_t farewell; /* looks since it has gone */
	uint64_t programs; /* that have been served */
	struct ccnic_nic_stats last[CCNIC_MAX_QUEUES]; /* by pair of the program: as last seen */
	struct ccnic_nic_stats past; /* of programs that were served before */
	struct ccnic_nic_stats base; /* at the last reset */
};

#endif /* CCNIC_SIDE_H */
