/*
 * Sets RSS, and expects each packet on the queue that the published hash selects. When the NIC has ended, waits for a line of input
 * and expects the same of its successor.
 */
#include "check.h"

#define QUEUES 4

/* Microsoft's verification suite: source, destination, their ports, and the expected hash. */
static const struct flow {
	uint8_t addresses[8];
	uint16_t ports[2];
	uint32_t hash;
} flows[] = {
	{ { 66, 9, 149, 187, 161, 142, 100, 80 }, { 2794, 1766 }, 0x51ccc178 },
	{ { 199, 92, 111, 2, 65, 69, 140, 83 }, { 14230, 4739 }, 0xc626b0ea },
	{ { 24, 19, 198, 95, 12, 22, 207, 184 }, { 12898, 38024 }, 0x5c2b394a },
	{ { 38, 27, 205, 30, 209, 142, 163, 6 }, { 48228, 2217 }, 0xafc7327f },
	{ { 153, 39, 163, 191, 202, 188, 127, 2 }, { 44251, 1303 }, 0x10e828a2 },
};
#define FLOWS (sizeof(flows) / sizeof(flows[0]))

static void write_packet(uint8_t *packet, const struct flow *flow)
{
	static const uint8_t header[26] = { [12] = 0x08, [14] = 0x45, [17] = 40, [22] = 64, [23] = 6 };

	memset(packet, 0, 60);
	memcpy(packet, header, sizeof(header));
	memcpy(packet + 26, flow->addresses, 8);
	for (int i = 0; i < 2; i++) {
		packet[34 + 2 * i] = (uint8_t)(flow->ports[i] >> 8);
		packet[35 + 2 * i] = (uint8_t)flow->ports[i];
	}
}

/* Sends a packet on a queue, and expects it on another one with this metadata, and no packet on any other. */
static void exchange(struct ccnic_queue **queues, int from, const struct flow *flow, int to, uint64_t meta)
{
	struct ccnic_buf buf;

	EXPECT(ccnic_buf_alloc(queues[from], 60, &buf, 1), 1);
	write_packet(ccnic_buf_data(queues[from], &buf), flow);
	buf.meta = 77;
	EXPECT(ccnic_tx_burst(queues[from], &buf, 1), 1);
	EXPECT(ccnic_wait(queues[to], 20 * SECOND), 1);
	EXPECT(ccnic_rx_burst(queues[to], &buf, 1), 1);
	EXPECT(buf.meta, meta);
	EXPECT(((uint8_t *)ccnic_buf_data(queues[to], &buf))[26], flow->addresses[0]);
	EXPECT(ccnic_buf_free(queues[to], &buf, 1), 0);
	for (int i = 0; i < QUEUES; i++)
		EXPECT(ccnic_rx_ready(queues[i]), 0);
}

static void all_flows(struct ccnic_queue **queues, const struct ccnic_rss *rss)
{
	for (int from = 0; from < QUEUES; from++)
		for (size_t i = 0; i < FLOWS; i++) {
			int to = rss != NULL ? rss->table[flows[i].hash % CCNIC_RSS_TABLE] : from;
			bool hashed = rss != NULL && rss->flags & CCNIC_RSS_META;

			exchange(queues, from, &flows[i], to, hashed ? CCNIC_META_HASHED | flows[i].hash : 77);
		}
}

static void mistakes(struct ccnic *nic)
{
	struct ccnic_rss rss;
	struct {
		struct ccnic_rss rss;
		uint64_t newer;
	} larger;

	EXPECT(ccnic_rss_set(NULL, NULL), -EINVAL);
	EXPECT(ccnic_rss_active(NULL), -EINVAL);
	ccnic_rss_init(&rss, QUEUES + 1);
	EXPECT(ccnic_rss_set(nic, &rss), -EINVAL);
	EXPECT(strcmp(ccnic_last_error(), "rss: table[4] is queue 4; the program has queues 0 to 3"), 0);
	ccnic_rss_init(&rss, QUEUES);
	rss.types = 256;
	EXPECT(ccnic_rss_set(nic, &rss), -E2BIG);
	rss.types = 0;
	rss.flags = 2;
	EXPECT(ccnic_rss_set(nic, &rss), -E2BIG);
	rss.size = 0;
	EXPECT(ccnic_rss_set(nic, &rss), -EINVAL);
	ccnic_rss_init(&larger.rss, QUEUES);
	larger.rss.size = sizeof(larger);
	larger.newer = 1;
	EXPECT(ccnic_rss_set(nic, &larger.rss), -E2BIG);
	EXPECT(ccnic_rss_active(nic), 0);
	larger.newer = 0;
	EXPECT(ccnic_rss_set(nic, &larger.rss), 0);
	EXPECT(ccnic_rss_active(nic), 1);
}

