/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* role=nic: the device is a NIC, which serves one program after the other. Devices with one socket share its programs. */
#ifndef CCNIC_NIC_ROLE_H
#define CCNIC_NIC_ROLE_H

#include <pthread.h>
#include <sys/queue.h>

#include <ccnic_nic.h>

#include "ccnic_net.h"

struct ccnic_listener;

/* The programs of a device. Control operations take the lock; bursts never do. */
struct ccnic_nic_role {
	/* Bursts read these with relaxed ordering, and then check the pair: stale values are harmless. */
	uint16_t serving; /* number of the program's queue pairs while all are open, else 0 */
	uint16_t sending; /* the same while the program is running, else 0 */
	uint32_t takes;   /* CCNIC_TAKES_... of the program */
	/* Changes only while no pair is open. */
	uint32_t longest; /* the program's longest packet */

	/* Of ccnic_nic_listen.c, under its lock. */
	struct ccnic_listener *listener;
	LIST_ENTRY(ccnic_nic_role) next; /* port of the same listener */
	uint32_t offers;     /* what the port takes by its receive offloads */
	bool has_offered;    /* it has been started */
	uint32_t generation; /* of what the listener had told the program */

	pthread_mutex_t lock __rte_cache_aligned;
	struct ccnic_program *program;  /* the program that is served, or NULL */
	struct ccnic_program_info info; /* of that program */
	uint16_t drain_looks;           /* checks since its end was detected */
	uint64_t programs;              /* programs served so far */
	struct ccnic_nic_stats last[CCNIC_MAX_QUEUES]; /* by pair of the program: counters at the last reading */
	struct ccnic_nic_stats past; /* sum over earlier programs */
	struct ccnic_nic_stats base; /* sum at the last reset */
};

/* ccnic_nic_role_intr.c: pair i of the program has been opened. No burst uses it, and the caller holds the lock. */
void ccnic_nic_role_intr_opened(struct ccnic_dev *dev, uint16_t i);
/* Wakes applications whose programs did not; called by the alarm, which holds the lock. */
void ccnic_nic_role_intr_look(struct ccnic_dev *dev);

/* ccnic_nic_listen.c: listens at the port's socket, or joins the ports that do. */
int ccnic_listener_join(struct ccnic_nic_role *role, const struct ccnic_attach_conf *conf);
void ccnic_listener_leave(struct ccnic_nic_role *role);
const char *ccnic_listener_socket(const struct ccnic_nic_role *role);
/* Answers requests of programs. */
void ccnic_listener_poll(struct ccnic_nic_role *role);
/* Gives the port the next program that has attached; false if there is none. */
bool ccnic_listener_accept(struct ccnic_nic_role *role);
/* Tells programs that attach from now on what this port takes, if the socket's other ports take it, too. */
void ccnic_listener_tell(struct ccnic_nic_role *role, uint32_t takes);
/* True if the port's program has learned something that is no longer true. */
bool ccnic_listener_told_otherwise(const struct ccnic_nic_role *role);

#endif /* CCNIC_NIC_ROLE_H */
