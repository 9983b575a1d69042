/* What the C tests share. */
#ifndef CHECK_H
#define CHECK_H

#include <ccnic.h>
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

#endif
