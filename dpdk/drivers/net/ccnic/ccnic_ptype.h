/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Packet types: what rte_net_get_ptype() finds, sooner for what most packets are: TCP and UDP without a tag, options or extension headers.
 * That function reads headers that may be in several segments and writes down how long each is, which nobody asks for here.
 */
#ifndef CCNIC_PTYPE_H
#define CCNIC_PTYPE_H

#include <netinet/in.h>

#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_net.h>
#include <rte_tcp.h>
#include <rte_udp.h>

/* True if the datagram may be a tunnel's (VXLAN, its GPE, GENEVE, GTP-U and GTP-C), whose packet some versions of DPDK look into. */
static inline bool
ccnic_ptype_may_tunnel(const struct rte_udp_hdr *udp)
{
	switch (udp->dst_port) {
	case RTE_BE16(2123):
	case RTE_BE16(2152):
	case RTE_BE16(4789):
	case RTE_BE16(4790):
	case RTE_BE16(6081):
		return true;
	default:
		return udp->src_port == RTE_BE16(2123);
	}
}

/* The type of a transport header at `l4`, of which there are `len` bytes; 0 for what rte_net_get_ptype() must look at. */
static __rte_always_inline uint32_t
ccnic_ptype_l4(uint8_t protocol, const void *l4, uint32_t len)
{
	if (protocol == IPPROTO_TCP && len >= sizeof(struct rte_tcp_hdr))
		return RTE_PTYPE_L4_TCP;
	if (protocol == IPPROTO_UDP && len >= sizeof(struct rte_udp_hdr) && !ccnic_ptype_may_tunnel(l4))
		return RTE_PTYPE_L4_UDP;
	return 0;
}

/* The type of a packet of which `len` bytes begin at `ether`; 0 for what rte_net_get_ptype() must look at. */
static __rte_always_inline uint32_t
ccnic_ptype_plain(const struct rte_ether_hdr *ether, uint32_t len)
{
	const uint32_t l4_of_ipv4 = sizeof(*ether) + sizeof(struct rte_ipv4_hdr), l4_of_ipv6 = sizeof(*ether) + sizeof(struct rte_ipv6_hdr);
	uint32_t l3 = 0, l4 = 0;

	if (ether->ether_type == RTE_BE16(RTE_ETHER_TYPE_IPV4) && len > l4_of_ipv4) {
		const struct rte_ipv4_hdr *ip = (const void *)(ether + 1);

		l3 = RTE_PTYPE_L3_IPV4;
		if (ip->version_ihl == RTE_IPV4_VHL_DEF && !(ip->fragment_offset & RTE_BE16(RTE_IPV4_HDR_OFFSET_MASK | RTE_IPV4_HDR_MF_FLAG)))
			l4 = ccnic_ptype_l4(ip->next_proto_id, ip + 1, len - l4_of_ipv4);
	} else if (ether->ether_type == RTE_BE16(RTE_ETHER_TYPE_IPV6) && len > l4_of_ipv6) {
		const struct rte_ipv6_hdr *ip = (const void *)(ether + 1);

		l3 = RTE_PTYPE_L3_IPV6;
		l4 = ccnic_ptype_l4(ip->proto, ip + 1, len - l4_of_ipv6);
	}
	return l4 != 0 ? RTE_PTYPE_L2_ETHER | l3 | l4 : 0;
}

/* The type of a packet; `layers`: those that are wanted, as for rte_net_get_ptype(), which stops before the first that is not. */
static __rte_always_inline uint32_t
ccnic_ptype(const struct rte_mbuf *m, uint32_t layers)
{
	const bool all = (layers & RTE_PTYPE_L2_MASK) && (layers & RTE_PTYPE_L3_MASK) && (layers & RTE_PTYPE_L4_MASK);
	uint32_t plain = 0;

	if (likely(all && m->data_len > sizeof(struct rte_ether_hdr)))
		plain = ccnic_ptype_plain(rte_pktmbuf_mtod(m, const struct rte_ether_hdr *), m->data_len);
	return likely(plain != 0) ? plain : rte_net_get_ptype(m, NULL, layers);
}

#endif /* CCNIC_PTYPE_H */
