/* ccnic_tx_reserve() and ccnic_tx_commit() in every design: packets of many lengths, places given back, every misuse. */
#include "check.h"

static uint8_t byte(unsigned packet, int at)
{
	return (uint8_t)(packet * 31u + (unsigned)at * 7u);
}

/* Reserves n places of `place` bytes, writes packets that are one byte shorter in every other place, and commits `n - back`. */
static void send_some(struct ccnic_queue *queue, uint16_t place, uint16_t n, uint16_t back)
{
	void *data[CCNIC_RESERVE_MAX];
	uint16_t len[CCNIC_RESERVE_MAX];
	uint64_t meta[CCNIC_RESERVE_MAX];

	EXPECT(ccnic_tx_reserve(queue, place, data, n), n);
	for (unsigned i = 0; i < n; i++) {
		uint8_t *to = data[i];

		EXPECT((uintptr_t)to % 64, 0);
		len[i] = (uint16_t)(place - (place > 1 ? i % 2 : 0));
		meta[i] = i + 5;
		for (int j = 0; j < len[i]; j++)
			to[j] = byte(i, j);
	}
	EXPECT(ccnic_tx_commit(queue, len, meta, (uint16_t)(n - back)), n - back);
}

/* Receives what send_some() has sent. */
static void receive_some(struct ccnic_queue *queue, uint16_t place, unsigned n)
{
	struct ccnic_buf bufs[32];

	for (unsigned packet = 0; packet < n;) {
		EXPECT(ccnic_wait(queue, 20 * SECOND) > 0, true);
		int got = ccnic_rx_burst(queue, bufs, 32);

		for (int i = 0; i < got; i++, packet++) {
			const uint8_t *data = ccnic_buf_data(queue, &bufs[i]);

			EXPECT(ccnic_buf_len(&bufs[i]), place - (place > 1 ? packet % 2 : 0));
			EXPECT(bufs[i].meta, packet + 5);
			for (int j = 0; j < ccnic_buf_len(&bufs[i]); j++)
				if (data[j] != byte(packet, j))
					EXPECT(data[j], byte(packet, j));
		}
		EXPECT(ccnic_buf_free(queue, bufs, (uint16_t)got), 0);
	}
}

static void exchange(struct ccnic_queue *queue)
{
	static const uint16_t places[] = {1, 2, 40, 63, 64, 65, 127, 128, 129, 1500, 4096};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		for (uint16_t n = 1; n <= 41; n += 4) {
			send_some(queue, places[i], n, n % 3);
			receive_some(queue, places[i], n - n % 3u);
		}
}

/* Without lengths and metadata they are as reserved and 0. Places are in the ring in one design, and for short packets only. */
static void defaults(struct ccnic *nic, struct ccnic_queue *queue, uint32_t design)
{
	struct ccnic_view view;
	struct ccnic_buf buf;
	void *data[1];

	EXPECT(ccnic_memory(nic, &view), 0);
	for (uint16_t len = 64; len <= 65; len++) {
		const bool in_ring = design == CCNIC_DESIGN_CCNIC && len == 64;

		EXPECT(ccnic_tx_reserve(queue, len, data, 1), 1);
		EXPECT((uint8_t *)data[0] < view.base + view.first, in_ring);
		memset(data[0], 1, len);
		EXPECT(ccnic_tx_commit(queue, NULL, NULL, 1), 1);
		EXPECT(ccnic_wait(queue, 20 * SECOND) > 0, true);
		EXPECT(ccnic_rx_burst(queue, &buf, 1), 1);
		EXPECT(ccnic_buf_len(&buf), len);
		EXPECT(buf.meta, 0);
		EXPECT(ccnic_buf_free(queue, &buf, 1), 0);
	}
}

