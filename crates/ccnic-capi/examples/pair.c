/*
 * pair: two programs, one switch. Each greets everybody until it hears from the other, answers, and ends.
 *
 *     cc pair.c $(pkg-config --cflags --libs ccnic) -o pair
 *     ccnicd --wire switch & ./pair & ./pair        # or ./pair SOCKET
 */
#define _POSIX_C_SOURCE 200809L
#include <ccnic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define HEADER 14 /* of Ethernet: to, from, type */
#define TEXT 46   /* the shortest frame */

static struct ccnic *nic;
static struct ccnic_queue *queue;
static uint8_t own[6];

static void fail(const char *what)
{
	fprintf(stderr, "pair: %s: %s\n", what, ccnic_last_error());
	exit(EXIT_FAILURE);
}

static void greet(const uint8_t to[6])
{
	struct ccnic_buf buf;
	const int n = ccnic_buf_alloc(queue, HEADER + TEXT, &buf, 1);

	if (n <= 0)
		fail("allocate");
	uint8_t *const frame = ccnic_buf_data(queue, &buf);
	memset(frame, 0, HEADER + TEXT);
	memcpy(frame, to, 6);
	memcpy(frame + 6, own, 6);
	frame[12] = 0x88; /* a type for experiments */
	frame[13] = 0xb5;
	snprintf((char *)frame + HEADER, TEXT, "hello, I am process %d", (int)getpid());
	const int sent = ccnic_tx_burst(queue, &buf, 1);
	if (sent < 0 || ccnic_buf_free(queue, &buf, (uint16_t)(1 - sent)) < 0)
		fail("send");
}

int main(int argc, char **argv)
{
	static const uint8_t everybody[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	const struct timespec pause = { .tv_nsec = 10000000 };
	int heard = 0;

	if (ccnic_open(argc > 1 ? argv[1] : NULL, NULL, &nic) < 0 || ccnic_queue_open(nic, 0, &queue) < 0 || ccnic_mac(nic, own) < 0)
		fail("open");
	while (!heard) {
		struct ccnic_buf buf;
		int n;

		greet(everybody);
		n = ccnic_wait(queue, 200000000); /* 0: nobody is there yet */
		while (n == -ENOTCONN && (n = ccnic_reconnect(nic)) < 0) { /* the NIC has ended: attach to the next one */
			nanosleep(&pause, NULL);
			n = -ENOTCONN;
		}
		while (!heard && (n = ccnic_rx_burst(queue, &buf, 1)) > 0) {
			const uint8_t *const frame = ccnic_buf_data(queue, &buf);
			heard = ccnic_buf_len(&buf) >= HEADER + TEXT && frame[12] == 0x88 && frame[13] == 0xb5;
			if (heard) {
				printf("%.*s\n", TEXT, (const char *)frame + HEADER);
				greet(frame + 6);
			}
			if (ccnic_buf_free(queue, &buf, 1) < 0)
				fail("free");
		}
		if (n < 0)
			fail("receive");
	}
	if (ccnic_queue_close(queue) < 0 || ccnic_close(nic) < 0)
		fail("close");
	return 0;
}
