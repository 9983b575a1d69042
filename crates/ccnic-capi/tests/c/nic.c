/* A NIC in C and a program, in one process: packets in both directions in every design, and every misuse by the NIC. */
#define _POSIX_C_SOURCE 200809L
#include "nic_forged.h"
#include "nic_packets.h"
#include "nic_waits.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define PIECES 3

static struct ccnic_nic *nic;
static atomic_bool ended;

/* The control thread. */
static void *control(void *nothing)
{
	while (!atomic_load(&ended))
		EXPECT(ccnic_nic_poll(nic, SECOND / 100) >= 0, true);
	return nothing;
}

static void listen_wrongly(const char *socket, const char *file)
{
	struct ccnic_nic_options options;
	struct ccnic_nic *other = NULL;
	struct {
		struct ccnic_nic_options options;
		uint64_t later;
	} newer;

	EXPECT(ccnic_nic_listen(NULL, NULL, &other), -EINVAL);
	EXPECT(ccnic_nic_listen(socket, NULL, NULL), -EINVAL);
	EXPECT(ccnic_nic_listen(socket, NULL, &other), -EADDRINUSE);
	EXPECT(strstr(ccnic_last_error(), "already running") != NULL, true);
	EXPECT(ccnic_nic_listen(file, NULL, &other), -EEXIST);
	EXPECT(ccnic_nic_listen("/nonexistent/nic.sock", NULL, &other), -ENOENT);
	ccnic_nic_options_init(&options);
	options.flags = 8;
	EXPECT(ccnic_nic_listen(socket, &options, &other), -EINVAL);
	options.flags = 0;
	options.region_max = 4096;
	EXPECT(ccnic_nic_listen(socket, &options, &other), -EINVAL);
	options.size = 0;
	EXPECT(ccnic_nic_listen(socket, &options, &other), -EINVAL);
	memset(&newer, 0, sizeof(newer));
	newer.options.size = sizeof(newer);
	newer.later = 1;
	EXPECT(ccnic_nic_listen(socket, &newer.options, &other), -E2BIG);
	EXPECT(other == NULL, true);
}

