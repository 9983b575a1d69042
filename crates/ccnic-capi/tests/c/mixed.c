/* ccnic_tx_mixed() in every design: short packets as copies and long ones in buffers, in one burst and in order; every misuse. */
#include "check.h"

#define MOST 40

static uint8_t byte(unsigned packet, int at)
{
	return (uint8_t)(packet * 31u + (unsigned)at * 7u);
}

static void fill(uint8_t *to, unsigned packet, uint16_t len)
{
	for (int j = 0; j < len; j++)
		to[j] = byte(packet, j);
}

static void receive(struct ccnic_queue *queue, const uint16_t *len, unsigned n)
{
	struct ccnic_buf bufs[32];

	for (unsigned packet = 0; packet < n;) {
		EXPECT(ccnic_wait(queue, 20 * SECOND) > 0, true);
		int got = ccnic_rx_burst(queue, bufs, 32);

		for (int i = 0; i < got; i++, packet++) {
			const uint8_t *data = ccnic_buf_data(queue, &bufs[i]);

			EXPECT(ccnic_buf_len(&bufs[i]), len[packet]);
			EXPECT(bufs[i].meta, packet + 3);
			for (int j = 0; j < len[packet]; j++)
				if (data[j] != byte(packet, j))
					EXPECT(data[j], byte(packet, j));
		}
		EXPECT(ccnic_buf_free(queue, bufs, (uint16_t)got), 0);
	}
}

static void exchange(struct ccnic_queue *queue)
{
	static const uint16_t lengths[] = {64, 1500, 1, 128, 129, 65, 4096};

	for (unsigned round = 0; round < 300; round++) {
		const uint16_t n = (uint16_t)(1 + round % MOST);
		const void *data[MOST];
		struct ccnic_buf bufs[MOST];
		uint16_t len[MOST];

		for (unsigned i = 0; i < n; i++) {
			len[i] = lengths[(i * round + i) % 7];
			data[i] = NULL;
			memset(&bufs[i], 0xee, sizeof(bufs[i])); /* a copy needs length and metadata only */
			bufs[i].len = len[i];
			if (len[i] <= CCNIC_SMALL_SIZE) {
				uint8_t *memory = malloc(len[i]);
				fill(memory, i, len[i]);
				data[i] = memory;
			} else {
				EXPECT(ccnic_buf_alloc(queue, len[i], &bufs[i], 1), 1);
				fill(ccnic_buf_data(queue, &bufs[i]), i, len[i]);
			}
			bufs[i].meta = i + 3;
		}
		EXPECT(ccnic_tx_mixed(queue, bufs, data, n), n);
		for (unsigned i = 0; i < n; i++)
			free((void *)data[i]);
		receive(queue, len, n);
	}
}

static void misuse(struct ccnic_queue *queue, struct ccnic_queue *closed)
{
	static const uint8_t memory[CCNIC_SMALL_SIZE + 1];
	const void *copies[2] = {memory, memory}, *none[2] = {NULL, NULL};
	struct ccnic_buf bufs[2] = {{.len = 64}, {.len = CCNIC_SMALL_SIZE + 1}};
	struct ccnic_stats stats;

	EXPECT(ccnic_tx_mixed(NULL, bufs, copies, 1), -EINVAL);
	EXPECT(ccnic_tx_mixed(queue, NULL, copies, 1), -EINVAL);
	EXPECT(ccnic_tx_mixed(queue, bufs, NULL, 1), -EINVAL);
	EXPECT(ccnic_tx_mixed(queue, NULL, NULL, 0), 0);
	EXPECT(ccnic_tx_mixed(closed, bufs, copies, 1), -EBADF);
	EXPECT(ccnic_tx_mixed(queue, bufs, copies, 2), 1); /* up to the one that is too long */
	EXPECT(ccnic_tx_mixed(queue, bufs + 1, copies, 1), -EMSGSIZE);
	bufs[1].len = 0;
	EXPECT(ccnic_tx_mixed(queue, bufs + 1, copies, 1), -EINVAL);
	EXPECT(ccnic_tx_mixed(queue, bufs + 1, none, 1), -EINVAL);
	bufs[1].len = 9601;
	EXPECT(ccnic_tx_mixed(queue, bufs + 1, none, 1), -EMSGSIZE);
	bufs[1].len = 64; /* and offset 0 */
	EXPECT(ccnic_tx_mixed(queue, bufs + 1, none, 1), -EFAULT);
	EXPECT(ccnic_buf_alloc(queue, 1500, bufs, 1), 1);
	ccnic_buf_set_more(&bufs[0], true);
	EXPECT(ccnic_tx_mixed(queue, bufs, none, 1), -EINVAL);
	EXPECT(strstr(ccnic_last_error(), "ccnic_tx_burst") != NULL, true);
	ccnic_buf_set_more(&bufs[0], false);
	EXPECT(ccnic_buf_free(queue, bufs, 1), 0); /* it was the program's all the time */
	EXPECT(ccnic_queue_stats(queue, &stats, sizeof(stats)), 0);
	EXPECT(stats.tx_bad_packet, 5);
	EXPECT(stats.tx_bad_buffer, 1);
}

/* A full ring, and no free buffer for a copy that needs one. */
static void exhaust(struct ccnic_queue *queue, bool shared_pool)
{
	static struct ccnic_buf all[8 * 512];
	static const uint8_t memory[100];
	const void *data[1] = {memory};
	const struct ccnic_buf one = {.len = sizeof(memory)};
	struct ccnic_stats stats;
	int n = 0, got;

	while ((got = ccnic_tx_mixed(queue, &one, data, 1)) == 1)
		EXPECT(n++ < 100000, true);
	EXPECT(got, 0);
	do {
		EXPECT(ccnic_wait(queue, 20 * SECOND) > 0, true);
		EXPECT(ccnic_buf_free(queue, all, (uint16_t)ccnic_rx_burst(queue, all, 64)), 0);
		EXPECT(ccnic_queue_stats(queue, &stats, sizeof(stats)), 0);
	} while (stats.rx_packets < stats.tx_packets);
	if (!shared_pool)
		return;
	for (n = 0; (got = ccnic_buf_alloc(queue, 4000, all + n, 16)) > 0 || (got = ccnic_buf_alloc(queue, 128, all + n, 1)) > 0;)
		n += got;
	EXPECT(ccnic_tx_mixed(queue, &one, data, 1), -ENOBUFS);
	EXPECT(ccnic_buf_free(queue, all, (uint16_t)n), 0);
	EXPECT(ccnic_tx_mixed(queue, &one, data, 1), 1);
}

static void one_design(const char *socket, uint32_t design)
{
	struct ccnic_queue *queue, *closed;
	struct ccnic *nic = open_pair(socket, "mixed", design, &queue, &closed);

	exchange(queue);
	misuse(queue, closed);
	exhaust(queue, design != CCNIC_DESIGN_E810);
	EXPECT(ccnic_queue_close(queue), 0);
	EXPECT(ccnic_close(nic), 0);
}

int main(int argc, char **argv)
{
	EXPECT(argc, 2);
	each_design(argv[1], one_design);
	return 0;
}
