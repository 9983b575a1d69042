/* Runs the examples of the man pages, which the test has extracted: man NIC_SOCKET OWN_SOCKET. */
#define _POSIX_C_SOURCE 200809L /* nanosleep() */

#include "check.h"
#include <ccnic_nic.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ccnic_call.example.h"
#include "ccnic_open.example.h"
#include "ccnic_tx_burst.example.h"
/* Uses echo() and send_packet(). */
#include "ccnic_queue_open.example.h"
#include "ccnic_pool_open.example.h"
#include "ccnic_rss_set.example.h"
#include "ccnic_offloads.example.h"
#include "ccnic_flow_create.example.h"
#include "ccnic_nic_rx_burst.example.h"
/* Uses reflect(). */
#include "ccnic_nic_listen.example.h"

/* ccnic_call(3): a child process is the server, for two calls. */
static void call_and_answer(const char *socket)
{
	struct ccnic_call_server *server;
	volatile bool stop = false;
	int status;
	pid_t child;

	EXPECT(ccnic_call_listen(socket, &server), 0);
	EXPECT(ccnic_call_callers(server), 0);
	stop_waiting(server, &stop);
	EXPECT(ccnic_call_serve(server, sum, NULL, -1), 0);
	EXPECT(ccnic_call_server_close(server), 0);
	child = fork();
	if (child == 0)
		_exit(answer_calls(socket, 2));
	EXPECT(child > 0, true);
	while (access(socket, F_OK) != 0 || add(socket, 2, 3) != 5)
		nanosleep(&(struct timespec){0, 1000000}, NULL);
	EXPECT(add(socket, UINT64_MAX, 2), 1);
	EXPECT(waitpid(child, &status, 0), child);
	EXPECT(status, 0);
}

/* ccnic_open(3), ccnic_rss_set(3), ccnic_queue_open(3) */
static struct ccnic_queue *begin(struct ccnic *nic)
{
	struct ccnic_queue *queue = start(nic, 0);

	EXPECT(queue != NULL, true);
	EXPECT(check_nic(nic), 1);
	EXPECT(wait_and_echo(queue), 1);
	EXPECT(ccnic_wait(queue, 10 * SECOND) > 0, true); /* the loopback has returned it once more */
	EXPECT(on_readable(queue), 0);
	return queue;
}

/* Another descriptor that can be read ends serve(), however many packets go round. */
static void handle_events(struct ccnic_queue *queue)
{
	int other[2];

	EXPECT(pipe(other), 0);
	EXPECT(write(other[1], "x", 1), 1);
	EXPECT(serve(queue, other[0]), 0);
	close(other[0]);
	close(other[1]);
}

/* Takes the packets that go round out of the rings. */
static void drain(struct ccnic_queue *queue)
{
	struct ccnic_buf bufs[32];

	while (ccnic_wait(queue, SECOND / 10) > 0) {
		int n = ccnic_rx_burst(queue, bufs, 32);

		EXPECT(ccnic_buf_free(queue, bufs, (uint16_t)n), 0);
	}
}

/* Receives one packet of two buffers and compares their lengths. */
static void receive_chain(struct ccnic_queue *queue, uint16_t first, uint16_t second)
{
	struct ccnic_buf bufs[32];
	uint16_t bytes = 0;
	int n;

	EXPECT(ccnic_wait(queue, 10 * SECOND) > 0, true);
	n = ccnic_rx_burst(queue, bufs, 32);
	for (int i = 0; i < n; i++)
		bytes += ccnic_buf_len(&bufs[i]);
	EXPECT(bytes, first + second); /* a loopback may cut the packet in another way */
	EXPECT(ccnic_buf_free(queue, bufs, (uint16_t)n), 0);
}

