/*
 * nic: a loopback NIC for programs that use libccnic, in one thread. It sends every packet back to the program that sent it.
 *
 *     cc -O2 nic.c $(pkg-config --cflags --libs ccnic) -o nic
 *     ./nic SOCKET [PROGRAMS] &        ends after PROGRAMS programs have ended, or at SIGINT or SIGTERM
 *     ./echo SOCKET 1000
 *
 * A real NIC has a control thread and polling threads; the calls are the same.
 */
#include <ccnic_nic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define BURST 32
#define QUEUES_MAX 64
#define PROGRAMS_MAX 16
#define MILLISECOND 1000000LL
/* Rounds of polling between two calls of ccnic_nic_poll(), which is a system call. */
#define ROUNDS 4096

/* A queue, and the buffers of its last burst that have not been sent back yet. */
struct lane {
	struct ccnic_nic_queue *queue;
	struct ccnic_buf bufs[BURST];
	int waiting;
};

struct client {
	struct ccnic_program *program;
	uint32_t queues;
	int last_polls; /* left after its end: as many bursts as its rings can hold */
	struct lane lanes[QUEUES_MAX];
};

static struct client *all[PROGRAMS_MAX];
static int programs;
static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

static void fail(const char *what)
{
	fprintf(stderr, "nic: %s: %s\n", what, ccnic_last_error());
	exit(EXIT_FAILURE);
}

/* Accepts a program that has attached. */
static void accept_program(struct ccnic_nic *nic)
{
	struct client *client = calloc(1, sizeof(*client));
	struct ccnic_program_info info;

	if (client == NULL)
		abort();
	if (ccnic_nic_accept(nic, &client->program) < 0 ||
	    ccnic_program_info(client->program, &info, sizeof(info)) < 0)
		fail("accept");
	client->queues = info.queues < QUEUES_MAX ? info.queues : QUEUES_MAX;
	client->last_polls = (int)(info.ring / BURST + 1);
	for (uint32_t i = 0; i < client->queues; i++)
		if (ccnic_nic_queue_open(client->program, (uint16_t)i, &client->lanes[i].queue) < 0)
			fail("queue");
	printf("%s has attached: %u queues, MTU %u, %02x:%02x:%02x:%02x:%02x:%02x\n", info.name, info.queues, info.mtu, info.mac[0],
	       info.mac[1], info.mac[2], info.mac[3], info.mac[4], info.mac[5]);
	fflush(stdout);
	all[programs++] = client;
}

/* One poll of a queue: sends packets of the program back. Returns the number of buffers. */
static int poll_queue(struct lane *lane)
{
	struct ccnic_segment segments[BURST];

	if (lane->waiting == 0)
		lane->waiting = ccnic_nic_rx_burst(lane->queue, lane->bufs, BURST);
	if (lane->waiting < 0)
		fail("receive");
	if (lane->waiting == 0)
		return 0;
	for (int i = 0; i < lane->waiting; i++)
		segments[i] = (struct ccnic_segment){
			.data = ccnic_nic_buf_data(lane->queue, &lane->bufs[i]),
			.meta = lane->bufs[i].meta,
			.len = ccnic_buf_len(&lane->bufs[i]),
			.flags = ccnic_buf_more(&lane->bufs[i]) ? CCNIC_SEGMENT_MORE : 0,
		};
	int sent = ccnic_nic_tx_copy(lane->queue, segments, (uint16_t)lane->waiting);
	if (sent < 0)
		fail("send");
	if (ccnic_nic_buf_free(lane->queue, lane->bufs, (uint16_t)sent) < 0)
		fail("free");
	lane->waiting -= sent;
	memmove(lane->bufs, lane->bufs + sent, (size_t)lane->waiting * sizeof(lane->bufs[0]));
	return sent;
}

static int poll_program(struct client *client)
{
	int moved = 0;

	for (uint32_t i = 0; i < client->queues; i++)
		moved += poll_queue(&client->lanes[i]);
	return moved;
}

/* Releases a program; its buffers that the NIC owns return to its pool. */
static void release(struct client *client)
{
	uint64_t packets = 0;

	for (uint32_t i = 0; i < client->queues; i++) {
		struct lane *lane = &client->lanes[i];
		struct ccnic_nic_stats stats;

		if (ccnic_nic_buf_free(lane->queue, lane->bufs, (uint16_t)lane->waiting) < 0 ||
		    ccnic_nic_queue_stats(lane->queue, &stats, sizeof(stats)) < 0 || ccnic_nic_queue_close(lane->queue) < 0)
			fail("close");
		packets += stats.tx_packets;
	}
	if (ccnic_program_release(client->program) < 0)
		fail("release");
	free(client);
	printf("a program has ended, after %llu packets\n", (unsigned long long)packets);
	fflush(stdout);
}

/*
 * Accepts programs that have attached and releases those that have ended; returns how many have ended. Packets that a program had
 * sent before its end are still served.
 */
static int control(struct ccnic_nic *nic)
{
	int gone = 0;
	int waiting = ccnic_nic_poll(nic, programs == 0 ? 100 * MILLISECOND : 0);

	if (waiting < 0)
		fail("poll");
	for (; waiting > 0 && programs < PROGRAMS_MAX; waiting--)
		accept_program(nic);
	for (int i = 0; i < programs;) {
		if (ccnic_program_link_state(all[i]->program) == 1) {
			i++;
			continue;
		}
		while (all[i]->last_polls-- > 0 && poll_program(all[i]) > 0)
			;
		release(all[i]);
		all[i] = all[--programs];
		gone++;
	}
	return gone;
}

int main(int argc, char **argv)
{
	const int most = argc > 2 ? atoi(argv[2]) : 0;
	struct ccnic_nic *nic;
	int gone = 0;

	if (argc < 2) {
		fprintf(stderr, "usage: nic SOCKET [PROGRAMS]\n");
		return 2;
	}
	if (ccnic_nic_listen(argv[1], NULL, &nic) < 0)
		fail("listen");
	signal(SIGINT, stop);
	signal(SIGTERM, stop);
	while (!stopped && (most == 0 || gone < most)) {
		gone += control(nic);
		for (int round = 0; round < ROUNDS && programs > 0; round++)
			for (int i = 0; i < programs; i++)
				poll_program(all[i]);
	}
	while (programs > 0)
		release(all[--programs]);
	if (ccnic_nic_close(nic) < 0)
		fail("close");
	return 0;
}
