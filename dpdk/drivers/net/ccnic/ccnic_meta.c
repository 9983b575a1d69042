/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Offloads. Between memories a checksum, a segmentation and a VLAN tag are metadata (ccnic_offload.h of libccnic): nobody computes them.
 * The port says which it takes when it starts, by its receive offloads; the NIC does the others for it. What the NIC does not take of
 * what the application requests is done here, before the packet is sent.
 */
#include <errno.h>

#include <rte_ip.h>
#include <rte_net.h>
#include <rte_tcp.h>
#include <rte_udp.h>

#include "ccnic_meta.h"
#include "ccnic_ptype.h"

#define L4_CKSUMS (RTE_ETH_RX_OFFLOAD_UDP_CKSUM | RTE_ETH_RX_OFFLOAD_TCP_CKSUM)

uint32_t
ccnic_takes_of(const struct rte_eth_dev_data *data)
{
	const uint64_t offloads = data->dev_conf.rxmode.offloads;
	const struct ccnic_dev *dev = data->dev_private;
	/*
	 * Applications that enable receive checksums and forward what they get, as Open vSwitch and l3fwd do, lose packets without a
	 * checksum: they expect a NIC to verify what is there. Those that take super-packets cannot get them otherwise.
	 */
	const bool partial = dev->partial || offloads & RTE_ETH_RX_OFFLOAD_TCP_LRO;
	uint32_t takes = 0;

	if (partial && offloads & RTE_ETH_RX_OFFLOAD_IPV4_CKSUM)
		takes |= CCNIC_TAKES_IP;
	/* Metadata do not tell TCP from UDP. */
	if (partial && (offloads & L4_CKSUMS) == L4_CKSUMS)
		takes |= CCNIC_TAKES_L4;
	if (offloads & RTE_ETH_RX_OFFLOAD_TCP_LRO && takes & CCNIC_TAKES_L4)
		takes |= CCNIC_TAKES_TCP;
	if (offloads & RTE_ETH_RX_OFFLOAD_VLAN_STRIP)
		takes |= CCNIC_TAKES_VLAN;
	return takes;
}

bool
ccnic_tx_offloads(const struct rte_eth_dev *eth)
{
	return (eth->data->dev_conf.txmode.offloads & CCNIC_TX_OFFLOADS) != 0;
}

void
ccnic_offloads_learn(struct rte_eth_dev_data *data, int offloads)
{
	uint32_t takes = offloads > 0 ? offloads & CCNIC_TAKES_ALL : 0;
	uint16_t i;

	/* A loopback returns packets as they were sent. */
	if (offloads > 0 && offloads & CCNIC_OFFLOADS_PASSED)
		takes &= ccnic_takes_of(data);
	for (i = 0; i < data->nb_tx_queues; i++) {
		struct ccnic_txq *txq = data->tx_queues[i];

		txq->takes = takes;
	}
}

int
ccnic_offloads_start(struct rte_eth_dev *eth)
{
	struct ccnic_attach *att = ccnic_dev_of(eth)->att;
	int ret = ccnic_attach_takes(att, ccnic_takes_of(eth->data));

	/* libccnic tells the next NIC. */
	if (ret < 0 && ret != -ENOTCONN) {
		NET_LOG(ERR, "port %u: receive offloads: %s", eth->data->port_id, ccnic_last_error());
		return ret;
	}
	ccnic_offloads_learn(eth->data, ccnic_attach_offloads(att));
	eth->tx_pkt_burst = ccnic_tx_offloads(eth) ? ccnic_xmit_offloads : ccnic_xmit;
	return 0;
}

/* ---- receiving ------------------------------------------------------------------------------------------------------ */

