/* Sends packets; when the NIC has ended, waits for a line of input and continues with its successor. */
#include "check.h"

static void exchange(struct ccnic_queue *queue, int packets)
{
	struct ccnic_buf bufs[32];
	for (int i = 0; i < packets; i++) {
		EXPECT(ccnic_buf_alloc(queue, 100, bufs, 1), 1);
		memset(ccnic_buf_data(queue, bufs), i & 0xff, 100);
		EXPECT(ccnic_tx_burst(queue, bufs, 1), 1);
		EXPECT(ccnic_wait(queue, 20 * SECOND), 1);
		EXPECT(ccnic_rx_burst(queue, bufs, 32), 1);
		EXPECT(*(uint8_t *)ccnic_buf_data(queue, bufs), i & 0xff);
		EXPECT(ccnic_buf_free(queue, bufs, 1), 0);
	}
}

int main(int argc, char **argv)
{
	struct ccnic_options options;
	struct ccnic *nic;
	struct ccnic_queue *queues[2];
	struct ccnic_pool *pool;
	struct ccnic_buf held[4], pooled[6];

	ccnic_options_init(&options);
	options.queues = 2;
	options.buffers = 64;
	options.ring = 64;
	EXPECT(argc, 2);
	EXPECT(ccnic_open(argv[1], &options, &nic), 0);
	EXPECT(ccnic_queue_open(nic, 0, &queues[0]), 0);
	EXPECT(ccnic_queue_open(nic, 1, &queues[1]), 0);
	EXPECT(ccnic_link_state(nic), 1);
	EXPECT(ccnic_reconnect(nic), -EISCONN);
	exchange(queues[0], 100);
	exchange(queues[1], 100);
	/* Buffers that the program owns stay valid when queues are closed. */
	EXPECT(ccnic_buf_alloc(queues[0], 4000, held, 4), 4);
	uint8_t *const kept = ccnic_buf_data(queues[0], &held[3]);
	memset(kept, 0x5a, 4000);
	/* The ledger of a pool counts, too: it gives two of its six buffers away and keeps four. */
	EXPECT(ccnic_pool_open(nic, &pool), 0);
	EXPECT(ccnic_pool_alloc(pool, pooled, 6), 6);
	EXPECT(ccnic_buf_free(queues[0], &pooled[4], 2), 0);
	EXPECT(ccnic_pool_close(pool), 0);
	EXPECT(ccnic_queue_close(queues[1]), 0);
	const int fd = ccnic_rx_fd(queues[0]);
	EXPECT(ccnic_rx_arm(queues[0]), 0);
	printf("attached\n");
	fflush(stdout);

	EXPECT(ccnic_wait(queues[0], -1), -ENOTCONN);
	EXPECT(ccnic_link_state(nic), 0);
	EXPECT(strstr(ccnic_last_error(), "ccnic_reconnect") != NULL, true);
	int refused = ccnic_reconnect(nic); /* no NIC listens: the test starts the successor after our next line */
	/* The kernel may close the dead NIC's connections before its listening socket. */
	EXPECT(refused == -ECONNREFUSED || refused == -ENOENT || refused == -ECONNRESET, true);
	/* The ring takes packets until it is full; then bursts return 0 and do not block. */
	struct ccnic_buf bufs[32];
	int sent = 0, n;
	while (sent < 20 && (n = ccnic_buf_alloc(queues[0], 200, bufs, 1)) == 1)
		sent += ccnic_tx_burst(queues[0], bufs, 1);
	printf("the NIC has gone\n");
	fflush(stdout);

	getchar();
	EXPECT(ccnic_reconnect(nic) >= 0, true);
	EXPECT(ccnic_link_state(nic), 1);
	/* The successor notifies a program that waits for the descriptor. */
	EXPECT(ccnic_rx_fd(queues[0]), fd);
	while (sent > 0 && ccnic_rx_arm(queues[0]) == 0)
		EXPECT(readable(fd, 20000), true);
	for (int received = 0; received < sent; received += n) {
		EXPECT(ccnic_wait(queues[0], 20 * SECOND) > 0, true);
		n = ccnic_rx_burst(queues[0], bufs, 32);
		EXPECT(n > 0, true);
		EXPECT(ccnic_buf_free(queues[0], bufs, (uint16_t)n), 0);
	}
	/* The memory is another one, at the same address. */
	EXPECT(ccnic_buf_data(queues[0], &held[3]) == kept, true);
	for (int i = 0; i < 4000; i++)
		EXPECT(kept[i], 0x5a);
	EXPECT(ccnic_buf_free(queues[0], held, 4), 0);
	EXPECT(ccnic_pool_open(nic, &pool), 0);
	EXPECT(ccnic_pool_free(pool, pooled, 4), 0);
	EXPECT(ccnic_queue_open(nic, 1, &queues[1]), 0);
	/* Every buffer is accounted for: none was lost or reclaimed twice. Some are in the NIC's magazines. */
	struct ccnic_buf all[64];
	int got = ccnic_pool_alloc(pool, all, 64);
	EXPECT(got > 16 && got <= 64, true);
	for (int i = 0; i < got; i++)
		for (int j = 0; j < i; j++)
			EXPECT(all[i].offset != all[j].offset, true);
	EXPECT(ccnic_pool_free(pool, all, (uint16_t)got), 0);
	EXPECT(ccnic_close(nic), -EBUSY);
	EXPECT(ccnic_pool_close(pool), 0);
	/* More packets than there are buffers: none has leaked. */
	exchange(queues[0], 300);
	exchange(queues[1], 300);
	printf("attached again\n");
	EXPECT(ccnic_queue_close(queues[0]), 0);
	EXPECT(ccnic_queue_close(queues[1]), 0);
	EXPECT(ccnic_close(nic), 0);
	return 0;
}
