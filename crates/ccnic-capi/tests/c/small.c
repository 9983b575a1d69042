/* ccnic_tx_small() and ccnic_rx_small() in every design: each length, mixed with large packets, and every misuse. */
#include "check.h"

#define BURST 40
#define LARGE_PACKET 1500

static uint8_t byte(unsigned packet, int at)
{
	return (uint8_t)(packet * 31u + (unsigned)at * 7u);
}

/* A packet at the end of an allocation, so that the sanitizer and valgrind detect an access beyond it. */
static uint8_t *make(unsigned packet, uint16_t len)
{
	uint8_t *data = malloc(len);

	for (int i = 0; i < len; i++)
		data[i] = byte(packet, i);
	return data;
}

/* Sends n packets of `len` bytes and more, numbered from `first` on; retries until all are sent. */
static void send_some(struct ccnic_queue *queue, unsigned first, uint16_t len, int n)
{
	const void *data[BURST];
	uint16_t lens[BURST];
	int sent = 0;

	for (int i = 0; i < n; i++) {
		lens[i] = (uint16_t)(len + i <= CCNIC_SMALL_SIZE ? len + i : CCNIC_SMALL_SIZE);
		data[i] = make(first + (unsigned)i, lens[i]);
	}
	while (sent < n) {
		int got = ccnic_tx_small(queue, data + sent, lens + sent, (uint16_t)(n - sent));
		EXPECT(got >= 0, true);
		sent += got;
	}
	for (int i = 0; i < n; i++)
		free((void *)data[i]);
}

/* Receives up to n small packets and checks them; returns the result of ccnic_rx_small(). */
static int receive_some(struct ccnic_queue *queue, unsigned first, uint16_t len, int n)
{
	void *room[BURST];
	uint16_t lens[BURST];
	uint64_t meta[BURST];
	int got;

	for (int i = 0; i < n; i++) {
		room[i] = malloc(CCNIC_SMALL_SIZE);
		memset(room[i], 0xee, CCNIC_SMALL_SIZE);
		meta[i] = 1;
	}
	got = ccnic_rx_small(queue, room, lens, first % 2 ? meta : NULL, (uint16_t)n);
	for (int i = 0; i < got; i++) {
		const uint8_t *data = room[i];

		EXPECT(lens[i], len + i <= CCNIC_SMALL_SIZE ? len + i : CCNIC_SMALL_SIZE);
		EXPECT(meta[i], first % 2 ? 0 : 1);
		for (int j = 0; j < lens[i]; j++)
			EXPECT(data[j], byte(first + (unsigned)i, j));
		for (int j = lens[i]; j < CCNIC_SMALL_SIZE; j++)
			EXPECT(data[j], 0xee); /* no byte beyond is written */
	}
	for (int i = 0; i < n; i++)
		free(room[i]);
	return got;
}

static void receive_all(struct ccnic_queue *queue, unsigned first, uint16_t len, int n, bool waits)
{
	int got = 0;

	while (got < n) {
		/* Packets that ccnic_wait() has taken from the ring are first. */
		if (waits)
			EXPECT(ccnic_wait(queue, 20 * SECOND) > 0, true);
		int now = receive_some(queue, first + (unsigned)got, (uint16_t)(len + got), n - got);
		EXPECT(now >= 0, true);
		got += now;
	}
}

static void send_large(struct ccnic_queue *queue)
{
	struct ccnic_buf buf;

	EXPECT(ccnic_buf_alloc(queue, LARGE_PACKET, &buf, 1), 1);
	memset(ccnic_buf_data(queue, &buf), 1, LARGE_PACKET);
	EXPECT(ccnic_tx_burst(queue, &buf, 1), 1);
}

static void receive_large(struct ccnic_queue *queue, bool waits)
{
	struct ccnic_buf buf;
	int got;

	if (waits)
		EXPECT(ccnic_wait(queue, 20 * SECOND) > 0, true);
	while ((got = receive_some(queue, 0, 1, 4)) == 0)
		;
	EXPECT(got, -EMSGSIZE);
	EXPECT(strstr(ccnic_last_error(), "ccnic_rx_burst") != NULL, true);
	EXPECT(ccnic_rx_burst(queue, &buf, 1), 1);
	EXPECT(ccnic_buf_len(&buf), LARGE_PACKET);
	EXPECT(ccnic_buf_free(queue, &buf, 1), 0);
}

/* With a host-managed pool all packets arrive in large buffers. */
static void exchange(struct ccnic_queue *queue, bool shared_pool)
{
	unsigned first = 0;

	for (uint16_t len = 1; len <= CCNIC_SMALL_SIZE; len++) {
		for (int n = 1; n <= BURST; n += 13, first++) {
			send_some(queue, first, len, n);
			send_large(queue);
			if (shared_pool) {
				receive_all(queue, first, len, n, first % 3 == 0);
			} else {
				struct ccnic_buf buf;
				for (int i = 0; i < n; i++) {
					EXPECT(ccnic_wait(queue, 20 * SECOND) > 0, true);
					EXPECT(ccnic_rx_burst(queue, &buf, 1), 1);
					EXPECT(*(uint8_t *)ccnic_buf_data(queue, &buf), byte(first + (unsigned)i, 0));
					EXPECT(ccnic_buf_free(queue, &buf, 1), 0);
				}
			}
			receive_large(queue, first % 3 == 1);
		}
	}
}