static void nulls(struct ccnic_program *program, struct ccnic_nic_queue *queue)
{
	struct ccnic_program *none;
	struct ccnic_program_info info;
	struct ccnic_nic_queue *other;
	struct ccnic_nic_stats stats;
	struct ccnic_segment segment = {0};
	uint8_t memory[64];
	void *room = memory;
	struct ccnic_buf buf;
	uint16_t len;

	EXPECT(ccnic_nic_close(NULL), -EINVAL);
	EXPECT(ccnic_nic_poll(NULL, 0), -EINVAL);
	EXPECT(ccnic_nic_accept(NULL, &none), -EINVAL);
	EXPECT(ccnic_nic_accept(nic, NULL), -EINVAL);
	EXPECT(ccnic_nic_accept(nic, &none), -EAGAIN);
	EXPECT(ccnic_program_info(NULL, &info, sizeof(info)), -EINVAL);
	EXPECT(ccnic_program_info(program, NULL, sizeof(info)), -EINVAL);
	EXPECT(ccnic_program_link_state(NULL), -EINVAL);
	EXPECT(ccnic_program_release(NULL), -EINVAL);
	EXPECT(ccnic_nic_queue_open(NULL, 0, &other), -EINVAL);
	EXPECT(ccnic_nic_queue_open(program, 0, NULL), -EINVAL);
	EXPECT(ccnic_nic_queue_close(NULL), -EINVAL);
	EXPECT(ccnic_nic_queue_stats(NULL, &stats, sizeof(stats)), -EINVAL);
	EXPECT(ccnic_nic_queue_stats(queue, NULL, sizeof(stats)), -EINVAL);
	EXPECT(ccnic_nic_rx_fd(NULL), -EINVAL);
	EXPECT(ccnic_nic_rx_arm(NULL), -EINVAL);
	EXPECT(ccnic_nic_rx_disarm(NULL), -EINVAL);
	EXPECT(ccnic_nic_rx_burst(NULL, &buf, 1), -EINVAL);
	EXPECT(ccnic_nic_rx_burst(queue, NULL, 1), -EINVAL);
	EXPECT(ccnic_nic_rx_copy(NULL, &room, 64, &len, NULL, 1), -EINVAL);
	EXPECT(ccnic_nic_rx_copy(queue, NULL, 64, &len, NULL, 1), -EINVAL);
	EXPECT(ccnic_nic_rx_copy(queue, &room, 64, NULL, NULL, 1), -EINVAL);
	EXPECT(ccnic_nic_rx_copy(queue, NULL, 64, NULL, NULL, 0), 0);
	EXPECT(ccnic_nic_tx_burst(NULL, &buf, 1), -EINVAL);
	EXPECT(ccnic_nic_tx_copy(NULL, &segment, 1), -EINVAL);
	EXPECT(ccnic_nic_tx_copy(queue, NULL, 1), -EINVAL);
	EXPECT(ccnic_nic_buf_alloc(NULL, 64, &buf, 1), -EINVAL);
	EXPECT(ccnic_nic_buf_free(NULL, &buf, 1), -EINVAL);
	EXPECT(ccnic_nic_buf_free(queue, NULL, 1), -EINVAL);
	EXPECT(ccnic_nic_rx_burst(queue, NULL, 0), 0);
	EXPECT(ccnic_nic_tx_copy(queue, NULL, 0), 0);
	EXPECT(ccnic_nic_buf_free(queue, NULL, 0), 0);
	/* Still in use. */
	EXPECT(ccnic_nic_queue_open(program, 0, &other), -EBUSY);
	EXPECT(ccnic_nic_queue_open(program, 2, &other), -EINVAL);
	EXPECT(ccnic_nic_queue_open(program, UINT16_MAX, &other), -EINVAL);
	EXPECT(ccnic_program_release(program), -EBUSY);
	EXPECT(ccnic_nic_close(nic), -EBUSY);
}

/* Each packet in `PIECES` segments of the NIC's own memory, one of them empty. */
static void copy_back(struct ccnic_nic_queue *side, uint16_t len, int packets)
{
	static uint8_t memory[8][9600];
	struct ccnic_segment segments[8 * PIECES];

	for (int i = 0; i < packets; i++) {
		struct ccnic_segment *of = segments + PIECES * i;
		for (int j = 0; j < len; j++)
			memory[i][j] = byte(i, j);
		of[0] = (struct ccnic_segment){memory[i], (uint64_t)i, len / 3u, CCNIC_SEGMENT_MORE};
		of[1] = (struct ccnic_segment){NULL, 99, 0, CCNIC_SEGMENT_MORE};
		of[2] = (struct ccnic_segment){memory[i] + len / 3, 99, len - len / 3u, 0};
	}
	EXPECT(ccnic_nic_tx_copy(side, segments, (uint16_t)(PIECES * packets)), PIECES * packets);
	memset(memory, 0, sizeof(memory)); /* they have been copied */
}

/* The same buffers back, and then others that the NIC allocates. */
static void hand_over(struct ccnic_nic_queue *side, struct ccnic_queue *queue, const struct ccnic_buf *bufs, int n, uint16_t len,
		      int packets)
{
	struct ccnic_buf own[64];

	EXPECT(ccnic_nic_tx_burst(side, bufs, (uint16_t)n), n);
	expect_back(queue, len, packets);
	EXPECT(ccnic_nic_buf_alloc(side, len, own, (uint16_t)n), n);
	for (int i = 0, packet = 0, at = 0; i < n; i++) {
		uint8_t *data = ccnic_nic_buf_data(side, &own[i]);
		for (int j = 0; j < ccnic_buf_len(&own[i]); j++)
			data[j] = byte(packet, at + j);
		own[i].meta = (uint64_t)packet;
		at = ccnic_buf_more(&own[i]) ? at + ccnic_buf_len(&own[i]) : 0;
		packet += at == 0;
	}
	EXPECT(ccnic_nic_tx_burst(side, own, (uint16_t)n), n);
	expect_back(queue, len, packets);
}