/* ccnic_tx_burst(3) and ccnic_pool_open(3) */
static void send_and_receive(struct ccnic *nic, struct ccnic_queue *queue)
{
	static const uint8_t jumbo[6000];
	uint8_t in[2][CCNIC_SMALL_SIZE];
	const void *const data[2] = {"one", "two"};
	void *const room[2] = {in[0], in[1]};
	uint16_t len[2] = {3, 3};
	struct ccnic_buf bufs[2];

	EXPECT(send_packet(queue, jumbo, sizeof(jumbo)), 2);
	receive_chain(queue, 4096, sizeof(jumbo) - 4096);
	EXPECT(prepare_one(nic, &bufs[1]), 1);
	EXPECT(append(queue, &bufs[1], " again", 6), 0);
	EXPECT(append(queue, &bufs[1], jumbo, sizeof(jumbo)), -EMSGSIZE);
	EXPECT(prepend(queue, bufs, "header", 6), 1);
	EXPECT(ccnic_tx_burst(queue, bufs, 2), 2);
	receive_chain(queue, 6, 11);
	EXPECT(exchange_small(queue, data, len, room) >= 0, true);
	drain(queue);
	EXPECT(send_requests(queue, 1, 40), 32);
	drain(queue);
	EXPECT(ccnic_buf_alloc(queue, 100, bufs, 1), 1);
	EXPECT(send_both(queue, "header", 6, bufs), 2);
	drain(queue);
}

static int parts, is_summed;

static int look_at(const void *part, int len)
{
	const uint8_t *bytes = part;

	parts++;
	is_summed += len == 60 && (bytes[50] | bytes[51]) != 0;
	return 0;
}

/* ccnic_offloads(3): what the program takes arrives as it was sent; the missing checksum is computed by who needs it. */
static void unsummed(struct ccnic *nic, struct ccnic_queue *queue)
{
	uint8_t frame[60] = {2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2};
	struct ccnic_buf buf;

	frame[46] = 0x50;
	EXPECT(send_unsummed(nic, queue, frame, sizeof(frame)), 1);
	EXPECT(ccnic_wait(queue, 10 * SECOND), 1);
	EXPECT(ccnic_rx_burst(queue, &buf, 1), 1);
	EXPECT(buf.meta, CCNIC_META_L4_REQUESTED);
	EXPECT(complete(ccnic_buf_data(queue, &buf), buf.len, buf.meta, look_at), 0);
	EXPECT(parts == 1 && is_summed == 1, true);
	EXPECT(complete("short", 5, buf.meta, look_at), -EBADMSG);
	EXPECT(ccnic_takes_set(nic, 1u << 31), -E2BIG);
	EXPECT(ccnic_program_takes(NULL), -EINVAL);
	EXPECT(ccnic_buf_free(queue, &buf, 1), 0);
}

/* ccnic_queue_open(3): the word changes with the packet that the loopback returns. */
static void watch_the_word(struct ccnic_queue *queue)
{
	EXPECT(send_packet(queue, (const uint8_t *)"hello", 5), 1);
	EXPECT(await_write(queue), 1);
	EXPECT(await_write(queue), 1);
	drain(queue);
}

static void program(const char *socket)
{
	struct ccnic *nic = open_nic(socket);
	struct ccnic_queue *queue;

	EXPECT(nic != NULL, true);
	queue = begin(nic);
	handle_events(queue);
	drain(queue);
	send_and_receive(nic, queue);
	unsummed(nic, queue);
	watch_the_word(queue);
	EXPECT(spread(nic), 1);
	EXPECT(dns_apart(nic), 0);
	EXPECT(all_as_before(nic, 0), 0);
	EXPECT(ccnic_queue_close(queue), 0);
	EXPECT(ccnic_close(nic), 0);
}

/* ccnic_nic_listen(3): attaches to the NIC that the other process runs, and sends it a packet. */
static void program_of_own_nic(const char *socket)
{
	const struct timespec moment = {0, SECOND / 100};
	struct ccnic_queue *queue;
	struct ccnic *nic = NULL;

	for (int tries = 0; nic == NULL && tries < 6000; tries++)
		if (ccnic_open(socket, NULL, &nic) < 0)
			nanosleep(&moment, NULL);
	EXPECT(nic != NULL, true);
	queue = start(nic, 0);
	EXPECT(queue != NULL && ccnic_wait(queue, 10 * SECOND) > 0, true);
	drain(queue);
	EXPECT(ccnic_queue_close(queue), 0);
	EXPECT(ccnic_close(nic), 0);
}

