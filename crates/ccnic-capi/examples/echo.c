/*
 * echo: receives packets and sends them back to their senders, until SIGINT or SIGTERM, or after COUNT packets. It goes on when the NIC is
 * restarted.
 *
 *     cc echo.c $(pkg-config --cflags --libs ccnic) -o echo
 *     ./echo [SOCKET [COUNT]]
 *
 * Packets are sent back in the buffers in which they were received: nothing is copied or allocated. A frame
 * goes to whom it came from, so that a switch (ccnicd --wire switch) takes it back. A loopback NIC returns only what echo sends, so echo sends a first
 * packet itself.
 */
#define _POSIX_C_SOURCE 200809L
#include <ccnic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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

/* Sends all buffers of a burst; frees those that are left when the program is stopped or the NIC has ended. */
static void send_all(struct ccnic *nic, struct ccnic_queue *queue, const struct ccnic_buf *bufs, int n)
{
	while (n > 0 && !stopped) {
		const int sent = ccnic_tx_burst(queue, bufs, (uint16_t)n); /* 0 while the ring is full */
		if (sent < 0)
			fail("send");
		if (sent == 0 && ccnic_link_state(nic) == 0)
			break;
		bufs += sent;
		n -= sent;
	}
	if (ccnic_buf_free(queue, bufs, (uint16_t)n) < 0)
		fail("free");
}

/* Sends one frame of 64 bytes to everybody. */
static void send_first(struct ccnic *nic, struct ccnic_queue *queue, const uint8_t own[6])
{
	uint8_t frame[64] = { [12] = 0x88, [13] = 0xb5 }; /* a type for experiments */
	struct ccnic_buf buf;
	const int n = ccnic_buf_alloc(queue, sizeof(frame), &buf, 1);

	if (n < 0)
		fail("allocate");
	if (n == 0) {
		fprintf(stderr, "echo: the pool is empty\n");
		exit(EXIT_FAILURE);
	}
	memset(frame, 0xff, 6);
	memcpy(frame + 6, own, 6);
	memcpy(ccnic_buf_data(queue, &buf), frame, sizeof(frame));
	send_all(nic, queue, &buf, 1);
}

/* The frame goes to whom it came from. */
static void turn_round(struct ccnic_queue *queue, const struct ccnic_buf *buf, const uint8_t own[6])
{
	uint8_t *const frame = ccnic_buf_data(queue, buf);

	if (frame == NULL || ccnic_buf_len(buf) < 14)
		return;
	memcpy(frame, frame + 6, 6);
	memcpy(frame + 6, own, 6);
}

/* Attaches to the next NIC, when it listens. Rings and buffers stay as they are. */
static void reconnect(struct ccnic *nic)
{
	const struct timespec pause = { .tv_nsec = 10000000 };
	int ret;

	while (!stopped && (ret = ccnic_reconnect(nic)) < 0 && ret != -EISCONN)
		nanosleep(&pause, NULL);
}

int main(int argc, char **argv)
{
	const long count = argc > 2 ? atol(argv[2]) : 0;
	struct ccnic *nic;
	struct ccnic_queue *queue;
	struct ccnic_buf bufs[BURST];
	struct ccnic_stats stats;
	uint8_t own[6];

	if (ccnic_open(argc > 1 ? argv[1] : NULL, NULL, &nic) < 0)
		fail("open");
	if (ccnic_queue_open(nic, 0, &queue) < 0 || ccnic_mac(nic, own) < 0)
		fail("queue");
	signal(SIGINT, stop);
	signal(SIGTERM, stop);

	send_first(nic, queue, own);
	long echoed = 0;
	while (!stopped && (count == 0 || echoed < count)) {
		int n = ccnic_rx_burst(queue, bufs, BURST);
		if (n > 0) {
			for (int i = 0; i < n; i++) {
				if (i == 0 || !ccnic_buf_more(&bufs[i - 1])) /* the first buffer of a packet */
					turn_round(queue, &bufs[i], own);
				echoed += !ccnic_buf_more(&bufs[i]);
			}
			send_all(nic, queue, bufs, n);
		} else if (n == 0 && (n = ccnic_wait(queue, SECOND)) == -ENOTCONN) {
			reconnect(nic);
			send_first(nic, queue, own); /* the NIC may have taken the last one with it */
		} else if (n < 0 && n != -EINTR) {
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