/*
 * The program's packets as copies, at most `most` in one call, each into the end of an allocation. A packet that is longer than the rooms
 * or a chain comes with ccnic_nic_rx_burst().
 */
static void receive_copies(struct ccnic_nic_queue *side, struct ccnic_queue *queue, uint16_t len, uint16_t size, int packets, int most)
{
	struct ccnic_buf bufs[64];
	uint16_t lens[8];
	uint64_t meta[8];
	void *room[8];
	int done = 0, n;

	send_some(queue, len, packets);
	while (done < packets) {
		for (int i = 0; i < most; i++)
			room[i] = malloc(size);
		n = ccnic_nic_rx_copy(side, room, size, lens, meta, (uint16_t)most);
		for (int i = 0; i < n; i++) {
			EXPECT(lens[i], len);
			EXPECT(meta[i], done + i);
			for (int j = 0; j < len; j++)
				if (((uint8_t *)room[i])[j] != byte(done + i, j))
					EXPECT(((uint8_t *)room[i])[j], byte(done + i, j));
		}
		for (int i = 0; i < most; i++)
			free(room[i]);
		if (len > size || len > CCNIC_LARGE_SIZE) {
			EXPECT(n, -EMSGSIZE);
			n = receive_all(side, bufs);
			EXPECT(check_some(side, true, bufs, n, len), packets);
			EXPECT(ccnic_nic_buf_free(side, bufs, (uint16_t)n), 0);
			break;
		}
		EXPECT(n > 0 && n <= most, true);
		done += n;
	}
	EXPECT(ccnic_nic_rx_copy(side, room, size, lens, NULL, 0), 0);
	EXPECT(ccnic_nic_rx_burst(side, bufs, 64), 0);
}

/* Packets that fit and others in turn: those that ccnic_nic_rx_burst() has left behind are received as copies, too. */
static void receive_mixed(struct ccnic_nic_queue *side, struct ccnic_queue *queue)
{
	struct ccnic_buf bufs[64];
	uint8_t memory[64];
	void *room[1] = {memory};
	uint16_t len;

	for (int i = 0; i < 100; i++) {
		send_some(queue, 64, 1);
		send_some(queue, 65, 1);
		send_some(queue, 64, 2);
		EXPECT(ccnic_nic_rx_copy(side, room, 64, &len, NULL, 1), 1);
		EXPECT(ccnic_nic_rx_copy(side, room, 64, &len, NULL, 1), -EMSGSIZE);
		EXPECT(ccnic_nic_rx_burst(side, bufs, 1), 1);
		EXPECT(ccnic_buf_len(bufs), 65);
		EXPECT(ccnic_nic_rx_copy(side, room, 64, &len, NULL, 1), 1);
		EXPECT(ccnic_nic_rx_burst(side, bufs + 1, 63), 1);
		EXPECT(ccnic_nic_buf_free(side, bufs, 2), 0);
	}
	EXPECT(ccnic_nic_rx_copy(side, room, 64, &len, NULL, 1), 0);
}

