/* Every misuse by a program, and the library's answers. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

static void open_wrongly(const char *socket, const char *none, const char *dead)
{
	struct ccnic_options options;
	struct ccnic *nic = NULL;
	struct {
		struct ccnic_options options;
		uint64_t later;
	} newer;

	setenv("CCNIC_SOCKET", "/nowhere/nic.sock", 1);
	EXPECT(ccnic_open(NULL, NULL, &nic), -ENOENT);
	EXPECT(ccnic_open(socket, NULL, NULL), -EINVAL);
	EXPECT(ccnic_open(none, NULL, &nic), -ENOENT);
	EXPECT(strstr(ccnic_last_error(), "start one with") != NULL, true);
	EXPECT(ccnic_open(dead, NULL, &nic), -ECONNREFUSED);
	ccnic_options_init(&options);
	options.ring = 100;
	EXPECT(ccnic_open(socket, &options, &nic), -EINVAL);
	EXPECT(strstr(ccnic_last_error(), "choose a power of two") != NULL, true);
	options.ring = 0;
	options.mtu = 70000;
	EXPECT(ccnic_open(socket, &options, &nic), -EINVAL);
	options.mtu = 0;
	options.design = 5;
	EXPECT(ccnic_open(socket, &options, &nic), -EINVAL);
	options.design = 0;
	options.flags = 1u << 31;
	EXPECT(ccnic_open(socket, &options, &nic), -EINVAL);
	options.flags = 0;
	options.pages = 3;
	EXPECT(ccnic_open(socket, &options, &nic), -EINVAL);
	options.pages = 0;
	options.mac[0] = 1;
	EXPECT(ccnic_open(socket, &options, &nic), -EINVAL);
	options.mac[0] = 0;
	options.buffers = 262144;
	EXPECT(ccnic_open(socket, &options, &nic), -EPERM); /* above what the test's NIC takes */
	options.size = 0;
	EXPECT(ccnic_open(socket, &options, &nic), -EINVAL);

	/* A program compiled with a newer header: what this library does not know must be zero. */
	memset(&newer, 0, sizeof(newer));
	newer.options.size = sizeof(newer);
	newer.later = 1;
	EXPECT(ccnic_open(socket, &newer.options, &nic), -E2BIG);
	EXPECT(nic == NULL, true);
	newer.later = 0;
	EXPECT(ccnic_open(socket, &newer.options, &nic), 0);
	EXPECT(ccnic_close(nic), 0);
	/* And with an older one, which ends before the queues. */
	memset(&options, 0xff, sizeof(options));
	options.size = offsetof(struct ccnic_options, queues);
	options.name = "older";
	options.design = options.flags = 0;
	EXPECT(ccnic_open(socket, &options, &nic), 0);
	EXPECT(ccnic_queues(nic), 1);
	EXPECT(ccnic_mtu(nic), 9600);
	EXPECT(ccnic_close(nic), 0);
}

