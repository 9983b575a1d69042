/* Buffers that are handed over twice, with CCNIC_DEBUG=1: each is refused, and nothing of its call is done. */
#include "check.h"

static struct ccnic *nic;
static struct ccnic_queue *queue;

#define REFUSED(call, why)                                            \
	do {                                                          \
		EXPECT(call, -EINVAL);                                \
		EXPECT(strstr(ccnic_last_error(), why) != NULL, true); \
	} while (0)

/* No buffer is there twice, and none is lost: those of all are as many as at first. */
static int distinct(void)
{
	static struct ccnic_buf all[BUFFERS];
	int n = 0, got;

	while (n < BUFFERS && (got = ccnic_buf_alloc(queue, 4000, all + n, 16)) > 0)
		n += got;
	for (int i = 0; i < n; i++)
		for (int j = 0; j < i; j++)
			EXPECT(all[i].offset / CCNIC_LARGE_SIZE == all[j].offset / CCNIC_LARGE_SIZE, false);
	EXPECT(ccnic_buf_free(queue, all, (uint16_t)n), 0);
	return n;
}

static void free_twice(uint16_t len)
{
	struct ccnic_buf bufs[8], again[9];

	EXPECT(ccnic_buf_alloc(queue, len, bufs, 8), 8);
	memcpy(again, bufs, sizeof(bufs));
	again[8] = bufs[3];
	REFUSED(ccnic_buf_free(queue, again, 9), "entry 8"); /* twice in one call */
	EXPECT(ccnic_buf_free(queue, bufs, 8), 0);
	REFUSED(ccnic_buf_free(queue, bufs, 8), "freed before");
	REFUSED(ccnic_buf_free(queue, bufs + 7, 1), "ccnic_buf_free: entry 0");
	REFUSED(ccnic_tx_burst(queue, bufs, 8), "freed before");
}

static void after_tx(uint16_t len)
{
	struct ccnic_buf bufs[8];
	const void *none[8] = {NULL};

	EXPECT(ccnic_buf_alloc(queue, len, bufs, 8), 8);
	EXPECT(ccnic_tx_burst(queue, bufs, 8), 8);
	/* They may have come back, which nobody has received yet. */
	REFUSED(ccnic_buf_free(queue, bufs, 8), "sent before");
	REFUSED(ccnic_tx_burst(queue, bufs, 8), "sent before");
	REFUSED(ccnic_tx_mixed(queue, bufs, none, 8), "ccnic_tx_mixed");
	for (int received = 0; received < 8;) {
		EXPECT(ccnic_wait(queue, 20 * SECOND) > 0, true);
		int n = ccnic_rx_burst(queue, bufs, 8);
		EXPECT(n > 0, true);
		received += n;
		EXPECT(ccnic_buf_free(queue, bufs, (uint16_t)n), 0);
	}
}

/* Buffers that a full ring did not take are still held. */
static void full_ring(void)
{
	static struct ccnic_buf bufs[400];
	int n = ccnic_buf_alloc(queue, 64, bufs, 400);
	int sent = 0, now;

	EXPECT(n, 400);
	while (sent < n && (now = ccnic_tx_burst(queue, bufs + sent, (uint16_t)(n - sent))) > 0)
		sent += now;
	EXPECT(ccnic_buf_free(queue, bufs + sent, (uint16_t)(n - sent)), 0);
	for (int received = 0; received < sent;) {
		EXPECT(ccnic_wait(queue, 20 * SECOND) > 0, true);
		now = ccnic_rx_burst(queue, bufs, 64);
		received += now;
		EXPECT(ccnic_buf_free(queue, bufs, (uint16_t)now), 0);
	}
}

static void pools(void)
{
	struct ccnic_pool *pool;
	struct ccnic_buf bufs[8], never;

	EXPECT(ccnic_pool_open(nic, &pool), 0);
	EXPECT(ccnic_pool_alloc(pool, bufs, 8), 8);
	never = bufs[0];
	EXPECT(ccnic_buf_free(queue, bufs, 4), 0); /* any queue may */
	REFUSED(ccnic_pool_free(pool, bufs, 8), "ccnic_pool_free: entry 0");
	REFUSED(ccnic_pool_free(pool, &never, 1), "freed before");
	EXPECT(ccnic_pool_free(pool, bufs + 4, 4), 0);
	EXPECT(ccnic_pool_close(pool), 0);
}

int main(int argc, char **argv)
{
	struct ccnic_queue *other;

	EXPECT(argc, 2);
	for (uint32_t design = CCNIC_DESIGN_CCNIC; design <= CCNIC_DESIGN_E810; design++) {
		nic = open_pair(argv[1], "held", design, &queue, &other);
		int at_first = distinct();
		free_twice(64);
		free_twice(1500);
		after_tx(64);
		after_tx(1500);
		full_ring();
		pools();
		EXPECT(distinct() >= at_first - 64, true); /* the NIC keeps some */
		EXPECT(ccnic_queue_close(queue), 0);
		EXPECT(ccnic_close(nic), 0);
	}
	puts("5 designs");
	return EXIT_SUCCESS;
}
