/*
 * Adds flow rules, and expects each packet where they say. When the NIC has ended, waits for a line of input and expects the same of its
 * successor.
 */
#include "check.h"

#define QUEUES 2
#define LEN 60
#define NOWHERE (-1)

/* A datagram to a port. */
static void write_packet(uint8_t *packet, uint16_t port)
{
	static const uint8_t datagram[LEN] = { [12] = 0x08, [14] = 0x45, [17] = 46, [22] = 64, [23] = 17, [26] = 10, [29] = 1, [39] = 26 };

	memcpy(packet, datagram, LEN);
	packet[36] = (uint8_t)(port >> 8);
	packet[37] = (uint8_t)port;
}

static void udp_rule(struct ccnic_flow_rule *rule, uint16_t port, uint8_t target)
{
	ccnic_flow_rule_init(rule);
	rule->match = CCNIC_FLOW_PROTOCOL | CCNIC_FLOW_DST_PORT | CCNIC_FLOW_SRC_IPV4;
	rule->protocol = 17;
	rule->dst_port = port;
	memcpy(rule->src_ip, (const uint8_t[4]){ 10, 0, 0, 1 }, 4);
	rule->target = target;
}

static void send_to(struct ccnic_queue *queue, uint16_t port)
{
	struct ccnic_buf buf;

	EXPECT(ccnic_buf_alloc(queue, LEN, &buf, 1), 1);
	write_packet(ccnic_buf_data(queue, &buf), port);
	EXPECT(ccnic_tx_burst(queue, &buf, 1), 1);
}

/* Sends a packet on queue 0, and another one to port 9 behind it: where that has come, the first one has, or never will. */
static void exchange(struct ccnic_queue **queues, uint16_t port, int to, uint64_t meta)
{
	struct ccnic_buf buf;

	send_to(queues[0], port);
	send_to(queues[0], 9);
	for (int queue = 0; queue < QUEUES; queue++) {
		int last = 0;

		if (queue != to && queue != 0)
			continue;
		do {
			EXPECT(ccnic_wait(queues[queue], 20 * SECOND) > 0, true);
			EXPECT(ccnic_rx_burst(queues[queue], &buf, 1), 1);
			last = ((uint8_t *)ccnic_buf_data(queues[queue], &buf))[37];
			EXPECT(last == 9 || queue == to, true);
			EXPECT(buf.meta, last == 9 ? 0 : meta);
			EXPECT(ccnic_buf_free(queues[queue], &buf, 1), 0);
		} while (queue == 0 && last != 9);
	}
	for (int queue = 0; queue < QUEUES; queue++)
		EXPECT(ccnic_rx_ready(queues[queue]), 0);
}

static void expect_hits(struct ccnic *nic, uint32_t id, uint64_t expected)
{
	uint64_t packets = 0, bytes = 0;

	EXPECT(ccnic_flow_query(nic, id, &packets, &bytes), 0);
	EXPECT(packets, expected);
	EXPECT(bytes, expected * LEN);
	EXPECT(ccnic_flow_query(nic, id, NULL, NULL), 0);
}

static void mistakes(struct ccnic *nic)
{
	struct ccnic_flow_rule rule;
	uint32_t id = 77;

	ccnic_flow_rule_init(&rule);
	EXPECT(ccnic_flow_create(NULL, &rule, &id), -EINVAL);
	EXPECT(ccnic_flow_create(nic, NULL, &id), -EINVAL);
	EXPECT(ccnic_flow_create(nic, &rule, NULL), -EINVAL);
	EXPECT(ccnic_flow_check(NULL, &rule), -EINVAL);
	EXPECT(ccnic_flow_check(nic, NULL), -EINVAL);
	EXPECT(ccnic_flow_check(nic, &rule), 0);
	EXPECT(ccnic_flow_destroy(NULL, 0), -EINVAL);
	EXPECT(ccnic_flow_destroy(nic, 0), -EINVAL);
	EXPECT(ccnic_flow_flush(NULL), -EINVAL);
	EXPECT(ccnic_flow_query(NULL, 0, NULL, NULL), -EINVAL);
	EXPECT(ccnic_flow_query(nic, 0, NULL, NULL), -EPERM);
	rule.target = CCNIC_FLOW_TO_QUEUE;
	rule.queue = QUEUES;
	EXPECT(ccnic_flow_check(nic, &rule), -EINVAL);
	EXPECT(ccnic_flow_create(nic, &rule, &id), -EINVAL);
	EXPECT(strcmp(ccnic_last_error(), "flow rule: to is queue 2; the program has queues 0 to 1"), 0);
	rule.match = 1u << 31;
	EXPECT(ccnic_flow_create(nic, &rule, &id), -E2BIG);
	rule.size = 0;
	EXPECT(ccnic_flow_create(nic, &rule, &id), -EINVAL);
	EXPECT(id, 77);
}

int main(int argc, char **argv)
{
	const uint64_t marked = CCNIC_META_MARKED | UINT64_C(0xbeef) << 16;
	struct ccnic_queue *queues[QUEUES];
	struct ccnic_flow_rule rule;
	uint32_t to_one, dropped;
	struct ccnic *nic;

	EXPECT(argc, 2);
	nic = open_queues(argv[1], 256, queues, QUEUES);
	mistakes(nic);
	udp_rule(&rule, 5, CCNIC_FLOW_TO_QUEUE);
	rule.queue = 1;
	rule.flags = CCNIC_FLOW_MARK;
	rule.mark = 0xbeef;
	EXPECT(ccnic_flow_create(nic, &rule, &to_one), 0);
	EXPECT(ccnic_flow_create(nic, &rule, &to_one), -EPERM);
	udp_rule(&rule, 6, CCNIC_FLOW_TO_DROP);
	EXPECT(ccnic_flow_create(nic, &rule, &dropped), 0);
	exchange(queues, 5, 1, marked);
	exchange(queues, 6, NOWHERE, 0);
	exchange(queues, 7, 0, 0);
	expect_hits(nic, to_one, 1);
	expect_hits(nic, dropped, 1);
	EXPECT(CCNIC_META_MARK(marked), 0xbeef);
	EXPECT(ccnic_flow_destroy(nic, dropped), 0);
	exchange(queues, 6, 0, 0);
	say("attached");

	EXPECT(ccnic_wait(queues[0], -1), -ENOTCONN);
	EXPECT(ccnic_flow_create(nic, &rule, &dropped), -ENOTCONN);
	say("the NIC has gone");
	getchar();
	EXPECT(ccnic_reconnect(nic) >= 0, true);
	exchange(queues, 5, 1, marked);
	exchange(queues, 6, 0, 0);
	expect_hits(nic, to_one, 1);
	EXPECT(ccnic_flow_flush(nic), 0);
	exchange(queues, 5, 0, 0);
	close_queues(nic, queues, QUEUES);
	printf("steered again\n");
	return 0;
}
