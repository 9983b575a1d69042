/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Offloads: mbuf flags become the metadata that travel with a packet, and the reverse. */
#ifndef CCNIC_META_H
#define CCNIC_META_H

#include "ccnic_net.h"

/* What the application requests of a packet. Everything else in ol_flags is none of the driver's business. */
#define CCNIC_TX_REQUESTS \
	(RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_L4_MASK | RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_UDP_SEG | RTE_MBUF_F_TX_VLAN)

#define CCNIC_RX_OFFLOADS \
	(RTE_ETH_RX_OFFLOAD_SCATTER | RTE_ETH_RX_OFFLOAD_CHECKSUM | RTE_ETH_RX_OFFLOAD_TCP_LRO | RTE_ETH_RX_OFFLOAD_VLAN_STRIP)
#define CCNIC_TX_OFFLOADS \
	(RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_CKSUM | RTE_ETH_TX_OFFLOAD_TCP_TSO | \
	 RTE_ETH_TX_OFFLOAD_UDP_TSO | RTE_ETH_TX_OFFLOAD_VLAN_INSERT)

/* The longest super-packet that the application may send. */
#define CCNIC_SUPER_MAX (UINT16_MAX + RTE_ETHER_HDR_LEN + RTE_VLAN_HLEN)

/* What the metadata of a packet to be sent say. */
struct ccnic_request {
	uint64_t meta;
	uint32_t needs; /* CCNIC_TAKES_... that a receiver must have for it; UINT32_MAX: nobody takes this */
};

/* Memory of a transmit queue for packets that its peer does not take as they are. */
struct ccnic_workspace {
	uint8_t part[CCNIC_MAX_FRAME];
	uint8_t frame[CCNIC_SUPER_MAX];
};

/* What the port takes, by its receive offloads: CCNIC_TAKES_... */
uint32_t ccnic_takes_of(const struct rte_eth_dev_data *data);
/* True if the port computes or requests anything for packets to be sent. */
bool ccnic_tx_offloads(const struct rte_eth_dev *eth);
/* role=program: tells the NIC what the port takes, and finds out what the NIC takes. Negative on failure. */
int ccnic_offloads_start(struct rte_eth_dev *eth);
/* role=program: the transmit queues' peer says this (ccnic_offloads()). No burst runs. */
void ccnic_offloads_learn(struct rte_eth_dev_data *data, int offloads);

/* Sets what the receive queue has to look at: called at the start, and when packet types are chosen. */
void ccnic_rx_look_init(struct rte_eth_dev *eth, struct ccnic_rxq *rxq);
/* Sets flags and fields of a received packet by its metadata: of what a program has sent, by its requests (CCNIC_META_REQUESTS). */
void ccnic_rx_told(const struct ccnic_rxq *rxq, struct rte_mbuf *m, uint64_t meta);
/* Strips tags off n packets that were received with them, and sets their types. */
void ccnic_rx_headers(const struct ccnic_rxq *rxq, struct rte_mbuf **pkts, uint16_t n);

/* The metadata of a packet that requests something. */
struct ccnic_request ccnic_tx_request(const struct rte_mbuf *m);

/*
 * Fills meta[] for the packets at the front of `pkts` that a peer takes as they are, none of them longer than `longest`; returns their
 * number. *said: some of them request something.
 */
static inline uint16_t
ccnic_tx_passable(uint32_t takes, uint32_t longest, struct rte_mbuf **pkts, uint16_t n, uint64_t *meta, bool *said)
{
	uint16_t i;

	*said = false;
	for (i = 0; i < n; i++) {
		struct ccnic_request request;

		meta[i] = 0;
		if ((pkts[i]->ol_flags & CCNIC_TX_REQUESTS) == 0)
			continue;
		request = ccnic_tx_request(pkts[i]);
		if (request.needs & ~takes || (request.meta & CCNIC_META_SEGMENT_MASK && pkts[i]->pkt_len > longest))
			break;
		meta[i] = request.meta;
		*said = true;
	}
	return i;
}

/*
 * What a packet requests. What is requested of a packet inside a tunnel is completed here, as nobody else can: then 1, or -1 if that cannot be
 * done, and the packet is counted and freed. Otherwise 0.
 */
int ccnic_tx_inner(struct ccnic_txq *txq, struct rte_mbuf *m, struct ccnic_request *request);
/* The bytes of a packet in one piece, which may be in the workspace; NULL if it is too long or inconsistent. */
const void *ccnic_tx_flatten(struct ccnic_workspace *space, const struct rte_mbuf *m);

/* dev_ptypes_set, dev_supported_ptypes_get */
int ccnic_ptypes_set(struct rte_eth_dev *eth, uint32_t mask);

#endif /* CCNIC_META_H */