static void exchange(struct ccnic_nic_queue *side, struct ccnic_queue *queue, bool shared_pool)
{
	static const uint16_t lengths[] = {1, 60, 64, 128, 129, 1500, 4096, 4097, 9000};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		const uint16_t len = lengths[i];
		struct ccnic_buf bufs[64];
		int n;

		for (int packets = 1; packets <= 8; packets += 7) {
			send_some(queue, len, packets);
			n = receive_all(side, bufs);
			EXPECT(check_some(side, true, bufs, n, len), packets);
			copy_back(side, len, packets);
			expect_back(queue, len, packets);
			if (shared_pool)
				hand_over(side, queue, bufs, n, len, packets);
			else
				EXPECT(ccnic_nic_buf_free(side, bufs, (uint16_t)n), 0);
			for (int most = 1; most <= 8; most += 7) {
				receive_copies(side, queue, len, CCNIC_LARGE_SIZE, packets, most);
				receive_copies(side, queue, len, len, packets, most);
				if (len > 1)
					receive_copies(side, queue, len, (uint16_t)(len - 1), packets, most);
			}
		}
	}
	receive_mixed(side, queue);
	/* A packet that does not fit the array stays. */
	struct ccnic_buf bufs[8];
	send_some(queue, 9000, 1);
	EXPECT(ccnic_nic_rx_burst(side, bufs, 2), 0);
	EXPECT(ccnic_nic_rx_burst(side, bufs, 3), 3);
	EXPECT(ccnic_nic_buf_free(side, bufs, 3), 0);
}

/* An empty pool and a full ring are no errors. */
static void exhaust(struct ccnic_nic_queue *side, struct ccnic_queue *queue, bool shared_pool)
{
	static struct ccnic_buf all[4096];
	static const uint8_t memory[64];
	const struct ccnic_segment segment = {memory, 0, sizeof(memory), 0};
	struct ccnic_nic_stats stats;
	int n = 0, got;

	if (shared_pool) {
		while ((got = ccnic_nic_buf_alloc(side, 4000, all + n, 16)) > 0)
			n += got;
		EXPECT(got, 0);
		EXPECT(n > 16 && n <= 512, true);
		EXPECT(ccnic_nic_buf_free(side, all, (uint16_t)n), 0);
	} else {
		EXPECT(ccnic_nic_buf_alloc(side, 64, all, 1), -EOPNOTSUPP);
		EXPECT(ccnic_nic_tx_burst(side, all, 0), -EOPNOTSUPP);
	}
	for (n = 0; ccnic_nic_tx_copy(side, &segment, 1) == 1; n++)
		EXPECT(n < 4096, true);
	EXPECT(n >= 16, true);
	EXPECT(ccnic_nic_queue_stats(side, &stats, sizeof(stats)), 0);
	EXPECT(stats.tx_ring_full + stats.tx_no_buffer > 0, true);
	EXPECT((stats.alloc_failed > 0) == shared_pool, true);
	for (int received = 0; received < n; received += got) {
		EXPECT(ccnic_wait(queue, 20 * SECOND) > 0, true);
		got = ccnic_rx_burst(queue, all, 64);
		EXPECT(ccnic_buf_free(queue, all, (uint16_t)got), 0);
	}
}

static struct ccnic_program *accept_next(void)
{
	struct ccnic_program *program = NULL;

	EXPECT(ccnic_nic_accept(nic, &program), 0); /* ccnic_open() has returned, so it is there */
	EXPECT(ccnic_program_link_state(program), 1);
	return program;
}

static void wait_until_gone(const struct ccnic_program *program)
{
	const struct timespec nap = {0, 1000000};

	for (int i = 0; ccnic_program_link_state(program) == 1; i++) {
		EXPECT(i < 20000, true);
		nanosleep(&nap, NULL);
	}
}

static void check_info(const struct ccnic_program *program, uint32_t design)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 7};
	struct ccnic_program_info info;

	memset(&info, 0xff, sizeof(info));
	EXPECT(ccnic_program_info(program, &info, sizeof(info)), 0);
	EXPECT(strcmp(info.name, "the program"), 0);
	EXPECT(info.design, design);
	EXPECT(info.queues == 2 && info.ring == 256 && info.buffers == 512 && info.mtu == 9000, true);
	EXPECT(info.flags, design == CCNIC_DESIGN_E810 ? CCNIC_HOST_MANAGED : 0);
	EXPECT(memcmp(info.mac, mac, 6), 0);
	/* A NIC that was compiled with an older header. */
	EXPECT(ccnic_program_info(program, &info, sizeof(info.name)), 0);
}

