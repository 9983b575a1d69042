/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Compares the driver's packet types with DPDK's, for test_applications.py: ptype [EAL options] [-- measure]
 *
 * Frames of every version and protocol, each cut at every length, with every value of the bytes that decide, for every choice of layers;
 * then all ports of UDP, and frames that are changed at random. `measure` prints what either costs instead.
 */
#include <string.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_random.h>

#include "../drivers/net/ccnic/ccnic_ptype.h"
#include "expect.h"

#define LENGTH 120
#define RANDOM 2000000
#define MEASURED 32

static const uint32_t layer[] = {
	RTE_PTYPE_L2_MASK, RTE_PTYPE_L3_MASK, RTE_PTYPE_L4_MASK, RTE_PTYPE_TUNNEL_MASK,
	RTE_PTYPE_INNER_L2_MASK, RTE_PTYPE_INNER_L3_MASK, RTE_PTYPE_INNER_L4_MASK,
};

static const uint16_t ether_types[] = {
	RTE_ETHER_TYPE_IPV4, RTE_ETHER_TYPE_IPV6, RTE_ETHER_TYPE_VLAN, RTE_ETHER_TYPE_QINQ, RTE_ETHER_TYPE_MPLS, RTE_ETHER_TYPE_ARP, 0, 6, 17,
};

static void
put(struct rte_mbuf *m, uint16_t at, uint16_t value)
{
	*rte_pktmbuf_mtod_offset(m, rte_be16_t *, at) = rte_cpu_to_be_16(value);
}

static uint8_t *
byte(struct rte_mbuf *m, uint16_t at)
{
	return rte_pktmbuf_mtod_offset(m, uint8_t *, at);
}

/* A datagram of this type, of so many bytes; without options where it is IP. */
static void
make(struct rte_mbuf *m, uint16_t ether_type, uint8_t protocol)
{
	memset(byte(m, 0), 0, LENGTH);
	put(m, 12, ether_type);
	*byte(m, 14) = ether_type == RTE_ETHER_TYPE_IPV6 ? 0x60 : 0x45;
	*byte(m, ether_type == RTE_ETHER_TYPE_IPV6 ? 20 : 23) = protocol;
	m->data_len = m->pkt_len = LENGTH;
}

static void
compare(const struct rte_mbuf *m, uint32_t layers)
{
	EXPECT(ccnic_ptype(m, layers) == rte_net_get_ptype(m, NULL, layers));
}

static void
every_choice_of_layers(const struct rte_mbuf *m)
{
	uint32_t choice, layers, i;

	for (choice = 0; choice < 1u << RTE_DIM(layer); choice++) {
		for (layers = 0, i = 0; i < RTE_DIM(layer); i++)
			layers |= choice & 1u << i ? layer[i] : 0;
		compare(m, layers);
	}
}

/* In one segment, and with what is left of it in a second one. */
static void
every_length(struct rte_mbuf *m)
{
	uint16_t len;

	for (len = 0; len <= LENGTH; len++) {
		m->data_len = m->pkt_len = len;
		compare(m, RTE_PTYPE_ALL_MASK);
	}
	m->data_len = m->pkt_len = LENGTH;
}

static void
every_cut(struct rte_mbuf *m, struct rte_mbuf *second)
{
	uint16_t len;

	for (len = 1; len < LENGTH; len++) {
		memcpy(byte(second, 0), byte(m, len), LENGTH - len);
		m->data_len = len;
		second->data_len = LENGTH - len;
		m->next = second;
		m->nb_segs = 2;
		compare(m, RTE_PTYPE_ALL_MASK);
	}
	m->next = NULL;
	m->nb_segs = 1;
	m->data_len = LENGTH;
}

/* Version and length of the header, fragments, protocol. */
static void
every_value(struct rte_mbuf *m)
{
	static const uint8_t deciding[] = { 12, 13, 14, 20, 21, 23 };
	uint32_t i, value;

	for (i = 0; i < RTE_DIM(deciding); i++) {
		const uint8_t was = *byte(m, deciding[i]);

		for (value = 0; value <= UINT8_MAX; value++) {
			*byte(m, deciding[i]) = value;
			compare(m, RTE_PTYPE_ALL_MASK);
		}
		*byte(m, deciding[i]) = was;
	}
}

static void
every_port(struct rte_mbuf *m, uint16_t at)
{
	uint32_t port;

	for (port = 0; port <= UINT16_MAX; port++) {
		put(m, at, port);
		compare(m, RTE_PTYPE_ALL_MASK);
	}
	put(m, at, 0);
}

