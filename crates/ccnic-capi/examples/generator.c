/*
 * generator: sends packets through a loopback NIC, checks every byte of the packets that come back, prints the rate.
 *
 *     cc -O2 generator.c $(pkg-config --cflags --libs ccnic) -o generator
 *     ./generator SOCKET [COUNT [SIZE [BURST [INFLIGHT [CPU]]]]]
 */
#define _GNU_SOURCE
#include <ccnic.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BURST_MAX 64

static struct ccnic_queue *queue;

static void fail(const char *what)
{
	fprintf(stderr, "generator: %s: %s\n", what, ccnic_last_error());
	exit(EXIT_FAILURE);
}

/* Word i of packet `number` (word 0 is the number itself): reveals lost, torn and misplaced cache lines. */
static uint64_t word(uint64_t number, uint64_t i)
{
	return number * 0x9e3779b97f4a7c15u + i;
}

/* Writes one buffer of packet `number`, whose data begins `at` bytes into the packet (a multiple of 8). */
static void fill(const struct ccnic_buf *buf, uint64_t number, size_t at)
{
	uint64_t *data = ccnic_buf_data(queue, buf);
	size_t words = ccnic_buf_len(buf) / 8;
	for (size_t i = 0; i < words; i++)
		data[i] = word(number, at / 8 + i);
	if (at == 0)
		data[0] = number;
}

static bool intact(const struct ccnic_buf *buf, uint64_t number, size_t at)
{
	const uint64_t *data = ccnic_buf_data(queue, buf);
	size_t words = ccnic_buf_len(buf) / 8;
	uint64_t differ = at == 0 ? data[0] ^ number : data[0] ^ word(number, at / 8);
	for (size_t i = 1; i < words; i++)
		differ |= data[i] ^ word(number, at / 8 + i);
	return differ == 0;
}

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/*
 * Sends one burst of packets from number `first` on. Buffers for which the ring has no room stay in `bufs`, and *waiting counts
 * them; the next call sends them. Returns the number of new packets.
 */
static uint64_t send_burst(uint16_t size, uint16_t burst, uint64_t first, struct ccnic_buf *bufs, int *waiting)
{
	uint64_t number = first;
	if (*waiting == 0) {
		size_t at = 0;
		*waiting = ccnic_buf_alloc(queue, size, bufs, burst);
		if (*waiting < 0)
			fail("allocate");
		for (int i = 0; i < *waiting; i++) {
			fill(&bufs[i], number, at);
			at = ccnic_buf_more(&bufs[i]) ? at + ccnic_buf_len(&bufs[i]) : 0;
			number += at == 0;
		}
	}
	int sent = ccnic_tx_burst(queue, bufs, (uint16_t)*waiting);
	if (sent < 0)
		fail("send");
	*waiting -= sent;
	if (*waiting > 0)
		memmove(bufs, bufs + sent, (size_t)*waiting * sizeof(*bufs));
	return number - first;
}

/* Checks and frees a burst; returns its number of packets. They arrive in the order in which they were sent. */
static uint64_t examine(const struct ccnic_buf *bufs, int n, uint64_t first)
{
	uint64_t number = first;
	size_t at = 0;
	for (int i = 0; i < n; i++) {
		if (!intact(&bufs[i], number, at)) {
			fprintf(stderr, "generator: packet %llu is not what was sent\n", (unsigned long long)number);
			exit(EXIT_FAILURE);
		}
		at = ccnic_buf_more(&bufs[i]) ? at + ccnic_buf_len(&bufs[i]) : 0;
		number += at == 0;
	}
	if (ccnic_buf_free(queue, bufs, (uint16_t)n) < 0)
		fail("free");
	return number - first;
}

static long argument(int argc, char **argv, int i, long otherwise)
{
	return argc > i ? atol(argv[i]) : otherwise;
}

int main(int argc, char **argv)
{
	const uint64_t count = (uint64_t)argument(argc, argv, 2, 1000000);
	const uint16_t size = (uint16_t)(argument(argc, argv, 3, 64) & ~7L);
	const uint16_t burst = (uint16_t)argument(argc, argv, 4, 32);
	const uint64_t inflight = (uint64_t)argument(argc, argv, 5, 256);
	const long cpu = argument(argc, argv, 6, -1);
	struct ccnic *nic;
	struct ccnic_options options;
	struct ccnic_buf tx[BURST_MAX], rx[BURST_MAX];
	uint64_t sent = 0, received = 0;
	int waiting = 0;

	if (argc < 2 || size < 8 || burst < CCNIC_SEGMENTS(size) || burst > BURST_MAX || burst > inflight) {
		fprintf(stderr, "usage: generator SOCKET [COUNT [SIZE [BURST [INFLIGHT [CPU]]]]]\n");
		return 2;
	}
	if (cpu >= 0) {
		cpu_set_t cpus;
		CPU_ZERO(&cpus);
		CPU_SET((size_t)cpu, &cpus);
		if (sched_setaffinity(0, sizeof(cpus), &cpus) < 0) {
			perror("generator: CPU");
			return 2;
		}
	}
	ccnic_options_init(&options);
	options.name = "generator";
	options.buffers = 4096;
	if (ccnic_open(argv[1], &options, &nic) < 0)
		fail("open");
	if (ccnic_queue_open(nic, 0, &queue) < 0)
		fail("queue");

	const double start = seconds();
	while (received < count) {
		int n = ccnic_rx_burst(queue, rx, BURST_MAX / 2);
		/* Send before reading the packets received: their lines are being prefetched. */
		uint64_t before = sent;
		if (waiting > 0 || (sent < count && sent - received + burst <= inflight))
			sent += send_burst(size, burst, sent, tx, &waiting);
		if (n > 0)
			received += examine(rx, n, received);
		else if (n < 0 || (sent == before && (n = ccnic_wait(queue, 5000000000)) <= 0))
			fail(n == 0 ? "no packet within 5 s" : "receive");
	}
	const double time = seconds() - start;
	printf("%llu packets of %u bytes in %.3f s: %.3f Mpps\n", (unsigned long long)received, size, time,
	       (double)received / time / 1e6);

	/* The last burst may exceed COUNT. */
	while (received < sent && ccnic_wait(queue, 1000000000) > 0) {
		int n = ccnic_rx_burst(queue, rx, BURST_MAX / 2);
		if (n < 0)
			fail("receive");
		received += examine(rx, n, received);
	}
	if (ccnic_queue_close(queue) < 0 || ccnic_close(nic) < 0)
		fail("close");
	return received == sent ? EXIT_SUCCESS : EXIT_FAILURE;
}
