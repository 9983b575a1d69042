/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* role=nic: the device is a NIC, which serves one program after the other. */
#ifndef CCNIC_NIC_ROLE_H
#define CCNIC_NIC_ROLE_H

#include <pthread.h>

#include <ccnic_nic.h>

#include "ccnic_net.h"

/* The programs of a device. Control operations take the lock; bursts never do. */
struct ccnic_nic_role {
	/* Bursts read these with relaxed ordering, and then check the pair: stale values are harmless. */
	uint16_t serving; /* number of the program's queue pairs while all are open, else 0 */
	uint16_t sending; /* the same while the program is running, else 0 */
	uint32_t takes;   /* CCNIC_TAKES_... of the program */
	/* Changes only while no pair is open. */
	uint32_t longest; /* the program's longest packet */

	struct ccnic_nic *nic;
	char socket[CCNIC_PATH_MAX];
	pthread_mutex_t lock __rte_cache_aligned;
	struct ccnic_program *program;  /* the program that is served, or NULL */
	struct ccnic_program_info info; /* of that program */
	uint32_t told;                  /* what programs are told that the port takes */
	uint16_t drain_looks;           /* checks since its end was detected */
	uint64_t programs;              /* programs served so far */
	struct ccnic_nic_stats last[CCNIC_MAX_QUEUES]; /* by pair of the program: counters at the last reading */
	struct ccnic_nic_stats past; /* sum over earlier programs */
	struct ccnic_nic_stats base; /* sum at the last reset */
};

#endif /* CCNIC_NIC_ROLE_H */
