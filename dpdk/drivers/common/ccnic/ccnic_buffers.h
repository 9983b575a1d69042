/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The buffers of an attachment, for ccnic_attach.c; what the drivers call is in ccnic_attach.h. */
#ifndef CCNIC_BUFFERS_H
#define CCNIC_BUFFERS_H

#include "ccnic_attach.h"

extern int ccnic_common_logtype;

#define ATTACH_LOG(level, ...) \
	rte_log(RTE_LOG_ ## level, ccnic_common_logtype, \
		RTE_FMT("ccnic: " RTE_FMT_HEAD(__VA_ARGS__, "") "\n", RTE_FMT_TAIL(__VA_ARGS__, "")))

/* Sets the free callbacks and reference counts of all buffers of a new attachment. */
void ccnic_buffers_init(struct ccnic_attach *att);

/* Returns the number of freed buffers in the caches of lcores. */
uint32_t ccnic_buffers_cached(const struct ccnic_attach *att);

#endif /* CCNIC_BUFFERS_H */
