/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file ccnic_rss.h
 * libccnic: receive-side scaling (RSS). The NIC chooses the receive queue of each packet by a hash of its addresses and ports,
 * so that the packets of one flow arrive on one queue, in order. Included by ccnic.h.
 */
#ifndef CCNIC_RSS_H
#define CCNIC_RSS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ccnic;

/** Bytes of the hash key. */
#define CCNIC_RSS_KEY 40
/** Entries of the redirection table; the hash's low 7 bits are the index. */
#define CCNIC_RSS_TABLE 128

/*
 * What is hashed. The TCP, UDP and SCTP types hash addresses and ports. CCNIC_RSS_IPV4 and CCNIC_RSS_IPV6 hash the addresses
 * alone, of fragments and of packets that none of the other chosen types matches.
 */
#define CCNIC_RSS_IPV4 1u
#define CCNIC_RSS_IPV4_TCP 2u
#define CCNIC_RSS_IPV4_UDP 4u
#define CCNIC_RSS_IPV4_SCTP 8u
#define CCNIC_RSS_IPV6 16u
#define CCNIC_RSS_IPV6_TCP 32u
#define CCNIC_RSS_IPV6_UDP 64u
#define CCNIC_RSS_IPV6_SCTP 128u
#define CCNIC_RSS_ALL 255u

/**
 * Flag: the NIC puts the hash into `meta` of received packets: the low 32 bits are the hash and @ref CCNIC_META_HASHED is set, or
 * both are 0 for packets that are not hashed. Super-packets (ccnic_offload.h) have no hash. The other bits are the sender's.
 */
#define CCNIC_RSS_META 1u
/** In `meta` of a received packet: its low 32 bits are the hash. */
#define CCNIC_META_HASHED (UINT64_C(1) << 32)

/**
 * The hash (Toeplitz, as NDIS defines it) and the redirection table. Packets that are not hashed go to the queue in table[0]. Up to
 * two VLAN tags are skipped. Set it up with ccnic_rss_init(), then change fields. Later versions append fields.
 */
struct ccnic_rss {
	size_t size;                     /**< sizeof(struct ccnic_rss) */
	uint32_t types;                  /**< CCNIC_RSS_IPV4 and so on */
	uint32_t flags;                  /**< CCNIC_RSS_META, or 0 */
	uint8_t key[CCNIC_RSS_KEY];      /**< key of the hash */
	uint16_t table[CCNIC_RSS_TABLE]; /**< queue numbers */
};

/** Sets all types, the key of Microsoft's verification suite, and a table with queues 0 to `queues` - 1 in turn. Any thread. */
static inline void ccnic_rss_init(struct ccnic_rss *rss, uint16_t queues)
{
	static const uint8_t key[CCNIC_RSS_KEY] = {
		0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
		0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
	};

	memset(rss, 0, sizeof(*rss));
	rss->size = sizeof(*rss);
	rss->types = CCNIC_RSS_ALL;
	memcpy(rss->key, key, sizeof(key));
	for (uint16_t i = 0; i < CCNIC_RSS_TABLE; i++)
		rss->table[i] = (uint16_t)(queues > 0 ? i % queues : 0);
}

/** Sets a key with which both directions of a connection have one hash, and arrive on one queue. After ccnic_rss_init(). Any thread. */
static inline void ccnic_rss_symmetric(struct ccnic_rss *rss)
{
	for (int i = 0; i < CCNIC_RSS_KEY; i++)
		rss->key[i] = i % 2 == 0 ? 0x6d : 0x5a;
}

/**
 * Sets how the NIC spreads received packets over the queues of `nic`. The setting stays in force when ccnic_reconnect() attaches to
 * another NIC. Without it, and after a call with NULL, a packet arrives on the queue pair that it was sent on. It may be changed
 * while packets flow; packets that are already in the NIC may still arrive by the old table.
 *
 * With RSS, queues do not wait for each other: a packet for which its queue's ring is full or the pool is empty is dropped and
 * counted (`rx_dropped` of struct ccnic_stats).
 *
 * @param rss the setting, or NULL for no RSS; copied
 * @return 0; -EINVAL: `nic` is NULL, or a field is out of range, such as a queue that does not exist; -E2BIG: a field is unknown to
 *         this library; -ENOTCONN: the NIC has ended; -EOPNOTSUPP: the NIC does not support RSS; -EPERM: the NIC refused. After
 *         -ENOTCONN and -EOPNOTSUPP the setting is kept for the NIC's successor; after all other errors the old one stays in force
 *
 * Any thread. Blocks until the NIC has answered.
 */
int ccnic_rss_set(struct ccnic *nic, const struct ccnic_rss *rss);

/**
 * Tells whether the NIC spreads packets. It does not after ccnic_reconnect() to a NIC without RSS.
 *
 * @return 1 or 0; -EINVAL for NULL
 *
 * Any thread.
 */
int ccnic_rss_active(const struct ccnic *nic);

#ifdef __cplusplus
}
#endif

#endif /* CCNIC_RSS_H */