static void nulls(struct ccnic *nic, struct ccnic_queue *queue)
{
	struct ccnic_queue *other;
	struct ccnic_buf buf;
	struct ccnic_stats stats;
	uint8_t mac[6];

	EXPECT(ccnic_close(NULL), -EINVAL);
	EXPECT(ccnic_reconnect(NULL), -EINVAL);
	EXPECT(ccnic_link_state(NULL), -EINVAL);
	EXPECT(ccnic_mtu(NULL), -EINVAL);
	EXPECT(ccnic_queues(NULL), -EINVAL);
	EXPECT(ccnic_mac(NULL, mac), -EINVAL);
	EXPECT(ccnic_mac(nic, NULL), -EINVAL);
	EXPECT(ccnic_queue_open(NULL, 0, &other), -EINVAL);
	EXPECT(ccnic_queue_open(nic, 0, NULL), -EINVAL);
	EXPECT(ccnic_queue_close(NULL), -EINVAL);
	EXPECT(ccnic_queue_stats(NULL, &stats, sizeof(stats)), -EINVAL);
	EXPECT(ccnic_queue_stats(queue, NULL, sizeof(stats)), -EINVAL);
	EXPECT(ccnic_wait(NULL, 0), -EINVAL);
	EXPECT(ccnic_rx_fd(NULL), -EINVAL);
	EXPECT(ccnic_rx_arm(NULL), -EINVAL);
	EXPECT(ccnic_rx_disarm(NULL), -EINVAL);
	EXPECT(ccnic_rx_notify(NULL), -EINVAL);
	EXPECT(ccnic_buf_alloc(NULL, 64, &buf, 1), -EINVAL);
	EXPECT(ccnic_buf_alloc(queue, 64, NULL, 1), -EINVAL);
	EXPECT(ccnic_buf_free(NULL, &buf, 0), -EINVAL);
	EXPECT(ccnic_buf_free(queue, NULL, 1), -EINVAL);
	EXPECT(ccnic_tx_burst(NULL, &buf, 0), -EINVAL);
	EXPECT(ccnic_tx_burst(queue, NULL, 1), -EINVAL);
	EXPECT(ccnic_rx_burst(NULL, &buf, 1), -EINVAL);
	EXPECT(ccnic_rx_burst(queue, NULL, 1), -EINVAL);
	/* NULL is an empty array. */
	EXPECT(ccnic_buf_alloc(queue, 64, NULL, 0), 0);
	EXPECT(ccnic_buf_free(queue, NULL, 0), 0);
	EXPECT(ccnic_tx_burst(queue, NULL, 0), 0);
	EXPECT(ccnic_rx_burst(queue, NULL, 0), 0);
}

static void handles(struct ccnic *nic, struct ccnic_queue *queue)
{
	struct ccnic_queue *other;
	EXPECT(ccnic_queue_open(nic, 0, &other), -EBUSY);
	EXPECT(ccnic_queue_open(nic, 2, &other), -EINVAL);
	EXPECT(ccnic_queue_open(nic, UINT16_MAX, &other), -EINVAL);
	EXPECT(ccnic_close(nic), -EBUSY);
	EXPECT(ccnic_queue_open(nic, 1, &other), 0);
	EXPECT(ccnic_queue_close(other), 0);
	struct ccnic_buf buf;
	EXPECT(ccnic_queue_close(other), -EBADF);
	EXPECT(ccnic_buf_alloc(other, 64, &buf, 1), -EBADF);
	EXPECT(ccnic_rx_burst(other, &buf, 1), -EBADF);
	EXPECT(ccnic_wait(other, 0), -EBADF);
	EXPECT(ccnic_rx_fd(other), -EBADF);
	EXPECT(ccnic_rx_arm(other), -EBADF);
	EXPECT(ccnic_rx_disarm(other), -EBADF);
	EXPECT(ccnic_rx_notify(other), -EBADF);
	struct ccnic_queue *again;
	EXPECT(ccnic_queue_open(nic, 1, &again), 0);
	EXPECT(ccnic_buf_alloc(again, 64, &buf, 1), 1);
	EXPECT(ccnic_buf_free(queue, &buf, 1), 0); /* any queue of the NIC may */
	EXPECT(ccnic_queue_close(again), 0);
}

