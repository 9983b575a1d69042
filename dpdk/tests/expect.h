/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* For the applications of the tests: what is not as expected ends the process, with a message. */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdio.h>
#include <unistd.h>

#include <rte_errno.h>

#define EXPECT(cond) \
	do { \
		if (!(cond)) \
			fail(#cond, __LINE__); \
	} while (0)

static inline void
fail(const char *what, int line)
{
	printf("line %d: not true: %s (rte_errno %d)\n", line, what, rte_errno);
	fflush(stdout);
	_exit(1);
}

#endif /* EXPECT_H */
