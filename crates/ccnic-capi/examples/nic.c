/*
 * nic: a loopback NIC for programs that use libccnic, in one thread. Every packet goes back to the program that sent it.
 *
 *     cc -O2 nic.c $(pkg-config --cflags --libs ccnic) -o nic
 *     ./nic SOCKET [PROGRAMS] &        ends after so many programs have come and gone, or when it is told to
 *     ./echo SOCKET 1000
 *
 * A real NIC would have a control thread and cores that poll; the calls are the same.
 */
#include <ccnic_nic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define BURST 32
#define QUEUES_MAX 64
#define PROGRAMS_MAX 16
#define MILLISECOND 1000000LL
/* Rounds between two looks at the control socket: a look is a system call. */
#define ROUNDS 4096

/* A queue, and the packets of its last burst that have not gone back yet. */
struct lane {
	struct ccnic_nic_queue *queue;
	struct ccnic_buf bufs[BURST];
	int waiting;
};

struct served {
	struct ccnic_program *program;
	uint32_t queues;
	int last_turns; /* after it has gone: as many as its rings can hold bursts */
	struct lane lanes[QUEUES_MAX];
};

static struct served *all[PROGRAMS_MAX];
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

/* Takes over a program that has attached. */
static void welcome(struct ccnic_nic *nic)
{
	struct served *served = calloc(1, sizeof(*served));
	struct ccnic_program_info info;

	if (served == NULL || ccnic_nic_accept(nic, &served->program) < 0 ||
	    ccnic_program_info(served->program, &info, sizeof(info)) < 0)
		fail("accept");
	served->queues = info.queues < QUEUES_MAX ? info.queues : QUEUES_MAX;
	served->last_turns = (int)(info.ring / BURST + 1);
	for (uint32_t i = 0; i < served->queues; i++)
		if (ccnic_nic_queue_open(served->program, (uint16_t)i, &served->lanes[i].queue) < 0)
			fail("queue");
	printf("%s has come: %u queues, MTU %u, %02x:%02x:%02x:%02x:%02x:%02x\n", info.name, info.queues, info.mtu, info.mac[0],
	       info.mac[1], info.mac[2], info.mac[3], info.mac[4], info.mac[5]);
	fflush(stdout);
	all[programs++] = served;
}

/* One turn of a queue: what came goes back. Returns the buffers moved. */
static int turn(struct lane *lane)
{
	struct ccnic_segment segments[BURST];

	if (lane->waiting == 0)
		lane->waiting = ccnic_nic_rx_burst(lane->queue, lane->bufs, BURST);
	if (lane->waiting <= 0)
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
	ccnic_nic_buf_free(lane->queue, lane->bufs, (uint16_t)sent);
	lane->waiting -= sent;
	memmove(lane->bufs, lane->bufs + sent, (size_t)lane->waiting * sizeof(lane->bufs[0]));
	return sent;
}

static int serve(struct served *served)
{
	int moved = 0;

	for (uint32_t i = 0; i < served->queues; i++)
		moved += turn(&served->lanes[i]);
	return moved;
}

/* Lets a program go: all that the NIC holds of it goes back to its pool. */
static void farewell(struct served *served)
{
	uint64_t packets = 0;

	for (uint32_t i = 0; i < served->queues; i++) {
		struct lane *lane = &served->lanes[i];
		struct ccnic_nic_stats stats;

		ccnic_nic_buf_free(lane->queue, lane->bufs, (uint16_t)lane->waiting);
		if (ccnic_nic_queue_stats(lane->queue, &stats, sizeof(stats)) == 0)
			packets += stats.tx_packets;
		ccnic_nic_queue_close(lane->queue);
	}
	ccnic_program_release(served->program);
	free(served);
	printf("one has gone, after %llu packets\n", (unsigned long long)packets);
	fflush(stdout);
}

/* Deals with programs that come and go; returns how many have gone. What those had still sent is served a last time. */
static int control(struct ccnic_nic *nic)
{
	int gone = 0;
	int waiting = ccnic_nic_poll(nic, programs == 0 ? 100 * MILLISECOND : 0);

	if (waiting < 0)
		fail("poll");
	for (; waiting > 0 && programs < PROGRAMS_MAX; waiting--)
		welcome(nic);
	for (int i = 0; i < programs;) {
		if (ccnic_program_link_state(all[i]->program) == 1) {
			i++;
			continue;
		}
		while (all[i]->last_turns-- > 0 && serve(all[i]) > 0)
			;
		farewell(all[i]);
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
				serve(all[i]);
	}
	while (programs > 0)
		farewell(all[--programs]);
	ccnic_nic_close(nic);
	return 0;
}
