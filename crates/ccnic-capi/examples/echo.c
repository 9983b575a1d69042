/*
 * echo: receives packets and sends them back, until it is told to stop (or after COUNT packets).
 *
 *     cc echo.c $(pkg-config --cflags --libs ccnic) -o echo
 *     ./echo /run/ccnic.sock [COUNT]
 *
 * What comes in goes out again in the same buffers: nothing is copied or allocated here. On a loopback NIC nobody else sends,
 * so echo starts with a packet of its own.
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

/* Sends all of a burst; frees what cannot be sent. */
static void send_all(struct ccnic_queue *queue, struct ccnic_buf *bufs, int n)
{
	while (n > 0 && !stopped) {
		int sent = ccnic_tx_burst(queue, bufs, (uint16_t)n);
		if (sent < 0)
			fail("send");
		bufs += sent;
		n -= sent;
	}
	ccnic_buf_free(queue, bufs, (uint16_t)n);
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

	if (ccnic_buf_alloc(queue, 64, bufs, 1) == 1) {
		memset(ccnic_buf_data(queue, &bufs[0]), 0, 64);
		send_all(queue, bufs, 1);
	}
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
	ccnic_queue_close(queue);
	ccnic_close(nic);
	return 0;
}