static void misuse(struct ccnic_queue *queue, struct ccnic_queue *closed)
{
	static const uint8_t packet[64];
	const void *const small[1] = {packet};
	void *data[CCNIC_RESERVE_MAX + 1];
	uint16_t len[CCNIC_RESERVE_MAX + 1] = {64, 65, 64, 64, 64};
	struct ccnic_stats before, after;
	const uint16_t one = 64;

	EXPECT(ccnic_queue_stats(queue, &before, sizeof(before)), 0);
	EXPECT(ccnic_tx_reserve(NULL, 64, data, 1), -EINVAL);
	EXPECT(ccnic_tx_reserve(queue, 64, NULL, 1), -EINVAL);
	EXPECT(ccnic_tx_reserve(queue, 64, NULL, 0), 0);
	EXPECT(ccnic_tx_reserve(closed, 64, data, 1), -EBADF);
	EXPECT(ccnic_tx_reserve(queue, 0, data, 1), -EINVAL);
	EXPECT(ccnic_tx_reserve(queue, CCNIC_LARGE_SIZE + 1, data, 1), -EMSGSIZE);
	EXPECT(strstr(ccnic_last_error(), "ccnic_buf_alloc") != NULL, true);
	EXPECT(ccnic_tx_commit(NULL, NULL, NULL, 0), -EINVAL);
	EXPECT(ccnic_tx_commit(closed, NULL, NULL, 0), -EBADF);
	/* Nothing is reserved. */
	EXPECT(ccnic_tx_commit(queue, NULL, NULL, 0), 0);
	EXPECT(ccnic_tx_commit(queue, len, NULL, 1), -EINVAL);
	for (uint16_t place = 64; place <= 128; place += 64) {
		EXPECT(ccnic_tx_reserve(queue, place, data, 4), 4);
		len[1] = (uint16_t)(place + 1);
		EXPECT(ccnic_tx_commit(queue, len, NULL, 4), -EMSGSIZE);
		len[1] = 0;
		EXPECT(ccnic_tx_commit(queue, len, NULL, 4), -EINVAL);
		len[1] = 64;
		EXPECT(ccnic_tx_commit(queue, len, NULL, 5), -EINVAL);
		EXPECT(strstr(ccnic_last_error(), "not reserved") != NULL, true);
		EXPECT(ccnic_tx_commit(queue, NULL, NULL, UINT16_MAX), -EINVAL);
		EXPECT(ccnic_tx_commit(queue, len, NULL, 1), 1); /* it was reserved all the time */
		EXPECT(ccnic_tx_commit(queue, len, NULL, 1), -EINVAL);
	}
	/* Void after another packet. */
	for (uint16_t place = 64; place <= 128; place += 64) {
		EXPECT(ccnic_tx_reserve(queue, place, data, 2), 2);
		EXPECT(ccnic_tx_small(queue, small, &one, 1), 1);
		EXPECT(ccnic_tx_commit(queue, NULL, NULL, 2), -EINVAL);
		EXPECT(ccnic_tx_commit(queue, NULL, NULL, 0), 0);
	}
	EXPECT(ccnic_queue_stats(queue, &after, sizeof(after)), 0);
	EXPECT(after.tx_packets - before.tx_packets, 4);
	EXPECT(after.tx_bytes - before.tx_bytes, 4 * 64);
	EXPECT(after.tx_bad_packet - before.tx_bad_packet, 2 + 2 * 2);
	EXPECT(ccnic_tx_reserve(queue, 64, data, CCNIC_RESERVE_MAX + 1), CCNIC_RESERVE_MAX);
	EXPECT(ccnic_tx_commit(queue, NULL, NULL, 0), 0);
}

/* Receives until every packet that was sent has come back. */
static void drain(struct ccnic_queue *queue)
{
	struct ccnic_buf bufs[64];
	struct ccnic_stats stats;

	for (;;) {
		EXPECT(ccnic_queue_stats(queue, &stats, sizeof(stats)), 0);
		if (stats.rx_packets == stats.tx_packets)
			return;
		EXPECT(ccnic_wait(queue, 20 * SECOND) > 0, true);
		EXPECT(ccnic_buf_free(queue, bufs, (uint16_t)ccnic_rx_burst(queue, bufs, 64)), 0);
	}
}

/* A full ring has no places; nor has an empty pool, for packets that need buffers. */
static void exhaust(struct ccnic_queue *queue, bool shared_pool)
{
	static struct ccnic_buf all[8 * BUFFERS];
	void *data[CCNIC_RESERVE_MAX];
	int n = 0, got;

	while ((got = ccnic_tx_reserve(queue, 64, data, CCNIC_RESERVE_MAX)) > 0) {
		EXPECT(ccnic_tx_commit(queue, NULL, NULL, (uint16_t)got), got);
		EXPECT((n += got) < 100000, true);
	}
	EXPECT(got, 0);
	EXPECT(ccnic_tx_commit(queue, NULL, NULL, 1), -EINVAL);
	drain(queue);
	if (!shared_pool)
		return;
	for (n = 0; (got = ccnic_buf_alloc(queue, 4000, all + n, 16)) > 0 || (got = ccnic_buf_alloc(queue, 128, all + n, 1)) > 0;)
		n += got;
	EXPECT(ccnic_tx_reserve(queue, 1500, data, 1), -ENOBUFS);
	EXPECT(ccnic_buf_free(queue, all, (uint16_t)n), 0);
	/* A reservation that is not committed loses no buffer. */
	for (int i = 0; i < 2 * BUFFERS; i++)
		EXPECT(ccnic_tx_reserve(queue, 1500, data, 8), 8);
}

static void one_design(const char *socket, uint32_t design)
{
	struct ccnic_queue *queue, *closed;
	void *data[8];
	struct ccnic *nic = open_pair(socket, "reserve", design, &queue, &closed);

	exchange(queue);
	defaults(nic, queue, design);
	misuse(queue, closed);
	drain(queue);
	exhaust(queue, design != CCNIC_DESIGN_E810);
	drain(queue);
	/* Closing gives the places back, too. */
	for (int i = 0; i < 2 * BUFFERS; i++) {
		EXPECT(ccnic_tx_reserve(queue, 1500, data, 8), 8);
		EXPECT(ccnic_queue_close(queue), 0);
		EXPECT(ccnic_queue_open(nic, 0, &queue), 0);
	}
	EXPECT(ccnic_tx_commit(queue, NULL, NULL, 1), -EINVAL);
	EXPECT(ccnic_queue_close(queue), 0);
	EXPECT(ccnic_close(nic), 0);
}

int main(int argc, char **argv)
{
	EXPECT(argc, 2);
	each_design(argv[1], one_design);
	return 0;
}