void
ccnic_rx_look_init(struct rte_eth_dev *eth, struct ccnic_rxq *rxq)
{
	const uint64_t offloads = eth->data->dev_conf.rxmode.offloads;
	struct ccnic_dev *dev = ccnic_dev_of(eth);

	/* A hash that the NIC has not computed is another program's. */
	rxq->hash = offloads & RTE_ETH_RX_OFFLOAD_RSS_HASH && eth->data->dev_conf.rxmode.mq_mode & RTE_ETH_MQ_RX_RSS_FLAG;
	rxq->strip = (offloads & RTE_ETH_RX_OFFLOAD_VLAN_STRIP) != 0;
	rxq->takes = ccnic_takes_of(eth->data);
	/* An application that has chosen nothing, and has not asked which types there are, may rely on them all the same. */
	rxq->ptypes = dev->ptypes_asked ? dev->ptypes : offloads & RTE_ETH_RX_OFFLOAD_CHECKSUM ? RTE_PTYPE_ALL_MASK : 0;
	rxq->told = dev->marks || rxq->hash || rxq->takes != 0;
	rxq->headers = rxq->strip || rxq->ptypes != 0;
}

/* The flags for what the metadata say of the two checksums; what the port does not take a NIC has not left undone. */
static inline uint64_t
checksum_flags(uint32_t takes, uint64_t meta)
{
	static const uint64_t ip[] = { 0, RTE_MBUF_F_RX_IP_CKSUM_NONE, RTE_MBUF_F_RX_IP_CKSUM_GOOD, 0 };
	static const uint64_t l4[] = { 0, RTE_MBUF_F_RX_L4_CKSUM_NONE, RTE_MBUF_F_RX_L4_CKSUM_GOOD, 0 };
	uint64_t flags = 0;

	if (takes & CCNIC_TAKES_IP)
		flags |= ip[(meta & CCNIC_META_IP_MASK) / CCNIC_META_IP_REQUESTED];
	if (takes & CCNIC_TAKES_L4)
		flags |= l4[(meta & CCNIC_META_L4_MASK) / CCNIC_META_L4_REQUESTED];
	return flags;
}

__rte_noinline void
ccnic_rx_told(const struct ccnic_rxq *rxq, struct rte_mbuf *m, uint64_t meta)
{
	uint64_t flags = checksum_flags(rxq->takes, meta);

	if (meta & CCNIC_META_SEGMENT_MASK) {
		if (rxq->takes & CCNIC_TAKES_TCP) {
			m->tso_segsz = meta & CCNIC_META_SEGMENT_SIZE;
			flags |= RTE_MBUF_F_RX_LRO;
		}
	} else if (meta & CCNIC_META_MARKED) {
		/* A flow rule of this port, instead of the hash. */
		m->hash.fdir.hi = CCNIC_META_MARK(meta);
		flags |= RTE_MBUF_F_RX_FDIR | RTE_MBUF_F_RX_FDIR_ID;
	} else if (rxq->hash && meta & CCNIC_META_HASHED) {
		m->hash.rss = (uint32_t)meta;
		flags |= RTE_MBUF_F_RX_RSS_HASH;
	}
	if (rxq->strip && meta & CCNIC_META_VLAN) {
		m->vlan_tci = meta >> CCNIC_META_TCI_SHIFT;
		flags |= RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;
	}
	m->ol_flags |= flags;
}

__rte_noinline void
ccnic_rx_headers(const struct ccnic_rxq *rxq, struct rte_mbuf **pkts, uint16_t n)
{
	const uint32_t layers = rxq->ptypes;
	uint16_t i;

	for (i = 0; rxq->strip && i < n; i++)
		if (!(pkts[i]->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED) && pkts[i]->data_len >= RTE_ETHER_HDR_LEN + RTE_VLAN_HLEN)
			rte_vlan_strip(pkts[i]);
	for (i = 0; layers != 0 && i < n; i++)
		pkts[i]->packet_type = ccnic_ptype(pkts[i], layers);
}

/* ---- packet types --------------------------------------------------------------------------------------------------- */

