/* What the C tests share. */
#ifndef CHECK_H
#define CHECK_H

#include <ccnic.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define SECOND 1000000000LL

/* Ends the program unless `value` is what is expected. */
#define EXPECT(value, expected) expect((long long)(value), (long long)(expected), #value, __LINE__)

static void expect(long long value, long long expected, const char *what, int line)
{
	if (value != expected) {
		fprintf(stderr, "line %d: %s is %lld, not %lld; last error: %s\n", line, what, value, expected,
			ccnic_last_error());
		exit(EXIT_FAILURE);
	}
}

/* True when a descriptor can be read, now or soon. */
static inline bool readable(int fd, int timeout_ms)
{
	struct pollfd one = {fd, POLLIN, 0};

	return poll(&one, 1, timeout_ms) == 1;
}

#endif
