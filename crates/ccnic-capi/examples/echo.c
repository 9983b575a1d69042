/*
 * echo: receives packets and sends them back, until SIGINT or SIGTERM, or after COUNT packets.
 *
 *     cc echo.c $(pkg-config --cflags --libs ccnic) -o echo
 *     ./echo /run/ccnic.sock [COUNT]
 *
 * Packets are sent back in the buffers in which they were received: nothing is copied or allocated. A loopback NIC returns only
 * what echo sends, so echo sends a first packet itself.
 */
#include <ccnic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define BURST 32
#define SECOND 1000000000LL

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

static void fail(const char *what)
{
	fprintf(stderr, "echo: %s: %s\n", what, ccnic_last_error());
	exit(EXIT_FAILURE);
}

/* Sends all buffers of a burst; frees those that are left when the program is stopped. */
static void send_all(struct ccnic_queue *queue, const struct ccnic_buf *bufs, int n)
{
	while (n > 0 && !stopped) {
		const int sent = ccnic_tx_burst(queue, bufs, (uint16_t)n); /* 0 while the ring is full */
		if (sent < 0)
			fail("send");
		bufs += sent;
		n -= sent;
	}
	if (ccnic_buf_free(queue, bufs, (uint16_t)n) < 0)
		fail("free");
}

/* Sends one packet of 64 zero bytes. */
static void send_first(struct ccnic_queue *queue)
{
	struct ccnic_buf buf;
	const int n = ccnic_buf_alloc(queue, 64, &buf, 1);

	if (n < 0)
		fail("allocate");
	if (n == 0) {
		fprintf(stderr, "echo: the pool is empty\n");
		exit(EXIT_FAILURE);
	}
	memset(ccnic_buf_data(queue, &buf), 0, 64);
	send_all(queue, &buf, 1);
}

int main(int argc, char **argv)
{
	const long count = argc > 2 ? atol(argv[2]) : 0;
	struct ccnic *nic;
	struct ccnic_queue *queue;
	struct ccnic_buf bufs[BURST];
	struct ccnic_stats stats;

	if (argc < 2) {
		fprintf(stderr, "usage: echo SOCKET [COUNT]\n");
		return 2;
	}
	if (ccnic_open(argv[1], NULL, &nic) < 0)
		fail("open");
	if (ccnic_queue_open(nic, 0, &queue) < 0)
		fail("queue");
	signal(SIGINT, stop);
	signal(SIGTERM, stop);

	send_first(queue);
	long echoed = 0;
	while (!stopped && (count == 0 || echoed < count)) {
		int n = ccnic_rx_burst(queue, bufs, BURST);
		if (n > 0) {
			for (int i = 0; i < n; i++)
				echoed += !ccnic_buf_more(&bufs[i]);
			send_all(queue, bufs, n);
		} else if (n < 0 || ((n = ccnic_wait(queue, SECOND)) < 0 && n != -EINTR)) {
			fail("receive");
		}
	}

	if (ccnic_queue_stats(queue, &stats, sizeof(stats)) < 0)
		fail("statistics");
	printf("%llu packets received, %llu sent\n", (unsigned long long)stats.rx_packets,
	       (unsigned long long)stats.tx_packets);
	if (ccnic_queue_close(queue) < 0 || ccnic_close(nic) < 0)
		fail("close");
	return 0;
}