/* Microsoft's verification suite: 66.9.149.187:2794 to 161.142.100.80:1766, hashed with ports. */
#define HASH UINT32_C(0x51ccc178)
static const uint8_t flow[60] = {[12] = 0x08, [14] = 0x45, [17] = 40, [22] = 64, [23] = 6, [26] = 66, 9, 149, 187, 161, 142, 100, 80, 10, 234, 6, 230};

/* A program's RSS says where its packets go, from its next burst on; packets that are lost for want of room are on its counters. */
static void steer(struct ccnic *attachment, struct ccnic_nic_queue *side, struct ccnic_queue *queue)
{
	struct ccnic_segment packets[3] = {{flow, 1, sizeof(flow), 0}, {flow, CCNIC_META_HASHED | 1, 20, 0}, {NULL, 1, 0, 0}};
	struct ccnic_stats stats;
	struct ccnic_rss rss;
	uint16_t to[3] = {9, 9, 9};

	EXPECT(ccnic_nic_steer(side, packets, to, 3), 0);
	EXPECT(to[0] == 9 && packets[0].meta == 1, true);
	ccnic_rss_init(&rss, 2);
	rss.table[0] = 1;
	rss.table[HASH % CCNIC_RSS_TABLE] = 0;
	rss.flags = CCNIC_RSS_META;
	EXPECT(ccnic_rss_set(attachment, &rss), 0);
	EXPECT(ccnic_rss_active(attachment), 1);
	EXPECT(ccnic_nic_steer(side, NULL, NULL, 0), 1);
	EXPECT(ccnic_nic_steer(side, NULL, to, 1), -EINVAL);
	EXPECT(ccnic_nic_steer(side, packets, NULL, 1), -EINVAL);
	EXPECT(ccnic_nic_steer(NULL, packets, to, 1), -EINVAL);
	EXPECT(ccnic_nic_steer(side, packets, to, 3), 1);
	EXPECT(to[0] == 0 && to[1] == 1 && to[2] == 1, true);
	EXPECT(packets[0].meta == (CCNIC_META_HASHED | HASH) && packets[1].meta == 0, true);
	EXPECT(ccnic_rss_set(attachment, NULL), 0);
	EXPECT(ccnic_nic_steer(side, packets, to, 3), 0);
	EXPECT(ccnic_nic_missed(NULL, 1), -EINVAL);
	EXPECT(ccnic_nic_missed(side, 3), 0);
	EXPECT(ccnic_queue_stats(queue, &stats, sizeof(stats)), 0);
	EXPECT(stats.rx_dropped, 3);
}

/* The NIC releases the program, which attaches again and reclaims the buffers that the NIC owned. */
static struct ccnic_program *release_and_accept(struct ccnic *attachment, struct ccnic_program *program, struct ccnic_nic_queue *side,
				    bool shared_pool)
{
	struct ccnic_buf bufs[4];

	if (shared_pool)
		EXPECT(ccnic_nic_buf_alloc(side, 4000, bufs, 4), 4);
	EXPECT(ccnic_nic_queue_close(side), 0);
	EXPECT(ccnic_nic_queue_close(side), -EBADF);
	EXPECT(ccnic_nic_rx_burst(side, bufs, 4), -EBADF);
	EXPECT(ccnic_nic_tx_burst(side, bufs, 4), -EBADF);
	EXPECT(ccnic_nic_buf_alloc(side, 64, bufs, 4), -EBADF);
	EXPECT(ccnic_nic_buf_free(side, bufs, 4), -EBADF);
	EXPECT(ccnic_nic_rx_fd(side), -EBADF);
	EXPECT(ccnic_nic_rx_arm(side), -EBADF);
	EXPECT(ccnic_nic_rx_disarm(side), -EBADF);
	EXPECT(ccnic_program_release(program), 0);
	EXPECT(ccnic_link_state(attachment), 0);
	const int back = ccnic_reconnect(attachment);
	EXPECT(shared_pool ? back >= 4 : back >= 0, true);
	return accept_next();
}