/* What rte_net_get_ptype() finds. */
static const uint32_t ptypes[] = {
	RTE_PTYPE_L2_ETHER,
	RTE_PTYPE_L2_ETHER_VLAN,
	RTE_PTYPE_L2_ETHER_QINQ,
	RTE_PTYPE_L3_IPV4,
	RTE_PTYPE_L3_IPV4_EXT,
	RTE_PTYPE_L3_IPV6,
	RTE_PTYPE_L3_IPV6_EXT,
	RTE_PTYPE_L4_TCP,
	RTE_PTYPE_L4_UDP,
	RTE_PTYPE_L4_SCTP,
	RTE_PTYPE_L4_FRAG,
	RTE_PTYPE_TUNNEL_IP,
	RTE_PTYPE_TUNNEL_GRE,
	RTE_PTYPE_TUNNEL_NVGRE,
	RTE_PTYPE_INNER_L2_ETHER,
	RTE_PTYPE_INNER_L2_ETHER_VLAN,
	RTE_PTYPE_INNER_L2_ETHER_QINQ,
	RTE_PTYPE_INNER_L3_IPV4,
	RTE_PTYPE_INNER_L3_IPV4_EXT,
	RTE_PTYPE_INNER_L3_IPV6,
	RTE_PTYPE_INNER_L3_IPV6_EXT,
	RTE_PTYPE_INNER_L4_TCP,
	RTE_PTYPE_INNER_L4_UDP,
	RTE_PTYPE_INNER_L4_SCTP,
	RTE_PTYPE_INNER_L4_FRAG,
	RTE_PTYPE_UNKNOWN, /* the end, for DPDK before 24.03 */
};

/* The layers of the types that the application has chosen: the mask that rte_net_get_ptype() takes. */
int
ccnic_ptypes_set(struct rte_eth_dev *eth, uint32_t mask)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);
	uint16_t i;

	dev->ptypes_asked = true;
	dev->ptypes = mask;
	/* A running device applies it to its next packets. */
	for (i = 0; dev->started && i < eth->data->nb_rx_queues; i++)
		ccnic_rx_look_init(eth, eth->data->rx_queues[i]);
	return 0;
}

const uint32_t *
ccnic_ptypes(struct rte_eth_dev *eth, size_t *n)
{
	struct ccnic_dev *dev = ccnic_dev_of(eth);

	/* Who asks which types there are relies on them, unless it chooses. */
	if (!dev->ptypes_asked)
		ccnic_ptypes_set(eth, RTE_PTYPE_ALL_MASK);
	*n = RTE_DIM(ptypes) - 1;
	return ptypes;
}

/* ---- transmitting --------------------------------------------------------------------------------------------------- */

/* True if the lengths of the headers are those of a packet that is in no tunnel: a NIC finds the same headers. */
static inline bool
is_outermost(const struct rte_mbuf *m)
{
	const struct rte_ether_hdr *ether;

	if (likely(m->l2_len == RTE_ETHER_HDR_LEN || m->l2_len == 0))
		return true;
	if (m->l2_len > RTE_ETHER_HDR_LEN + CCNIC_TAGS || m->data_len < RTE_ETHER_HDR_LEN)
		return false;
	ether = rte_pktmbuf_mtod(m, const struct rte_ether_hdr *);
	return ether->ether_type == RTE_BE16(RTE_ETHER_TYPE_VLAN) || ether->ether_type == RTE_BE16(RTE_ETHER_TYPE_QINQ);
}

struct ccnic_request
ccnic_tx_request(const struct rte_mbuf *m)
{
	const uint64_t flags = m->ol_flags;
	const uint64_t l4 = flags & RTE_MBUF_F_TX_L4_MASK;
	struct ccnic_request r = { 0, 0 };

	if (flags & (RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_UDP_SEG)) {
		r.meta = m->tso_segsz | CCNIC_META_L4_REQUESTED;
		if (flags & RTE_MBUF_F_TX_UDP_SEG) {
			r.meta |= CCNIC_META_UDP;
			r.needs = CCNIC_TAKES_UDP;
		} else {
			r.meta |= flags & RTE_MBUF_F_TX_IPV6 ? CCNIC_META_TCP_IPV6 : CCNIC_META_TCP_IPV4;
			r.needs = CCNIC_TAKES_TCP;
		}
	} else if (l4 == RTE_MBUF_F_TX_TCP_CKSUM || l4 == RTE_MBUF_F_TX_UDP_CKSUM) {
		r.meta = CCNIC_META_L4_REQUESTED;
		r.needs = CCNIC_TAKES_L4;
	}
	if (flags & RTE_MBUF_F_TX_IP_CKSUM || (r.meta & CCNIC_META_SEGMENT_MASK && !(flags & RTE_MBUF_F_TX_IPV6))) {
		r.meta |= CCNIC_META_IP_REQUESTED;
		r.needs |= CCNIC_TAKES_IP;
	}
	if (r.needs != 0 && unlikely(!is_outermost(m)))
		r.needs = UINT32_MAX;
	if (flags & RTE_MBUF_F_TX_VLAN) {
		r.meta |= CCNIC_META_VLAN | (uint64_t)m->vlan_tci << CCNIC_META_TCI_SHIFT;
		r.needs |= CCNIC_TAKES_VLAN;
	}
	return r;
}