static void
ports_of_udp(struct rte_mbuf *m)
{
	make(m, RTE_ETHER_TYPE_IPV4, IPPROTO_UDP);
	every_port(m, 34);
	every_port(m, 36);
	make(m, RTE_ETHER_TYPE_IPV6, IPPROTO_UDP);
	every_port(m, 54);
	every_port(m, 56);
}

static void
at_random(struct rte_mbuf *m)
{
	static const uint8_t protocols[] = { IPPROTO_TCP, IPPROTO_UDP, IPPROTO_SCTP, IPPROTO_GRE, IPPROTO_IPIP, IPPROTO_FRAGMENT };
	uint32_t i, changes;

	for (i = 0; i < RANDOM; i++) {
		make(m, ether_types[rte_rand_max(RTE_DIM(ether_types))], protocols[rte_rand_max(RTE_DIM(protocols))]);
		for (changes = rte_rand_max(4); changes > 0; changes--)
			*byte(m, rte_rand_max(LENGTH)) = rte_rand();
		m->data_len = m->pkt_len = rte_rand_max(LENGTH + 1);
		compare(m, RTE_PTYPE_ALL_MASK);
	}
}

static void
test(struct rte_mbuf *m, struct rte_mbuf *second)
{
	uint32_t type, protocol;

	rte_srand(4711);
	for (type = 0; type < RTE_DIM(ether_types); type++)
		for (protocol = 0; protocol <= UINT8_MAX; protocol++) {
			make(m, ether_types[type], protocol);
			every_choice_of_layers(m);
			every_length(m);
			every_cut(m, second);
			every_value(m);
		}
	ports_of_udp(m);
	at_random(m);
	printf("the same\n");
}

/* Of bursts of packets of one kind, in nanoseconds a packet: both functions in turn. */
static void
measure(struct rte_mempool *pool, const char *what, uint16_t ether_type, uint8_t protocol)
{
	const uint32_t rounds = 500000;
	uint64_t cycles[2], best[2] = { UINT64_MAX, UINT64_MAX };
	struct rte_mbuf *pkts[MEASURED];
	uint32_t round, i, turn, sum = 0;

	EXPECT(rte_pktmbuf_alloc_bulk(pool, pkts, MEASURED) == 0);
	for (i = 0; i < MEASURED; i++)
		make(pkts[i], ether_type, protocol);
	for (turn = 0; turn < 20; turn++) {
		uint64_t start = rte_rdtsc();

		for (round = 0; round < rounds; round++)
			for (i = 0; i < MEASURED; i++)
				sum += pkts[i]->packet_type = turn % 2 ? ccnic_ptype(pkts[i], RTE_PTYPE_ALL_MASK) :
									 rte_net_get_ptype(pkts[i], NULL, RTE_PTYPE_ALL_MASK);
		cycles[turn % 2] = rte_rdtsc() - start;
		best[turn % 2] = RTE_MIN(best[turn % 2], cycles[turn % 2]);
	}
	printf("%s: rte_net_get_ptype() %.2f ns, ccnic_ptype() %.2f ns (%u)\n", what, best[0] * 1e9 / rte_get_tsc_hz() / rounds / MEASURED,
	       best[1] * 1e9 / rte_get_tsc_hz() / rounds / MEASURED, sum % 10);
	rte_pktmbuf_free_bulk(pkts, MEASURED);
}

int
main(int argc, char **argv)
{
	struct rte_mempool *pool;
	struct rte_mbuf *pkts[2];
	int used = rte_eal_init(argc, argv);

	EXPECT(used >= 0);
	pool = rte_pktmbuf_pool_create("mbufs", 255, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
	EXPECT(pool != NULL);
	if (argc > used + 1) {
		measure(pool, "TCP, IPv4", RTE_ETHER_TYPE_IPV4, IPPROTO_TCP);
		measure(pool, "UDP, IPv4", RTE_ETHER_TYPE_IPV4, IPPROTO_UDP);
		measure(pool, "TCP, IPv6", RTE_ETHER_TYPE_IPV6, IPPROTO_TCP);
		measure(pool, "other type", 0x88b5, 0);
	} else {
		EXPECT(rte_pktmbuf_alloc_bulk(pool, pkts, 2) == 0);
		test(pkts[0], pkts[1]);
	}
	fflush(stdout);
	return rte_eal_cleanup();
}