/* ccnic_nic_rx_burst(3): the program of nic_of_all_examples(), in a process of its own, has two queues and asks for RSS. */
static int program_of_all_examples(const char *socket)
{
	struct ccnic_options options;
	struct ccnic_queue *queues[2];
	struct ccnic *nic = NULL;
	struct ccnic_buf buf;
	int received = 0;

	ccnic_options_init(&options);
	options.queues = 2;
	for (int tries = 0; nic == NULL && tries < 6000; tries++)
		if (ccnic_open(socket, &options, &nic) < 0)
			nanosleep(&(struct timespec){0, SECOND / 100}, NULL);
	EXPECT(nic != NULL, true);
	EXPECT(ccnic_queue_open(nic, 0, &queues[0]) == 0 && ccnic_queue_open(nic, 1, &queues[1]) == 0, true);
	EXPECT(spread(nic), 1);
	EXPECT(send_packet(queues[0], (const uint8_t *)"go", 2), 1);
	/* What comes back, what deliver() and deliver_zeros() send, and eight packets that are spread. */
	while (received < 11)
		for (int i = 0; i < 2; i++)
			if (ccnic_rx_burst(queues[i], &buf, 1) > 0) {
				received++;
				EXPECT(ccnic_buf_free(queues[i], &buf, 1), 0);
			}
	EXPECT(send_packet(queues[0], (const uint8_t *)"sink", 4), 1);
	EXPECT(ccnic_wait(queues[0], 20 * SECOND), 1); /* until it has been counted */
	drain(queues[0]);
	EXPECT(ccnic_queue_close(queues[0]) == 0 && ccnic_queue_close(queues[1]) == 0, true);
	EXPECT(ccnic_close(nic), 0);
	return EXIT_SUCCESS;
}

static void nic_of_all_examples(const char *socket)
{
	static const uint8_t packet[60];
	struct ccnic_nic_queue *queues[2];
	struct ccnic_segment segments[8];
	struct ccnic_nic_options options;
	struct ccnic_program *program;
	struct ccnic_nic_stats stats;
	struct ccnic_nic *nic;
	uint64_t bytes = 0;
	int ready[2];

	ccnic_nic_options_init(&options);
	options.flags = CCNIC_NIC_RSS | CCNIC_NIC_SLEEPS;
	EXPECT(ccnic_nic_listen(socket, &options, &nic), 0);
	while (ccnic_nic_poll(nic, SECOND) == 0)
		;
	EXPECT(ccnic_nic_accept(nic, &program), 0);
	EXPECT(ccnic_nic_queue_open(program, 0, &queues[0]) == 0 && ccnic_nic_queue_open(program, 1, &queues[1]) == 0, true);
	/* Its packet follows its request for RSS. */
	do
		EXPECT(ccnic_nic_poll(nic, SECOND / 100) >= 0 && reflect(queues[0]) >= 0 && ccnic_nic_queue_stats(queues[0], &stats, sizeof(stats)) == 0, true);
	while (stats.rx_packets == 0);
	EXPECT(deliver(queues[0], packet, 14, packet, 46), 2);
	EXPECT(deliver_zeros(queues[1], 60), 1);
	for (int i = 0; i < 8; i++)
		segments[i] = (struct ccnic_segment){.data = packet, .len = sizeof(packet)};
	EXPECT(spread_out(queues, segments, 8), 0);
	while (bytes == 0)
		EXPECT(sink(queues[0], &bytes) >= 0, true);
	EXPECT(bytes, 4);
	/* Something else to do: it neither polls nor sleeps on. */
	EXPECT(pipe(ready) == 0 && write(ready[1], "x", 1) == 1, true);
	EXPECT(reflect_or_sleep(queues[0], ready[0]), 0);
	EXPECT(deliver(queues[0], packet, 14, packet, 46), 2);
	while (ccnic_program_link_state(program) == 1)
		EXPECT(ccnic_nic_poll(nic, SECOND / 100) >= 0 && reflect(queues[0]) >= 0, true);
	EXPECT(ccnic_nic_queue_close(queues[0]) == 0 && ccnic_nic_queue_close(queues[1]) == 0, true);
	EXPECT(ccnic_program_release(program), 0);
	EXPECT(ccnic_nic_close(nic), 0);
}

int main(int argc, char **argv)
{
	pid_t child;
	int status;

	EXPECT(argc, 3);
	child = fork();
	if (child == 0)
		return nic_for_one(argv[2]) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
	program(argv[1]);
	program_of_own_nic(argv[2]);
	EXPECT(waitpid(child, &status, 0), child);
	EXPECT(status, 0);
	call_and_answer(argv[2]); /* the NIC has removed its socket */
	child = fork();
	if (child == 0)
		return program_of_all_examples(argv[2]);
	nic_of_all_examples(argv[2]);
	EXPECT(waitpid(child, &status, 0), child);
	EXPECT(status, 0);
	EXPECT(needs_more != NULL, true);
	puts("all examples ran");
	return EXIT_SUCCESS;
}