/* Handles that name no buffer, in every field, first and in the middle. */
static void forged(struct ccnic_queue *queue)
{
	struct ccnic_buf bufs[3], bad;
	const uint32_t offsets[] = {0, 4096, 0x7fffffff, UINT32_MAX, UINT32_MAX - 63};
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		EXPECT(ccnic_buf_alloc(queue, 64, bufs, 3), 3);
		bad = bufs[1];
		bad.offset = offsets[i];
		EXPECT(ccnic_buf_data(queue, &bad) == NULL, true);
		EXPECT(ccnic_tx_burst(queue, &bad, 1), -EFAULT);
		EXPECT(ccnic_buf_free(queue, &bad, 1), -EFAULT);
		struct ccnic_buf mixed[4] = {bufs[0], bad, bufs[1], bufs[2]};
		EXPECT(ccnic_tx_burst(queue, mixed, 4), 1); /* up to the bad one */
		EXPECT(ccnic_tx_burst(queue, mixed + 1, 3), -EFAULT);
		EXPECT(ccnic_buf_free(queue, mixed + 1, 3), -EFAULT); /* the others are free */
	}
	/* Longer than its buffer. */
	EXPECT(ccnic_buf_alloc(queue, 64, bufs, 1), 1);
	EXPECT(ccnic_buf_set_len(bufs, 129) == (ccnic_buf_capacity(bufs) == 128 ? -EMSGSIZE : 0), true);
	bad = bufs[0];
	bad.len = 4097;
	EXPECT(ccnic_tx_burst(queue, &bad, 1), -EFAULT);
	bad.len = 64;
	bad.flags = bad.reserved = 0xff; /* unknown bits, and a chain without an end */
	EXPECT(ccnic_tx_burst(queue, &bad, 1), -EINVAL);
	/* A chain whose second buffer is bad. */
	bad = bufs[0];
	struct ccnic_buf chain[2] = {bufs[0], bad};
	ccnic_buf_set_more(&chain[0], true);
	chain[1].offset = 64;
	EXPECT(ccnic_tx_burst(queue, chain, 2), -EFAULT);
	EXPECT(ccnic_buf_free(queue, bufs, 1), 0);
}

static void packets(struct ccnic_queue *queue)
{
	struct ccnic_buf bufs[16];
	EXPECT(ccnic_buf_alloc(queue, 9001, bufs, 16), -EMSGSIZE); /* the MTU is 9000 */
	EXPECT(ccnic_buf_alloc(queue, 9000, bufs, 2), -EINVAL);    /* too few entries for three buffers */
	EXPECT(ccnic_buf_alloc(queue, 9000, bufs, 3), 3);
	EXPECT(ccnic_buf_more(&bufs[0]) && ccnic_buf_more(&bufs[1]) && !ccnic_buf_more(&bufs[2]), true);
	EXPECT(ccnic_buf_len(&bufs[0]) + ccnic_buf_len(&bufs[1]) + ccnic_buf_len(&bufs[2]), 9000);
	EXPECT(ccnic_buf_set_len(&bufs[2], ccnic_buf_capacity(&bufs[2])), 0);
	EXPECT(ccnic_tx_burst(queue, bufs, 3), -EMSGSIZE);
	EXPECT(ccnic_tx_burst(queue, bufs, 2), -EINVAL); /* it continues in a buffer that is not passed */
	EXPECT(ccnic_buf_free(queue, bufs, 3), 0);

	EXPECT(ccnic_buf_alloc(queue, 100, bufs, 9), 9);
	for (int i = 0; i < 8; i++)
		ccnic_buf_set_more(&bufs[i], true);
	EXPECT(ccnic_tx_burst(queue, bufs, 9), -EMSGSIZE); /* nine buffers in a packet */
	for (int i = 0; i < 9; i++) {
		memset(ccnic_buf_data(queue, &bufs[i]), i, 100);
		bufs[i].meta = 7;
	}
	ccnic_buf_set_more(&bufs[7], false);
	EXPECT(ccnic_tx_burst(queue, bufs, 9), 9); /* a chain of eight and a packet of one */
	uint8_t byte = 0;
	for (int n, received = 0; received < 900;) {
		EXPECT(ccnic_wait(queue, 20 * SECOND) > 0, true);
		n = ccnic_rx_burst(queue, bufs, CCNIC_CHAIN_MAX);
		EXPECT(n > 0, true);
		for (int i = 0; i < n; i++) {
			const uint8_t *data = ccnic_buf_data(queue, &bufs[i]);
			for (int j = 0; j < ccnic_buf_len(&bufs[i]); j++, received++) {
				byte = (uint8_t)(received / 100);
				EXPECT(data[j], byte);
			}
		}
		EXPECT(bufs[0].meta, 7);
		EXPECT(ccnic_buf_free(queue, bufs, (uint16_t)n), 0);
	}
	EXPECT(byte, 8);
	EXPECT(ccnic_wait(queue, 0), 0);
	EXPECT(ccnic_wait(queue, 3000000), 0);
	EXPECT(ccnic_rx_burst(queue, bufs, 16), 0);
}

