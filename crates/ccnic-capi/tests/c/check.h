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

/* Large buffers of what open_pair() opens. */
#define BUFFERS 512

/* Opens an attachment of two queues: `queue` is the first one; the second has been closed again. */
static inline struct ccnic *open_pair(const char *socket, const char *name, uint32_t design, struct ccnic_queue **queue,
				      struct ccnic_queue **closed)
{
	struct ccnic_options options;
	struct ccnic *nic;

	ccnic_options_init(&options);
	options.name = name;
	options.design = design;
	options.queues = 2;
	options.ring = 256;
	options.buffers = BUFFERS;
	EXPECT(ccnic_open(socket, &options, &nic), 0);
	EXPECT(ccnic_queue_open(nic, 0, queue), 0);
	EXPECT(ccnic_queue_open(nic, 1, closed), 0);
	EXPECT(ccnic_queue_close(*closed), 0);
	return nic;
}

/* Opens `n` queues with rings of 64 descriptors. */
static inline struct ccnic *open_queues(const char *socket, uint32_t buffers, struct ccnic_queue **queues, uint16_t n)
{
	struct ccnic_options options;
	struct ccnic *nic;

	ccnic_options_init(&options);
	options.queues = n;
	options.ring = 64;
	options.buffers = buffers;
	EXPECT(ccnic_open(socket, &options, &nic), 0);
	for (uint16_t i = 0; i < n; i++)
		EXPECT(ccnic_queue_open(nic, i, &queues[i]), 0);
	return nic;
}

static inline void close_queues(struct ccnic *nic, struct ccnic_queue **queues, uint16_t n)
{
	for (uint16_t i = 0; i < n; i++)
		EXPECT(ccnic_queue_close(queues[i]), 0);
	EXPECT(ccnic_close(nic), 0);
}

/* Says so at once to the test that reads it. */
static inline void say(const char *what)
{
	puts(what);
	fflush(stdout);
}

/* Runs a test over every design, and says how many there are. */
static inline void each_design(const char *socket, void (*test)(const char *socket, uint32_t design))
{
	uint32_t design;

	for (design = CCNIC_DESIGN_CCNIC; design <= CCNIC_DESIGN_E810; design++)
		test(socket, design);
	printf("%u designs\n", (unsigned)design);
}

#endif