static void one_design(const char *socket, uint32_t design)
{
	struct ccnic_options options;
	struct ccnic *attachment;
	struct ccnic_queue *queue;
	struct ccnic_nic_queue *side;
	struct ccnic_nic_stats stats;
	const bool shared_pool = design != CCNIC_DESIGN_E810;
	const unsigned long long sent_before = packets_sent;

	ccnic_options_init(&options);
	options.name = "the program";
	options.design = design;
	options.queues = 2;
	options.ring = 256;
	options.buffers = 512;
	options.mtu = 9000;
	options.mac[0] = 2;
	options.mac[5] = 7;
	EXPECT(ccnic_open(socket, &options, &attachment), 0);
	EXPECT(ccnic_queue_open(attachment, 0, &queue), 0);
	struct ccnic_program *program = accept_next();
	check_info(program, design);
	EXPECT(ccnic_nic_queue_open(program, 0, &side), 0);
	nulls(program, side);
	steer(attachment, side, queue);
	exchange(side, queue, shared_pool);
	if (shared_pool)
		forged(side);
	bad_segments(side);
	exhaust(side, queue, shared_pool);
	EXPECT(ccnic_nic_queue_stats(side, &stats, sizeof(stats)), 0);
	EXPECT(stats.rx_packets, packets_sent - sent_before);
	EXPECT(stats.rx_bad_descriptor + stats.rx_bad_chain + stats.rx_too_long + stats.rx_dropped_close, 0);
	EXPECT(stats.tx_bad_packet, shared_pool ? 8 : 6);
	EXPECT(stats.tx_bad_buffer, shared_pool ? 7 : 0);
	EXPECT(stats.free_bad_buffer, shared_pool ? 5 : 0);
	program = release_and_accept(attachment, program, side, shared_pool);
	EXPECT(ccnic_nic_queue_open(program, 0, &side), 0);
	notify(side, queue);
	wait_for_each(side, queue);
	sleep_for_each(side, queue);
	sleep_and_wake(side, queue);
	exchange(side, queue, shared_pool);
	/* Packets that were fetched and not received when the queue is closed are dropped and counted. */
	struct ccnic_buf bufs[8];
	send_some(queue, 100, 5);
	EXPECT(ccnic_nic_rx_burst(side, bufs, 2), 2);
	EXPECT(ccnic_nic_buf_free(side, bufs, 2), 0);
	EXPECT(ccnic_nic_queue_close(side), 0);
	EXPECT(ccnic_nic_queue_open(program, 0, &side), 0);
	EXPECT(ccnic_nic_queue_stats(side, &stats, sizeof(stats)), 0);
	EXPECT(stats.rx_dropped_close > 0 && stats.rx_dropped_close <= 3, true);
	/* The program ends. */
	EXPECT(ccnic_queue_close(queue), 0);
	EXPECT(ccnic_close(attachment), 0);
	wait_until_gone(program);
	EXPECT(ccnic_nic_rx_burst(side, bufs, 8) >= 0, true); /* its region stays mapped until it is released */
	EXPECT(ccnic_nic_queue_close(side), 0);
	EXPECT(ccnic_program_release(program), 0);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	uint32_t design;

	EXPECT(argc, 3);
	struct ccnic_nic_options options;
	ccnic_nic_options_init(&options);
	options.flags = CCNIC_NIC_RSS | CCNIC_NIC_SLEEPS;
	EXPECT(ccnic_nic_listen(argv[1], &options, &nic), 0);
	EXPECT(pthread_create(&thread, NULL, control, NULL), 0);
	listen_wrongly(argv[1], argv[2]);
	for (design = CCNIC_DESIGN_CCNIC; design <= CCNIC_DESIGN_E810; design++)
		one_design(argv[1], design);
	atomic_store(&ended, true);
	EXPECT(pthread_join(thread, NULL), 0);
	EXPECT(ccnic_nic_close(nic), 0);
	printf("%u designs\n", (unsigned)design);
	return 0;
}