/* An empty pool and a full ring are no errors. */
static void exhaust(struct ccnic_queue *queue)
{
	static struct ccnic_buf all[4096];
	int n = 0, got;
	while ((got = ccnic_buf_alloc(queue, 4000, all + n, 16)) > 0)
		n += got;
	EXPECT(got, 0);
	EXPECT(n > 16 && n <= 512, true);
	struct ccnic_stats stats;
	EXPECT(ccnic_queue_stats(queue, &stats, sizeof(stats)), 0);
	EXPECT(stats.alloc_failed > 0, true);
	EXPECT(ccnic_buf_free(queue, all, (uint16_t)n), 0);
	EXPECT(ccnic_buf_alloc(queue, 4000, all, 1), 1);
	EXPECT(ccnic_buf_free(queue, all, 1), 0);
}

/* Freed twice, or sent after it was freed: corrupts packets of this program, but neither its process nor its NIC. */
static void twice(struct ccnic_queue *queue)
{
	struct ccnic_buf bufs[32];
	for (int round = 0; round < 200; round++) {
		int n = ccnic_buf_alloc(queue, round % 2 ? 64 : 1500, bufs, 8);
		EXPECT(n >= 0, true);
		for (int i = 0; i < n; i++)
			memset(ccnic_buf_data(queue, &bufs[i]), 0xee, ccnic_buf_len(&bufs[i]));
		EXPECT(ccnic_buf_free(queue, bufs, (uint16_t)n), 0);
		EXPECT(ccnic_buf_free(queue, bufs, (uint16_t)n), 0);
		EXPECT(ccnic_tx_burst(queue, bufs, (uint16_t)n) >= 0, true);
		n = ccnic_rx_burst(queue, bufs, 32);
		EXPECT(n >= 0, true);
		EXPECT(ccnic_buf_free(queue, bufs, (uint16_t)n), 0);
	}
}

