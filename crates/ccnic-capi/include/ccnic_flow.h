/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file ccnic_flow.h
 * libccnic: flow rules. They say for some of the packets that a program receives what becomes of them, before receive-side scaling
 * (RSS) does. Included by ccnic.h.
 */
#ifndef CCNIC_FLOW_H
#define CCNIC_FLOW_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ccnic;

/*
 * Which fields of a packet a rule names. A field that is named must be in the packet and have the rule's value; others may have any
 * value, or be missing.
 */
/** Destination address of the frame. */
#define CCNIC_FLOW_DST_MAC 1u
/** Source address of the frame. */
#define CCNIC_FLOW_SRC_MAC 2u
/** VLAN number of the outermost tag of IEEE 802.1Q, in the frame or in the metadata: 0 to 4094. */
#define CCNIC_FLOW_VLAN 4u
/** EtherType behind all tags. */
#define CCNIC_FLOW_ETHER_TYPE 8u
/** Protocol of an IP packet that is no fragment, behind extension headers. */
#define CCNIC_FLOW_PROTOCOL 16u
/** Addresses of IP packets: of IPv4 the first four bytes. All of one IP version. */
#define CCNIC_FLOW_SRC_IPV4 32u
#define CCNIC_FLOW_DST_IPV4 64u
#define CCNIC_FLOW_SRC_IPV6 128u
#define CCNIC_FLOW_DST_IPV6 256u
/** Ports. Only with CCNIC_FLOW_PROTOCOL, and protocol 6 (TCP), 17 (UDP) or 132 (SCTP). */
#define CCNIC_FLOW_SRC_PORT 512u
#define CCNIC_FLOW_DST_PORT 1024u

/* Where the packets go. */
/** Where they go without rules: by RSS, or without RSS, where they are. */
#define CCNIC_FLOW_TO_RSS 0
/** To the receive queue `queue`. */
#define CCNIC_FLOW_TO_QUEUE 1
/** Nowhere: they are dropped. The NIC counts them, but not among those that the program has missed (`rx_dropped`). */
#define CCNIC_FLOW_TO_DROP 2

/** Flag: the metadata of the packets have `mark`, in place of a hash. Not with CCNIC_FLOW_TO_DROP. */
#define CCNIC_FLOW_MARK 1u
/** In `meta` of a packet received by a program with flow rules: CCNIC_META_MARK() is the mark that a rule has given it. */
#define CCNIC_META_MARKED (UINT64_C(1) << 40)
/** The mark in `meta`, where it has @ref CCNIC_META_MARKED. */
#define CCNIC_META_MARK(meta) ((uint16_t)((meta) >> 16))

/** A flow rule. Set it up with ccnic_flow_rule_init(), then change fields. Addresses are in the order of the wire, numbers in that of the
 * machine. Later versions append fields. */
struct ccnic_flow_rule {
	size_t size;         /**< sizeof(struct ccnic_flow_rule) */
	uint32_t priority;   /**< of several rules about a packet the one with the lowest is followed; among equals, that with the lowest id */
	uint32_t match;      /**< fields that it names: CCNIC_FLOW_DST_MAC and so on; with 0 it is about all packets */
	uint8_t dst_mac[6];  /**< CCNIC_FLOW_DST_MAC */
	uint8_t src_mac[6];  /**< CCNIC_FLOW_SRC_MAC */
	uint8_t src_ip[16];  /**< CCNIC_FLOW_SRC_IPV4 or CCNIC_FLOW_SRC_IPV6 */
	uint8_t dst_ip[16];  /**< CCNIC_FLOW_DST_IPV4 or CCNIC_FLOW_DST_IPV6 */
	uint16_t vlan;       /**< CCNIC_FLOW_VLAN */
	uint16_t ether_type; /**< CCNIC_FLOW_ETHER_TYPE */
	uint16_t src_port;   /**< CCNIC_FLOW_SRC_PORT */
	uint16_t dst_port;   /**< CCNIC_FLOW_DST_PORT */
	uint16_t queue;      /**< with CCNIC_FLOW_TO_QUEUE */
	uint16_t mark;       /**< with the flag CCNIC_FLOW_MARK */
	uint32_t flags;      /**< CCNIC_FLOW_MARK, or 0 */
	uint8_t protocol;    /**< CCNIC_FLOW_PROTOCOL */
	uint8_t target;      /**< CCNIC_FLOW_TO_RSS, CCNIC_FLOW_TO_QUEUE or CCNIC_FLOW_TO_DROP */
	uint8_t reserved[2]; /**< 0 */
};

/** Sets a rule about all packets, which go where they go without it. Any thread. */
static inline void ccnic_flow_rule_init(struct ccnic_flow_rule *rule)
{
	memset(rule, 0, sizeof(*rule));
	rule->size = sizeof(*rule);
}

/**
 * Adds a flow rule about the packets that `nic` receives. It is in force, when this returns, for all packets sent from then on, and stays
 * so when ccnic_reconnect() attaches to another NIC: from the first packet on, if that has flow rules.
 *
 * While there are rules, queues do not wait for each other, as with RSS: see ccnic_rss_set(). A NIC has limits, of rules and of the
 * different sets of fields that they name; rules of its operator come before the program's.
 *
 * @param rule copied
 * @param id   where the number of the rule goes
 * @return 0; -EINVAL: an argument is NULL, or a field is out of range; -E2BIG: a field is unknown to this library; -EPERM: the NIC refuses,
 *         because of a limit, or because a rule with the same fields and priority is there; -ENOTCONN: the NIC has ended; -EOPNOTSUPP:
 *         the NIC has no flow rules. ccnic_last_error() names the field, or the limit. There is no new rule after an error.
 *
 * Any thread. Blocks until the NIC has answered.
 */
int ccnic_flow_create(struct ccnic *nic, const struct ccnic_flow_rule *rule, uint32_t *id);

/**
 * Checks the fields of a rule without adding it. The NIC's limits are not checked.
 *
 * @return 0, -EINVAL, -E2BIG or -EOPNOTSUPP, as ccnic_flow_create()
 *
 * Any thread.
 */
int ccnic_flow_check(struct ccnic *nic, const struct ccnic_flow_rule *rule);

/**
 * Removes a rule of this program, from this NIC and for its successors.
 *
 * @return 0; -EINVAL: `nic` is NULL, or there is no such rule; -EPERM: the NIC refused
 *
 * Any thread. Blocks until the NIC has answered.
 */
int ccnic_flow_destroy(struct ccnic *nic, uint32_t id);

/**
 * Removes all rules of this program, from this NIC and for its successors. Those of the NIC's operator stay.
 *
 * @return 0; -EINVAL: `nic` is NULL; -EPERM: the NIC refused
 *
 * Any thread. Blocks until the NIC has answered.
 */
int ccnic_flow_flush(struct ccnic *nic);

/**
 * Tells how often a rule was followed since it was created, or since the program attached to this NIC.
 *
 * @param packets where the number of packets goes, or NULL
 * @param bytes   where their bytes go, or NULL
 * @return 0; -EINVAL: `nic` is NULL; -EPERM: there is no such rule; -ENOTCONN: the NIC has ended; -EOPNOTSUPP: it has no flow rules
 *
 * Any thread. Blocks until the NIC has answered.
 */
int ccnic_flow_query(struct ccnic *nic, uint32_t id, uint64_t *packets, uint64_t *bytes);

#ifdef __cplusplus
}
#endif

#endif /* CCNIC_FLOW_H */