/* Fills in the checksum of the transport layer, whose header begins at `at`, over an IP header in the same segment. */
static bool
complete_inner_l4(struct rte_mbuf *m, const void *ip, uint16_t at)
{
	const bool tcp = (m->ol_flags & RTE_MBUF_F_TX_L4_MASK) == RTE_MBUF_F_TX_TCP_CKSUM;
	const uint16_t where = tcp ? offsetof(struct rte_tcp_hdr, cksum) : offsetof(struct rte_udp_hdr, dgram_cksum);
	uint16_t *field = rte_pktmbuf_mtod_offset(m, uint16_t *, at + where);
	uint16_t sum;

	if (m->data_len < at + where + sizeof(*field))
		return false;
	*field = 0;
	sum = m->ol_flags & RTE_MBUF_F_TX_IPV6 ? rte_ipv6_udptcp_cksum_mbuf(m, ip, at) : rte_ipv4_udptcp_cksum_mbuf(m, ip, at);
	*field = sum;
	return true;
}

/* Makes a packet whose headers nobody but the application knows (an inner packet of a tunnel) complete, in place; false if that is not possible. */
static bool
complete_inner(struct rte_mbuf *m)
{
	const uint64_t l4 = m->ol_flags & RTE_MBUF_F_TX_L4_MASK;
	void *ip = rte_pktmbuf_mtod_offset(m, void *, m->l2_len);

	/* Cutting would change the outer headers, too: the port offers no segmentation for tunnels. */
	if (m->ol_flags & (RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_UDP_SEG) || m->data_len < m->l2_len + m->l3_len ||
	    m->l3_len < sizeof(struct rte_ipv4_hdr))
		return false;
	if (m->ol_flags & RTE_MBUF_F_TX_IP_CKSUM) {
		struct rte_ipv4_hdr *header = ip;

		if (rte_ipv4_hdr_len(header) != m->l3_len)
			return false;
		header->hdr_checksum = 0;
		header->hdr_checksum = rte_ipv4_cksum(header);
	}
	if (l4 == RTE_MBUF_F_TX_TCP_CKSUM || l4 == RTE_MBUF_F_TX_UDP_CKSUM)
		if (!complete_inner_l4(m, ip, m->l2_len + m->l3_len))
			return false;
	m->ol_flags &= ~(RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_L4_MASK);
	return true;
}

int
ccnic_tx_inner(struct ccnic_txq *txq, struct rte_mbuf *m, struct ccnic_request *request)
{
	*request = ccnic_tx_request(m);
	if (likely(request->needs != UINT32_MAX))
		return 0;
	if (!complete_inner(m)) {
		txq->stats.bad_offload++;
		rte_pktmbuf_free(m);
		return -1;
	}
	txq->stats.computed++;
	*request = ccnic_tx_request(m);
	return 1;
}

const void *
ccnic_tx_flatten(struct ccnic_workspace *space, const struct rte_mbuf *m)
{
	const uint32_t len = ccnic_checked_len(m);
	uint32_t at = 0;

	if (len == 0 || len > sizeof(space->frame))
		return NULL;
	if (m->nb_segs == 1)
		return rte_pktmbuf_mtod(m, const void *);
	for (; m != NULL; m = m->next) {
		memcpy(&space->frame[at], rte_pktmbuf_mtod(m, const void *), m->data_len);
		at += m->data_len;
	}
	return space->frame;
}