/* A pool: its misuse, and buffers that move between pools and queues. */
static void pool(struct ccnic *nic, struct ccnic_queue *queue)
{
	struct ccnic_pool *pool;
	struct ccnic_view view;
	struct ccnic_buf bufs[600], bad = {.offset = 12};
	EXPECT(ccnic_pool_open(NULL, &pool), -EINVAL);
	EXPECT(ccnic_pool_open(nic, NULL), -EINVAL);
	EXPECT(ccnic_memory(nic, NULL), -EINVAL);
	EXPECT(ccnic_memory(NULL, &view), -EINVAL);
	EXPECT(ccnic_pool_open(nic, &pool), 0);
	EXPECT(ccnic_memory(nic, &view), 0);
	EXPECT(view.span, 512 * CCNIC_LARGE_SIZE);
	EXPECT(ccnic_pool_alloc(pool, NULL, 1), -EINVAL);
	EXPECT(ccnic_pool_free(pool, NULL, 1), -EINVAL);
	EXPECT(ccnic_pool_free(pool, &bad, 1), -EFAULT);
	int n = ccnic_pool_alloc(pool, bufs, 600);
	EXPECT(n > 100 && n <= 512, true);
	for (int i = 0; i < n; i++) {
		EXPECT(bufs[i].offset % CCNIC_LARGE_SIZE, 0);
		EXPECT(ccnic_buf_data(queue, &bufs[i]) == view.base + bufs[i].offset, true);
	}
	EXPECT(ccnic_buf_set_len(&bufs[0], 600), 0);
	EXPECT(ccnic_tx_waiting(queue) >= 0, true);
	const uint64_t *word = NULL;
	uint64_t holds;
	EXPECT(ccnic_rx_monitor(NULL, &word, &holds), -EINVAL);
	EXPECT(ccnic_rx_monitor(queue, NULL, &holds), -EINVAL);
	EXPECT(ccnic_rx_monitor(queue, &word, NULL), -EINVAL);
	EXPECT(ccnic_rx_monitor(queue, &word, &holds), 0);
	EXPECT(*(const volatile uint64_t *)word == holds, true); /* nothing has come */
	EXPECT(ccnic_tx_burst(queue, bufs, 1), 1);
	/* The daemon sends it back. Whoever takes it out of the ring, as ccnic_wait() may, can make the word what it was. */
	while (*(const volatile uint64_t *)word == holds)
		EXPECT(ccnic_link_state(nic), 1);
	EXPECT(ccnic_rx_monitor(queue, &word, &holds), 1);
	EXPECT(ccnic_wait(queue, 20 * SECOND), 1);
	EXPECT(ccnic_rx_monitor(queue, &word, &holds), 1);
	EXPECT(ccnic_tx_waiting(queue), 0);
	EXPECT(ccnic_rx_ready(queue), 1);
	EXPECT(ccnic_rx_burst(queue, bufs, 8), 1);
	EXPECT(ccnic_rx_ready(queue), 0);
	EXPECT(ccnic_buf_free(queue, bufs, 100), 0);
	bufs[99] = bad;
	EXPECT(ccnic_pool_free(pool, bufs + 99, (uint16_t)(n - 99)), -EFAULT); /* the others are free */
	EXPECT(ccnic_pool_close(pool), 0);
	EXPECT(ccnic_pool_close(pool), -EBADF);
	EXPECT(ccnic_pool_close(NULL), -EINVAL);
	EXPECT(ccnic_pool_alloc(pool, bufs, 1), -EBADF);
	EXPECT(ccnic_pool_free(pool, bufs, 1), -EBADF);
	EXPECT(ccnic_rx_ready(NULL), -EINVAL);
	EXPECT(ccnic_tx_waiting(NULL), -EINVAL);
}

int main(int argc, char **argv)
{
	EXPECT(argc, 4);
	open_wrongly(argv[1], argv[2], argv[3]);
	uint32_t design;
	for (design = CCNIC_DESIGN_CCNIC; design <= CCNIC_DESIGN_E810; design++) {
		struct ccnic_options options;
		struct ccnic *nic;
		struct ccnic_queue *queue;
		struct ccnic_stats stats;
		uint8_t mac[6] = {0};

		ccnic_options_init(&options);
		options.name = "misuse";
		options.design = design;
		options.queues = 2;
		options.ring = 256;
		options.buffers = 512;
		options.mtu = 9000;
		EXPECT(ccnic_open(argv[1], &options, &nic), 0);
		EXPECT(ccnic_queues(nic), 2);
		EXPECT(ccnic_mtu(nic), 9000);
		EXPECT(ccnic_mac(nic, mac), 0);
		EXPECT(mac[0] & 3, 2); /* locally administered, unicast */
		EXPECT(ccnic_queue_open(nic, 0, &queue), 0);
		nulls(nic, queue);
		handles(nic, queue);
		packets(queue);
		exhaust(queue);
		pool(nic, queue);
		forged(queue);
		EXPECT(ccnic_queue_stats(queue, &stats, sizeof(stats)), 0);
		EXPECT(stats.tx_packets >= 2 && stats.tx_bytes >= 900 && stats.rx_packets >= 2, true);
		EXPECT(stats.tx_bad_buffer, 12);
		EXPECT(stats.tx_bad_packet, 4);
		EXPECT(stats.free_bad_buffer, 10);
		twice(queue);
		EXPECT(ccnic_link_state(nic), 1);
		EXPECT(ccnic_queue_close(queue), 0);
		EXPECT(ccnic_close(nic), 0);
	}
	EXPECT(strcmp(ccnic_version(), "0.1.0"), 0);
	printf("%u designs\n", (unsigned)design);
	return 0;
}