/* Packets for which a queue has no room are counted by that queue. */
static void miss(struct ccnic_queue **queues, int to)
{
	struct ccnic_stats stats = { 0 };
	struct ccnic_buf buf;
	uint64_t sent = 0, received = 0;

	/* The ring has room for at most 64 packets. */
	while (sent < 100) {
		if (ccnic_buf_alloc(queues[0], 60, &buf, 1) != 1)
			continue;
		write_packet(ccnic_buf_data(queues[0], &buf), &flows[0]);
		while (ccnic_tx_burst(queues[0], &buf, 1) == 0)
			;
		sent++;
	}
	while (received + stats.rx_dropped < sent) {
		EXPECT(ccnic_queue_stats(queues[to], &stats, sizeof(stats)), 0);
		if (ccnic_tx_waiting(queues[0]) == 0 && ccnic_rx_burst(queues[to], &buf, 1) == 1) {
			received++;
			EXPECT(ccnic_buf_free(queues[to], &buf, 1), 0);
		}
	}
	EXPECT(stats.rx_dropped > 0 && received > 0, true);
}

/* Both directions of each flow arrive on one queue, with one hash. */
static void symmetric(struct ccnic *nic, struct ccnic_queue **queues)
{
	struct ccnic_rss rss;

	ccnic_rss_init(&rss, 1);
	rss.flags = CCNIC_RSS_META;
	ccnic_rss_symmetric(&rss);
	EXPECT(ccnic_rss_set(nic, &rss), 0);
	for (size_t i = 0; i < FLOWS; i++) {
		struct flow flow = flows[i];
		struct ccnic_buf buf;
		uint64_t meta[2];

		for (int way = 0; way < 2; way++) {
			EXPECT(ccnic_buf_alloc(queues[0], 60, &buf, 1), 1);
			write_packet(ccnic_buf_data(queues[0], &buf), &flow);
			EXPECT(ccnic_tx_burst(queues[0], &buf, 1), 1);
			EXPECT(ccnic_wait(queues[0], 20 * SECOND), 1);
			EXPECT(ccnic_rx_burst(queues[0], &buf, 1), 1);
			meta[way] = buf.meta;
			EXPECT(ccnic_buf_free(queues[0], &buf, 1), 0);
			memcpy(flow.addresses, flows[i].addresses + 4, 4);
			memcpy(flow.addresses + 4, flows[i].addresses, 4);
			flow.ports[0] = flows[i].ports[1];
			flow.ports[1] = flows[i].ports[0];
		}
		EXPECT(meta[0] == meta[1] && meta[0] & CCNIC_META_HASHED, true);
	}
}

int main(int argc, char **argv)
{
	struct ccnic_queue *queues[QUEUES];
	struct ccnic_rss rss;
	struct ccnic *nic;

	EXPECT(argc, 2);
	nic = open_queues(argv[1], 512, queues, QUEUES);
	all_flows(queues, NULL);
	mistakes(nic);
	ccnic_rss_init(&rss, QUEUES);
	all_flows(queues, &rss);
	rss.flags = CCNIC_RSS_META;
	for (int i = 0; i < CCNIC_RSS_TABLE; i++)
		rss.table[i] = (uint16_t)(i / 5 % QUEUES);
	EXPECT(ccnic_rss_set(nic, &rss), 0);
	all_flows(queues, &rss);
	miss(queues, rss.table[flows[0].hash % CCNIC_RSS_TABLE]);
	symmetric(nic, queues);
	EXPECT(ccnic_rss_set(nic, NULL), 0);
	EXPECT(ccnic_rss_active(nic), 0);
	all_flows(queues, NULL);
	say("attached");

	EXPECT(ccnic_wait(queues[0], -1), -ENOTCONN);
	EXPECT(ccnic_rss_set(nic, &rss), -ENOTCONN);
	say("the NIC has gone");
	getchar();
	EXPECT(ccnic_reconnect(nic) >= 0, true);
	EXPECT(ccnic_rss_active(nic), 1);
	all_flows(queues, &rss);
	close_queues(nic, queues, QUEUES);
	printf("spread again\n");
	return 0;
}