static void misuse(struct ccnic_queue *queue, struct ccnic_queue *closed)
{
	uint8_t bytes[CCNIC_SMALL_SIZE + 1] = {0};
	const void *data[3] = {bytes, bytes, bytes};
	void *room[1] = {bytes};
	uint16_t len[3] = {64, CCNIC_SMALL_SIZE + 1, 64};

	EXPECT(ccnic_tx_small(NULL, data, len, 1), -EINVAL);
	EXPECT(ccnic_tx_small(queue, NULL, len, 1), -EINVAL);
	EXPECT(ccnic_tx_small(queue, data, NULL, 1), -EINVAL);
	EXPECT(ccnic_tx_small(queue, NULL, NULL, 0), 0);
	EXPECT(ccnic_tx_small(closed, data, len, 1), -EBADF);
	EXPECT(ccnic_rx_small(NULL, room, len, NULL, 1), -EINVAL);
	EXPECT(ccnic_rx_small(queue, NULL, len, NULL, 1), -EINVAL);
	EXPECT(ccnic_rx_small(queue, room, NULL, NULL, 1), -EINVAL);
	EXPECT(ccnic_rx_small(queue, NULL, NULL, NULL, 0), 0);
	EXPECT(ccnic_rx_small(closed, room, len, NULL, 1), -EBADF);
	EXPECT(ccnic_rx_small(queue, room, len, NULL, 1), 0);
	/* The burst ends before the packet that is too long; only as the first one it is an error. */
	EXPECT(ccnic_tx_small(queue, data, len, 3), 1);
	EXPECT(ccnic_tx_small(queue, data + 1, len + 1, 2), -EMSGSIZE);
	EXPECT(strstr(ccnic_last_error(), "ccnic_tx_burst") != NULL, true);
	len[1] = 0;
	EXPECT(ccnic_tx_small(queue, data, len, 3), 1);
	EXPECT(ccnic_tx_small(queue, data + 1, len + 1, 2), -EINVAL);
}

/* A full ring takes as many packets as fit; an empty pool is -ENOBUFS. */
static void exhaust(struct ccnic_queue *queue, bool shared_pool)
{
	static struct ccnic_buf all[4096];
	const uint8_t bytes[100] = {0}; /* so many that they take a buffer of the pool in every design */
	const void *data[1] = {bytes};
	const uint16_t len[1] = {sizeof(bytes)};
	struct ccnic_stats stats;
	int n = 0, got;

	/* The program does not receive, so the NIC stops fetching. */
	while ((got = ccnic_tx_small(queue, data, len, 1)) == 1)
		EXPECT(n++ < 100000, true);
	EXPECT(got, 0);
	EXPECT(ccnic_queue_stats(queue, &stats, sizeof(stats)), 0);
	EXPECT(stats.tx_ring_full > 0, true);
	EXPECT(stats.tx_bad_packet, 2);
	while (n > 0) {
		EXPECT(ccnic_wait(queue, 20 * SECOND) > 0, true);
		got = ccnic_rx_burst(queue, all, 64);
		EXPECT(ccnic_buf_free(queue, all, (uint16_t)got), 0);
		n -= got;
		if (n < 64 && ccnic_rx_ready(queue) == 0)
			break; /* the two packets of misuse() may have arrived as well */
	}
	while (ccnic_wait(queue, SECOND / 100) > 0)
		EXPECT(ccnic_buf_free(queue, all, (uint16_t)ccnic_rx_burst(queue, all, 64)), 0);
	if (!shared_pool)
		return;
	for (n = 0; (got = ccnic_buf_alloc(queue, 4000, all + n, 16)) > 0 || (got = ccnic_buf_alloc(queue, 64, all + n, 1)) > 0;)
		n += got;
	EXPECT(ccnic_tx_small(queue, data, len, 1), -ENOBUFS);
	EXPECT(ccnic_buf_free(queue, all, (uint16_t)n), 0);
	EXPECT(ccnic_tx_small(queue, data, len, 1), 1);
}

static void one_design(const char *socket, uint32_t design)
{
	const bool shared_pool = design != CCNIC_DESIGN_E810;
	struct ccnic_queue *queue, *closed;
	struct ccnic *nic = open_pair(socket, "small", design, &queue, &closed);

	exchange(queue, shared_pool);
	misuse(queue, closed);
	exhaust(queue, shared_pool);
	EXPECT(ccnic_link_state(nic), 1);
	EXPECT(ccnic_queue_close(queue), 0);
	EXPECT(ccnic_close(nic), 0);
}

/* An MTU below the size of a small buffer. */
static void small_mtu(const char *socket)
{
	const uint8_t bytes[CCNIC_SMALL_SIZE] = {0};
	const void *data[2] = {bytes, bytes};
	uint16_t len[2] = {100, 100};
	struct ccnic_options options;
	struct ccnic *nic;
	struct ccnic_queue *queue;

	ccnic_options_init(&options);
	options.mtu = 100;
	EXPECT(ccnic_open(socket, &options, &nic), 0);
	EXPECT(ccnic_queue_open(nic, 0, &queue), 0);
	EXPECT(ccnic_tx_small(queue, data, len, 2), 2);
	len[1] = 101;
	EXPECT(ccnic_tx_small(queue, data, len, 2), 1);
	EXPECT(ccnic_tx_small(queue, data, len + 1, 1), -EMSGSIZE);
	EXPECT(ccnic_queue_close(queue), 0);
	EXPECT(ccnic_close(nic), 0);
}

int main(int argc, char **argv)
{
	EXPECT(argc, 2);
	each_design(argv[1], one_design);
	small_mtu(argv[1]);
	return 0;
}
